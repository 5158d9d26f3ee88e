"""The demo does not claim what is not so: each check notices a difference."""

from examples.demo.parts import PODS
from examples.demo.report import (
    ARRIVED,
    EDITED,
    FROM_THE_START,
    LEFT,
    STARTED,
    Change,
    Spot,
    Values,
    changes,
    edited,
    explained,
    listed,
    policy_reason,
    reasons,
    without_guest,
    wrong_calls,
    wrong_leftovers,
    wrong_order,
    wrong_request,
    wrong_status,
    wrong_values,
)
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.cri.messages import cri

WEB, REPORTS, ORDERS = PODS
BVT = Spot("web", Level.POD, Parameter.CPU_BVT)
SHARES = Spot("reports", Level.CONTAINER, Parameter.CPU_SHARES)


def test_reasons_are_those_of_the_demos_pods() -> None:
    """Other lines of the answer are not."""
    value = {"kind": "value", "level": "pod", "parameter": "cpu.bvt_warp_ns", "plugin": "P", "why": "so"}
    records = [
        {**value, "name": "shop/web"},
        {**value, "name": "Burstable", "level": "qos"},
        {**value, "name": "shop/web", "level": "sandbox"},
        {"kind": "problem", "plugin": "P", "error": "bad"},
    ]

    assert reasons(records) == {BVT: "P: so"}


def test_the_reason_of_cpus_is_the_policys() -> None:
    """As the relay tells it, about the container."""
    cpus = Spot("orders", Level.CONTAINER, Parameter.CPUSET_CPUS)

    assert policy_reason(ORDERS, "static", {"decision": {"reason": "so"}}) == {cpus: "policy static: so"}


def test_the_guest_is_there_in_the_middle_of_the_story_only() -> None:
    """Before and after it nothing is promised of it; from its start on it has CPUs of its own."""
    cpus = Spot("orders", Level.CONTAINER, Parameter.CPUSET_CPUS)

    assert FROM_THE_START[cpus] == ARRIVED[cpus] == EDITED[cpus] == "2-5"
    assert without_guest(ARRIVED).keys() == STARTED.keys() == LEFT.keys()
    assert cpus not in STARTED


# -- checking


def test_a_value_that_differs_is_named() -> None:
    """With what it is, what it should be, and when."""
    assert wrong_values("started", STARTED, STARTED) == []
    assert wrong_values("started", {**STARTED, BVT: 0}, STARTED) == ["started: cpu.bvt_warp_ns of pod web is 0, not 2"]


def test_a_value_that_is_missing_is_named() -> None:
    """As one of which nothing is known."""
    found = {spot: value for spot, value in STARTED.items() if spot != BVT}

    assert wrong_values("started", found, STARTED) == ["started: cpu.bvt_warp_ns of pod web is -, not 2"]


def test_what_is_left_over_is_named() -> None:
    """Also in places the table does not speak of."""
    place = ("kubepods/besteffort", Parameter.CPU_BVT)
    assert wrong_leftovers({place: 0}, {place: 0}) == []

    assert wrong_leftovers({place: -1}, {place: 0}) == ["restored: cpu.bvt_warp_ns of kubepods/besteffort is -1, not 0"]


def test_a_container_created_with_what_was_asked_for_is_named() -> None:
    """Its values must be there when it is made, whatever is in files later."""
    cpus = Spot("orders", Level.CONTAINER, Parameter.CPUSET_CPUS)
    assert wrong_request(ORDERS, {cpus: CLEAR}) == ["CreateContainer: cpuset.cpus of container orders is any, not 2-5"]
    assert wrong_request(ORDERS, {cpus: "2-5"}) == []


def test_who_makes_room_too_late_is_named() -> None:
    """CPUs of one container must be free when the runtime makes it."""
    assert wrong_order(5, {"web": 4, "reports": 6}) == ["CreateContainer: reports was not updated before"]
    assert wrong_order(5, {"web": 4, "reports": 5}) == []


def test_a_status_with_what_the_container_has_is_named() -> None:
    """The manager must see what it asked for."""
    status = cri.ContainerStatus()
    status.resources.linux.CopyFrom(cri.LinuxContainerResources(**ORDERS.asked._asdict()))
    assert wrong_status("started", ORDERS, status) == []

    status.resources.linux.MergeFrom(cri.LinuxContainerResources(cpu_quota=-1, cpuset_cpus="2-5"))
    assert wrong_status("started", ORDERS, status) == [
        "started: the manager sees cpu_quota of orders as 0, not 400000",
        "started: the manager sees cpuset_cpus of orders as '2-5', not ''",
    ]


def test_all_cpus_are_as_good_as_none_named() -> None:
    """An update has no other way to clear a set."""
    status = cri.ContainerStatus()
    status.resources.linux.CopyFrom(cri.LinuxContainerResources(**WEB.asked._asdict(), cpuset_cpus="0-15"))

    assert wrong_status("restored", WEB, status) == []


def test_calls_that_failed_or_were_lost_are_named() -> None:
    """More calls than there must be are no mistake, nor is a stream that ended with its listener."""
    counted = [
        {"method": "Version", "calls": 2, "failed": 0},
        {"method": "Status", "calls": 1, "failed": 1},
        {"method": "GetContainerEvents", "calls": 1, "failed": 1},
    ]

    assert wrong_calls(counted, {"Version": 1}) == ["1 calls of Status failed"]
    assert wrong_calls(counted[:1], {"Version": 3, "Status": 1}) == [
        "Version: the relay counted 2 calls, not 3",
        "Status: the relay counted 0 calls, not 1",
    ]


def test_the_call_that_a_stopped_hook_server_cancels_is_no_failure() -> None:
    """One at most, and only of those by which it looks at the node."""
    cancelled = [{"method": "ListPodSandbox", "calls": 9, "failed": 1}]
    assert wrong_calls(cancelled, {}) == []
    assert wrong_calls([*cancelled, {"method": "ContainerStatus", "calls": 1, "failed": 1}], {}) == [
        "1 calls of ListPodSandbox failed",
        "1 calls of ContainerStatus failed",
    ]


# -- showing


def test_pod_and_container_share_a_line_if_all_is_the_same() -> None:
    """Values, plugin and reason."""
    pod = SHARES._replace(level=Level.POD)
    before, after = {pod: 2, SHARES: 2}, {pod: 1536, SHARES: 1536}

    assert changes(before, after, {pod: "x", SHARES: "x"}) == [
        Change("reports", Parameter.CPU_SHARES, "pod, container", "2 -> 1536", "x")
    ]
    assert [one.where for one in changes(before, after, {pod: "x", SHARES: "y"})] == ["pod", "container"]


def test_values_are_shown_in_words() -> None:
    """No restriction of CPUs, no limit, nothing known."""
    cpus = Spot("web", Level.CONTAINER, Parameter.CPUSET_CPUS)
    memory = Spot("reports", Level.CONTAINER, Parameter.MEMORY_LIMIT)
    before: Values = {cpus: CLEAR, memory: UNLIMITED, BVT: 0}

    assert [one.text for one in changes(before, {cpus: "0-1", memory: 2 << 30}, {})] == [
        "any -> 0-1",
        "unlimited -> 2Gi",
        "0 -> -",
    ]


def test_reasons_stay_within_the_width() -> None:
    """They are cut between words, and pods of which nothing changed are not there."""
    lines = list(explained(ARRIVED, EDITED, {BVT: "GroupIdentity: " + "because " * 20}, 60))

    assert max(map(len, lines)) <= 80  # headings and values are not folded
    assert all(len(line) <= 60 for line in lines if "because" in line)
    assert any(line.endswith("because ...") for line in lines)
    assert not any("shop/orders" in line for line in lines)


def test_values_with_one_reason_share_it() -> None:
    """It stands below the last of them."""
    pod = SHARES._replace(level=Level.POD)
    lines = list(explained({pod: 1, SHARES: 2}, {pod: 3, SHARES: 3}, {pod: "P: so", SHARES: "P: so"}, 80))

    assert [" ".join(line.split()) for line in lines[1:]] == [
        "cpu.shares pod 1 -> 3",
        "cpu.shares container 2 -> 3",
        "P: so",
    ]


def test_a_list_names_the_pod_in_each_line() -> None:
    """One line for each value, and a reason where one is given."""
    assert [" ".join(line.split()) for line in listed({BVT: 1}, {BVT: 0})] == ["web cpu.bvt_warp_ns pod 1 -> 0"]
    assert list(listed({BVT: 1}, {BVT: 0}, {BVT: "P: so"}, 80))[1].strip() == "P: so"


def test_an_edit_is_shown_as_diff_shows_it() -> None:
    """Lines that are gone and lines that are new."""
    assert list(edited("a\nb\n", "a\nc\n")) == ["    - b", "    + c"]
