"""The manager over a runtime in memory: the two drawings of the proposal, and every step failing."""

from dataclasses import replace
from pathlib import Path

import pytest

from interpose.core.model.pod import ContainerState
from interpose.net.grpc.status import Code
from interpose.node.pods.spec import HttpAction, LifecycleHandlers, PullPolicy, RestartPolicy
from interpose.node.pods.status.origin import write_origin
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.sync import lifecycle_hooks
from interpose.node.pods.sync.result import StepReason, SyncStepKind
from interpose.tasks import TaskBag
from tests.support.node.managed_node import Heard, ManagedNode, container, pod

TWO = (container("one", pull_policy=PullPolicy.ALWAYS), container("two", pull_policy=PullPolicy.ALWAYS))


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


async def test_a_pod_with_two_containers_is_started_as_drawn(node: ManagedNode) -> None:
    """Sandbox, then for each container pull, create, start: one after the other."""
    result = await node.sync(pod(*TWO))
    assert result.ok
    assert node.calls() == ["RunPodSandbox", *["PullImage", "CreateContainer", "StartContainer"] * 2]
    assert [(step.act, step.target) for step in result.steps[1:]] == [
        (SyncStepKind.START, "one"),
        (SyncStepKind.START, "two"),
    ]
    assert set(node.running()) == {"one", "two"}


async def test_a_pod_is_deleted_as_drawn(node: ManagedNode) -> None:
    """Containers are stopped, the sandbox gives its network back, then all is removed, the sandbox last."""
    web = pod(*TWO)
    await node.sync(web)
    node.forget_calls()
    result = await node.manager.remove_pod(await node.found(web), web)
    assert result.ok
    stop, remove = ["StopContainer"] * 2, ["RemoveContainer"] * 2
    assert node.calls() == [*stop, "StopPodSandbox", *remove, "RemovePodSandbox"]
    assert not node.runtime.sandboxes
    assert not node.runtime.containers
    assert node.dirs.uids() == []


async def test_a_pod_that_runs_is_left_alone(node: ManagedNode) -> None:
    """The second round does nothing."""
    await node.sync(pod())
    node.forget_calls()
    assert await node.sync(pod()) == (await node.sync(pod()))
    assert node.calls() == []


@pytest.mark.parametrize(
    ("method", "reason", "calls"),
    [
        ("RunPodSandbox", StepReason.FAILED_SANDBOX, ["RunPodSandbox"]),
        ("PodSandboxStatus", StepReason.FAILED_SANDBOX, ["RunPodSandbox"]),
        ("ImageStatus", StepReason.IMAGE_INSPECT, ["RunPodSandbox"]),
        ("PullImage", StepReason.IMAGE_PULL, ["RunPodSandbox", "PullImage", "PullImage"]),
        ("CreateContainer", StepReason.CREATE, ["RunPodSandbox", *["PullImage", "CreateContainer"] * 2]),
        ("StartContainer", StepReason.RUN, ["RunPodSandbox", *["PullImage", "CreateContainer", "StartContainer"] * 2]),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_each_call_may_fail_and_the_next_rounds_get_there(
    node: ManagedNode, method: str, reason: StepReason, calls: list[str], when: str
) -> None:
    """The step has the reason that people know; a failure of one container does not keep the other from its start."""
    # Two images: the pause of one that cannot be pulled is not the other's.
    images = ("docker.io/library/busybox:1", "docker.io/library/busybox:2")
    names = ("one", "two")
    web = pod(*(container(n, image=i, pull_policy=PullPolicy.ALWAYS) for n, i in zip(names, images, strict=True)))
    node.runtime.fail(method, Code.UNKNOWN, "broken", when=when)
    result = await node.sync(web)
    assert {step.reason for step in result.errors} == {reason}
    assert node.calls() == calls
    node.runtime.clear()
    await node.settle(web)
    assert {name: len(ids) for name, ids in node.running().items()} == {"one": 1, "two": 1}
    assert sum(one.ready for one in node.runtime.sandboxes.values()) == 1


async def test_lost_answers_are_not_taken_for_failures(node: ManagedNode) -> None:
    """A sandbox that was made although the call failed is used, not made again."""
    node.runtime.fail("RunPodSandbox", Code.UNAVAILABLE, "connection lost", times=1, when="after")
    assert not (await node.sync(pod())).ok
    assert (await node.sync(pod())).ok
    assert len(node.runtime.sandboxes) == 1


async def test_progress_is_told_in_order(node: ManagedNode) -> None:
    """What somebody who waits wants to see."""
    heard = Heard()
    await node.sync(pod(container(pull_policy=PullPolicy.ALWAYS)), progress=heard)
    told = ["creating sandbox", "sandbox ready", "pulling main", "pulled main", "creating main", "starting main"]
    assert heard.moments == [*told, "started main"]
    assert heard.news[1].detail == "10.88.0.2"


async def test_a_sandbox_that_died_is_replaced_with_the_next_attempt(node: ManagedNode) -> None:
    """Everything of the old one is stopped first; restart counts go on."""
    await node.sync(pod())
    [old] = node.runtime.sandboxes.values()
    node.runtime.state.stop_sandbox(old)
    node.forget_calls()
    assert (await node.sync(pod())).ok
    assert node.calls() == ["StopPodSandbox", "RunPodSandbox", "CreateContainer", "StartContainer"]
    status = await node.status(pod())
    assert [(one.attempt, one.ready) for one in status.sandboxes] == [(1, True), (0, False)]
    assert [(one.restart_count, one.state) for one in status.containers] == [
        (1, ContainerState.RUNNING),
        (0, ContainerState.EXITED),
    ]


async def test_a_pod_that_has_finished_is_stopped_once(node: ManagedNode) -> None:
    """Then nothing is done any more."""
    once = pod(restart_policy=RestartPolicy.NEVER)
    await node.sync(once)
    [main] = node.runtime.containers
    node.runtime.exit_container(main, 0)
    node.forget_calls()
    assert [step.act for step in (await node.sync(once)).steps] == [SyncStepKind.STOP_SANDBOX]
    assert (await node.sync(once)).steps == ()
    assert node.calls() == ["StopPodSandbox"]


async def test_a_manager_that_knows_nothing_of_the_pod_stops_it_as_was_noted(node: ManagedNode) -> None:
    """Another manager, no manifest: the grace is on the container."""
    await node.sync(pod(termination_grace_period=45))
    manager = node.restart()
    [running] = await manager.get_pods()
    assert (await manager.kill_pod(running)).ok
    [request] = node.runtime.requests_of("StopContainer")
    assert request.timeout == 45


async def test_what_cannot_be_stopped_is_not_removed(node: ManagedNode) -> None:
    """The steps say what, and the pod is still known."""
    web = pod()
    await node.sync(web)
    node.runtime.fail("StopContainer", Code.UNKNOWN, "no")
    node.runtime.fail("StopPodSandbox", Code.UNKNOWN, "no")
    result = await node.manager.remove_pod(await node.found(web), web)
    assert [step.reason for step in result.errors] == [StepReason.FAILED_KILL, StepReason.FAILED_KILL_SANDBOX]
    assert node.dirs.uids() == [web.uid]
    node.runtime.clear()
    # From a list of what runs only: the rest is asked for.
    [running] = await node.manager.get_pods()
    assert (await node.manager.remove_pod(running, web)).ok
    assert node.dirs.uids() == []


async def test_a_failed_removal_keeps_the_folder(node: ManagedNode) -> None:
    """Its being there says whose pod it is."""
    web = pod()
    await node.sync(web)
    node.runtime.fail("RemovePodSandbox", Code.UNKNOWN, "no")
    assert not (await node.manager.remove_pod(await node.found(web), web)).ok
    assert node.dirs.uids() == [web.uid]


async def test_a_pod_that_is_started_again_keeps_its_folder(node: ManagedNode) -> None:
    """What came meanwhile goes, too; if that does not end the removal does, and says so."""
    web = pod()
    await node.sync(web)
    running = await node.found(web)
    stall = node.runtime.stall("RemovePodSandbox")
    tasks = TaskBag()
    removal = tasks.spawn(node.manager.remove_pod(running), name="rm")
    await node.runtime.wait_for_calls("RemovePodSandbox")
    await node.sync(web)
    stall.release()
    assert (await removal).ok
    assert not node.runtime.containers
    assert node.dirs.uids() == []


async def test_a_removal_gives_up_on_who_starts_a_pod_again_and_again(
    node: ManagedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder stays: the pod uses it."""
    web = pod()
    await node.sync(web)
    manager = node.manager
    node.restart()
    find = manager._listing.pod

    async def started_again(uid: str) -> RuntimePod:
        await node.sync(web)
        return await find(uid)

    monkeypatch.setattr(manager._listing, "pod", started_again)
    result = await manager.remove_pod(await node.found(web))
    assert [step.error for step in result.errors] == ["another client keeps restarting it"]
    assert node.dirs.uids() == [web.uid]


async def test_without_a_manifest_sidecars_end_last(node: ManagedNode) -> None:
    """Their order was noted when the pod was started."""
    web = pod(container("main"), init_containers=(container("proxy", restart_policy=RestartPolicy.ALWAYS),))
    write_origin(node.dirs.folder(web.uid), web, 0)
    for _ in range(3):
        await node.sync(web)
    assert set(node.running()) == {"main", "proxy"}
    stall = node.runtime.stall("StopContainer")
    tasks = TaskBag()
    ending = tasks.spawn(node.restart().kill_pod(await node.found(web)), name="stop")
    await node.runtime.wait_for_calls("StopContainer")
    assert [request.container_id for request in node.runtime.requests_of("StopContainer")] == node.running()["main"]
    stall.release()
    assert (await ending).ok
    assert node.runtime.calls["StopContainer"] == 2


async def test_logs_may_outlive_their_pod(node: ManagedNode) -> None:
    """For who wants to read them afterwards."""
    web = pod()
    await node.sync(web)
    assert (await node.manager.remove_pod(await node.found(web), web, keep_logs=True)).ok
    assert (node.log_root / "default_web_1234").is_dir()


DRAIN = LifecycleHandlers(pre_stop=HttpAction(port=8080, path="/drain"))


@pytest.fixture
def drained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom hooks over the network were sent to."""
    hosts: list[str] = []

    async def http_get(host: str, port: int, path: str, **_more: object) -> None:
        hosts.append(f"{host}:{port}{path}")

    monkeypatch.setattr(lifecycle_hooks, "http_get", http_get)
    return hosts


@pytest.mark.parametrize("known", [True, False])
async def test_hooks_go_to_the_pod(node: ManagedNode, drained: list[str], known: bool) -> None:
    """Also if nobody knows the pod any more but the runtime."""
    web = pod(container(lifecycle=DRAIN))
    await node.sync(web)
    (address,) = (await node.status(web)).ips
    await node.manager.kill_pod(await node.manager.find_pod(web.uid), web if known else None)
    assert drained == [f"{address}:8080/drain"]


async def test_hooks_of_a_pod_in_the_node_s_network_go_to_the_node(node: ManagedNode, drained: list[str]) -> None:
    """It has no other address."""
    web = pod(container(lifecycle=DRAIN), host_network=True)
    await node.sync(web)
    await node.manager.kill_pod(await node.manager.find_pod(web.uid))
    (address, *_) = node.manager.node.addresses
    assert drained == [f"{address}:8080/drain"]


async def test_hooks_of_a_pod_without_an_address_go_to_nobody(
    node: ManagedNode, drained: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its sandbox is down, cannot be asked about, or is gone: the node must not hear what was meant for the pod."""
    web = pod(container(lifecycle=DRAIN))
    await node.sync(web)
    running = await node.manager.find_pod(web.uid)
    for method in ("StopContainer", "StopPodSandbox"):
        node.runtime.fail(method, Code.INTERNAL)  # so that it runs on
    node.runtime.fail("PodSandboxStatus", Code.INTERNAL, times=1)
    await node.manager.kill_pod(running)
    await node.manager.kill_pod(replace(running, sandboxes=()))
    assert [one.message for one in caplog.records].count("preStop hook failed") == 2
    node.runtime.sandboxes[running.sandboxes[0].id].ready = False  # its holder died, the container runs on
    await node.sync(web)
    assert drained == []
    assert [one.message for one in caplog.records].count("preStop hook failed") == 3
