"""Rounds of a pod: their order, what ends them, and managers that die in the middle of one."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from interpose.cri.caller import Caller
from interpose.net.grpc.status import Code
from interpose.node.pods.spec import ContainerSpec, HostPath, PodSpec, RestartPolicy, RestartRule, Volume
from interpose.node.pods.sync.result import StepReason, SyncStepKind
from tests.support.node.managed_node import Heard, ManagedNode, amounts, container, pod


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


def sidecar(name: str, **fields: Any) -> ContainerSpec:
    return container(name, restart_policy=RestartPolicy.ALWAYS, **fields)


def full_pod(**fields: Any) -> PodSpec:
    """An init container, two sidecars, two main containers."""
    inits = (container("prepare"), sidecar("logs"), sidecar("mesh"))
    return pod(container("app"), container("web"), init_containers=inits, **fields)


def finish(node: ManagedNode, name: str, code: int = 0) -> None:
    """The running container of that name ends."""
    for container_id in node.running().get(name, ()):
        node.runtime.exit_container(container_id, code)


async def test_init_containers_run_one_after_the_other_before_the_others(node: ManagedNode) -> None:
    """A sidecar counts as done when it has started."""
    web = full_pod()
    seen = []
    for _ in range(4):
        result = await node.sync(web)
        seen.append([step.target for step in result.steps if step.act is SyncStepKind.START])
        finish(node, "prepare")
    assert seen == [["prepare"], ["logs"], ["mesh"], ["app", "web"]]
    assert (await node.sync(web)).steps == ()


async def test_a_failed_init_container_keeps_those_behind_it_from_their_start(node: ManagedNode) -> None:
    """Nothing else is started in that round."""
    web = full_pod()
    node.runtime.fail("CreateContainer", Code.UNKNOWN, "no")
    result = await node.sync(web)
    assert [step.target for step in result.errors] == ["prepare"]
    assert node.calls("CreateContainer") == ["CreateContainer"]


async def test_a_failed_sidecar_does_not(node: ManagedNode) -> None:
    """Those that may start start."""
    web = full_pod()
    for _ in range(4):
        await node.sync(web)
        finish(node, "prepare")
    finish(node, "logs", 1)
    finish(node, "app", 1)
    node.runtime.fail("CreateContainer", Code.UNKNOWN, "no", times=1)
    result = await node.sync(web)
    assert [(step.target, step.error is None) for step in result.steps] == [("logs", False), ("app", True)]


async def test_old_init_containers_are_pruned(node: ManagedNode) -> None:
    """The newest of a name stays, and its log."""
    web = pod(init_containers=(container("prepare"),), restart_policy=RestartPolicy.ON_FAILURE)
    for _ in range(3):
        await node.sync(web)
        finish(node, "prepare", 1)
        node.clock.advance(400)
        log = node.log_root / "default_web_1234" / "prepare" / f"{len(node.calls('CreateContainer')) - 1}.log"
        log.write_text("")
    await node.sync(web)
    counts = [one.restart_count for one in (await node.status(web)).containers if one.name == "prepare"]
    assert counts == [3, 2]
    assert sorted(path.name for path in log.parent.iterdir()) == ["2.log"]


async def test_a_new_sandbox_begins_without_init_containers(node: ManagedNode) -> None:
    """They run again, with the next number."""
    web = pod(init_containers=(container("prepare"),))
    await node.sync(web)
    finish(node, "prepare")
    await node.sync(web)
    node.runtime.state.stop_sandbox(next(iter(node.runtime.sandboxes.values())))
    node.forget_calls()
    await node.sync(web)
    assert node.calls() == ["StopPodSandbox", "RemoveContainer", "RunPodSandbox", "CreateContainer", "StartContainer"]
    [init] = [one for one in (await node.status(web)).containers if one.name == "prepare"]
    assert init.restart_count == 1


async def test_a_changed_container_is_stopped_and_started_anew(node: ManagedNode) -> None:
    """The others go on."""
    web = pod(container("app"), container("web"))
    await node.sync(web)
    before = node.running()
    edited = replace(web, containers=(web.containers[0], container("web", image="docker.io/library/busybox:2")))
    result = await node.sync(edited)
    assert [(step.act, step.target) for step in result.steps] == [
        (SyncStepKind.KILL_CONTAINER, "web"),
        (SyncStepKind.START, "web"),
    ]
    after = node.running()
    assert after["app"] == before["app"]
    assert after["web"] != before["web"]


async def test_a_container_that_cannot_be_stopped_ends_the_round(node: ManagedNode) -> None:
    """It would run twice."""
    web = pod()
    await node.sync(web)
    node.runtime.fail("StopContainer", Code.UNKNOWN, "no")
    result = await node.sync(pod(container(image="docker.io/library/busybox:2")))
    assert [step.reason for step in result.steps] == [StepReason.FAILED_KILL]
    assert len(node.runtime.containers) == 1


async def test_a_sandbox_that_cannot_be_stopped_ends_the_round(node: ManagedNode) -> None:
    """Its network would be used twice."""
    await node.sync(pod())
    node.runtime.state.stop_sandbox(next(iter(node.runtime.sandboxes.values())))
    node.runtime.fail("StopPodSandbox", Code.UNKNOWN, "no")
    heard = Heard()
    result = await node.sync(pod(), progress=heard)
    assert [step.reason for step in result.steps] == [StepReason.FAILED_KILL_SANDBOX]
    assert node.calls("RunPodSandbox") == ["RunPodSandbox"]


async def test_a_volume_that_cannot_be_had_ends_the_round_before_the_sandbox(node: ManagedNode) -> None:
    """Nothing was asked of the runtime."""
    missing = HostPath(path=str(node.folder / "missing"), type="Directory")
    heard = Heard()
    result = await node.sync(pod(volumes=(Volume(name="data", source=missing),)), progress=heard)
    assert [step.reason for step in result.steps] == [StepReason.FAILED_PREPARE]
    assert node.calls() == []
    assert heard.moments == ["failed"]


async def test_a_pod_that_can_have_no_sandbox_says_why(node: ManagedNode) -> None:
    """A name that the kernel does not take."""
    long = pod(name="a" * 60, subdomain="b" * 60, hostname_as_fqdn=True)
    result = await node.sync(long)
    assert [step.reason for step in result.steps] == [StepReason.FAILED_SANDBOX_CONFIG]
    assert node.calls() == []


async def test_resources_are_changed_in_place_and_remembered(node: ManagedNode) -> None:
    """Also by a manager that comes later, although the runtime does not know."""
    small, large = (pod(container(resources=amounts(cpu=cpus, memory=1 << 30))) for cpus in (1, 2))
    await node.sync(small)
    heard = Heard()
    result = await node.sync(large, progress=heard)
    assert [(step.act, step.target, step.error) for step in result.steps] == [(SyncStepKind.RESIZE, "main", None)]
    assert heard.moments == ["resized main"]
    [update] = node.runtime.requests_of("UpdateContainerResources")
    assert update.linux.cpu_quota == 200_000
    assert (await node.sync(large)).steps == ()
    node.restart()
    assert (await node.sync(large)).steps == ()
    assert [step.act for step in (await node.sync(small)).steps] == [SyncStepKind.RESIZE]


async def test_a_resize_that_fails_is_tried_again(node: ManagedNode) -> None:
    """The container goes on with what it has."""
    await node.sync(pod(container(resources=amounts(cpu=1, memory=1 << 30))))
    node.runtime.fail("UpdateContainerResources", Code.UNKNOWN, "no", times=1)
    large = pod(container(resources=amounts(cpu=2, memory=1 << 30)))
    assert [step.reason for step in (await node.sync(large)).steps] == [StepReason.FAILED_RESIZE]
    assert (await node.sync(large)).ok
    assert len(node.running()["main"]) == 1


async def test_ephemeral_containers_join_a_running_pod_once(node: ManagedNode) -> None:
    """They see the processes of their target."""
    web = pod()
    await node.sync(web)
    debugged = replace(web, ephemeral_containers=(container("debug", target="main"),))
    assert (await node.sync(debugged)).ok
    [main] = node.running()["main"]
    config = node.runtime.requests_of("CreateContainer")[-1].config
    assert config.linux.security_context.namespace_options.target_id == main
    finish(node, "debug")
    assert (await node.sync(debugged)).steps == ()


async def test_an_ephemeral_container_without_its_target_says_so(node: ManagedNode) -> None:
    """Nothing is made."""
    web = pod(container("main"), container("other"))
    await node.sync(web)
    finish(node, "other")
    debugged = replace(
        web, ephemeral_containers=(container("debug", target="other"),), restart_policy=RestartPolicy.NEVER
    )
    result = await node.sync(debugged)
    assert [(step.target, step.reason) for step in result.errors] == [("debug", StepReason.CREATE_CONFIG)]


async def test_a_rule_starts_the_whole_pod_over(node: ManagedNode) -> None:
    """In the same sandbox; what ended is removed, restart counts go on by the logs."""
    rule = RestartRule(action="RestartAllContainers", operator="In", codes=(42,))
    web = pod(container("app", restart_policy=RestartPolicy.NEVER, restart_rules=(rule,)), container("web"))
    await node.sync(web)
    finish(node, "app", 42)
    result = await node.sync(web)
    assert result.ok
    acts = [step.act for step in result.steps]
    assert acts == [
        SyncStepKind.KILL_CONTAINER,
        SyncStepKind.REMOVE_CONTAINER,
        SyncStepKind.REMOVE_CONTAINER,
        SyncStepKind.START,
        SyncStepKind.START,
    ]
    assert len(node.runtime.sandboxes) == 1
    assert {name: len(ids) for name, ids in node.running().items()} == {"app": 1, "web": 1}


async def test_a_failed_removal_ends_such_a_round(node: ManagedNode) -> None:
    """The next one goes on with it."""
    rule = RestartRule(action="RestartAllContainers", operator="In", codes=(42,))
    web = pod(container("app", restart_policy=RestartPolicy.NEVER, restart_rules=(rule,)))
    await node.sync(web)
    finish(node, "app", 42)
    node.runtime.fail("RemoveContainer", Code.UNKNOWN, "no", times=1)
    assert [step.reason for step in (await node.sync(web)).errors] == [StepReason.FAILED_REMOVE]
    assert (await node.sync(web)).ok
    assert set(node.running()) == {"app"}


async def test_a_deleted_pod_is_only_ended(node: ManagedNode) -> None:
    """Nothing is started any more."""
    await node.sync(pod())
    gone = pod(deleted=True, deletion_grace_period=7)
    assert [step.act for step in (await node.sync(gone)).steps] == [
        SyncStepKind.KILL_CONTAINER,
        SyncStepKind.STOP_SANDBOX,
    ]
    assert node.runtime.requests_of("StopContainer")[0].timeout == 7
    assert (await node.sync(gone)).steps == ()


# -- managers that die


class Dying:
    """A caller whose user dies at the n-th call: before the runtime has done it, or just after."""

    def __init__(self, inner: Caller, *, at: int, after: bool) -> None:
        self._inner = inner
        self._left = at
        self._after = after
        self.died = False

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        self._left -= 1
        if self._left >= 0:
            return await self._inner.call(method, request, timeout=timeout)
        self.died = True
        if self._after and self._left == -1:
            await self._inner.call(method, request, timeout=timeout)
        raise asyncio.CancelledError

    def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        return self._inner.stream(method, request, timeout=timeout)


async def run_up(node: ManagedNode, web: PodSpec) -> None:
    """Until all containers run."""
    for _ in range(6):
        await node.sync(web)
        finish(node, "prepare")


async def sandbox_lost(node: ManagedNode, web: PodSpec) -> None:
    """The sandbox dies, and another one is made."""
    for one in node.runtime.sandboxes.values():
        node.runtime.state.stop_sandbox(one)
    await run_up(node, web)


async def edited(node: ManagedNode, web: PodSpec) -> None:
    """Both main containers have another image."""
    await run_up(node, web)


STORIES = {"start": run_up, "sandbox lost": sandbox_lost, "edited": edited}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("story", STORIES)
async def test_a_manager_may_die_at_every_call(tmp_path: Path, story: str, after: bool) -> None:
    """Whatever it had done, the next one gets there: every container runs once, in one sandbox, and then all is
    quiet. What is left over can be collected, and the pod be removed without a trace."""
    at = 0
    died = True
    while died:
        node = ManagedNode(tmp_path / f"{at}")
        web = full_pod()
        if story != "start":
            await run_up(node, web)
        if story == "edited":
            image = "docker.io/library/busybox:2"
            web = replace(web, containers=tuple(replace(one, image=image) for one in web.containers))
        dying = Dying(node.runtime, at=at, after=after)
        node.caller = dying
        node.restart()
        try:
            await STORIES[story](node, web)
        except asyncio.CancelledError:
            assert dying.died
        died = dying.died
        node.caller = node.runtime
        node.restart()
        await node.settle(web, between=partial(finish, node, "prepare"))
        assert {name: len(ids) for name, ids in node.running().items()} == dict.fromkeys(
            ("logs", "mesh", "app", "web"), 1
        )
        assert sum(one.ready for one in node.runtime.sandboxes.values()) == 1
        assert (await node.manager.collect_garbage([web.uid])).ok
        assert (await node.sync(web)).steps == ()
        names = [one.config.metadata.name for one in node.runtime.containers.values() if not one.pid]
        assert len(names) == len(set(names))
        assert (await node.manager.remove_pod(await node.found(web), web)).ok
        assert not node.runtime.sandboxes
        at += 1
    assert at > 5


@pytest.mark.parametrize("after", [False, True])
async def test_a_manager_may_die_while_it_removes_a_pod(tmp_path: Path, after: bool) -> None:
    """The folder is the last to go, so the next one knows whose remains these are."""
    at = 0
    died = True
    while died:
        node = ManagedNode(tmp_path / f"{at}")
        web = full_pod()
        await run_up(node, web)
        running = await node.found(web)
        dying = Dying(node.runtime, at=at, after=after)
        node.caller = dying
        try:
            await node.restart().remove_pod(running, web)
        except asyncio.CancelledError:
            assert dying.died
        died = dying.died
        node.caller = node.runtime
        manager = node.restart()
        for one in await manager.get_pods(all=True):
            assert one.uid in node.dirs.uids()
            assert (await manager.remove_pod(one)).ok
        assert (await manager.collect_garbage([], evict_deleted=True)).ok
        assert not node.runtime.sandboxes
        assert not node.runtime.containers
        assert node.dirs.uids() == []
        assert list(node.log_root.iterdir()) == []
        at += 1
    assert at > 8


async def test_probes_decide_with_the_grace_of_the_probe(node: ManagedNode) -> None:
    """A liveness probe may be in a hurry."""
    from interpose.node.pods.spec import Probe, TcpAction

    probe = Probe(action=TcpAction(port=80), termination_grace_period=5)
    web = pod(container(liveness=probe), termination_grace_period=60)
    await node.sync(web)

    class Dead:
        def liveness(self, container_id: str) -> bool | None:
            return False

        def startup(self, container_id: str) -> bool | None:
            return None

        readiness = startup

    result = await node.sync(web, health=Dead())
    assert result.ok
    assert node.runtime.requests_of("StopContainer")[0].timeout == 5
    assert len(node.running()["main"]) == 1
