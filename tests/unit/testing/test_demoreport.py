"""The demo does not claim what is not so: each check notices a difference."""

from pathlib import Path

import pytest

from interpose.api import cri_pb2 as cri
from interpose.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.testing.demo import cgroups
from interpose.testing.demoparts import PODS
from interpose.testing.demoreport import (
    ARRIVED,
    ASKED,
    EDITED,
    FROM_THE_START,
    LEFT,
    STARTED,
    Change,
    Running,
    Spot,
    Values,
    changes,
    edited,
    explained,
    listed,
    measured,
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
from interpose.testing.fakenode import FakeNode
from interpose.testing.pods import create_request

WEB, REPORTS, ORDERS = PODS
BVT = Spot("web", Level.POD, Parameter.CPU_BVT)
SHARES = Spot("reports", Level.CONTAINER, Parameter.CPU_SHARES)


def populated(root: Path) -> tuple[FakeNode, list[Running]]:
    """The demo's pods on a node without a hook server."""
    node = FakeNode(cgroups(root))
    running = []
    for pod in PODS:
        config, container = pod.configs()
        sandbox = node.add(config, [container])
        running += [Running(pod, sandbox.id, one.id) for one in node.runtime.containers.values()][-1:]
    return node, running


@pytest.fixture
def node(tmp_path: Path) -> tuple[FakeNode, list[Running]]:
    """A node with pods."""
    return populated(tmp_path / "cgroup")


# -- measuring


def test_without_a_hook_server_pods_have_what_was_asked_for(node: tuple[FakeNode, list[Running]]) -> None:
    """The first column of the table is what a node really does."""
    assert measured(*node) == ASKED


def test_a_file_that_is_being_written_has_no_value_yet(node: tuple[FakeNode, list[Running]]) -> None:
    """It is empty for a moment."""
    directory = node[0].pod_directory(node[0].runtime.sandboxes[node[1][0].sandbox])
    Path(node[0].cgroups.root, "cpu,cpuacct", directory, "cpu.bvt_warp_ns").write_text("")

    assert ASKED.keys() - measured(*node).keys() == {BVT}


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


def test_what_is_left_over_is_named(node: tuple[FakeNode, list[Running]], tmp_path: Path) -> None:
    """Also in places the table does not speak of."""
    untouched, _ = populated(tmp_path / "untouched")
    assert wrong_leftovers(node[0], untouched) == []

    node[0].tree.write("kubepods/besteffort", Parameter.CPU_BVT, -1)
    assert wrong_leftovers(node[0], untouched) == ["restored: cpu.bvt_warp_ns of kubepods/besteffort is -1, not 0"]


def test_a_container_created_with_what_was_asked_for_is_named() -> None:
    """Its values must be in the request, whatever is in files later."""
    sandbox, container = ORDERS.configs()
    request = create_request("s", sandbox, container)
    assert wrong_request(ORDERS, request) == ["CreateContainer: cpuset.cpus of container orders is -, not 2-5"]

    request.config.linux.resources.cpuset_cpus = "2-5"
    assert wrong_request(ORDERS, request) == []


def test_all_cpus_in_a_request_are_no_restriction() -> None:
    """The policy names them all the same."""
    sandbox, container = WEB.configs()
    request = create_request("s", sandbox, container)
    request.config.linux.resources.cpuset_cpus = "0-15"
    assert wrong_request(WEB, request) == []

    request.config.linux.resources.cpuset_cpus = "0-14"
    assert wrong_request(WEB, request) == ["CreateContainer: cpuset.cpus of container web is 0-14, not any"]


def test_who_makes_room_too_late_is_named() -> None:
    """CPUs of one container must be free when the runtime is asked to make it."""
    web, reports = Running(WEB, "s", "w"), Running(REPORTS, "s", "r")
    shrink = ("UpdateContainerResources", cri.UpdateContainerResourcesRequest(container_id="w"))
    late = ("UpdateContainerResources", cri.UpdateContainerResourcesRequest(container_id="r"))
    create = ("CreateContainer", cri.CreateContainerRequest())
    calls = [create, shrink, create, late]

    assert wrong_order(calls, [web, reports]) == ["CreateContainer: reports was not updated before"]
    assert wrong_order([create, shrink, late, create], [web, reports]) == []


def test_a_status_with_what_the_container_has_is_named() -> None:
    """The kubelet must see what it asked for."""
    status = cri.ContainerStatus()
    status.resources.linux.CopyFrom(ORDERS.resources)
    assert wrong_status("started", ORDERS, status) == []

    status.resources.linux.MergeFrom(cri.LinuxContainerResources(cpu_quota=-1, cpuset_cpus="2-5"))
    assert wrong_status("started", ORDERS, status) == [
        "started: the kubelet sees cpu_quota of orders as 0, not 400000",
        "started: the kubelet sees cpuset_cpus of orders as '2-5', not ''",
    ]


def test_all_cpus_are_as_good_as_none_named() -> None:
    """An update has no other way to clear a set."""
    status = cri.ContainerStatus()
    status.resources.linux.CopyFrom(WEB.resources)
    status.resources.linux.cpuset_cpus = "0-15"

    assert wrong_status("restored", WEB, status) == []


def test_calls_that_failed_or_were_lost_are_named() -> None:
    """More calls than the kubelet's are no mistake: the hook server has its own."""
    counted = [{"method": "Version", "calls": 2, "failed": 0}, {"method": "Status", "calls": 1, "failed": 1}]

    assert wrong_calls(counted, {"Version": 1}) == ["1 calls of Status failed"]
    assert wrong_calls(counted[:1], {"Version": 3, "Status": 1}) == [
        "Version: the relay counted 2 calls of 3",
        "Status: the relay counted 0 calls of 1",
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
    """They go on in the next line, and pods of which nothing changed are not there."""
    lines = list(explained(ARRIVED, EDITED, {BVT: "GroupIdentity: " + "because " * 20}, 60))

    assert max(map(len, lines)) <= 80  # headings and values are not folded
    assert all(len(line) <= 60 for line in lines if "because" in line)
    assert not any("shop/orders" in line for line in lines)


def test_a_list_names_the_pod_in_each_line() -> None:
    """One line for each value, without reasons."""
    assert [" ".join(line.split()) for line in listed({BVT: 1}, {BVT: 0})] == ["web cpu.bvt_warp_ns pod 1 -> 0"]


def test_an_edit_is_shown_as_diff_shows_it() -> None:
    """Lines that are gone and lines that are new."""
    assert list(edited("a\nb\n", "a\nc\n")) == ["    - b", "    + c"]
