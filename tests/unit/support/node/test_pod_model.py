"""The model of a runtime does what it is told, and refuses what no manager may ask for."""

from dataclasses import replace
from fractions import Fraction

import pytest

from interpose.core.model.pod import ContainerState
from interpose.node.pods.spec import ResourceRequirements
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.action_types import Kill, KillReason, PodActions, Resize
from tests.support.node.pod_model import (
    ModelRuntime,
    make_container,
    make_pod,
    make_pod_status,
    make_sandbox,
    make_sidecar,
    make_status,
)

POD = make_pod("c0", "c1", init=("i0",))
NEW = make_pod_status(sandboxes=())


def states(runtime: ModelRuntime) -> dict[str, str]:
    """Containers by id."""
    return {one.id: one.state.value for one in runtime.status.containers}


def test_a_pod_from_its_beginning_to_its_end() -> None:
    """Sandbox, init container, main containers, and all killed."""
    runtime = ModelRuntime(POD, NEW)
    runtime.apply(PodActions(kill_pod=True, create_sandbox=True, init_start=(0,)))
    assert runtime.finish_init()
    assert not runtime.finish_init()
    runtime.apply(PodActions(start=(0, 1)))
    assert runtime.started == ["i0", "c0", "c1"]
    assert [one.name for one in runtime.status.active] == ["c1", "c0", "i0"]
    runtime.apply(PodActions(kill_pod=True))
    assert set(states(runtime).values()) == {"exited"}
    assert not runtime.status.active


def test_kills_resets_and_resizes() -> None:
    """By id."""
    container = make_container("c0", resources=ResourceRequirements(limits={"cpu": Fraction(2)}))
    status = make_pod_status(make_status(container), make_status(make_container("c1")))
    runtime = ModelRuntime(make_pod(container, "c1"), status)
    kill = Kill(container=None, name="c1", reason=KillReason.CHANGED, message="")
    runtime.apply(PodActions(kill={"c1-id": kill}, reset=("c1-id",), resize=(Resize(index=0, container_id="c0-id"),)))
    [left] = runtime.status.containers
    assert (left.id, left.resources, runtime.killed) == ("c0-id", container.resources, ["c1-id"])


def test_a_sidecar_is_resized_as_well() -> None:
    """By its place among the init containers."""
    side = make_sidecar("s0", resources=ResourceRequirements(limits={"cpu": Fraction(2)}))
    runtime = ModelRuntime(make_pod("c0", init=(side,)), make_pod_status(make_status(side)))
    runtime.apply(PodActions(resize=(Resize(index=0, container_id="s0-id", init=True),)))
    assert runtime.status.containers[0].resources == side.resources


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (PodActions(start=(0,)), "c0 is started beside itself"),
        (PodActions(reset=("c0-id",)), "c0 is removed while it runs"),
        (PodActions(kill_pod=True, start=(0,)), "c0 is started without a sandbox"),
    ],
)
def test_what_no_manager_may_ask_for(actions: PodActions, words: str) -> None:
    """A test that does fails."""
    runtime = ModelRuntime(make_pod("c0"), make_pod_status(make_status(make_container("c0"))))
    with pytest.raises(AssertionError, match=words):
        runtime.apply(actions)


@pytest.mark.parametrize(
    "before",
    [
        make_pod_status(),
        make_pod_status(make_status(make_container("i0"))),
        make_pod_status(make_status(make_container("i0"), "exited", 1)),
    ],
)
def test_main_containers_must_wait(before: PodStatus) -> None:
    """For the good end of the last init container."""
    runtime = ModelRuntime(POD, before)
    with pytest.raises(AssertionError, match="c0 is started before init containers"):
        runtime.apply(PodActions(start=(0,)))


@pytest.mark.parametrize(("state", "fine"), [("running", True), ("exited", False)])
def test_a_sidecar_must_run_before_main_containers(state: str, fine: bool) -> None:
    """Its end is no good end."""
    side = make_sidecar("s0")
    runtime = ModelRuntime(make_pod("c0", init=(side,)), make_pod_status(make_status(side, state)))
    if fine:
        runtime.apply(PodActions(start=(0,)))
        assert runtime.started == ["c0"]
    else:
        with pytest.raises(AssertionError):
            runtime.apply(PodActions(start=(0,)))


def test_a_new_sandbox_has_no_init_containers() -> None:
    """They are removed with the old one."""
    status = make_pod_status(make_status(make_container("i0"), "exited"), make_status(make_container("c0")))
    runtime = ModelRuntime(POD, replace(status, sandboxes=(make_sandbox(ready=False),)))
    runtime.apply(PodActions(kill_pod=True, create_sandbox=True, attempt=1))
    assert states(runtime) == {"c0-id": ContainerState.EXITED.value}
    assert [one.attempt for one in runtime.status.sandboxes] == [1, 0]
