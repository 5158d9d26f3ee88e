"""What a recording tells about the end."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.dump.replay.final_state import (
    Condition,
    Exit,
    Exits,
    FinalState,
    container_state,
    expected_states,
    found_condition,
    matches,
    pod_state,
)
from interpose.dump.replay.plan import make_plan
from interpose.dump.replay.runner import message_of
from interpose.dump.replay.selection import ReplayChoices
from tests.support.dump.recorded_node import RecordedNode, calls_of


def conditions(node: RecordedNode, choices: ReplayChoices = ReplayChoices()) -> dict[str, str]:  # noqa: B008 - frozen
    """By the first letters of ids."""
    exits = Exits(message_of)
    plan = make_plan(exits.observe(calls_of(node.script.frames)), choices, message_of)
    found = expected_states(plan, exits.found)
    return {one.id: str(condition) for one, condition in found.items()}


def exits_of(node: RecordedNode) -> dict[str, Exit]:
    """What was told."""
    exits = Exits(message_of)
    assert len(list(exits.observe(calls_of(node.script.frames)))) > 0
    return exits.found


async def test_calls_say_what_becomes_of_pods_and_containers() -> None:
    """Created, running, stopped, removed; a pod takes its containers with it."""
    node = RecordedNode()
    kept, (running, stopped, removed) = await node.start_pod("kept", "a", "b", "c")
    await node.call("StopContainer", cri.StopContainerRequest(container_id=stopped, timeout=1))
    await node.call("RemoveContainer", cri.RemoveContainerRequest(container_id=removed))
    halted, (inside,) = await node.start_pod("halted", "d")
    await node.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=halted))
    gone, (lost,) = await node.start_pod("gone", "e")
    await node.remove_pod(gone)
    assert conditions(node) == {
        kept: "running",
        running: "running",
        stopped: "exited",
        removed: "gone",
        halted: "exited",
        inside: "exited",
        gone: "gone",
        lost: "gone",
    }


async def test_what_was_removed_stays_away() -> None:
    """Runtimes say yes to a second removal, and to stopping what is not there."""
    node = RecordedNode()
    sandbox, (container,) = await node.start_pod("web", "a")
    for _ in range(2):
        await node.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container))
    await node.call("StopContainer", cri.StopContainerRequest(container_id=container))
    assert conditions(node) == {sandbox: "running", container: "gone"}


async def test_failures_change_nothing() -> None:
    """A container that did not start is created; to stop it changes nothing."""
    node = RecordedNode()
    sandbox, (other,) = await node.start_pod("web", "a")
    request = node.runtime.requests_of("CreateContainer")[0]
    request.config.metadata.name = "b"
    container = (await node.call("CreateContainer", request)).container_id
    node.script.call("StartContainer", cri.StartContainerRequest(container_id=container), code=2)
    await node.call("StopContainer", cri.StopContainerRequest(container_id=container))
    assert conditions(node) == {sandbox: "running", other: "running", container: "created"}


async def test_a_container_that_ended_by_itself_has_an_exit_code() -> None:
    """Somebody has to have looked; stopping it later does not change the code."""
    node = RecordedNode()
    _, (done, seen, stopped) = await node.start_pod("job", "a", "b", "c")
    node.runtime.exit_container(done, 3)
    await node.look(done)
    node.runtime.exit_container(seen, 4)
    await node.look(seen)
    await node.call("StopContainer", cri.StopContainerRequest(container_id=seen))
    await node.call("StopContainer", cri.StopContainerRequest(container_id=seen))
    await node.call("StopContainer", cri.StopContainerRequest(container_id=stopped, timeout=1))
    await node.look(stopped)
    found = conditions(node)
    assert (found[done], found[seen], found[stopped]) == ("exited (3)", "exited (4)", "exited")


async def test_a_list_tells_of_an_exit_without_a_code() -> None:
    """The code may be told by somebody else, before or after."""
    node = RecordedNode()
    _, (one, other) = await node.start_pod("job", "a", "b")
    node.runtime.exit_container(one, 3)
    node.runtime.exit_container(other, 4)
    await node.look(other)
    await node.call("ListContainers", cri.ListContainersRequest())
    found = conditions(node)
    assert (found[one], found[other]) == ("exited", "exited (4)")


async def test_what_was_made_before_is_not_expected() -> None:
    """Also if its id is sent as it is; calls about nobody change nothing."""
    node = RecordedNode()
    node.runtime.populate(1)
    (sandbox,), (container,) = node.runtime.sandboxes, node.runtime.containers
    await node.call("StopContainer", cri.StopContainerRequest(container_id=container))
    await node.remove_pod(sandbox)
    node.script.call("StopContainer", cri.StopContainerRequest(), b"")
    assert conditions(node, ReplayChoices(pass_unknown=True)) == {}


async def test_containers_of_pods_made_before_are_expected() -> None:
    """They were made by the plan."""
    node = RecordedNode()
    pod = pod_of(node)
    container = (await node.call("CreateContainer", pod)).container_id
    assert conditions(node, ReplayChoices(pass_unknown=True)) == {container: "created"}


def pod_of(node: RecordedNode) -> cri.CreateContainerRequest:
    """A request about a pod that is there."""
    (sandbox,) = node.runtime.populate(1)
    config = next(iter(node.runtime.containers.values())).config
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox.id, config=config, sandbox_config=sandbox.config)
    request.config.metadata.name = "another"
    return request


async def test_unreadable_replies_tell_nothing() -> None:
    """They are passed over."""
    node = RecordedNode()
    node.script.call("ContainerStatus", cri.ContainerStatusRequest(container_id="c"), b"\xff\xff")
    node.script.call("ContainerStatus", b"", b"", version="runtime.v9")
    assert exits_of(node) == {}


async def test_the_first_telling_counts() -> None:
    """By the place of the reply in the recording."""
    node = RecordedNode()
    _, (one,) = await node.start_pod("job", "a")
    node.runtime.exit_container(one, 3)
    await node.look(one)
    told = len(node.script.frames) - 2
    await node.look(one)
    assert exits_of(node) == {one: Exit(position=told, exit_code=3)}


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        (Condition(state=FinalState.EXITED), Condition(state=FinalState.EXITED, exit_code=1), True),
        (Condition(state=FinalState.EXITED, exit_code=1), Condition(state=FinalState.EXITED, exit_code=1), True),
        (Condition(state=FinalState.EXITED, exit_code=0), Condition(state=FinalState.EXITED, exit_code=1), False),
        (Condition(state=FinalState.RUNNING), Condition(state=FinalState.EXITED, exit_code=0), False),
    ],
)
def test_conditions_agree(wanted: Condition, found: Condition, same: bool) -> None:
    """An exit code counts if it is expected."""
    assert matches(wanted, found) is same


def test_states_have_the_numbers_of_the_wire() -> None:
    """Later ones are unknown."""
    assert container_state(cri.CONTAINER_EXITED) is FinalState.EXITED
    assert container_state(99) is FinalState.UNKNOWN
    assert pod_state(cri.SANDBOX_NOTREADY) is FinalState.EXITED
    assert pod_state(99) is FinalState.UNKNOWN
    running = cri.ContainerStatus(state=cri.CONTAINER_RUNNING, exit_code=5)
    assert found_condition(running) == Condition(state=FinalState.RUNNING)
    ended = cri.ContainerStatus(state=cri.CONTAINER_EXITED, exit_code=5)
    assert found_condition(ended) == Condition(state=FinalState.EXITED, exit_code=5)
