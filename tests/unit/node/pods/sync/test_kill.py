"""Ending containers: hooks, order, grace."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interpose.core.model.pod import ContainerState
from interpose.net.grpc.status import Code
from interpose.node.pods.spec import ExecAction, LifecycleHandlers, PodSpec, RestartPolicy, SleepAction
from interpose.node.pods.sync.result import StepReason
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.exec import ExecResult, run_builtin
from interpose.testing.runtime.state import FakeContainer
from tests.support.node.managed_node import Heard, ManagedNode, container, pod


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


def hooked(*command: str, **fields: Any) -> PodSpec:
    return pod(container(lifecycle=LifecycleHandlers(pre_stop=ExecAction(command=command))), **fields)


async def kill(node: ManagedNode, web: PodSpec, **more: Any) -> Any:
    return await node.manager.kill_pod(await node.found(web), web, **more)


def graces(node: ManagedNode) -> list[int]:
    return [request.timeout for request in node.runtime.requests_of("StopContainer")]


async def test_the_hook_comes_first_and_its_time_is_taken_from_the_grace(node: ManagedNode) -> None:
    """In whole seconds."""
    web = pod(container(lifecycle=LifecycleHandlers(pre_stop=SleepAction(seconds=12))), termination_grace_period=30)
    await node.sync(web)
    heard = Heard()
    assert (await kill(node, web, progress=heard)).ok
    assert node.slept == [12]
    assert graces(node) == [18]
    assert heard.moments == ["stopping main", "stopped main"]


async def test_a_hook_that_takes_all_the_time_leaves_the_least(node: ManagedNode) -> None:
    """Two seconds."""
    web = pod(container(lifecycle=LifecycleHandlers(pre_stop=SleepAction(seconds=40))), termination_grace_period=30)
    await node.sync(web)
    await kill(node, web)
    assert graces(node) == [2]


async def test_a_hook_that_never_ends_is_left_when_the_grace_is_over(tmp_path: Path) -> None:
    """The container is stopped all the same."""
    node = ManagedNode(tmp_path)
    web = hooked("true", termination_grace_period=1)
    await node.sync(web)
    stall = node.runtime.stall("ExecSync")
    heard = Heard()
    assert (await kill(node, web, progress=heard)).ok
    assert graces(node) == [2]
    assert heard.moments[1] == "preStop hook failed: main"
    stall.release()


@pytest.mark.parametrize("command", [("false",), ("no-such-program",)])
async def test_a_hook_that_fails_does_not_keep_a_container(node: ManagedNode, command: Sequence[str]) -> None:
    """Whatever is wrong with it."""
    web = hooked(*command)
    await node.sync(web)
    assert (await kill(node, web)).ok
    assert node.calls("ExecSync", "StopContainer") == ["ExecSync", "StopContainer"]


async def test_without_any_grace_no_hook_is_run(node: ManagedNode) -> None:
    """There is no time for it."""
    web = hooked("true")
    await node.sync(web)
    await kill(node, web, grace=0)
    assert node.calls("ExecSync", "StopContainer") == ["StopContainer"]
    assert graces(node) == [2]


async def test_the_hook_is_run_by_a_manager_without_the_manifest(node: ManagedNode) -> None:
    """It was noted on the container."""
    web = hooked("echo", "bye", termination_grace_period=20)
    await node.sync(web)
    [running] = await node.restart().get_pods()
    assert (await node.manager.kill_pod(running)).ok
    [request] = node.runtime.requests_of("ExecSync")
    assert list(request.cmd) == ["echo", "bye"]
    assert graces(node) == [20]


async def test_sidecars_wait_for_the_others(tmp_path: Path) -> None:
    """Main containers at once, then the sidecars one after the other from the last to the first."""
    node = ManagedNode(tmp_path)
    sidecars = tuple(container(name, restart_policy=RestartPolicy.ALWAYS) for name in ("logs", "mesh"))
    web = pod(container("a"), container("b"), init_containers=sidecars)
    for _ in range(3):
        await node.sync(web)
    ids = {name: found[0] for name, found in node.running().items()}
    stall = node.runtime.stall("StopContainer")
    running = await node.found(web)
    ending = asyncio.gather(node.manager.kill_pod(running, web))
    await eventually(lambda: stall.waiting == 2, "both main containers to be told")
    assert {request.container_id for request in node.runtime.requests_of("StopContainer")} == {ids["a"], ids["b"]}
    stall.release()
    [result] = await ending
    assert result.ok
    order = [request.container_id for request in node.runtime.requests_of("StopContainer")]
    assert order[2:] == [ids["mesh"], ids["logs"]]


async def test_the_time_that_a_sidecar_waited_is_taken_from_its_grace(tmp_path: Path) -> None:
    """All have the same time to end, from the moment the pod is ended."""
    node = ManagedNode(tmp_path)
    web = pod(init_containers=(container("mesh", restart_policy=RestartPolicy.ALWAYS),), termination_grace_period=30)
    for _ in range(2):
        await node.sync(web)
    stall = node.runtime.stall("StopContainer")
    ending = asyncio.gather(kill(node, web))
    await stall.entered.wait()
    node.clock.advance(12)
    stall.release()
    await ending
    assert graces(node) == [30, 18]


async def test_who_is_restarted_waits_for_nobody(tmp_path: Path) -> None:
    """The order is for the end of a pod."""
    node = ManagedNode(tmp_path)
    web = pod(init_containers=(container("mesh", restart_policy=RestartPolicy.ALWAYS),), termination_grace_period=30)
    for _ in range(2):
        await node.sync(web)
    edited = replace(
        web,
        containers=tuple(replace(one, image="localhost/other:1") for one in web.containers),
        init_containers=tuple(replace(one, image="localhost/other:1") for one in web.init_containers),
    )
    stall = node.runtime.stall("StopContainer")
    syncing = asyncio.gather(node.sync(edited))
    await eventually(lambda: stall.waiting == 2, "both to be told at once")
    stall.release()
    await syncing


async def test_one_of_which_nothing_is_known_is_ended_with_the_others(node: ManagedNode) -> None:
    """It may run."""
    web = pod(container("a"), container("b"))
    await node.sync(web)
    status = await node.status(web)
    lost = replace(
        status,
        containers=tuple(
            replace(one, state=ContainerState.UNKNOWN) if one.name == "a" else one for one in status.containers
        ),
    )
    await node.manager.sync_pod(replace(web, deleted=True), lost)
    assert len(graces(node)) == 2


async def test_a_sidecar_does_not_wait_longer_than_its_grace(tmp_path: Path) -> None:
    """Then it is ended although others still run."""
    node = ManagedNode(tmp_path)
    web = pod(init_containers=(container("mesh", restart_policy=RestartPolicy.ALWAYS),), termination_grace_period=1)
    for _ in range(2):
        await node.sync(web)
    stall = node.runtime.stall("StopContainer")
    ending = asyncio.gather(kill(node, web))
    await eventually(lambda: stall.waiting == 2, "the sidecar to give up waiting")
    stall.release()
    await ending


async def test_one_that_is_gone_has_been_stopped(node: ManagedNode) -> None:
    """Containers and sandboxes."""
    web = pod()
    await node.sync(web)
    node.runtime.fail("StopContainer", Code.NOT_FOUND, "gone")
    node.runtime.fail("StopPodSandbox", Code.NOT_FOUND, "gone")
    assert (await kill(node, web)).ok


async def test_the_sandbox_is_stopped_even_if_a_container_would_not_end(node: ManagedNode) -> None:
    """The step says which."""
    web = pod()
    await node.sync(web)
    node.runtime.fail("StopContainer", Code.DEADLINE_EXCEEDED, "too slow")
    heard = Heard()
    result = await kill(node, web, progress=heard)
    assert [(step.target, step.reason) for step in result.errors] == [("main", StepReason.FAILED_KILL)]
    assert node.calls("StopPodSandbox") == ["StopPodSandbox"]
    assert heard.moments == ["stopping main", "failed main"]


async def test_a_container_that_the_manifest_no_longer_has_ends_by_its_notes(node: ManagedNode) -> None:
    """Not by the grace of a pod that does not know it."""
    await node.sync(pod(container("old"), termination_grace_period=11))
    web = pod(container("new"), termination_grace_period=99)
    await kill(node, web)
    assert graces(node) == [11]


async def test_two_of_a_name_are_both_ended(node: ManagedNode) -> None:
    """Leftovers of a start that nobody saw the end of; who waits waits for both."""
    web = pod(init_containers=(container("mesh", restart_policy=RestartPolicy.ALWAYS),))
    for _ in range(2):
        await node.sync(web)
    [main] = [one for one in node.runtime.containers.values() if one.config.metadata.name == "main"]
    config = type(main.config)()
    config.CopyFrom(main.config)
    config.metadata.attempt = 5
    sandbox = node.runtime.state.sandbox(main.sandbox_id)
    node.runtime.state.start_container(node.runtime.state.create_container(sandbox, config, main.image))
    assert (await kill(node, web)).ok
    assert len(graces(node)) == 3
    assert not node.running()


async def test_leaving_early_leaves_no_tasks(tmp_path: Path) -> None:
    """Who waits may go; nothing goes on behind its back."""
    node = ManagedNode(tmp_path)
    web = pod(container("a"), container("b"))
    await node.sync(web)
    stall = node.runtime.stall("StopContainer")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await kill(node, web)
    assert stall.waiting == 0
    assert node.calls("StopPodSandbox") == []
    stall.release()


async def test_a_mistake_in_a_hook_is_not_hidden(tmp_path: Path) -> None:
    """A timeout that is not ours is no timeout of the hook."""

    def shell(_container: FakeContainer, _command: Sequence[str]) -> ExecResult:
        raise TimeoutError("mine")

    runtime = FakeRuntime(shell=shell)
    node = ManagedNode(tmp_path, runtime=runtime)
    web = hooked("true")
    await node.sync(web)
    with pytest.raises(TimeoutError, match="mine"):
        await kill(node, web)
    assert run_builtin(next(iter(runtime.containers.values())), ["true"]).exit_code == 0
