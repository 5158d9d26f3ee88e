"""Deciding about pods: from any status, repeating what is said ends, and nothing is done that must not be."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.core.model.pod import ContainerState
from interpose.node.pods.labels import container_hash
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy, RestartRule
from interpose.node.pods.status.phase import PodPhase, container_views, observed_phase, pod_phase, ready
from interpose.node.pods.status.types import ContainerStatus, PodStatus, SandboxStatus
from interpose.node.pods.sync.actions import compute_pod_actions
from interpose.node.pods.sync.restart_policy import is_sidecar, should_restart
from tests.support.node.pod_model import PROBE, FixedHealth, ModelRuntime, make_container, make_pod, make_pod_status

# More than any way from a broken pod to a good one: a kill, a sandbox, and one round for each init container.
ROUNDS = 12

policies = st.sampled_from(RestartPolicy)
codes = st.sampled_from((0, 1, 42, 137))
rules = st.builds(
    RestartRule,
    action=st.sampled_from(("Restart", "RestartAllContainers")),
    operator=st.sampled_from(("In", "NotIn")),
    codes=st.lists(codes, min_size=1, max_size=2).map(tuple),
)
resources = st.sampled_from(
    (
        ResourceRequirements(),
        ResourceRequirements(limits={"cpu": Fraction(1)}),
        ResourceRequirements(limits={"memory": Fraction(2)}),
    )
)


@st.composite
def containers(draw: st.DrawFn, name: str, *, ruled: bool = True) -> ContainerSpec:
    """A container of a name."""
    own = draw(st.none() | policies)
    return ContainerSpec(
        name=name,
        image=draw(st.sampled_from(("a:1", "b:1"))),
        resources=draw(resources),
        resize_policy=draw(st.sampled_from(({}, {"memory": "RestartContainer"}))),
        liveness=draw(st.sampled_from((None, PROBE))),
        startup=draw(st.sampled_from((None, PROBE))),
        readiness=draw(st.sampled_from((None, PROBE))),
        restart_policy=own,
        restart_rules=tuple(draw(st.lists(rules, max_size=2))) if own and ruled else (),
    )


@st.composite
def pods(draw: st.DrawFn) -> PodSpec:
    """A pod with some containers of each kind."""

    def named(prefix: str, lowest: int, highest: int) -> tuple[ContainerSpec, ...]:
        count = draw(st.integers(lowest, highest))
        return tuple(draw(containers(f"{prefix}{index}", ruled=prefix != "d")) for index in range(count))

    return PodSpec(
        name="pod",
        uid="uid",
        containers=named("c", 1, 3),
        init_containers=named("i", 0, 3),
        ephemeral_containers=tuple(replace(one, restart_policy=None) for one in named("d", 0, 1)),
        restart_policy=draw(policies),
        host_network=draw(st.booleans()),
        deleted=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def statuses(draw: st.DrawFn, pod: PodSpec) -> PodStatus:
    """Anything that a runtime could say about a pod, however broken: any containers in any sandboxes."""
    sandboxes = [
        SandboxStatus(
            id=f"sandbox-{attempt}",
            attempt=attempt,
            ready=draw(st.booleans()),
            host_network=pod.host_network if draw(st.integers(0, 5)) else not pod.host_network,
            ip=draw(st.sampled_from((None, "", "10.0.0.1", "10.0.0.1"))),
        )
        for attempt in reversed(range(draw(st.integers(0, 2))))
    ]
    known = (*pod.containers, *pod.init_containers, *pod.ephemeral_containers, ContainerSpec(name="gone", image="x:1"))
    found: list[ContainerStatus] = []
    for number in range(draw(st.integers(0, 8))):
        container = draw(st.sampled_from(known))
        found.append(
            ContainerStatus(
                id=f"{container.name}-{number}",
                name=container.name,
                sandbox_id=draw(st.sampled_from([one.id for one in sandboxes] or ["lost"])),
                state=draw(st.sampled_from(ContainerState)),
                exit_code=draw(codes),
                reason=draw(st.sampled_from(("", "OOMKilled"))),
                hash=draw(st.sampled_from((container_hash(container), "0"))),
                restart_count=number,
                resources=draw(st.none() | resources),
            )
        )
    return make_pod_status(*found, sandboxes=tuple(sandboxes))


cases = pods().flatmap(lambda pod: st.tuples(st.just(pod), statuses(pod)))


@st.composite
def healths(draw: st.DrawFn, status: PodStatus) -> FixedHealth:
    """Anything that probes could say about what is there."""

    def said() -> dict[str, bool]:
        ids = [one.id for one in status.containers]
        return draw(st.dictionaries(st.sampled_from(ids), st.booleans())) if ids else {}

    return FixedHealth(alive=said(), started=said(), is_ready=said())


sick_cases = cases.flatmap(lambda case: st.tuples(st.just(case[0]), st.just(case[1]), healths(case[1])))


class AllWell:
    """Everybody who is asked is well."""

    def liveness(self, container_id: str) -> bool | None:
        """Alive."""
        return True

    startup = readiness = liveness


def _converge(pod: PodSpec, status: PodStatus) -> ModelRuntime:
    """Do what is said until nothing is; init containers end well as soon as they run."""
    runtime = ModelRuntime(pod, status)
    for _ in range(ROUNDS):
        actions = compute_pod_actions(pod, runtime.status, AllWell())
        before = len(runtime.started)
        if not actions.nothing:
            runtime.apply(actions)
        ended = runtime.finish_init()
        if actions.nothing and not ended:
            return runtime
        assert len(set(runtime.started[before:])) == len(runtime.started[before:]), "started twice at once"
    raise AssertionError(f"still {actions} after {ROUNDS} rounds")


@given(cases)
def test_repeating_what_is_said_ends_with_nothing_to_do(case: tuple[PodSpec, PodStatus]) -> None:
    """Then the pod has either ended, or all runs that should, each once. The model refuses what must not be done."""
    pod, status = case
    runtime = _converge(pod, status)
    after = runtime.status
    running = [one.name for one in after.containers if one.state is ContainerState.RUNNING]
    assert len(running) == len(set(running))
    if not any(one.ready for one in after.sandboxes):
        assert running == []
        assert pod.deleted or pod_phase(pod, after).final or not ready(pod, after, AllWell())
        return
    assert not pod.deleted
    for one in pod.init_containers:
        assert not is_sidecar(one) or one.name in running
    for one in pod.containers:
        found = after.latest(one.name)
        assert found is not None
        if found.state is ContainerState.RUNNING:
            assert (found.hash, found.sandbox_id) == (container_hash(one), after.sandboxes[0].id)
        else:
            assert found.state is ContainerState.EXITED
    assert pod_phase(pod, after) is PodPhase.RUNNING


@given(cases)
def test_a_pod_that_is_new_gets_everything_started_once(case: tuple[PodSpec, PodStatus]) -> None:
    """In the order of the manifest, init containers first."""
    pod = replace(case[0], deleted=False)
    runtime = _converge(pod, make_pod_status(sandboxes=()))
    every = [one.name for one in (*pod.init_containers, *pod.containers)]
    assert [name for name in runtime.started if not name.startswith("d")] == every


own_policies = st.none() | policies


@settings(max_examples=200)
@given(policies, st.lists(own_policies, min_size=1, max_size=2), st.lists(own_policies, max_size=1), codes)
def test_what_has_ended_for_good_is_not_done_again(
    policy: RestartPolicy, mains: list[RestartPolicy | None], inits: list[RestartPolicy | None], code: int
) -> None:
    """Not even after its sandbox was put away, whatever the policy of the pod."""
    pod = make_pod(
        *(make_container(f"c{number}", restart_policy=own) for number, own in enumerate(mains)),
        init=tuple(make_container(f"i{number}", restart_policy=own) for number, own in enumerate(inits)),
        restart_policy=policy,
    )
    runtime = ModelRuntime(pod, make_pod_status(sandboxes=()))
    for _ in range(ROUNDS):
        actions = compute_pod_actions(pod, runtime.status, AllWell())
        if not actions.nothing:
            runtime.apply(actions)
        runtime.finish_init()
        runtime.finish_mains(code)
    for one in pod.containers:
        end = ContainerStatus(id="", name=one.name, state=ContainerState.EXITED, exit_code=code)
        often = runtime.started.count(one.name)
        assert often > 2 if should_restart(pod, one, end) else often == 1


@given(sick_cases)
def test_deciding_never_fails_and_contradicts_itself_never(case: tuple[PodSpec, PodStatus, FixedHealth]) -> None:
    """Whatever a runtime and probes say: indices exist, nothing is started twice, what is killed was there."""
    pod, status, health = case
    actions = compute_pod_actions(pod, status, health)
    for kind, indices in (
        (pod.containers, actions.start),
        (pod.init_containers, actions.init_start),
        (pod.ephemeral_containers, actions.ephemeral_start),
    ):
        assert list(indices) == sorted(set(indices))
        assert all(0 <= index < len(kind) for index in indices)
    ids = {one.id: one for one in status.containers}
    assert actions.kill.keys() <= ids.keys()
    assert set(actions.reset) <= ids.keys()
    assert all(ids[key].state in (ContainerState.RUNNING, ContainerState.UNKNOWN) for key in actions.kill)
    assert not actions.settled or actions.kill_pod
    if actions.kill_pod and not actions.create_sandbox:
        acts = (actions.start, actions.init_start, actions.ephemeral_start, actions.resize, actions.reset)
        assert not any(acts)


@given(sick_cases)
def test_what_is_kept_is_not_killed(case: tuple[PodSpec, PodStatus, FixedHealth]) -> None:
    """A container that is well, of this sandbox, and as the manifest says is neither killed nor started again."""
    pod, status, health = case
    actions = compute_pod_actions(pod, status, health)
    if actions.kill_pod or actions.reset:
        return
    for index, container in enumerate(pod.containers):
        found = status.latest(container.name)
        if found is not None and found.state is ContainerState.RUNNING and found.id not in actions.kill:
            assert index not in actions.start
        elif found is not None and index in actions.start:
            assert found.state is not ContainerState.RUNNING or found.id in actions.kill
    for resize in actions.resize:
        assert resize.container_id not in actions.kill


@given(sick_cases)
def test_main_containers_wait_for_init_containers(case: tuple[PodSpec, PodStatus, FixedHealth]) -> None:
    """Unless one of them was made in this sandbox before: then they have waited."""
    pod, status, health = case
    actions = compute_pod_actions(pod, status, health)
    if not actions.start or not pod.init_containers or any(status.latest_active(one.name) for one in pod.containers):
        return
    last = pod.init_containers[-1]
    found = status.latest_active(last.name)
    assert found is not None
    if is_sidecar(last):
        assert found.state is ContainerState.RUNNING
    else:
        assert found.state is ContainerState.EXITED
        assert not found.failed


@given(sick_cases)
def test_there_is_always_something_to_say(case: tuple[PodSpec, PodStatus, Any]) -> None:
    """Phase, readiness and states of containers are known of any status."""
    pod, status, health = case
    assert pod_phase(pod, status) in PodPhase
    assert observed_phase(status) in PodPhase
    views = container_views(pod, status, health)
    assert [one.name for one in views] == [
        one.name for one in (*pod.init_containers, *pod.containers, *pod.ephemeral_containers)
    ]
    assert all(one.words for one in views)
    if ready(pod, status, health):
        assert pod_phase(pod, status) is PodPhase.RUNNING
