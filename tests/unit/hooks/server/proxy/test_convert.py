"""Requests become records, verdicts become answers that every reader understands alike."""

from collections.abc import Mapping
from typing import Any

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Parameter, Value
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import LinuxResources
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.merge import apply_changes, merge
from interpose.hooks.server.context import Wish
from interpose.hooks.server.evaluate import PluginFailure, PluginResults
from interpose.hooks.server.proxy.convert import (
    can_carry,
    container_of,
    echo_response,
    make_answer,
    pod_of,
    read_request,
)
from interpose.hooks.server.reconcile.original_values import ANNOTATION

RUN = HookPoint.PRE_RUN_POD_SANDBOX
CREATE = HookPoint.PRE_CREATE_CONTAINER
UPDATE = HookPoint.PRE_UPDATE_CONTAINER_RESOURCES
META = hook.PodSandboxMetadata(name="web", uid="u-1", namespace="shop", attempt=2)
USUAL: dict[str, Any] = {
    "cpu_period": 100_000,
    "cpu_quota": 50_000,
    "cpu_shares": 102,
    "memory_limit_in_bytes": 1 << 28,
    "oom_score_adj": 987,
    "cpuset_cpus": "0-3",
}


def container(container_id: str = "", **resources: Any) -> hook.ContainerResourceHookRequest:
    """A request about a container as a kubelet's leads to one."""
    return hook.ContainerResourceHookRequest(
        pod_meta=META,
        container_meta=hook.ContainerMetadata(name="app", attempt=1, id=container_id),
        container_annotations={"io.kubernetes.container.hash": "1f"},
        container_envs={"PATH": "/bin", "MODE": "fast"},
        pod_labels={"app": "web"},
        pod_annotations={"team": "blue"},
        pod_cgroup_parent="/kubepods/burstable/pod1",
        pod_resources=hook.LinuxContainerResources(cpu_shares=500),
        container_resources=hook.LinuxContainerResources(**resources),
    )


def pod(**resources: Any) -> hook.PodSandboxHookRequest:
    """A request about a pod."""
    return hook.PodSandboxHookRequest(
        pod_meta=META,
        runtime_handler="kata",
        labels={"app": "web"},
        annotations={"team": "blue"},
        cgroup_parent="/kubepods/pod1",
        overhead=hook.LinuxContainerResources(memory_limit_in_bytes=7),
        resources=hook.LinuxContainerResources(**resources) if resources else None,
    )


def verdict(wishes: Mapping[Parameter, Value], envs: Mapping[str, str] | None = None) -> PluginResults:
    """Of one plugin."""
    return PluginResults(
        values={parameter: ("P", Wish(value, "")) for parameter, value in wishes.items()},
        envs={name: ("P", value, "") for name, value in (envs or {}).items()},
    )


def as_relay(request: Any, response: Any, held: Mapping[str, Any] | None = None) -> Any:
    """The request as our relay would change it."""
    changed = type(request)()
    changed.CopyFrom(request)
    apply_changes(changed, merge(request, response, in_force=held or {}).changes)
    return changed


def as_older_relay(request: Any, response: Any) -> Any:
    """The same without `clear`: what an echo lacks is taken away."""
    response.ClearField("clear")
    return as_relay(request, response)


def as_koord_runtime_proxy(request: Any, response: Any) -> Any:
    """What a koord-runtime-proxy makes of it: some values only if they are above zero, some whatever they are."""
    changed = type(request)()
    changed.CopyFrom(request)
    changed.container_annotations.update(response.container_annotations)
    if response.HasField("container_resources"):
        ours, theirs = changed.container_resources, response.container_resources
        for name in ("cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes"):
            if getattr(theirs, name) > 0:
                setattr(ours, name, getattr(theirs, name))
        if theirs.cpu_quota:
            ours.cpu_quota = theirs.cpu_quota
        for name in ("oom_score_adj", "cpuset_cpus", "cpuset_mems"):
            setattr(ours, name, getattr(theirs, name))
        ours.unified.update(theirs.unified)
    changed.ClearField("container_envs")
    changed.container_envs.update(response.container_envs)
    return changed


READERS = [as_relay, as_older_relay, as_koord_runtime_proxy]


# -- requests


def test_pod() -> None:
    """All that the message has."""
    assert pod_of(pod(cpu_shares=3)) == Pod(
        id="",
        name="web",
        uid="u-1",
        namespace="shop",
        attempt=2,
        runtime_handler="kata",
        labels={"app": "web"},
        annotations={"team": "blue"},
        cgroup_parent="/kubepods/pod1",
        requested_cgroup_parent="/kubepods/pod1",
        resources=LinuxResources(cpu_shares=3),
        overhead=LinuxResources(memory_limit_in_bytes=7),
    )


def test_container_and_its_pod() -> None:
    """What it was sent with is what was asked for."""
    request = container("c-1", **USUAL, unified={"memory.high": "5"})
    request.container_resources.hugepage_limits.add(page_size="2MB", limit=4)
    resources = LinuxResources(**USUAL, unified={"memory.high": "5"}, hugepage_limits=(("2MB", 4),))
    found_pod, found = container_of(request)
    assert found == Container(
        id="c-1",
        name="app",
        attempt=1,
        annotations={"io.kubernetes.container.hash": "1f"},
        envs=(("MODE", b"fast"), ("PATH", b"/bin")),
        cgroup_parent="/kubepods/burstable/pod1",
        resources=resources,
        requested=resources,
        state=ContainerState.UNKNOWN,
    )
    assert found_pod == Pod(
        id="",
        name="web",
        uid="u-1",
        namespace="shop",
        attempt=2,
        labels={"app": "web"},
        annotations={"team": "blue"},
        cgroup_parent="/kubepods/burstable/pod1",
        requested_cgroup_parent="/kubepods/burstable/pod1",
        resources=LinuxResources(cpu_shares=500),
    )


def test_empty_messages_are_empty_records() -> None:
    """Nothing is required."""
    assert pod_of(hook.PodSandboxHookRequest()) == Pod(id="")
    assert container_of(hook.ContainerResourceHookRequest()) == (Pod(id=""), Container(id=""))


def test_read_request() -> None:
    """Bytes that are no message are an error that names the message."""
    assert read_request(RUN, pod().SerializeToString()) == pod()
    with pytest.raises(ValueError, match="not a ContainerResourceHookRequest"):
        read_request(CREATE, b"\xff\xff\xff\xff")


# -- answers


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("point", [CREATE, UPDATE])
@pytest.mark.parametrize("resources", [USUAL, {}, {"cpuset_cpus": "0-3"}, {"cpu_shares": 2, "cpuset_cpus": "0"}])
def test_no_wish_changes_nothing(reader: Any, point: HookPoint, resources: dict[str, Any]) -> None:
    """Whoever reads the answer, and however little was sent."""
    request = container("c", **resources)
    made = make_answer(point, request, PluginResults())
    assert not made.changed
    assert reader(request, made.message) == request


WISHES: list[tuple[dict[Parameter, Value], dict[str, Any]]] = [
    ({Parameter.CPU_SHARES: 2048}, {"cpu_shares": 2048}),
    ({Parameter.CPU_QUOTA: UNLIMITED}, {"cpu_quota": -1}),
    ({Parameter.CPU_QUOTA: 83_334, Parameter.CPU_SHARES: 2}, {"cpu_quota": 83_334, "cpu_shares": 2}),
    ({Parameter.MEMORY_LIMIT: 5}, {"memory_limit_in_bytes": 5}),
    ({Parameter.CPUSET_CPUS: "4,5,6", Parameter.CPUSET_MEMS: "1"}, {"cpuset_cpus": "4-6", "cpuset_mems": "1"}),
    ({Parameter.CPUSET_CPUS: CLEAR}, {"cpuset_cpus": ""}),
    ({Parameter.CPUSET_CPUS: CLEAR, Parameter.CPU_QUOTA: UNLIMITED}, {"cpuset_cpus": "", "cpu_quota": -1}),
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("point", [CREATE, UPDATE])
@pytest.mark.parametrize(("wishes", "expected"), WISHES)
def test_wishes_arrive(reader: Any, point: HookPoint, wishes: dict[Parameter, Value], expected: dict[str, Any]) -> None:
    """With the same result for every reader; the rest stays."""
    request = container("c", **USUAL)
    made = make_answer(point, request, verdict(wishes))
    assert {path.removeprefix("container_resources.") for path in made.changed} == expected.keys()
    changed = reader(request, made.message)
    assert changed.container_resources == hook.LinuxContainerResources(**{**USUAL, **expected})
    assert dict(changed.container_envs) == {"PATH": "/bin", "MODE": "fast"}


# What koord-runtime-proxy cannot do: take numbers away, and memory without a limit.
@pytest.mark.parametrize("point", [CREATE, UPDATE])
@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({Parameter.MEMORY_LIMIT: UNLIMITED}, {"memory_limit_in_bytes": -1}),
        ({Parameter.MEMORY_LIMIT: CLEAR}, {"memory_limit_in_bytes": 0}),
        ({Parameter.CPU_SHARES: CLEAR, Parameter.CPU_QUOTA: CLEAR}, {"cpu_shares": 0, "cpu_quota": 0}),
        (dict.fromkeys((Parameter.CPU_SHARES, Parameter.MEMORY_LIMIT, Parameter.CPUSET_CPUS), CLEAR),
         {"cpu_shares": 0, "memory_limit_in_bytes": 0, "cpuset_cpus": ""}),
    ],
)  # fmt: skip
def test_wishes_arrive_in_a_relay_of_ours(
    point: HookPoint, wishes: dict[Parameter, Value], expected: dict[str, Any]
) -> None:
    """However much is taken away at once."""
    request = container("c", **USUAL)
    changed = as_relay(request, make_answer(point, request, verdict(wishes)).message)
    assert changed.container_resources == hook.LinuxContainerResources(**{**USUAL, **expected})


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("wanted", [-500, 0])
def test_oom_score_of_a_container_that_is_made(reader: Any, wanted: int) -> None:
    """Zero is a score."""
    request = container(**USUAL)
    made = make_answer(CREATE, request, verdict({Parameter.OOM_SCORE_ADJ: wanted}))
    assert made.changed == ("container_resources.oom_score_adj",)
    assert reader(request, made.message).container_resources.oom_score_adj == wanted


def test_oom_score_is_not_in_updates() -> None:
    """Runtimes ignore it there; files carry it."""
    request = container("c", **USUAL)
    assert not make_answer(UPDATE, request, verdict({Parameter.OOM_SCORE_ADJ: 5})).changed
    assert (can_carry(CREATE, Parameter.OOM_SCORE_ADJ), can_carry(UPDATE, Parameter.OOM_SCORE_ADJ)) == (True, False)


@pytest.mark.parametrize("reader", READERS)
def test_variables(reader: Any) -> None:
    """Added and changed, when a container is made; the others stay."""
    request = container(**USUAL)
    made = make_answer(CREATE, request, verdict({}, {"MODE": "slow", "NEW": "1", "PATH": "/bin"}))
    assert made.changed == ("container_envs[MODE]", "container_envs[NEW]")
    assert dict(reader(request, made.message).container_envs) == {"PATH": "/bin", "MODE": "slow", "NEW": "1"}
    assert not make_answer(UPDATE, request, verdict({}, {"NEW": "1"})).changed


def test_pod_answer_has_the_three_values_of_a_pod() -> None:
    """Nothing else: what files carry is not in it."""
    wishes: dict[Parameter, Value] = {
        Parameter.CPU_SHARES: 768,
        Parameter.CPU_QUOTA: UNLIMITED,
        Parameter.MEMORY_LIMIT: 9,
        Parameter.CPU_BVT: -1,
        Parameter.CPUSET_CPUS: "0",
    }
    made = make_answer(RUN, pod(), verdict(wishes))
    assert made.changed == ("resources.cpu_shares", "resources.cpu_quota", "resources.memory_limit_in_bytes")
    assert as_relay(pod(), made.message) == pod(cpu_shares=768, cpu_quota=-1, memory_limit_in_bytes=9)


def test_pod_without_wishes_stays_as_it_is() -> None:
    """And no empty resources come into being."""
    for request in (pod(), pod(cpu_shares=2)):
        made = make_answer(RUN, request, PluginResults())
        assert made.message.HasField("resources") == request.HasField("resources")
        assert as_relay(request, made.message) == request


@pytest.mark.parametrize("point", [HookPoint.PRE_START_CONTAINER, HookPoint.POST_STOP_CONTAINER])
def test_nothing_to_say_where_nothing_can_be_changed(point: HookPoint) -> None:
    """The answer is empty."""
    made = make_answer(point, container("c", **USUAL), verdict({Parameter.CPU_SHARES: 3}))
    assert made == (hook.ContainerResourceHookResponse(), (), ())
    assert echo_response(HookPoint.POST_STOP_POD_SANDBOX, pod()) == hook.PodSandboxHookResponse()


def test_nothing_to_take_away_from_a_container_that_is_made() -> None:
    """It was not sent, so it will not be there."""
    made = make_answer(CREATE, container(cpu_shares=2), verdict({Parameter.CPUSET_CPUS: CLEAR}))
    assert (made.changed, list(made.message.clear)) == ((), [])


# -- what is in force


def test_update_says_outright_what_was_asked_for_anyway() -> None:
    """The relay shows what was asked for; the container has what an earlier rule made of it."""
    request = container("c", **USUAL)
    made = make_answer(UPDATE, request, verdict({Parameter.CPU_QUOTA: 50_000}))
    assert not made.changed
    merged = merge(request, made.message, in_force={"container_resources.cpu_quota": 41_667})
    assert [(one.path, one.after) for one in merged.changes] == [("container_resources.cpu_quota", 50_000)]
    for reader in (as_relay, as_older_relay):
        assert reader(request, made.message) == request
    proxied = as_koord_runtime_proxy(request, made.message).container_resources
    assert proxied == hook.LinuxContainerResources(**{**USUAL, "oom_score_adj": 0})  # which updates do not use


def test_update_clears_outright_what_was_not_sent() -> None:
    """The container may have it all the same."""
    request = container("c", cpu_period=100_000, cpu_shares=2)
    made = make_answer(UPDATE, request, verdict({Parameter.CPUSET_CPUS: CLEAR}))
    merged = merge(request, made.message, in_force={"container_resources.cpuset_cpus": "0-1"})
    assert [(one.path, one.after) for one in merged.changes] == [("container_resources.cpuset_cpus", None)]


def test_update_without_period_and_score_is_an_echo() -> None:
    """An answer with little in it could be taken for one, and what it lacks for cleared."""
    request = container("c", cpu_shares=102, cpuset_cpus="0-3")
    made = make_answer(UPDATE, request, verdict({Parameter.CPU_SHARES: 102}))
    for reader in READERS:
        assert reader(request, made.message) == request


def test_created_container_carries_a_note_of_what_was_asked_for() -> None:
    """Of what is changed, and only then."""
    request = container(**USUAL)
    made = make_answer(CREATE, request, verdict({Parameter.CPU_QUOTA: UNLIMITED, Parameter.CPU_SHARES: 102}))
    assert made.message.container_annotations[ANNOTATION] == '{"cpu_quota":[50000,-1,"P"]}'
    same = make_answer(CREATE, request, verdict({Parameter.CPU_SHARES: 102}))
    assert ANNOTATION not in same.message.container_annotations


# -- wishes that make no sense


@pytest.mark.parametrize(
    ("parameter", "value", "text"),
    [
        (Parameter.CPU_SHARES, UNLIMITED, "cannot be unlimited"),
        (Parameter.CPUSET_CPUS, UNLIMITED, "cannot be unlimited"),
        (Parameter.CPUSET_CPUS, "4-", "is not a list"),
        (Parameter.CPUSET_CPUS, 5, "is not text"),
        (Parameter.CPU_SHARES, -2, "is not a whole number from 0"),
        (Parameter.CPU_SHARES, "x" * 200, "is not a whole number"),
        (Parameter.CPU_SHARES, True, "is not a whole number"),
        (Parameter.CPU_QUOTA, 1 << 63, "is not a whole number"),
        (Parameter.OOM_SCORE_ADJ, 1001, "from -1000 to 1000"),
    ],
)
def test_bad_value_is_its_plugins_failure_alone(parameter: Parameter, value: Value, text: str) -> None:
    """The other side would refuse the whole answer because of it."""
    request = container(**USUAL)
    made = make_answer(CREATE, request, verdict({parameter: value, Parameter.MEMORY_LIMIT: 5}))
    (failure,) = made.failures
    assert failure.plugin == "P"
    assert failure.text.startswith(f"wants {parameter} ")
    assert text in failure.text
    assert len(failure.text) < 300
    assert made.changed == ("container_resources.memory_limit_in_bytes",)
    assert as_relay(request, made.message).container_resources.memory_limit_in_bytes == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "xyz"), ("A=B", "xyz"), ("A\0", "xyz"), ("A", "xyz\0"), ("A", "\udc80"), ("\udc80", "xyz"), ("A", 7)],
)
def test_bad_variable_is_its_plugins_failure_alone(name: str, value: str) -> None:
    """Its value is not told."""
    request = container(**USUAL)
    made = make_answer(CREATE, request, verdict({}, {name: value, "GOOD": "1"}))
    assert [one.plugin for one in made.failures] == ["P"]
    assert "xyz" not in made.failures[0].text
    assert as_relay(request, made.message).container_envs["GOOD"] == "1"
    assert isinstance(made.failures[0], PluginFailure)
