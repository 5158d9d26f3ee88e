"""Pods are kept as they are wanted: over crashes, edits, removals, restarts of the keeper and of the runtime."""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from interpose.net.grpc.status import Code
from interpose.node.pods.spec import EmptyDir, ExecAction, Probe, RestartPolicy, Volume, VolumeMount
from interpose.node.pods.status.phase import PodPhase
from interpose.node.pods.status.pod_state import DEADLINE, REPLACING, STOPPED
from interpose.node.pods.sync.loop import PodSyncLoop
from interpose.node.pods.sync.result import ProgressPhase
from interpose.tasks import TaskBag
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.node.kept_node import KeptNode
from tests.support.node.managed_node import container, pod

ASK = ExecAction(command=("true",))
FAIL = ExecAction(command=("false",))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[KeptNode]:
    made = KeptNode(tmp_path, owns=lambda source: source.startswith("/mine/"))
    yield made
    await made.keeper.close()


async def test_a_wanted_pod_is_started_and_becomes_ready(node: KeptNode) -> None:
    """Wanting is enough."""
    web = pod()
    await node.keeps(web)
    assert node.running().keys() == {"main"}
    assert node.state(web).ready
    assert node.state(web).phase is PodPhase.RUNNING
    assert "started main" in node.heard.moments


async def test_a_pod_of_which_nothing_is_known_yet_is_pending(node: KeptNode) -> None:
    """From the moment on that it is wanted, until it is not."""
    web = pod()
    node.keeper.set_pods([web])
    assert [(one.pod, one.phase) for one in node.keeper.pod_states] == [(web, PodPhase.PENDING)]
    await node.keeps(web)
    assert [one.phase for one in node.keeper.pod_states] == [PodPhase.RUNNING]
    node.keeper.set_pods([])
    assert node.keeper.pod_states == []


async def test_a_container_that_keeps_ending_waits_longer_each_time(node: KeptNode) -> None:
    """At once, then 10, 20, 40, 80, 160 seconds after its end."""
    await node.keeps(pod())
    moments = await node.restarts(330)
    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert [wait // 10 * 10 for wait in waits[:6]] == [0, 10, 20, 40, 80, 160]


async def test_a_finished_pod_is_not_started_again(node: KeptNode) -> None:
    """restartPolicy Never: its end is its end, and its sandbox is given back."""
    job = pod(restart_policy=RestartPolicy.NEVER)
    await node.keeps(job)
    node.crash(code=0)
    await node.pass_time(120)
    assert node.starts() == 1
    assert node.state(job).phase is PodPhase.SUCCEEDED


async def test_a_pod_that_left_is_ended_and_removed(node: KeptNode) -> None:
    """Its containers, sandboxes and folder go."""
    await node.keeps(pod())
    await node.keeps()
    await node.pass_time(1)
    assert not node.runtime.containers
    assert not node.runtime.sandboxes
    assert node.dirs.uids() == []
    assert not node.keeper.states


async def test_an_edited_pod_waits_for_the_one_before_it(node: KeptNode) -> None:
    """Another uid is another pod of the same name: the old one ends before the new one is begun."""
    await node.keeps(pod(uid="old"))
    node.forget_calls()
    await node.keeps(pod(uid="new"))
    await node.pass_time(2)
    calls = node.calls("RemovePodSandbox", "RunPodSandbox")
    assert calls == ["RemovePodSandbox", "RunPodSandbox"]
    assert node.dirs.uids() == ["new"]


async def test_an_edited_pod_follows_one_that_never_had_a_sandbox(node: KeptNode) -> None:
    """What is left of that goes, too."""
    node.runtime.fail("RunPodSandbox", Code.INVALID_ARGUMENT, "no such handler")
    await node.keeps(pod(uid="bad"))
    node.runtime.clear()
    node.keep()
    await node.keeps(pod(uid="good"))
    assert node.dirs.uids() == ["good"]
    assert node.running()


async def test_the_pod_of_an_earlier_run_is_replaced(node: KeptNode) -> None:
    """Also one that no keeper keeps any more."""
    await node.keeps(pod(uid="old"))
    await node.keeper.close()
    node.keep()
    await node.keeps(pod(uid="new"))
    await node.pass_time(2)
    assert node.dirs.uids() == ["new"]
    assert len(node.runtime.sandboxes) == 1


async def test_a_pod_of_the_same_name_that_is_not_ours_is_left_alone(node: KeptNode) -> None:
    """A kubelet may have one."""
    await node.keeps(pod(uid="other"))
    await node.keeper.close()
    node.dirs.remove("other")
    node.keep()
    await node.keeps(pod(uid="new"))
    assert len(node.runtime.sandboxes) == 2


async def test_a_new_keeper_finds_everything_as_it_was(node: KeptNode) -> None:
    """Nothing is started again, and nothing is forgotten."""
    web = pod()
    await node.keeps(web)
    await node.keeper.close()
    node.forget_calls()
    node.keep()
    await node.keeps(web)
    assert node.calls() == []
    assert node.state(web).ready


async def test_a_pod_whose_manifest_went_while_nobody_looked_is_removed(node: KeptNode) -> None:
    """One of our own files; pods of other files stay."""
    mine, other = pod(uid="a", name="a", source="/mine/a.yaml"), pod(uid="b", name="b", source="/other/b.yaml")
    await node.keeps(mine, other)
    await node.keeper.close()
    node.keep()
    await node.keeps()
    await node.pass_time(2)
    assert node.dirs.uids() == ["b"]
    assert len(node.runtime.sandboxes) == 1


async def test_a_stop_by_hand_is_honoured_until_the_manifest_is_edited(node: KeptNode) -> None:
    """The mark in the pod's folder counts, an edit under the same uid ends it."""
    web = pod()
    await node.keeps(web)
    node.dirs.mark_stopped(web.uid)
    await node.manager.kill_pod(await node.found(web), web)
    await node.pass_time(100)
    assert not node.running()
    assert node.state(web).reason == STOPPED
    await node.keeps(replace(web, labels={"a": "b"}))
    await node.pass_time(1)
    assert node.running()


async def test_a_mark_that_cannot_be_removed_keeps_nobody_from_the_rest(
    node: KeptNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes nothing is no reason to forget about other edits; it is tried again."""
    web, other = pod(), pod(name="other", uid="b")
    await node.keeps(web)
    node.dirs.mark_stopped(web.uid)
    await node.pass_time(100)
    assert not node.running()
    clear, failures = node.dirs.clear_stopped, [OSError(errno.EROFS, "Read-only file system")]

    def failing(uid: str) -> None:
        if failures:
            raise failures.pop()
        clear(uid)

    monkeypatch.setattr(node.dirs, "clear_stopped", failing)
    await node.keeps(replace(web, labels={"a": "b"}), other)
    assert node.running().keys() == {"main"}
    assert node.state(other).ready
    await node.pass_time(16)
    assert node.state(web).ready


async def test_a_pod_is_ended_when_it_was_active_long_enough(node: KeptNode) -> None:
    """It fails for that reason, stays, and is not started again, also not by another keeper."""
    web = pod(active_deadline=30)
    await node.keeps(web)
    await node.pass_time(40)
    assert not node.running()
    assert node.state(web).phase is PodPhase.FAILED
    assert node.state(web).reason == DEADLINE
    await node.keeper.close()
    node.keep()
    await node.keeps(web)
    await node.pass_time(5)
    assert not node.running()
    assert node.starts() == 1


async def test_why_a_pod_was_ended_stays_known(node: KeptNode) -> None:
    """One that is not started again has an end of its own then; the reason is the deadline all the same."""
    job = pod(active_deadline=30, restart_policy=RestartPolicy.NEVER)
    await node.keeps(job)
    await node.pass_time(400)
    assert not node.running()
    assert (node.state(job).phase, node.state(job).reason) == (PodPhase.FAILED, DEADLINE)
    await node.keeper.close()
    node.keep()
    await node.keeps(job)
    assert node.state(job).reason == DEADLINE


async def test_a_pod_that_ended_in_time_did_not_miss_its_deadline(node: KeptNode) -> None:
    """Whatever the time is now."""
    job = pod(active_deadline=30, restart_policy=RestartPolicy.NEVER)
    await node.keeps(job)
    node.crash(code=0)
    await node.pass_time(400)
    assert (node.state(job).phase, node.state(job).reason) == (PodPhase.SUCCEEDED, "")


async def test_a_container_that_fails_its_liveness_probe_is_restarted(node: KeptNode) -> None:
    """After as many failures as the probe says."""
    web = pod(container(liveness=Probe(action=FAIL, period=10, failure_threshold=3)))
    await node.keeps(web)
    await node.pass_time(18)
    assert node.starts() == 1
    await node.pass_time(5)
    assert node.starts() == 2


async def test_a_pod_is_ready_when_its_probe_says_so(node: KeptNode) -> None:
    """Not before; and not any more when it fails later."""
    web = pod(container(readiness=Probe(action=ASK, initial_delay=5, period=1, failure_threshold=1)))
    await node.keeps(web)
    assert not node.state(web).ready
    await node.pass_time(6)
    assert node.state(web).ready
    node.runtime.fail("ExecSync", Code.DEADLINE_EXCEEDED)
    await node.pass_time(2)
    assert not node.state(web).ready


async def test_a_runtime_that_is_away_is_waited_for(node: KeptNode, caplog: pytest.LogCaptureFixture) -> None:
    """That is said once, nothing is done meanwhile, and what happened is seen when it is back."""
    web = pod()
    await node.keeps(web)
    for method in ("ListPodSandbox", "ListContainers"):
        node.runtime.fail(method, Code.UNAVAILABLE, "gone")
    await node.pass_time(20)
    assert node.keeper.runtime_error
    assert len([one for one in caplog.records if "Runtime does not respond, waiting" in one.message]) == 1
    node.crash()
    node.runtime.clear()
    await node.pass_time(2)
    assert not node.keeper.runtime_error
    assert node.starts() == 2


async def test_a_sync_that_failed_is_tried_again(node: KeptNode) -> None:
    """After ten seconds and a bit."""
    node.runtime.fail("RunPodSandbox", Code.UNKNOWN, "no network", times=1)
    web = pod()
    await node.keeps(web)
    assert node.state(web).reason == "FailedCreatePodSandBox"
    await node.pass_time(16)
    assert node.state(web).ready
    assert not node.state(web).reason


async def test_a_start_that_fails_does_not_fill_the_runtime(node: KeptNode) -> None:
    """What an attempt has left behind is no reason for the next one; what ends meanwhile is looked at all the same."""
    web = pod(container("good"), container("bad"))
    node.runtime.fail("StartContainer", Code.UNKNOWN, "no such program")
    await node.keeps(web)
    await node.pass_time(60)
    assert node.runtime.calls["CreateContainer"] <= 2 * (2 + 60 // 10)
    node.runtime.clear("StartContainer")
    await node.pass_time(16)
    assert node.running().keys() == {"good", "bad"}
    node.runtime.fail("CreateContainer", Code.UNKNOWN, "no")
    node.crash("bad")
    await node.pass_time(2)
    node.crash("good")
    before = node.runtime.calls["CreateContainer"]
    await node.pass_time(2)
    assert before < node.runtime.calls["CreateContainer"] <= before + 4


async def test_events_of_an_attempt_that_failed_do_not_make_the_next_one(tmp_path: Path) -> None:
    """A runtime that tells at once that something was made is not asked for the next one at once."""
    node = KeptNode(tmp_path)
    tasks = TaskBag()
    tasks.spawn(node.keeper.run(), name="keeper")
    await node.runtime.wait_for_calls("GetContainerEvents")
    node.runtime.fail("StartContainer", Code.UNKNOWN, "no such program")
    node.runtime.fail("PodSandboxStatus", Code.UNKNOWN, "no network", times=1)
    node.keeper.set_pods([pod()])
    await eventually(lambda: node.runtime.calls["RunPodSandbox"] and node.keeper.is_settled, "the first attempt")
    assert node.runtime.calls["CreateContainer"] == 0
    node.clock.advance(1)
    await node.keeper.start_due_work()
    await eventually(lambda: node.starts() and node.keeper.is_settled, "the second attempt")
    for _ in range(5):
        await node.keeper.relist()
        await eventually(lambda: node.keeper.is_settled, "what follows")
    assert node.starts() == 1
    await tasks.cancel()
    await node.keeper.close()


async def test_a_pod_that_cannot_be_removed_is_tried_again(node: KeptNode) -> None:
    """A runtime that says no is asked again."""
    await node.keeps(pod())
    node.runtime.fail("RemovePodSandbox", Code.UNKNOWN, "busy")
    await node.keeps()
    assert node.dirs.uids()
    node.runtime.clear()
    await node.pass_time(16)
    assert node.dirs.uids() == []


async def test_a_pod_that_is_not_wanted_does_not_wait_for_its_image(node: KeptNode) -> None:
    """A registry that hangs keeps nobody from deleting or replacing a pod."""
    node.runtime.stall("PullImage")
    node.keeper.set_pods([pod(container(image="registry.example/slow:1"), uid="old")])
    await node.runtime.wait_for_calls("PullImage")
    await node.keeps(pod(uid="new"))
    await node.pass_time(2)
    assert node.dirs.uids() == ["new"]
    assert node.running().keys() == {"main"}
    assert len(node.runtime.sandboxes) == 1


async def test_a_sandbox_that_is_being_made_is_waited_for_before_its_pod_is_removed(node: KeptNode) -> None:
    """It would be nobody's."""
    stall = node.runtime.stall("RunPodSandbox")
    node.keeper.set_pods([pod()])
    await node.runtime.wait_for_calls("RunPodSandbox")
    node.keeper.set_pods([])
    await asyncio.sleep(0)
    assert node.dirs.uids()
    stall.release()
    await node.pass_time(2)
    assert node.runtime.calls["RemovePodSandbox"] == 1  # it was made, whoever had hung up
    assert not node.runtime.sandboxes
    assert node.dirs.uids() == []


async def test_stopping_ends_when_a_pod_does_not(node: KeptNode) -> None:
    """And says which, and why."""
    await node.keeps(pod())
    node.runtime.fail("StopContainer", Code.INTERNAL, "shim hangs")
    (left,) = await node.keeper.stop(0, margin=0.2)
    assert left.startswith("default/web: ")
    assert "shim hangs" in left


async def test_who_waits_for_a_pod_to_go_says_why_it_stays(node: KeptNode, caplog: pytest.LogCaptureFixture) -> None:
    """And the log has it, with the reason for the removal."""
    caplog.set_level("INFO")
    await node.keeps(pod(uid="old"))
    node.runtime.fail("StopPodSandbox", Code.INTERNAL, "plugin fails")
    node.keeper.set_pods([pod(uid="new")])
    await eventually(lambda: "new" in node.keeper.states and node.keeper.states["new"].message, "the reason")
    assert node.keeper.states["new"].reason == REPLACING
    assert "plugin fails" in node.keeper.states["new"].message
    begun = next(one for one in caplog.records if one.message == "Stopping and removing pod")
    assert "edited" in begun.__dict__["kv"]["why"]
    failed = next(one for one in caplog.records if one.levelname == "WARNING")
    assert "plugin fails" in failed.__dict__["kv"]["err"]


def _asked(node: KeptNode, times: int) -> bool:
    return node.runtime.calls["ExecSync"] >= times and not node.keeper.probes.busy


async def test_a_list_that_hangs_stops_no_probes(node: KeptNode) -> None:
    """Nor does a runtime that is away."""
    await node.keeps(pod(container(liveness=Probe(action=ASK, period=1))))
    asked = node.runtime.calls["ExecSync"]
    stall = node.runtime.stall("ListPodSandbox")
    for _ in range(3):
        node.clock.advance(1)
        await node.keeper.start_due_work()
        asked += 1
        await eventually(partial(_asked, node, asked), "another probe")
    stall.release()


async def test_probes_go_on_by_themselves_while_a_list_hangs(tmp_path: Path) -> None:
    """Nobody else wakes the keeper then: the end of an answer has to."""
    node = KeptNode(tmp_path)
    web = pod(container(liveness=Probe(action=ASK, period=1)))
    await node.keeps(web)

    async def rest(seconds: float) -> None:
        node.clock.advance(seconds)
        await asyncio.sleep(0)

    keeper = PodSyncLoop(node.manager, clocks=replace(node.manager._clocks, sleep=rest))
    keeper.set_pods([web])
    tasks = TaskBag()
    tasks.spawn(keeper.run(), name="keeper")
    await eventually(lambda: keeper.states and node.runtime.calls["ExecSync"] > 1, "the probes")
    stall = node.runtime.stall("ListPodSandbox")
    await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
    asked = node.runtime.calls["ExecSync"]
    await eventually(lambda: node.runtime.calls["ExecSync"] > asked + 3, "more of them")
    await tasks.cancel()
    await keeper.close()


async def test_while_the_runtime_is_away_nothing_turns_in_circles(tmp_path: Path) -> None:
    """Pods whose time has come wait for the next list."""
    node = KeptNode(tmp_path)
    await node.keeps(pod())
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        node.clock.advance(seconds)
        await asyncio.sleep(0)

    for method in ("ListPodSandbox", "ListContainers"):
        node.runtime.fail(method, Code.UNAVAILABLE, "gone")
    keeper = PodSyncLoop(node.manager, clocks=replace(node.manager._clocks, sleep=rest))
    keeper.set_pods([pod()])
    tasks = TaskBag()
    tasks.spawn(keeper.run(), name="keeper")
    await eventually(lambda: keeper.runtime_error and len(rests) > 20, "some beats")
    await tasks.cancel()
    await keeper.close()
    assert min(rests[10:]) > 0.5


async def test_a_finished_pod_is_not_looked_at_for_its_deadline(node: KeptNode) -> None:
    """It had ended before; once a minute is enough."""
    job = pod(active_deadline=3, restart_policy=RestartPolicy.NEVER)
    await node.keeps(job)
    node.crash(code=0)
    await node.pass_time(5)
    node.forget_calls()
    await node.pass_time(10)
    assert node.runtime.calls["ContainerStatus"] == 0


async def test_what_a_round_makes_after_a_stop_is_ended(node: KeptNode) -> None:
    """A pod that was stopped by hand does not run, whoever came first."""
    web = pod()
    await node.keeps(web)
    await node.manager.services.stop_pod_sandbox(next(iter(node.runtime.sandboxes)))
    stall = node.runtime.stall("RunPodSandbox")
    await node.keeper.relist()
    await node.runtime.wait_for_calls("RunPodSandbox", 2)
    node.dirs.mark_stopped(web.uid)
    await node.manager.kill_pod(await node.found(web))
    stall.release()
    await node.pass_time(3)
    assert node.state(web).reason == STOPPED
    assert not node.running()
    assert not any(one.ready for one in node.runtime.sandboxes.values())


async def test_a_stop_by_hand_does_not_wait_for_an_image(node: KeptNode) -> None:
    """Who starts the pod sees the mark and lets go of it."""
    web = pod(container(image="registry.example/slow:1"))
    node.runtime.stall("PullImage")
    node.keeper.set_pods([web])
    await node.runtime.wait_for_calls("PullImage")
    assert node.manager.locks.take(web.uid) is None
    node.dirs.mark_stopped(web.uid)
    await node.pass_time(2)
    assert node.state(web).reason == STOPPED
    async with node.manager.locks.held(web.uid):
        pass


def _missing(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not Path(path).exists()]


async def test_a_pod_that_is_removed_by_hand_comes_back_with_a_folder(node: KeptNode) -> None:
    """Its manifest is still there, so it is started again: after all of it was gone, not in the middle of that."""
    mount = VolumeMount(name="data", mount_path="/data")
    web = pod(container(volume_mounts=(mount,)), volumes=(Volume(name="data", source=EmptyDir()),))
    await node.keeps(web)
    stall = node.runtime.stall("RemovePodSandbox")
    by_hand = node.restart()

    async def remove() -> None:
        async with by_hand.locks.held(web.uid):
            assert (await by_hand.remove_pod(await by_hand.find_pod(web.uid))).ok

    tasks = TaskBag()
    removal = tasks.spawn(remove(), name="rm")
    await node.runtime.wait_for_calls("RemovePodSandbox")
    await node.pass_time(3)
    assert node.starts() == 1
    stall.release()
    await removal
    await node.pass_time(3)
    (running,) = node.running()["main"]
    assert _missing(one.host_path for one in node.runtime.containers[running].config.mounts) == []


async def test_a_pod_that_another_process_is_at_work_on_is_left_to_it(node: KeptNode) -> None:
    """Until that is done."""
    web = pod()
    await node.keeps(web)
    async with node.manager.locks.held(web.uid):
        node.crash()
        await node.pass_time(10)
        assert not node.running()
    await node.pass_time(2)
    assert node.running()


async def test_stopping_ends_and_removes_all(node: KeptNode) -> None:
    """What --stop-on-exit is for."""
    await node.keeps(pod(uid="a", name="a"), pod(uid="b", name="b"))
    await node.keeper.stop()
    assert not node.runtime.sandboxes
    assert node.dirs.uids() == []


async def test_what_is_being_stopped_is_not_wanted_again(node: KeptNode) -> None:
    """A manifest that changes at that moment takes nothing back, and nothing new begins."""
    first = pod(uid="a", name="a")
    await node.keeps(first)
    tasks = TaskBag()
    stopping = tasks.spawn(node.keeper.stop(), name="stop")
    await asyncio.sleep(0)
    node.keeper.set_pods([first, pod(uid="b", name="b")])
    await eventually(stopping.done, "the pods to be gone")

    assert not node.runtime.sandboxes
    assert node.dirs.uids() == []


async def test_events_wake_the_worker_of_their_pod(tmp_path: Path) -> None:
    """Without waiting for the next list: no time passes here."""
    node = KeptNode(tmp_path)
    tasks = TaskBag()
    tasks.spawn(node.keeper.run(), name="keeper")
    node.keeper.set_pods([pod()])
    await eventually(lambda: node.running() and node.keeper.is_settled, "the pod to run")
    await node.runtime.wait_for_calls("GetContainerEvents")
    node.crash()
    await eventually(lambda: node.starts() == 2, "the container to be restarted")
    await tasks.cancel()
    await node.keeper.close()


async def test_a_keeper_beats_by_its_clock(tmp_path: Path) -> None:
    """It rests until the next thing is due: a probe after half a second comes before the list after one."""
    node = KeptNode(tmp_path)
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        node.clock.advance(seconds)

    keeper = PodSyncLoop(node.manager, clocks=replace(node.manager._clocks, sleep=rest))
    tasks = TaskBag()
    tasks.spawn(keeper.run(), name="keeper")
    await eventually(lambda: len(rests) > 3, "some beats")
    await tasks.cancel()
    await keeper.close()
    assert max(rests[1:]) <= 1.0


async def test_leftovers_of_kept_pods_are_collected(node: KeptNode) -> None:
    """Of a container that was restarted often, the newest end stays."""
    await node.keeps(pod())
    await node.restarts(100)
    await node.pass_time(65)
    ended = [one for one in node.runtime.containers.values() if not one.pid]
    assert len(ended) <= 1


async def test_the_state_tells_what_a_container_waits_for(node: KeptNode) -> None:
    """The reason of the last sync is with the container."""
    web = pod(container(image="no/such:1"))
    node.runtime.fail("PullImage", Code.UNKNOWN, "not found")
    await node.keeps(web)
    await node.pass_time(2)
    (view,) = node.state(web).containers
    assert view.reason == "ImagePullBackOff"
    assert ProgressPhase.FAILED in [news.phase for news in node.heard.news]
