"""What is left over."""

from interpose.core.model.pod import ContainerState
from interpose.node.pods.status.runtime_pod import RuntimeContainer, RuntimePod, RuntimeSandbox, newest
from interpose.node.pods.sync.garbage import dead_containers, empty_pods, idle_sandboxes

EXITED, RUNNING, CREATED = ContainerState.EXITED, ContainerState.RUNNING, ContainerState.CREATED


def listed(name: str, attempt: int, state: ContainerState = EXITED, sandbox: str = "s0") -> RuntimeContainer:
    return RuntimeContainer(id=f"{name}{attempt}", name=name, attempt=attempt, state=state, sandbox_id=sandbox)


def running_pod(
    uid: str, containers: list[RuntimeContainer], sandboxes: list[RuntimeSandbox] | None = None
) -> RuntimePod:
    return RuntimePod(
        uid=uid,
        containers=tuple(sorted(containers, key=newest)),
        sandboxes=tuple(sorted(sandboxes or [], key=newest)),
        complete=True,
    )


def ids(pods: list[RuntimePod], known: set[str], gone: set[str]) -> list[str]:
    return [one.id for found in dead_containers(pods, known=known, gone=gone) for one in found.containers]


def test_one_ended_container_of_each_name_stays() -> None:
    """The newest; the oldest goes first. What runs does not count, what was never started does."""
    containers = [listed("a", n) for n in range(3)] + [listed("b", 0), listed("b", 1, RUNNING), listed("c", 0, CREATED)]
    assert ids([running_pod("u", containers)], {"u"}, set()) == ["a0", "a1"]


def test_of_a_pod_that_is_gone_nothing_stays_but_what_runs() -> None:
    """Somebody has to end that first."""
    containers = [listed("a", 0), listed("a", 1), listed("b", 0, RUNNING)]
    assert ids([running_pod("u", containers)], set(), {"u"}) == ["a0", "a1"]


def test_pods_of_others_are_left_alone() -> None:
    """Whatever they have left."""
    pods = [running_pod("x", [listed("a", 0), listed("a", 1)], [RuntimeSandbox(id="s", ready=False)])]
    assert ids(pods, {"u"}, {"v"}) == []
    assert idle_sandboxes(pods, known={"u"}, gone={"v"}, removed=()) == []


def test_sandboxes_that_nobody_uses() -> None:
    """Not the newest of a pod that is wanted, not those that are ready or have a container left."""
    boxes = [RuntimeSandbox(id=f"s{n}", attempt=n, ready=n == 1) for n in range(4)]
    pod = running_pod("u", [listed("a", 0, sandbox="s0"), listed("b", 0, sandbox="s2")], boxes)
    assert [one.id for one in idle_sandboxes([pod], known={"u"}, gone=(), removed={"a0"})] == ["s0"]
    assert [one.id for one in idle_sandboxes([pod], known=(), gone={"u"}, removed={"a0", "b0"})] == ["s0", "s2", "s3"]
    assert idle_sandboxes([running_pod("u", [])], known={"u"}, gone=(), removed=()) == []


def test_pods_of_which_nothing_is_left() -> None:
    """Those that were never there, too."""
    box = RuntimeSandbox(id="s", ready=False)
    pods = [running_pod("a", [listed("m", 0)]), running_pod("b", [], [box]), running_pod("c", [listed("n", 0)], [box])]
    assert empty_pods(["a", "b", "c", "d"], pods, {"m0", "n0"}) == ["a", "d"]
    assert empty_pods(["a", "b", "c"], pods, {"m0", "n0", "s"}) == ["a", "b", "c"]
