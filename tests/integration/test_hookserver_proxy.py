"""Our own hook server in proxy mode over real sockets: asked by grpcio, and registered with a relay."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.server.context import ContainerContext, PodContext
from interpose.hooks.server.evaluate import PluginResults
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import Plugin
from interpose.hooks.server.proxy.proxy_mode import HookOutcome, ProxyServer
from interpose.hooks.server.proxy.self_registration import Registrar
from interpose.hooks.server.reconcile.original_values import ANNOTATION
from interpose.hooks.server.worker_threads import Runner
from interpose.host.unix_sockets import bind_unix, peer_credentials
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.server import LocalServer
from interpose.testing import pods
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.hookstack import HookStack
from tests.support.clock import PluginClock

CREATE = HookPoint.PRE_CREATE_CONTAINER
POD = pods.pod_config("web", "shop")
ALL = frozenset(Parameter)
Act = Callable[[ContainerContext], None]


class Toy(Plugin[int]):
    """Does with containers what it is told, and wants shares of pods."""

    stages: ClassVar[frozenset[HookPoint]] = frozenset(HookPoint)
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType({Level.POD: ALL, Level.CONTAINER: ALL})
    envs: ClassVar[bool] = True

    def __init__(self, name: str, act: Act) -> None:
        self.name = name  # type: ignore[misc]
        self.act = act

    def pod(self, rule: int, context: PodContext) -> None:
        """Shares."""
        context.response.set(Parameter.CPU_SHARES, 768, "")

    def container(self, rule: int, context: ContainerContext) -> None:
        """As told."""
        self.act(context)


class Effects:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def write_pod_files(self, pod: Pod, verdict: PluginResults) -> None:
        """Note it."""
        self.told.append(f"files of {pod.name}")

    async def on_create(self, pod: Pod, container: Container, verdict: PluginResults) -> None:
        """Note it."""
        self.told.append(f"created {container.name}")

    async def on_update(self, pod: Pod, container: Container, verdict: PluginResults) -> PluginResults:
        """Note it."""
        self.told.append("updated")
        return verdict

    async def on_start(self, pod: Pod, container: Container) -> None:
        """Note it."""
        self.told.append("started")

    async def on_pod_stop(self, pod: Pod) -> None:
        """Note it."""
        self.told.append(f"stopped {pod.name}")

    async def on_container_stop(self, pod: Pod, container_id: str) -> None:
        """Note it."""
        self.told.append("container stopped")


class Served:
    """A hook server and where it is."""

    def __init__(self, path: Path, proxy: ProxyServer, effects: Effects, runner: Runner, server: LocalServer) -> None:
        self.path = path
        self.proxy = proxy
        self.effects = effects
        self.runner = runner
        self.server = server


@asynccontextmanager
async def serve(
    path: Path,
    *plugins: Toy,
    policy: FailurePolicy = FailurePolicy.IGNORE,
    uids: frozenset[int] = frozenset((os.getuid(),)),
    clock: PluginClock | None = None,
) -> AsyncIterator[Served]:
    """As the daemon does it: a bound socket, peers checked."""
    runner, effects = Runner(timeout=0.3, now=clock or PluginClock()), Effects()
    rules = PluginRules(by_plugin={one.name: 1 for one in plugins})
    proxy = ProxyServer(
        plugins=plugins, rules=lambda: rules, runner=runner, effects=effects, plugin_failure_policy=policy
    )
    server = LocalServer(proxy.handlers(), admission=Admission(identify=peer_credentials, uids=uids))
    bound = bind_unix(str(path))
    await server.start(bound.sock)
    try:
        yield Served(path, proxy, effects, runner, server)
    finally:
        await server.close()
        bound.close()
        await runner.close()


def sets(**values: Any) -> Act:
    """Want these values, named as in messages."""
    names = {
        "shares": Parameter.CPU_SHARES,
        "quota": Parameter.CPU_QUOTA,
        "memory": Parameter.MEMORY_LIMIT,
        "cpus": Parameter.CPUSET_CPUS,
        "oom": Parameter.OOM_SCORE_ADJ,
    }

    def act(context: ContainerContext) -> None:
        for name, value in values.items():
            context.response.set(names[name], value, "")

    return act


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets what hangs go at the end."""
    event = threading.Event()
    yield event
    event.set()


def raises(_context: ContainerContext) -> None:
    """Fail."""
    raise ValueError("annotation x: 'y' is wrong")


# -- asked by grpcio


def request(**resources: Any) -> hook.ContainerResourceHookRequest:
    """About a container."""
    return hook.ContainerResourceHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="web", namespace="shop"),
        container_meta=hook.ContainerMetadata(name="app"),
        container_resources=hook.LinuxContainerResources(**resources),
    )


async def ask(channel: Any, message: Any, point: HookPoint = CREATE) -> Any:
    """One call."""
    data = message if isinstance(message, bytes) else message.SerializeToString()
    answer = await channel.unary_unary(point.rpc.decode())(data, timeout=WAIT_LIMIT)
    return hook.ContainerResourceHookResponse.FromString(answer)


async def test_answers_a_client_of_another_library(scratch: Path) -> None:
    """Values set, taken away and left alone, in one answer."""
    plugin = Toy("toy", sets(shares=2048, quota=UNLIMITED, cpus=CLEAR))
    async with serve(scratch / "hooks.sock", plugin) as served, grpc_channel(served.path) as channel:
        answer = await ask(channel, request(cpu_shares=102, cpuset_cpus="0-3", memory_limit_in_bytes=9))
        expected = hook.LinuxContainerResources(cpu_shares=2048, cpu_quota=-1, memory_limit_in_bytes=9)
        assert answer.container_resources == expected
        assert list(answer.clear) == ["container_resources.cpuset_cpus"]
        assert served.effects.told == ["files of web", "created app"]


async def test_many_calls_at_once(scratch: Path) -> None:
    """Each gets its own answer."""

    def act(context: ContainerContext) -> None:
        context.response.set(Parameter.CPU_SHARES, context.request.requested.cpu_shares + 1, "")

    async with serve(scratch / "hooks.sock", Toy("toy", act)) as served, grpc_channel(served.path) as channel:
        answers = await asyncio.gather(*(ask(channel, request(cpu_shares=number)) for number in range(10, 210)))
        assert [one.container_resources.cpu_shares for one in answers] == list(range(11, 211))
        assert served.proxy.outcomes == {(CREATE, HookOutcome.CHANGED): 200}


async def test_bytes_that_are_no_message(scratch: Path) -> None:
    """A status that names the method, and the next call is answered."""
    async with serve(scratch / "hooks.sock") as served, grpc_channel(served.path) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="PreCreateContainerHook: not a") as caught:
            await ask(channel, b"\xff\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (await ask(channel, request(cpu_shares=3))).container_resources.cpu_shares == 3


async def test_peers_of_other_users_are_turned_away(scratch: Path) -> None:
    """By what the kernel says about them."""
    other = frozenset((os.getuid() + 1,))
    async with serve(scratch / "hooks.sock", uids=other) as served, grpc_channel(served.path) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(channel, request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert served.server.listener.refused > 0
        assert not served.proxy.outcomes


async def test_raising_and_hanging_plugins_next_to_a_good_one(scratch: Path, release: threading.Event) -> None:
    """The good one is heard; the one that hangs costs its time once."""

    clock = PluginClock()

    def hangs(_context: ContainerContext) -> None:
        clock.hang(release)

    plugins = Toy("raises", raises), Toy("hangs", hangs), Toy("good", sets(shares=7))
    async with serve(scratch / "hooks.sock", *plugins, clock=clock) as served, grpc_channel(served.path) as channel:
        answers = await asyncio.gather(*(ask(channel, request(cpu_shares=102)) for _ in range(8)))
        assert {one.container_resources.cpu_shares for one in answers} == {7}
        assert served.runner.stats["hangs"].timeouts <= 4  # as many as there are threads
        assert served.runner.stats["good"].runs == 16  # every job has a pod and a container
        assert list(served.runner.suspended) == ["hangs"]


async def test_fail_refuses_with_the_name_of_the_plugin(scratch: Path) -> None:
    """And nothing is done for the call."""
    plugins = Toy("good", sets(shares=7)), Toy("bad", raises)
    async with (
        serve(scratch / "hooks.sock", *plugins, policy=FailurePolicy.FAIL) as served,
        grpc_channel(served.path) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(channel, request())
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert caught.value.details() == "PreCreateContainer: plugin bad: annotation x: 'y' is wrong"
        assert not served.effects.told


# -- registered with a relay


@asynccontextmanager
async def registered(
    node: HookStack, *plugins: Toy, policy: FailurePolicy = FailurePolicy.IGNORE, clock: PluginClock | None = None
) -> AsyncIterator[Served]:
    """Our hook server in force in the relay, with one policy for both."""
    async with serve(node.folder / "hooks.sock", *plugins, policy=policy, clock=clock) as served:
        registrar = Registrar(
            node.directory, "qos", endpoint=str(served.path), hooks=tuple(HookPoint), failure_policy=policy
        )
        assert registrar.write()
        await node.in_force("qos")
        try:
            yield served
        finally:
            registrar.deregister()


async def run(node: HookStack, pod: cri.PodSandboxConfig = POD) -> str:
    """Run a pod."""
    return str((await node.call(pods.run_request(pod))).pod_sandbox_id)


async def create(node: HookStack, pod: cri.PodSandboxConfig = POD, **resources: Any) -> str:
    """A container in a new pod, with resources as a kubelet gives them."""
    given = pods.linux_resources(cpu_limit=500, memory_limit=1 << 28)
    given.MergeFrom(cri.LinuxContainerResources(**resources))
    config = pods.container_config(pod, resources=given, envs={"A": "1", "RAW": b"\xff"})
    reply = await node.call(pods.create_request(await run(node, pod), pod, config))
    return str(reply.container_id)


async def test_values_arrive_in_the_runtime(node: HookStack) -> None:
    """Of pod and container; what nobody wants changed is as the kubelet sent it."""

    def act(context: ContainerContext) -> None:
        sets(shares=2048, quota=UNLIMITED, memory=UNLIMITED, oom=-500)(context)
        context.response.set_env("NEW", "x", "")

    async with registered(node, Toy("toy", act)) as served:
        found = node.runtime.state.container(await create(node, cpuset_cpus="0-1"))
        resources = found.config.linux.resources
        assert (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes) == (2048, -1, -1)
        assert (resources.cpu_period, resources.cpuset_cpus, resources.oom_score_adj) == (100_000, "0-1", -500)
        assert [(env.key, env.value) for env in found.config.envs] == [("A", b"1"), ("RAW", b"\xff"), ("NEW", b"x")]
        assert "cpu_quota" in found.config.annotations[ANNOTATION]
        sandbox = node.runtime.state.sandbox(found.sandbox_id)
        assert sandbox.config.linux.resources.cpu_shares == 768
        assert served.effects.told == ["files of web", "files of web", "created app"]


@pytest.mark.parametrize(
    ("act", "expected"),
    [(sets(), "0-1"), (sets(cpus=CLEAR), ""), (sets(cpus="2,3"), "2-3")],
    ids=["unset", "clear", "value"],
)
async def test_unset_clear_and_value_are_three_things(node: HookStack, act: Act, expected: str) -> None:
    """A CPU set at create, from the plugin to the runtime."""
    async with registered(node, Toy("toy", act)):
        resources = node.runtime.state.container(await create(node, cpuset_cpus="0-1")).config.linux.resources
        assert resources.cpuset_cpus == expected
        assert (resources.cpu_shares, resources.oom_score_adj) == (102, 999)


async def test_zero_oom_score(node: HookStack) -> None:
    """Zero is a score, not the absence of one."""
    async with registered(node, Toy("toy", sets(oom=0))):
        assert node.runtime.state.container(await create(node)).config.linux.resources.oom_score_adj == 0


async def test_update_is_answered_from_what_was_asked_for(node: HookStack) -> None:
    """A value that depends on the request is not made smaller with every update."""

    def act(context: ContainerContext) -> None:
        context.response.set(Parameter.CPU_QUOTA, context.request.requested.cpu_quota // 2, "half of it")

    async with registered(node, Toy("toy", act)) as served:
        container = await create(node)
        for shares in (300, 301):
            patch = cri.LinuxContainerResources(cpu_shares=shares)
            await node.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
        resources = node.runtime.state.container(container).resources
        assert (resources.cpu_quota, resources.cpu_shares) == (25_000, 301)
        assert served.proxy.update_counts == {container: 2}


async def test_update_brings_back_what_was_asked_for(node: HookStack) -> None:
    """A rule that is gone: the container has another value than its caller asked for, and gets that."""
    wanted = 10_000

    def act(context: ContainerContext) -> None:
        context.response.set(Parameter.CPU_QUOTA, wanted, "")

    async with registered(node, Toy("toy", act)):
        container = await create(node)
        assert node.runtime.state.container(container).resources.cpu_quota == 10_000
        wanted = 50_000  # what the kubelet asked for
        patch = cri.LinuxContainerResources(cpu_shares=300)
        await node.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
        resources = node.runtime.state.container(container).resources
        assert (resources.cpu_quota, resources.cpu_shares, resources.memory_limit_in_bytes) == (50_000, 300, 1 << 28)


async def test_whole_life_is_told(node: HookStack) -> None:
    """To the effects, in order."""
    async with registered(node, Toy("toy", sets(shares=7))) as served:
        container = await create(node)
        sandbox = node.runtime.state.container(container).sandbox_id
        for message in (
            cri.StartContainerRequest(container_id=container),
            cri.UpdateContainerResourcesRequest(
                container_id=container, linux=cri.LinuxContainerResources(cpu_shares=9)
            ),
            cri.StopContainerRequest(container_id=container),
            cri.StopPodSandboxRequest(pod_sandbox_id=sandbox),
        ):
            await node.call(message)
        assert served.effects.told[2:] == ["created app", "started", "updated", "container stopped", "stopped web"]


async def test_pod_that_opted_out(node: HookStack) -> None:
    """It is as if we were not there."""
    pod = pods.pod_config("own", annotations={"interpose/managed": "false"})
    async with registered(node, Toy("toy", sets(shares=7))) as served:
        resources = node.runtime.state.container(await create(node, pod)).config.linux.resources
        assert resources == pods.linux_resources(cpu_limit=500, memory_limit=1 << 28)
        assert not served.effects.told


async def test_raising_and_hanging_plugins_behind_a_relay(node: HookStack, release: threading.Event) -> None:
    """Containers are created with what the good one wants."""

    clock = PluginClock()

    def hangs(_context: ContainerContext) -> None:
        clock.hang(release)

    plugins = Toy("raises", raises), Toy("hangs", hangs), Toy("good", sets(shares=7))
    async with registered(node, *plugins, clock=clock) as served:
        for name in ("one", "two"):
            container = await create(node, pods.pod_config(name))
            assert node.runtime.state.container(container).config.linux.resources.cpu_shares == 7
        assert served.runner.stats["hangs"].timeouts == 1


async def test_fail_reaches_the_kubelet(node: HookStack) -> None:
    """Nothing is created, and the text says which plugin it was and why."""
    async with registered(node, Toy("bad", raises), policy=FailurePolicy.FAIL):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await create(node)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "plugin bad: annotation x: 'y' is wrong" in (caught.value.details() or "")
        assert not node.runtime.state.containers


async def test_registration_that_was_deleted_comes_back(node: HookStack) -> None:
    """With the next look; and goes when we leave under Ignore."""
    async with serve(node.folder / "hooks.sock") as served:
        registrar = Registrar(node.directory, "qos", endpoint=str(served.path), hooks=(CREATE,))
        registrar.write()
        await node.in_force("qos")
        registrar.path.unlink()
        await eventually(lambda: not node.built.plugins.all, "the relay to notice")
        registrar.check()
        await node.in_force("qos")
        registrar.close()
        await eventually(lambda: not node.built.plugins.all, "the relay to notice")
