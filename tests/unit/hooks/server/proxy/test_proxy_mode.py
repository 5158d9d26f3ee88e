"""The handlers of proxy mode: what is decided, what is done besides, and what going wrong leads to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.core.model.cgroup import CLEAR, Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.messages import response_class
from interpose.hooks.server.context import ContainerContext, PodContext, Wish
from interpose.hooks.server.evaluate import PluginResults
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import Plugin
from interpose.hooks.server.proxy import proxy_mode
from interpose.hooks.server.proxy.proxy_mode import HookOutcome, ProxyServer
from interpose.hooks.server.worker_threads import Runner
from interpose.net.grpc.handlers import Unary
from interpose.net.grpc.status import Code, RpcError

RUN = HookPoint.PRE_RUN_POD_SANDBOX
CREATE = HookPoint.PRE_CREATE_CONTAINER
UPDATE = HookPoint.PRE_UPDATE_CONTAINER_RESOURCES
SHARES, BVT = Parameter.CPU_SHARES, Parameter.CPU_BVT
Act = Callable[[Any], None]


class Toy(Plugin[int]):
    """Does what it is told. Its rule is what it wants as shares of a container."""

    stages: ClassVar[frozenset[HookPoint]] = frozenset((RUN, CREATE, UPDATE))
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {Level.POD: frozenset((SHARES, BVT)), Level.CONTAINER: frozenset((SHARES, Parameter.CPUSET_CPUS))}
    )

    def __init__(self, name: str = "toy", act: Act | None = None, stages: Any = None) -> None:
        self.name = name  # type: ignore[misc]
        self.act = act
        if stages is not None:
            self.stages = stages  # type: ignore[misc]

    def pod(self, rule: int, context: PodContext) -> None:
        """A file, and something for the answer."""
        context.response.set(BVT, -1, "")
        context.response.set(SHARES, 10 * rule, "")

    def container(self, rule: int, context: ContainerContext) -> None:
        """Its shares."""
        if self.act is not None:
            self.act(context)
        else:
            context.response.set(SHARES, rule, "")


class Effects:
    """Notes what it is told; fails or hangs where it shall."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.errors: dict[str, BaseException] = {}
        self.hanging: set[str] = set()
        self.restores: dict[Parameter, Any] = {}

    async def _note(self, name: str, *about: Any) -> None:
        self.told.append((name, *about))
        if name in self.hanging:
            await asyncio.Event().wait()
        if name in self.errors:
            raise self.errors[name]

    async def write_pod_files(self, pod: Pod, verdict: PluginResults) -> None:
        """Note it."""
        await self._note("pod_files", pod.name, {key: wish.value for key, (_, wish) in verdict.values.items()})

    async def on_create(self, pod: Pod, container: Container, verdict: PluginResults) -> None:
        """Note it."""
        await self._note("created", container.name, {key: wish.value for key, (_, wish) in verdict.values.items()})

    async def on_update(self, pod: Pod, container: Container, verdict: PluginResults) -> PluginResults:
        """Note it, and add what shall be restored."""
        await self._note("updated", container.id)
        more = {key: ("before", Wish(value, "")) for key, value in self.restores.items()}
        return replace(verdict, values={**verdict.values, **more})

    async def on_start(self, pod: Pod, container: Container) -> None:
        """Note it."""
        await self._note("started", container.id)

    async def on_pod_stop(self, pod: Pod) -> None:
        """Note it."""
        await self._note("stopped", pod.name)

    async def on_container_stop(self, pod: Pod, container_id: str) -> None:
        """Note it."""
        await self._note("container_stopped", container_id)

    @property
    def names(self) -> list[str]:
        """What was called."""
        return [one[0] for one in self.told]


@dataclass
class Context:
    """A call without metadata."""

    path: bytes = b""
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    deadline: float | None = None


class Harness:
    """A server with its parts."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.effects = Effects()
        self.rules: dict[str, Any] = {}
        self.server = self.serve()

    def serve(self, *plugins: Toy, rule: int = 7, **more: Any) -> ProxyServer:
        """Another server; with one toy unless told otherwise."""
        plugins = plugins or (Toy(),)
        self.rules = {one.name: rule for one in plugins}
        self.server = ProxyServer(
            plugins=plugins,
            rules=lambda: PluginRules(by_plugin=self.rules),
            runner=self.runner,
            effects=self.effects,
            **more,
        )
        return self.server

    async def raw(self, point: HookPoint, data: bytes, context: Any = None) -> bytes:
        """Call a handler."""
        handler = self.server.handlers()[point.rpc]
        assert isinstance(handler, Unary)
        return await handler.handle(data, context or Context())

    async def call(self, point: HookPoint, request: Any, context: Any = None) -> Any:
        """Call a handler with a message."""
        return response_class(point).FromString(await self.raw(point, request.SerializeToString(), context))


@pytest.fixture
async def node() -> AsyncIterator[Harness]:
    """A server with one plugin."""
    runner = Runner(timeout=0.3)
    yield Harness(runner)
    await runner.close()


def pod_request(**more: Any) -> hook.PodSandboxHookRequest:
    """Of a pod."""
    return hook.PodSandboxHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="web", namespace="shop"), annotations={"a": "1"}, **more
    )


def container_request(container_id: str = "", **more: Any) -> hook.ContainerResourceHookRequest:
    """Of a container."""
    return hook.ContainerResourceHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="web", namespace="shop"),
        container_meta=hook.ContainerMetadata(name="app", id=container_id),
        container_resources=hook.LinuxContainerResources(cpu_period=100_000, cpu_shares=102, cpuset_cpus="0-3"),
        container_envs={"A": "1"},
        **more,
    )


def raising(error: BaseException) -> Act:
    """Fail."""

    def act(_context: Any) -> None:
        raise error

    return act


# -- hook points


async def test_run_pod(node: Harness) -> None:
    """What files carry is for the effects, the rest is in the answer too."""
    response = await node.call(RUN, pod_request())
    assert response.resources == hook.LinuxContainerResources(cpu_shares=70)
    assert node.effects.told == [("pod_files", "web", {BVT: -1, SHARES: 70})]
    assert node.server.outcomes == {(RUN, HookOutcome.CHANGED): 1}


async def test_create(node: Harness) -> None:
    """The pod's files come first, they may not have been possible before."""
    response = await node.call(CREATE, container_request())
    assert response.container_resources.cpu_shares == 7
    assert node.effects.told == [("pod_files", "web", {BVT: -1, SHARES: 70}), ("created", "app", {SHARES: 7})]


async def test_what_a_policy_owns_is_not_in_an_answer(node: Harness) -> None:
    """Neither of a create nor of an update; what is the pod's is."""
    node.serve(owned=lambda: Ownership("static-plus", frozenset({SHARES})))
    asked = container_request().container_resources.cpu_shares
    assert (await node.call(CREATE, container_request())).container_resources.cpu_shares == asked != 7
    assert (await node.call(UPDATE, container_request("c-1"))).container_resources.cpu_shares == asked
    assert node.effects.told == [
        ("pod_files", "web", {BVT: -1, SHARES: 70}),
        ("created", "app", {}),
        ("updated", "c-1"),
    ]


async def test_update_with_something_to_restore(node: Harness) -> None:
    """What the effects add is in the answer; how often it was asked can be seen."""
    node.effects.restores = {Parameter.CPUSET_CPUS: CLEAR}
    for _ in range(2):
        response = await node.call(UPDATE, container_request("c-1"))
    assert response.container_resources.cpu_shares == 7
    assert list(response.clear) == ["container_resources.cpuset_cpus"]
    assert node.server.update_counts == {"c-1": 2}
    assert node.effects.names == ["updated", "updated"]


@pytest.mark.parametrize(
    ("point", "told"),
    [
        (HookPoint.POST_START_CONTAINER, [("started", "c-1")]),
        (HookPoint.POST_STOP_CONTAINER, [("container_stopped", "c-1")]),
        (HookPoint.POST_STOP_POD_SANDBOX, [("stopped", "web")]),
        (HookPoint.PRE_START_CONTAINER, []),
    ],
)
async def test_others_change_nothing(node: Harness, point: HookPoint, told: list[tuple[str, str]]) -> None:
    """They only tell."""
    request = pod_request() if point.about_pod else container_request("c-1")
    assert await node.raw(point, request.SerializeToString()) == b""
    assert node.effects.told == told
    assert node.server.outcomes == {(point, HookOutcome.UNCHANGED): 1}


async def test_container_that_stopped_is_forgotten(node: Harness) -> None:
    """Nobody updates it any more."""
    await node.call(UPDATE, container_request("c-1"))
    await node.call(HookPoint.POST_STOP_CONTAINER, container_request("c-1"))
    assert node.server.update_counts == {}


async def test_memory_of_updates_is_bounded(node: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container asked about longest ago goes first."""
    monkeypatch.setattr(proxy_mode, "_MAX_COUNTED", 2)
    for name in ("a", "b", "a", "c"):
        await node.call(UPDATE, container_request(name))
    assert node.server.update_counts == {"a": 2, "c": 1}


async def test_plugins_run_at_their_stages_only(node: Harness) -> None:
    """One that is not listed for updates has no say there."""
    node.serve(Toy(stages=frozenset((CREATE,))))
    assert (await node.call(CREATE, container_request())).container_resources.cpu_shares == 7
    assert (await node.call(UPDATE, container_request("c"))).container_resources.cpu_shares == 102
    assert node.effects.told[0] == ("pod_files", "web", {})


async def test_rules_are_those_of_the_moment(node: Harness) -> None:
    """A new snapshot counts from the next call on."""
    await node.call(CREATE, container_request())
    node.rules = {"toy": 9}
    assert (await node.call(CREATE, container_request())).container_resources.cpu_shares == 9


async def test_originals_complete_what_messages_tell(node: Harness) -> None:
    """Plugins see what was asked for; the answer is about what was sent."""

    class Known:
        def pod(self, pod: Pod) -> Pod:
            return replace(pod, runtime_handler="kata")

        def container(self, pod: Pod, container: Container) -> Container:
            return replace(container, requested=LinuxResources(cpu_shares=1000))

    seen = []

    def act(context: Any) -> None:
        seen.append(context.pod.runtime_handler)
        context.response.set(SHARES, context.request.requested.cpu_shares // 2, "half of it")

    node.serve(Toy(act=act), originals=Known())
    assert (await node.call(UPDATE, container_request("c"))).container_resources.cpu_shares == 500
    assert seen == ["kata"]


# -- who is left alone


async def test_unmanaged_pod(node: Harness) -> None:
    """The answer repeats what was sent: an empty one would take variables away behind a koord-runtime-proxy."""
    request = container_request(pod_labels={"interpose/managed": "false"})
    response = await node.call(CREATE, request)
    assert response.container_resources == request.container_resources
    assert response.container_envs == request.container_envs
    assert not node.effects.told
    assert node.server.outcomes == {(CREATE, HookOutcome.UNMANAGED): 1}


async def test_disabled_stage(node: Harness) -> None:
    """Whoever asks all the same gets nothing changed."""
    node.serve(stages=[RUN])
    response = await node.call(CREATE, container_request())
    assert response.container_resources == container_request().container_resources
    assert not node.effects.told
    assert node.server.outcomes == {(CREATE, HookOutcome.DISABLED): 1}


async def test_unreadable_message(node: Harness) -> None:
    """The error names the method."""
    with pytest.raises(RpcError) as caught:
        await node.raw(CREATE, b"\xff\xff\xff")
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.message.startswith("PreCreateContainerHook: not a ContainerResourceHookRequest")
    assert node.server.outcomes == {(CREATE, HookOutcome.UNREADABLE): 1}


# -- plugins that fail


BAD = [
    raising(ValueError("annotation a: '1' is wrong")),
    raising(RuntimeError("a bug")),
    lambda context: context.response.set(Parameter.CPUSET_CPUS, "4-", ""),
    lambda context: context.response.set(Parameter.MEMORY_LIMIT, 5, ""),
]


@pytest.mark.parametrize("point", [CREATE, UPDATE])
@pytest.mark.parametrize("act", BAD)
async def test_ignore_goes_on_with_the_others(node: Harness, point: HookPoint, act: Act) -> None:
    """The failure is counted."""
    node.serve(Toy("bad", act), Toy("good"))
    response = await node.call(point, container_request("c"))
    assert response.container_resources.cpu_shares == 7
    assert response.container_resources.cpuset_cpus == "0-3"
    assert node.server.plugin_failures == {("bad", point): 1}
    assert node.server.outcomes == {(point, HookOutcome.CHANGED): 1}


@pytest.mark.parametrize("point", [CREATE, UPDATE])
@pytest.mark.parametrize("act", BAD)
async def test_fail_refuses_and_does_nothing(node: Harness, point: HookPoint, act: Act) -> None:
    """The text names the plugin."""
    node.serve(Toy("bad", act), Toy("good"), plugin_failure_policy=FailurePolicy.FAIL)
    with pytest.raises(RpcError) as caught:
        await node.call(point, container_request("c"))
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert caught.value.message.startswith(f"{point}: plugin bad: ")
    assert not node.effects.told
    assert node.server.outcomes == {(point, HookOutcome.REFUSED): 1}


async def test_quarrels_are_counted(node: Harness) -> None:
    """The later one has it."""
    node.serve(Toy("a", lambda context: context.response.set(SHARES, 1, "")), Toy("b"))
    assert (await node.call(CREATE, container_request())).container_resources.cpu_shares == 7
    assert node.server.conflicts == {("cpu.shares", "a", "b"): 1}


@pytest.mark.parametrize("policy", list(FailurePolicy))
async def test_mistake_of_our_own(node: Harness, policy: FailurePolicy, caplog: pytest.LogCaptureFixture) -> None:
    """Under Fail no call passes undecided; under Ignore none is lost."""
    node.serve(plugin_failure_policy=policy)
    node.rules = None  # type: ignore[assignment]
    if policy is FailurePolicy.FAIL:
        with pytest.raises(RpcError) as caught:
            await node.call(CREATE, container_request())
        assert caught.value.code is Code.FAILED_PRECONDITION
        assert node.server.outcomes == {(CREATE, HookOutcome.REFUSED): 1}
    else:
        response = await node.call(CREATE, container_request())
        assert response.container_resources == container_request().container_resources
        assert node.server.outcomes == {(CREATE, HookOutcome.FAILED): 1}
    assert "Hook call failed" in caplog.text


# -- effects that fail

EFFECTS = [(RUN, "pod_files"), (CREATE, "pod_files"), (CREATE, "created"), (UPDATE, "updated")]


@pytest.mark.parametrize(("point", "name"), EFFECTS)
async def test_failing_effect_does_not_fail_the_answer(node: Harness, point: HookPoint, name: str) -> None:
    """What was decided is answered; the failure is counted."""
    node.effects.errors[name] = OSError(5, "Input/output error")
    request = pod_request() if point.about_pod else container_request("c")
    response = await node.call(point, request)
    assert (response.resources if point is RUN else response.container_resources).cpu_shares == (
        70 if point is RUN else 7
    )
    assert node.server.effect_failures == {(name, "failed"): 1}


async def test_failing_effect_does_not_keep_the_next_one(node: Harness) -> None:
    """Each for itself."""
    node.effects.errors["pod_files"] = RuntimeError("a bug")
    await node.call(CREATE, container_request())
    assert node.effects.names == ["pod_files", "created"]


@pytest.mark.parametrize(("point", "name"), [*EFFECTS, (HookPoint.POST_START_CONTAINER, "started")])
async def test_failing_effect_under_fail(node: Harness, point: HookPoint, name: str) -> None:
    """The call does not pass without it."""
    node.serve(plugin_failure_policy=FailurePolicy.FAIL)
    node.effects.errors[name] = RuntimeError("a bug")
    with pytest.raises(RpcError, match=f"{point}: {name}: RuntimeError: a bug"):
        await node.call(point, pod_request() if point.about_pod else container_request("c"))
    assert node.server.outcomes == {(point, HookOutcome.REFUSED): 1}


async def test_effect_that_takes_too_long(node: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer does not wait for it."""
    monkeypatch.setattr(proxy_mode, "_EFFECT_TIMEOUT", 0.01)
    node.effects.hanging = {"pod_files", "created"}
    assert (await node.call(CREATE, container_request())).container_resources.cpu_shares == 7
    assert node.server.effect_failures == {("pod_files", "late"): 1, ("created", "late"): 1}


async def test_effect_ends_before_the_callers_deadline(node: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the answer still arrives."""
    monkeypatch.setattr(proxy_mode, "_EFFECT_TIMEOUT", 600.0)
    node.effects.hanging = {"updated"}
    soon = Context(deadline=asyncio.get_running_loop().time() + 0.15)
    assert (await node.call(UPDATE, container_request("c"), soon)).container_resources.cpu_shares == 7
    assert node.server.effect_failures == {("updated", "late"): 1}


async def test_time_out_inside_an_effect_is_its_own(node: Harness) -> None:
    """It failed, it was not late."""
    node.effects.errors["created"] = TimeoutError("of something else")
    await node.call(CREATE, container_request())
    assert node.server.effect_failures == {("created", "failed"): 1}
