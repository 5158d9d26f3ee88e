"""The dispatcher as an interceptor: which calls are hooked, how requests change, when a call is refused."""

import asyncio
from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.config.relay.settings import HookSettings
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.api.registration import Selector
from interpose.hooks.dispatch.client import FailureReason, HookCallError
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Reply
from interpose.testing import pods
from interpose.testing.eventually import eventually
from tests.support.hooks.fakes import Answer, Bench, registration

CONFIG = pods.pod_config("web", "shop", uid="u1")
POD = Pod(
    id="p1",
    name="web",
    uid="u1",
    namespace="shop",
    labels={"app": "web"},
    cgroup_parent="/kubepods/burstable/podu1",
    requested_cgroup_parent="/kubepods/burstable/podu1",
)
CONTAINER = Container(id="c1", pod_id="p1", name="app", resources=LinuxResources(cpu_shares=512, cpuset_cpus="0-3"))
RUN = pods.run_request(CONFIG)
CREATE = pods.create_request("p1", CONFIG, pods.container_config(CONFIG))
START = cri.StartContainerRequest(container_id="c1")
UPDATE = cri.UpdateContainerResourcesRequest(container_id="c1", linux=cri.LinuxContainerResources(cpu_shares=256))
STOP = cri.StopContainerRequest(container_id="c1")
STOP_POD = cri.StopPodSandboxRequest(pod_sandbox_id="p1")
BY_POINT = {
    HookPoint.PRE_RUN_POD_SANDBOX: RUN,
    HookPoint.POST_STOP_POD_SANDBOX: STOP_POD,
    HookPoint.PRE_CREATE_CONTAINER: CREATE,
    HookPoint.PRE_START_CONTAINER: START,
    HookPoint.POST_START_CONTAINER: START,
    HookPoint.PRE_UPDATE_CONTAINER_RESOURCES: UPDATE,
    HookPoint.POST_STOP_CONTAINER: STOP,
}


def failing(
    code: Code = Code.PERMISSION_DENIED, text: str = "no!", reason: FailureReason = FailureReason.REFUSED
) -> Answer:
    """A plugin that fails in this way."""

    def answer(_point: HookPoint, _request: object) -> object:
        raise HookCallError(code, text, reason)

    return answer


def shares(number: int) -> Answer:
    """A plugin that sets the shares of containers and says nothing else."""
    return lambda _point, _request: hook.ContainerResourceHookResponse(
        container_resources=hook.LinuxContainerResources(cpu_shares=number)
    )


@pytest.fixture
def bench() -> Bench:
    """A pod with a container, and no plugin."""
    return Bench(POD, CONTAINER)


@pytest.mark.parametrize("point", HookPoint)
async def test_each_hook_point_is_asked_with_its_subject(bench: Bench, point: HookPoint) -> None:
    """Once, with the pod's identity, and the container's where there is one."""
    caller = bench.plugin(registration("a", [point]))
    assert (await bench.call(BY_POINT[point])).code == 0
    assert caller.points == [point]
    request = caller.asked[0][1]
    assert (request.pod_meta.namespace, request.pod_meta.name, request.pod_meta.uid) == ("shop", "web", "u1")
    if not point.about_pod:
        assert request.container_meta.name == "app"
    assert len(bench.forwarded) == 1


@pytest.mark.parametrize("request_message", BY_POINT.values(), ids=[point.value for point in BY_POINT])
async def test_without_plugins_nothing_changes(bench: Bench, request_message: object) -> None:
    """What goes on is what came, byte by byte."""
    raw = request_message.SerializeToString() + b"\xba\x3e\x05later"  # type: ignore[attr-defined]
    await bench.call(request_message, raw=raw)
    assert bench.forwarded == [raw]


async def test_echo_changes_no_byte(bench: Bench) -> None:
    """The request is parsed, asked about and still sent as it came."""

    def echo(_point: HookPoint, request: hook.ContainerResourceHookRequest) -> object:
        return hook.ContainerResourceHookResponse(
            container_annotations=request.container_annotations,
            container_resources=request.container_resources,
            pod_cgroup_parent=request.pod_cgroup_parent,
            container_envs=request.container_envs,
        )

    bench.plugin(registration("a"), echo)
    raw = CREATE.SerializeToString() + b"\xba\x3e\x05later"
    await bench.call(CREATE, raw=raw)
    assert bench.forwarded == [raw]


async def test_pre_hook_changes_what_the_runtime_gets(bench: Bench) -> None:
    """And nothing else in it."""
    bench.plugin(registration("a"), shares(2))
    await bench.call(CREATE)
    sent = cri.CreateContainerRequest.FromString(bench.forwarded[0])
    expected = cri.CreateContainerRequest()
    expected.CopyFrom(CREATE)
    expected.config.linux.resources.cpu_shares = 2
    assert sent == expected


async def test_update_carries_the_callers_patch_and_what_plugins_touched(bench: Bench) -> None:
    """Not the whole record: what nobody named stays unnamed."""
    bench.plugin(
        registration("a"),
        lambda _point, _request: hook.ContainerResourceHookResponse(
            container_resources=hook.LinuxContainerResources(cpu_quota=-1), clear=["container_resources.cpuset_cpus"]
        ),
    )
    await bench.call(UPDATE)
    sent = cri.UpdateContainerResourcesRequest.FromString(bench.forwarded[0])
    assert sent.linux == cri.LinuxContainerResources(cpu_shares=256, cpu_quota=-1, cpuset_cpus="0-7")


async def test_each_plugin_sees_the_result_of_the_one_before(bench: Bench) -> None:
    """In the order of registrations; the last word wins and both are named."""
    bench.plugin(registration("a"), shares(2))
    second = bench.plugin(registration("b"), shares(4))
    await bench.call(CREATE)
    assert second.asked[0][1].container_resources.cpu_shares == 2
    assert cri.CreateContainerRequest.FromString(bench.forwarded[0]).config.linux.resources.cpu_shares == 4
    assert bench.dispatcher.hook_calls.conflicts == {("a", "b", "PreCreateContainer"): 1}


async def test_plugins_that_agree_are_no_conflict(bench: Bench) -> None:
    """The second finds what it wants and changes nothing."""
    bench.plugin(registration("a"), shares(2))
    bench.plugin(registration("b"), shares(2))
    await bench.call(CREATE)
    assert not bench.dispatcher.hook_calls.conflicts


async def test_selector_chooses_pods(bench: Bench) -> None:
    """A plugin that did not ask for this pod is not called, for calls that carry only an id too."""
    other = bench.plugin(registration("a", selector=Selector(namespaces=frozenset({"other"}))))
    mine = bench.plugin(registration("b", selector=Selector(labels={"app": "web"})))
    await bench.call(START)
    assert other.asked == []
    assert mine.points == [HookPoint.PRE_START_CONTAINER, HookPoint.POST_START_CONTAINER]


# -- failure policies


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failing(), "PERMISSION_DENIED: no!"),
        (failing(Code.UNAVAILABLE, "no socket", FailureReason.UNREACHABLE), "UNAVAILABLE: no socket"),
        (lambda *_: b"\xff\xff\xff", "cannot be read"),
        (lambda *_: hook.ContainerResourceHookResponse(clear=["nonsense"]), "nonsense"),
    ],
    ids=["refuses", "absent", "garbage", "bad answer"],
)
async def test_fail_refuses_and_ignore_goes_on(bench: Bench, answer: Answer, words: str) -> None:
    """Fail names plugin, hook point and the plugin's own words, and the runtime is not called."""
    bench.plugin(registration("soft"), answer)
    assert (await bench.call(CREATE)).code == 0
    assert bench.forwarded == [CREATE.SerializeToString()]
    bench.plugin(registration("hard", fail=True), answer)
    reply = await bench.call(CREATE)
    assert reply.code == Code.FAILED_PRECONDITION
    assert "hook server hard (failure policy Fail) at PreCreateContainer: " in reply.message
    assert words in reply.message
    assert len(bench.forwarded) == 1


async def test_what_a_failed_plugin_said_before_counts_not(bench: Bench) -> None:
    """Answers of the others do."""
    bench.plugin(registration("a"), shares(2))
    bench.plugin(registration("b"), failing())
    await bench.call(CREATE)
    assert cri.CreateContainerRequest.FromString(bench.forwarded[0]).config.linux.resources.cpu_shares == 2


async def test_fail_cannot_be_bypassed_by_an_unreadable_request(bench: Bench) -> None:
    """Bytes that are no such message do not reach the runtime when a plugin must see it."""
    bench.plugin(registration("soft"))
    assert (await bench.call(CREATE, raw=b"\xff\xff")).code == 0
    assert bench.forwarded == [b"\xff\xff"]
    bench.plugin(registration("hard", fail=True, selector=Selector(namespaces=frozenset({"other"}))))
    reply = await bench.call(CREATE, raw=b"\xff\xff")
    assert reply.code == Code.FAILED_PRECONDITION
    assert "hard" in reply.message


async def test_fail_cannot_be_bypassed_by_a_look_up_that_fails(bench: Bench) -> None:
    """Nobody knows whose container it is, so nobody can say that the plugin does not care."""
    bench.lookup.failure = RpcError(Code.UNAVAILABLE, "runtime is away")
    bench.plugin(registration("soft"))
    assert (await bench.call(START)).code == 0
    bench.plugin(registration("hard", fail=True))
    reply = await bench.call(START)
    assert reply.code == Code.FAILED_PRECONDITION
    assert "runtime is away" in reply.message
    assert len(bench.forwarded) == 1


async def test_look_up_has_its_time_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that does not tell whose container it is cannot hold the call for ever."""

    async def never(_ref: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(bench.lookup, "container", never)
    bench.plugin(registration("soft"))
    assert (await bench.call(START, deadline=bench.clock + 0.02)).code == 0
    bench.plugin(registration("hard", fail=True))
    reply = await bench.call(START, deadline=bench.clock + 0.02)
    assert reply.code == Code.FAILED_PRECONDITION
    assert "in time" in reply.message


async def test_fail_is_not_decided_by_a_pod_that_only_the_request_describes(bench: Bench) -> None:
    """A selector might err about it: under Fail the call is refused, under Ignore the request has to do."""
    bench.lookup.failure = RpcError(Code.UNAVAILABLE, "runtime is away")
    soft = bench.plugin(registration("soft", selector=Selector(namespaces=frozenset({"shop"}))))
    assert (await bench.call(CREATE)).code == 0
    assert len(soft.asked) == 1
    bench.plugin(registration("hard", fail=True, selector=Selector(runtime_handlers=frozenset({"runc"}))))
    assert (await bench.call(CREATE)).code == Code.FAILED_PRECONDITION
    assert bench.dispatcher.unknown == {"CreateContainer": 1}


async def test_container_of_an_unknown_pod_is_hooked_by_what_its_request_says(bench: Bench) -> None:
    """The kubelet repeats the pod's configuration in each CreateContainer."""
    bench.lookup.pods.clear()
    caller = bench.plugin(registration("hard", fail=True), failing())
    assert (await bench.call(CREATE)).code == Code.FAILED_PRECONDITION
    assert caller.asked[0][1].pod_meta.uid == "u1"


async def test_unknown_container_is_the_runtimes_business(bench: Bench) -> None:
    """It says NOT_FOUND itself; there is nothing a plugin could be asked about."""
    bench.lookup.containers.clear()
    caller = bench.plugin(registration("hard", fail=True), failing())
    bench.reply = Reply(code=Code.NOT_FOUND)
    assert (await bench.call(START)).code == Code.NOT_FOUND
    assert caller.asked == []


async def test_restored_pod_is_refused_when_a_plugin_must_see_pods(bench: Bench) -> None:
    """RestorePod makes containers without any hook point."""
    bench.plugin(registration("soft"))
    assert (await bench.call(cri.RestorePodRequest())).code == 0
    bench.plugin(registration("hard", [HookPoint.PRE_CREATE_CONTAINER], fail=True))
    assert (await bench.call(cri.RestorePodRequest())).code == Code.FAILED_PRECONDITION


async def test_bug_of_ours_follows_the_policy() -> None:
    """Under Ignore the call goes on with the bytes it had, under Fail it is refused."""

    def broken(_parent: str) -> tuple[str, str]:
        raise ZeroDivisionError

    def answer(_point: HookPoint, _request: object) -> object:
        resources = hook.LinuxContainerResources(cpu_shares=2)
        return hook.ContainerResourceHookResponse(
            container_resources=resources, clear=["container_resources.cpuset_cpus"]
        )

    bench = Bench(POD, replace(CONTAINER, requested=CONTAINER.resources), allowed=broken)
    bench.plugin(registration("soft"), answer)
    assert (await bench.call(UPDATE)).code == 0
    assert bench.forwarded == [UPDATE.SerializeToString()]
    bench.plugin(registration("hard", fail=True))
    assert (await bench.call(UPDATE)).code == Code.FAILED_PRECONDITION


# -- who is not asked


@pytest.mark.parametrize("where", ["labels", "annotations"])
async def test_pods_with_the_skip_mark_pass_even_under_fail(where: str) -> None:
    """Otherwise a plugin that is a pod could never be made again."""
    mark = {"runtimeproxy.koordinator.sh/skip-hookserver": "true"}
    bench = Bench(Pod(id="p1", **{where: mark}), CONTAINER)  # type: ignore[arg-type]
    caller = bench.plugin(registration("hard", fail=True), failing())
    config = pods.pod_config("agent", **{where: mark})  # type: ignore[arg-type]
    assert (await bench.call(pods.run_request(config))).code == 0
    assert (await bench.call(START)).code == 0
    assert caller.asked == []
    assert bench.dispatcher.skipped == 2


@pytest.mark.parametrize("where", ["labels", "annotations"])
async def test_plugin_cannot_take_a_pod_away_from_the_others(bench: Bench, where: str) -> None:
    """The skip mark is the pod author's to set."""
    mark = {"runtimeproxy.koordinator.sh/skip-hookserver": "true"}
    answer = hook.PodSandboxHookResponse(**{where: {**mark, "other": "1"}})  # type: ignore[arg-type]
    bench.plugin(registration("a"), lambda *_: answer)
    await bench.call(RUN)
    sent = cri.RunPodSandboxRequest.FromString(bench.forwarded[0])
    assert getattr(sent.config, where)["other"] == "1"
    assert not set(mark) & set(getattr(sent.config, where))
    assert bench.dispatcher.hook_calls.refused_changes == {"a": 1}


async def test_skip_mark_can_be_another() -> None:
    """Key and value are settings."""
    bench = Bench(settings=HookSettings(skip_key="skip", skip_value="yes"))
    caller = bench.plugin(registration("a"))
    await bench.call(pods.run_request(pods.pod_config("a", labels={"skip": "true"})))
    await bench.call(pods.run_request(pods.pod_config("b", labels={"skip": "yes"})))
    assert len(caller.asked) == 1


async def test_calls_of_our_own_parts_are_not_hooked(bench: Bench) -> None:
    """A policy that updates a container does not ask plugins about it."""
    caller = bench.plugin(registration("a", fail=True), failing())
    assert (await bench.call(UPDATE, origin="policy")).code == 0
    assert caller.asked == []


# -- time


async def test_plugins_share_the_budget_and_half_of_what_the_caller_has(bench: Bench) -> None:
    """A plugin has its own timeout, never more than what is left for all hooks of the call."""
    first = bench.plugin(registration("a", timeout=0.5))
    second = bench.plugin(registration("b"))
    await bench.call(CREATE)
    await bench.call(CREATE, deadline=bench.clock + 3.0)
    assert first.timeouts == [0.5, 0.5]
    assert second.timeouts == [2.0, 1.5]


async def test_all_hooks_of_a_call_share_one_budget(bench: Bench) -> None:
    """Post hooks have what Pre hooks left, and the runtime's own time is not theirs."""

    def slow(_point: HookPoint, _request: object) -> object:
        bench.clock += 3.0
        return hook.ContainerResourceHookResponse()

    first = bench.plugin(registration("a"), slow)
    await bench.call(START)
    assert first.points == [HookPoint.PRE_START_CONTAINER, HookPoint.POST_START_CONTAINER]
    assert first.timeouts == [2.0, 1.0]
    assert first.hurried == [False, True]


async def test_plugin_without_time_left_fails_without_being_asked(bench: Bench) -> None:
    """The runtime's share of the deadline is not given to plugins."""

    def slow(_point: HookPoint, _request: object) -> object:
        bench.clock += 5.0
        return hook.ContainerResourceHookResponse()

    bench.plugin(registration("a"), slow)
    late = bench.plugin(registration("b"))
    assert (await bench.call(CREATE)).code == 0
    assert late.asked == []
    assert bench.plugins.all[1].stats.points[HookPoint.PRE_CREATE_CONTAINER].results == {"timeout": 1}


# -- after the runtime


async def test_post_hooks_see_how_it_ended_and_cannot_change_it(bench: Bench) -> None:
    """Success or failure is in the metadata; the reply is the runtime's own, whatever they answer."""
    caller = bench.plugin(registration("a", [HookPoint.POST_STOP_CONTAINER], fail=True), failing())
    bench.reply = Reply(code=Code.UNKNOWN, message="50% done")
    assert await bench.call(STOP) is bench.reply
    assert caller.metadata[0] == (
        (b"interpose-runtime-code", b"2"),
        (b"interpose-runtime-message", b"50%25 done"),
    )
    await bench.dispatcher.tasks.cancel()


async def test_post_hook_under_fail_is_told_again_off_the_path() -> None:
    """After each of the pauses, then it is an error in the log."""
    bench = Bench(POD, CONTAINER, retry_pauses=(0.0, 0.0, 0.0))
    caller = bench.plugin(registration("a", [HookPoint.POST_STOP_CONTAINER], fail=True), failing())
    assert (await bench.call(STOP)).code == 0
    await eventually(lambda: len(bench.dispatcher.tasks) == 0, "the hooks to end")
    assert len(caller.asked) == 4
    assert bench.dispatcher.retries == 3


async def test_post_hook_under_ignore_is_told_once(bench: Bench) -> None:
    """Nobody waits for it."""
    caller = bench.plugin(registration("a", [HookPoint.POST_STOP_CONTAINER]), failing())
    assert (await bench.call(STOP)).code == 0
    assert len(caller.asked) == 1
    assert len(bench.dispatcher.tasks) == 0


async def test_post_hook_survives_a_caller_that_leaves(bench: Bench) -> None:
    """The runtime has done it, so the plugin has to know."""
    caller = bench.plugin(registration("a", [HookPoint.POST_STOP_CONTAINER]))
    caller.gate = asyncio.Event()
    task = asyncio.get_running_loop().create_task(bench.call(STOP))
    await eventually(lambda: len(caller.asked) == 1, "the plugin to be asked")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(bench.dispatcher.tasks) == 1
    caller.gate.set()
    await eventually(lambda: len(bench.dispatcher.tasks) == 0, "the hooks to end")
    assert bench.plugins.all[0].stats.failures == 0


async def test_post_hook_hears_of_a_caller_that_left_before_the_answer(bench: Bench) -> None:
    """Nobody knows what the runtime did, and the plugin is told just that."""
    caller = bench.plugin(registration("a", [HookPoint.POST_STOP_CONTAINER]))
    gate = asyncio.Event()
    bench.gate = gate
    task = asyncio.get_running_loop().create_task(bench.call(STOP))
    await eventually(lambda: len(bench.forwarded) == 1, "the runtime to be called")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: len(bench.dispatcher.tasks) == 0, "the hooks to end")
    assert dict(caller.metadata[0])[b"interpose-runtime-code"] == b"1"


async def test_clients_are_held_while_they_may_be_called(bench: Bench) -> None:
    """A registration that goes while an earlier plugin is asked does not pull the client from under the call."""
    first = bench.plugin(registration("a"))
    second = bench.plugin(registration("b"))
    first.gate = asyncio.Event()
    task = asyncio.get_running_loop().create_task(bench.call(CREATE))
    await eventually(lambda: len(first.asked) == 1, "the plugin to be asked")
    assert second.holders == 1
    first.gate.set()
    await task
    assert (len(second.asked), second.holders) == (1, 0)


async def test_cancelled_caller_cancels_pre_hooks(bench: Bench) -> None:
    """Nothing has happened yet, and nothing will."""
    caller = bench.plugin(registration("a"))
    caller.gate = asyncio.Event()
    task = asyncio.get_running_loop().create_task(bench.call(CREATE))
    await eventually(lambda: len(caller.asked) == 1, "the plugin to be asked")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.forwarded == []


# -- the pod's cgroup parent


async def test_cgroup_parent_chosen_for_the_pod_reaches_its_containers() -> None:
    """The kubelet goes on naming its own; whatever a caller names otherwise stays."""
    moved = Pod(id="p1", cgroup_parent="/batch", requested_cgroup_parent=CONFIG.linux.cgroup_parent)
    bench = Bench(moved)
    await bench.call(CREATE)
    sent = cri.CreateContainerRequest.FromString(bench.forwarded[0])
    assert sent.sandbox_config.linux.cgroup_parent == "/batch"
    other = cri.CreateContainerRequest()
    other.CopyFrom(CREATE)
    other.sandbox_config.linux.cgroup_parent = "/elsewhere"
    await bench.call(other)
    assert bench.forwarded[1] == other.SerializeToString()
