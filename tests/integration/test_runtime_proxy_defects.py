"""What the runtime proxy we replace gets wrong, one number per defect, and how it goes with us.

Each docstring begins with what that proxy did. Where it lost the whole process, or its socket, the relay here is a
process too; the others run in this event loop.
"""

import asyncio
import errno
import json
import signal
import stat
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.cli.relay import interception as relay_interception
from interpose.config.relay.settings import LimitSettings, RelaySettings
from interpose.core.model.pod import ContainerState
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.client import HookClient
from interpose.net.grpc.status import Code, RpcError
from interpose.testing import pods
from interpose.testing.eventually import WAIT_LIMIT, eventually, meet_deadline
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel, is_late
from interpose.testing.hookserver import FakeHookServer, echo, register, serve_hooks, set_shares
from interpose.testing.hookstack import CriCaller, HookStack, hook_stack, points_of
from interpose.testing.serve import serve_runtime
from tests.support.lab.processes import Child, accepts
from tests.support.lab.relay import Relay, relay_argv
from tests.support.net.echo_service import failed
from tests.support.net.raw_backend import raw_backend

Ask = Callable[..., tuple[int, str]]
Start = Callable[..., Relay]
Spawn = Callable[..., Child]
StartProcess = Callable[..., AbstractAsyncContextManager["Process"]]

POD = pods.pod_config("web", "shop", labels={"app": "web"}, annotations={"team": "blue"})
RESOURCES = pods.linux_resources(cpu_request=100, memory_limit=1 << 28, oom_score_adj=987)
RESOURCES.cpuset_cpus = "0-3"
# As the kubelet's client: it waits for the greeting of a busy relay, and names itself like this.
PATIENT = [("grpc.min_reconnect_backoff_ms", 20_000), ("grpc.default_authority", "localhost")]
PRE_RUN, PRE_CREATE = HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER
PRE_UPDATE = HookPoint.PRE_UPDATE_CONTAINER_RESOURCES


@pytest.fixture
async def hooked(node: HookStack, plugin: FakeHookServer) -> HookStack:
    """The plugin is registered for everything, under Fail."""
    await node.register("plugin", node.folder / "plugin.sock", failure_policy="Fail")
    return node


async def run(call: CriCaller, pod: cri.PodSandboxConfig = POD, **more: Any) -> str:
    """Run a pod."""
    return str((await call(pods.run_request(pod), **more)).pod_sandbox_id)


async def create(call: CriCaller, sandbox: str, pod: cri.PodSandboxConfig = POD, **more: Any) -> str:
    """Create a container."""
    config = pods.container_config(pod, **({"resources": RESOURCES} | more))
    return str((await call(pods.create_request(sandbox, pod, config))).container_id)


def update(container: str, **resources: Any) -> cri.UpdateContainerResourcesRequest:
    """A change of some resources."""
    return cri.UpdateContainerResourcesRequest(container_id=container, linux=cri.LinuxContainerResources(**resources))


def metric(text: str, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A relay in a process of its own; the runtime and the hook server are here."""

    relay: Relay
    admin: Ask
    runtime: FakeRuntime
    plugin: FakeHookServer
    directory: Path
    call: CriCaller

    def plugins(self) -> list[Any]:
        """The hook servers in force."""
        plugins: list[Any] = json.loads(self.admin("/v1/hooks")[1])["plugins"]
        return plugins

    def in_force(self, *names: str) -> None:
        """Wait until exactly these hook servers are asked."""
        self.relay.child.wait_until(
            lambda: [one["name"] for one in self.plugins()] == sorted(names), what=f"{names} to be in force"
        )


def serving(relay: Relay) -> Relay:
    """A relay that answers; from binding the socket until then clients wait, and grpcio does so for a moment only."""
    relay.child.wait_until(lambda: "Relay is listening" in relay.child.log_tail(), what="the start")
    return relay


@pytest.fixture
def process(scratch: Path, start_relay: Start, admin: Ask) -> StartProcess:
    """Starts a relay process with hooks. The hook server listens on plugin.sock and is not registered yet."""

    @asynccontextmanager
    async def start(*options: str) -> AsyncIterator[Process]:
        runtime, server, directory = FakeRuntime(), FakeHookServer(), scratch / "hookserver.d"
        directory.mkdir(0o755)
        async with serve_runtime(scratch / "runtime.sock", runtime), serve_hooks(scratch / "plugin.sock", server):
            relay = serving(start_relay("--hooks-dir", str(directory), *options))
            async with grpc_channel(relay.socket, options=PATIENT) as channel:
                yield Process(
                    relay=relay,
                    admin=admin,
                    runtime=runtime,
                    plugin=server,
                    directory=directory,
                    call=CriCaller(channel),
                )

    return start


# -- B1


async def test_b01_file_that_is_no_registration(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy died at the first call after a new file was empty or no JSON; here the others go on as before."""
    bad = {"empty.json": "", "cut.json": '{"remote-endpoint": "/run', "list.json": "[]", "nul.json": "\0"}
    for name, text in bad.items():
        (hooked.directory / name).write_text(text)
    (hooked.directory / "folder.json").mkdir()
    replacement = hooked.directory / ".new"
    replacement.write_text("no JSON, and another inode")
    replacement.replace(hooked.directory / "plugin.json")
    reported = {"cut.json", "list.json", "nul.json", "folder.json", "plugin.json"}
    await eventually(lambda: reported <= hooked.hooks.registrations.problems.keys(), "the files to be reported")
    await run(hooked.call)
    assert points_of(plugin) == ["PreRunPodSandbox"]


async def test_b01_registrations_rewritten_under_load(scratch: Path, process: StartProcess) -> None:
    """The proxy died at the ninth atomic rename under load; here no call fails or misses its hook server.

    Renames, koordlet's way (empty it, then write), halves of a file and nonsense, with eight callers at once.
    """
    async with process() as node:
        text = register(node.directory, "plugin", scratch / "plugin.sock", failure_policy="Fail").read_text()
        node.in_force("plugin")
        container = await create(node.call, await run(node.call))
        answered: Counter[int] = Counter()
        stop = False

        async def keep_calling(number: int) -> None:
            while not stop:
                await node.call(update(container, cpu_shares=100 + number))
                answered[number] += 1

        async def rewrite() -> None:
            nonlocal stop
            path = node.directory / "plugin.json"
            fresh = node.directory / ".fresh"
            for number in range(400):
                whole = text.replace("{", f'{{"priority": {number},', 1)
                match number % 5:
                    case 0 | 1:
                        fresh.write_text(whole)
                        fresh.replace(path)
                    case 2:
                        path.write_text("")  # koordlet is interrupted here
                    case 3:
                        path.write_text(whole[: len(whole) // 2])
                    case 4:
                        path.write_text(whole)
                before = answered.total()
                await eventually(lambda before=before: answered.total() > before, "a call to be answered")  # type: ignore[misc]
            stop = True

        await asyncio.gather(rewrite(), *(keep_calling(number) for number in range(8)))
        assert node.relay.child.running
        assert len(node.plugin.calls) == 2 + answered.total()
        assert node.runtime.calls["UpdateContainerResources"] == answered.total() >= 400

        await eventually(lambda: node.plugins()[0]["priority"] == 399, "the last version to be in force")


# -- B2, B3, B4


async def test_b02_container_in_a_pod_nobody_told_us_of(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy died after the runtime had made the container; here the pod is looked up and hooks see all of it."""
    sandbox = hooked.runtime.state.run_sandbox(POD, "")
    container = await create(hooked.call, sandbox.id)
    asked = plugin.calls[-1].request
    assert (asked.pod_meta.name, asked.pod_labels["app"], asked.pod_annotations["team"]) == ("web", "web", "blue")
    await eventually(lambda: container in hooked.built.store.containers, "the container to be known")


async def test_b02_container_after_a_failed_stop_of_its_pod(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy forgot the pod when a stop failed and died at the next container."""
    sandbox = await run(hooked.call)
    hooked.runtime.fail("StopPodSandbox", Code.UNKNOWN, "busy", times=1)
    await failed(hooked.call(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox)))
    await create(hooked.call, sandbox)
    assert points_of(plugin)[-1] == "PreCreateContainer"


async def test_b02_container_in_a_pod_that_does_not_exist(hooked: HookStack) -> None:
    """The runtime says so, and the relay goes on."""
    error = await failed(create(hooked.call, "no-such-pod"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    await run(hooked.call)


async def test_b03_requests_without_linux(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy died of a nil pointer as soon as a plugin answered; here what the plugin wants is added."""
    plugin.answers[PRE_RUN] = hook.PodSandboxHookResponse(
        cgroup_parent="/batch", resources=hook.LinuxContainerResources(cpu_shares=9)
    )
    plugin.answers[PRE_CREATE] = hook.ContainerResourceHookResponse(
        pod_cgroup_parent="/batch", container_resources=hook.LinuxContainerResources(cpu_shares=7)
    )
    pod = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="bare", namespace="a", uid="1"))
    sandbox = await run(hooked.call, pod)
    assert hooked.runtime.state.sandbox(sandbox).config.linux.cgroup_parent == "/batch"
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="c"), image=cri.ImageSpec(image=pods.BUSYBOX))
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)
    container = (await hooked.call(request)).container_id
    assert hooked.runtime.state.container(container).resources.cpu_shares == 7


EMPTY = (
    cri.RunPodSandboxRequest(),
    cri.CreateContainerRequest(),
    cri.StartContainerRequest(),
    cri.UpdateContainerResourcesRequest(),
    cri.StopContainerRequest(),
    cri.StopPodSandboxRequest(),
    cri.RemoveContainerRequest(),
    cri.RemovePodSandboxRequest(),
)


@pytest.mark.parametrize("empty", EMPTY, ids=lambda empty: type(empty).__name__)
async def test_b03_empty_requests(node: HookStack, plugin: FakeHookServer, empty: Any) -> None:
    """Whatever a caller leaves out, it hears what the runtime says to that, and the relay goes on."""
    plugin.default = set_shares(7)
    await node.register("plugin", node.folder / "plugin.sock")
    name = type(empty).__name__.removesuffix("Request")
    both: list[Any] = [FakeRuntime().call(name, empty), node.call(empty)]
    direct, relayed = await asyncio.gather(*both, return_exceptions=True)
    if isinstance(direct, RpcError):
        assert isinstance(relayed, grpc.aio.AioRpcError)
        assert (relayed.code().value[0], relayed.details()) == (direct.code, direct.message)
    else:
        assert type(relayed) is type(direct)
    assert await run(node.call)


async def test_b04_concurrent_calls_about_one_container(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy died of a map read and written at once, after 0.4 s; here records are values nobody shares."""

    def annotate(request: Any) -> Any:
        response = echo(request)
        if isinstance(response, hook.ContainerResourceHookResponse):
            response.container_annotations[f"n{len(plugin.calls) % 10}"] = "x"
            response.container_resources.unified[f"u{len(plugin.calls) % 10}"] = "1"
        return response

    plugin.default = annotate
    container = await create(hooked.call, await run(hooked.call))

    async def keep_calling(number: int) -> None:
        for turn in range(25):
            await hooked.call(update(container, cpu_shares=100 + number, unified={f"k{number}": str(turn)}))

    await asyncio.gather(
        *(keep_calling(number) for number in range(8)),
        hooked.call(cri.StartContainerRequest(container_id=container)),
    )
    assert hooked.built.plugins.all[0].stats.failures == 0
    record = hooked.built.store.containers[container]
    assert {f"k{number}": "24" for number in range(8)}.items() <= record.requested.unified.items()
    unified = hooked.runtime.state.container(container).resources.unified
    assert dict(record.resources.unified) == dict(unified)


# -- B5, B6


async def test_b05_backend_comes_after_the_relay(scratch: Path, start_relay: Start) -> None:
    """The proxy stayed alive without a socket for ever; here the call waits for the backend, and is hooked."""
    directory = scratch / "hookserver.d"
    directory.mkdir(0o755)
    register(directory, "plugin", scratch / "plugin.sock", failure_policy="Fail")
    plugin = FakeHookServer()
    async with serve_hooks(scratch / "plugin.sock", plugin):
        relay = serving(start_relay("--hooks-dir", str(directory), "--backend-wait", "10s"))
        assert accepts(relay.socket)
        async with grpc_channel(relay.socket, options=PATIENT) as channel:
            call = CriCaller(channel)
            waiting = asyncio.create_task(run(call))
            await asyncio.wait_for(plugin.changes.until(lambda: bool(plugin.calls)), WAIT_LIMIT)
            async with serve_runtime(scratch / "runtime.sock", FakeRuntime()):
                assert await waiting
    assert points_of(plugin) == ["PreRunPodSandbox"]


def test_b05_socket_that_cannot_be_bound_ends_the_process(scratch: Path, spawn: Spawn) -> None:
    """The proxy stayed alive then too; here the exit code tells systemd."""
    (scratch / "relay.sock").mkdir()
    child = spawn(*relay_argv(scratch / "relay.sock", scratch / "runtime.sock", scratch / "admin.sock"))
    assert child.wait() != 0


async def test_b06_hanging_plugin_under_ignore(node: HookStack, plugin: FakeHookServer) -> None:
    """The proxy let the plugin use up the caller's time and never called the runtime; here it gets half of it."""
    plugin.stall(PRE_RUN)
    await node.register("plugin", node.folder / "plugin.sock")

    async def run_within(timeout: float) -> float:
        await run(node.call, pods.pod_config(f"web{timeout:g}"), timeout=timeout)
        return timeout

    timeout = await meet_deadline(run_within, is_late, 2.0)
    assert node.runtime.calls["RunPodSandbox"]
    given = plugin.calls[-1].timeout
    assert given is not None
    assert given <= 0.55 * timeout  # grpcio rounds the time it gives us up by as much as a hundredth
    await eventually(lambda: len(plugin.cancelled) == len(plugin.calls), "the plugin's calls to be given up")


# -- B7


@pytest.mark.parametrize("form", ["{}", "unix:{}", "unix://{}"])
async def test_b07_endpoint_in_every_form(node: HookStack, plugin: FakeHookServer, form: str) -> None:
    """The proxy skipped a plugin under Fail whose endpoint had a scheme; users met it in the documentation's form."""
    await node.register("plugin", form.format(node.folder / "plugin.sock"), failure_policy="Fail")  # type: ignore[arg-type]
    await run(node.call)
    assert points_of(plugin) == ["PreRunPodSandbox"]


async def test_b07_endpoint_that_becomes_malformed(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy dropped the plugin; here the last good version stays, and the file is reported with key and value."""
    register(hooked.directory, "plugin", "plugin.sock", failure_policy="Fail")
    problems = await eventually(lambda: hooked.hooks.registrations.problems, "the file to be reported")
    assert "remote-endpoint: 'plugin.sock'" in problems["plugin.json"][0]
    plugin.answers[PRE_RUN] = RpcError(Code.PERMISSION_DENIED, "no")
    assert (await failed(run(hooked.call))).code() is grpc.StatusCode.FAILED_PRECONDITION
    assert hooked.runtime.calls["RunPodSandbox"] == 0


async def test_b07_unknown_container_is_looked_up(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy let calls about containers it did not know pass without any hook."""
    sandbox = hooked.runtime.state.run_sandbox(POD, "")
    image = hooked.runtime.images.pull(pods.BUSYBOX, cri.AuthConfig())
    container = hooked.runtime.state.create_container(sandbox, pods.container_config(POD), image)
    plugin.answers[PRE_UPDATE] = plugin.answers[HookPoint.PRE_START_CONTAINER] = RpcError(Code.ABORTED, "no")
    for request in (update(container.id, cpu_shares=5), cri.StartContainerRequest(container_id=container.id)):
        error = await failed(hooked.call(request))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert error.details().endswith("ABORTED: no")
    assert not hooked.runtime.calls["UpdateContainerResources"]
    assert not hooked.runtime.calls["StartContainer"]


async def test_b07_container_that_cannot_be_looked_up(hooked: HookStack) -> None:
    """If nobody can say which pod a call is about, a plugin under Fail might have to see it: the call is refused."""
    sandbox = hooked.runtime.state.run_sandbox(POD, "")
    image = hooked.runtime.images.pull(pods.BUSYBOX, cri.AuthConfig())
    container = hooked.runtime.state.create_container(sandbox, pods.container_config(POD), image)
    hooked.runtime.fail("ContainerStatus", Code.UNKNOWN, "disk on fire")
    error = await failed(hooked.call(cri.StartContainerRequest(container_id=container.id)))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "disk on fire" in error.details()
    assert not hooked.runtime.calls["StartContainer"]


async def test_b07_old_api_version_is_hooked(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy passed v1alpha2 on without hooks."""
    plugin.answers[PRE_RUN] = RpcError(Code.PERMISSION_DENIED, "no")
    error = await failed(run(hooked.call, version="v1alpha2"))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert hooked.runtime.calls["RunPodSandbox"] == 0


async def test_b07_failing_post_hook_is_noticed_and_repeated(
    hooked: HookStack, plugin: FakeHookServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The proxy dropped the error without a log line; here it is counted, logged, and told again off the path."""
    container = await create(hooked.call, await run(hooked.call))
    point = HookPoint.POST_STOP_CONTAINER
    plugin.answers[point] = RpcError(Code.INTERNAL, "out of paper")
    await hooked.call(cri.StopContainerRequest(container_id=container))
    assert any(one.levelname == "ERROR" and "Hook server failed" in one.message for one in caplog.records)
    results = hooked.built.plugins.all[0].stats.points[point].results
    assert results["refused"] == 1
    plugin.answers[point] = None
    await eventually(lambda: results["ok"] == 1, "the event to be told again")
    assert points_of(plugin).count("PostStopContainer") == 2


async def test_b07_code_of_hooks_that_cannot_be_loaded_at_first(
    node: HookStack, plugin: FakeHookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first registration that meets a lack of descriptors is not forgotten: the next second tries again."""
    load, attempts = relay_interception._import_interceptors, 0

    def fail_twice() -> Any:
        nonlocal attempts
        attempts += 1
        if attempts <= 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return load()

    monkeypatch.setattr(relay_interception, "_import_interceptors", fail_twice)
    register(node.directory, "plugin", node.folder / "plugin.sock", failure_policy="Fail")
    await eventually(lambda: attempts == 1 and not node.hooks._building, "the first attempt")
    node.hooks.tick()
    await eventually(lambda: attempts == 2 and not node.hooks._building, "the second attempt")
    node.hooks.tick()
    await node.in_force("plugin")
    await run(node.call)
    assert points_of(plugin) == ["PreRunPodSandbox"]


# -- B8


async def test_b08_update_after_a_restart(scratch: Path, plugin: FakeHookServer) -> None:
    """After a restart the proxy's PreUpdate hook saw no resources, and its answer had no effect."""
    runtime = FakeRuntime()
    (scratch / "hookserver.d").mkdir(0o755)
    register(scratch / "hookserver.d", "plugin", scratch / "plugin.sock")
    async with hook_stack(scratch, runtime=runtime) as first:
        container = await create(first.call, await run(first.call), envs={"A": "1"})
    plugin.answers[PRE_UPDATE] = set_shares(11)
    async with hook_stack(scratch, runtime=runtime) as second:
        await second.call(update(container, memory_limit_in_bytes=1 << 29))
    asked = plugin.calls[-1].request
    resources = asked.container_resources
    assert (resources.cpu_shares, resources.oom_score_adj, resources.cpuset_cpus) == (102, 987, "0-3")
    assert resources.memory_limit_in_bytes == 1 << 29
    assert (asked.pod_cgroup_parent, dict(asked.container_envs)) == (POD.linux.cgroup_parent, {"A": "1"})
    assert runtime.state.container(container).resources.cpu_shares == 11


# -- B9


async def test_b09_partial_answer_resets_nothing(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy wrote oom_score_adj 0 and an empty cpuset when a plugin only set shares."""
    plugin.answers[PRE_CREATE] = set_shares(7)
    container = await create(hooked.call, await run(hooked.call))
    sent = hooked.runtime.state.container(container).config.linux.resources
    expected = cri.LinuxContainerResources()
    expected.CopyFrom(RESOURCES)
    expected.cpu_shares = 7
    assert sent == expected


async def test_b09_one_variable_does_not_replace_the_others(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy threw away what the plugin did not repeat, the order, duplicates, and bytes that are not text."""
    plugin.answers[PRE_CREATE] = hook.ContainerResourceHookResponse(container_envs={"B": "new", "Z": "k=v=w"})
    sandbox = await run(hooked.call)
    config = pods.container_config(POD)
    given = [("C", b"1"), ("A", b"\xff"), ("C", b"2"), ("B", b"a=b"), ("D", b"x=y=")]
    config.envs.extend(cri.KeyValue(key=key, value=value) for key, value in given)
    container = (await hooked.call(pods.create_request(sandbox, POD, config))).container_id
    sent = [(one.key, one.value) for one in hooked.runtime.state.container(container).config.envs]
    assert sent == [*given[:3], ("B", b"new"), given[4], ("Z", b"k=v=w")]
    assert plugin.calls[-1].request.container_envs["D"] == "x=y="


@pytest.mark.parametrize("answer", [set_shares(7), set_shares(7, echo)], ids=["partial", "echo"])
async def test_b09_update_of_one_field_stays_one(hooked: HookStack, plugin: FakeHookServer, answer: Any) -> None:
    """The proxy rewrote every field it knew of, stale ones too, and dropped the request's own annotations."""
    plugin.answers[PRE_UPDATE] = answer
    container = await create(hooked.call, await run(hooked.call))
    request = update(container, memory_limit_in_bytes=1 << 29)
    request.annotations["kubelet"] = "says"
    await hooked.call(request)
    (sent,) = hooked.runtime.requests_of("UpdateContainerResources")
    assert sent.linux == cri.LinuxContainerResources(memory_limit_in_bytes=1 << 29, cpu_shares=7)
    assert sent.annotations["kubelet"] == "says"
    assert plugin.calls[-1].request.container_annotations["kubelet"] == "says"


async def test_b09_update_that_nobody_changes_is_the_same(hooked: HookStack, plugin: FakeHookServer) -> None:
    """Echoing what it was asked, a plugin changes nothing at all."""
    plugin.default = echo
    container = await create(hooked.call, await run(hooked.call))
    request = update(container, cpu_quota=-1)
    request.annotations["kubelet"] = "says"
    await hooked.call(request)
    assert hooked.runtime.requests_of("UpdateContainerResources") == [request]


async def test_b09_fields_of_the_future_survive(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy built the resources anew and lost what it did not know, hugepage limits included."""
    plugin.answers[PRE_CREATE] = set_shares(7)
    future = b"\x9a\x06\x06future"  # field 99
    resources = cri.LinuxContainerResources.FromString(RESOURCES.SerializeToString() + future)
    resources.hugepage_limits.add(page_size="2MB", limit=4 << 20)
    container = await create(hooked.call, await run(hooked.call), resources=resources)
    sent = hooked.runtime.state.container(container).config.linux.resources
    assert future in sent.SerializeToString()
    assert [(one.page_size, one.limit) for one in sent.hugepage_limits] == [("2MB", 4 << 20)]
    assert sent.cpu_shares == 7


# -- B10


async def test_b10_failed_stop_keeps_the_record(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy forgot what it could not stop, so the retry that worked was not hooked."""
    sandbox = await run(hooked.call)
    container = await create(hooked.call, sandbox)
    stops = {
        "StopContainer": cri.StopContainerRequest(container_id=container),
        "StopPodSandbox": cri.StopPodSandboxRequest(pod_sandbox_id=sandbox),
    }
    for method, request in stops.items():
        hooked.runtime.fail(method, Code.UNKNOWN, "busy", times=1)
        await failed(hooked.call(request))
        await hooked.call(request)
        assert points_of(plugin)[-2:] == [f"Post{method}"] * 2
        codes = [dict(one.metadata)[b"interpose-runtime-code"] for one in plugin.calls[-2:]]
        assert codes == [b"2", b"0"]
        assert plugin.calls[-1].request == plugin.calls[-2].request


async def test_b10_failed_update_changes_no_record(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy wrote the new values into its record before it knew whether the runtime took them."""
    plugin.answers[PRE_UPDATE] = set_shares(7)
    container = await create(hooked.call, await run(hooked.call))
    before = hooked.built.store.containers[container]
    hooked.runtime.fail("UpdateContainerResources", Code.UNKNOWN, "no", times=1)
    await failed(hooked.call(update(container, memory_limit_in_bytes=1 << 29)))
    assert hooked.built.store.containers[container] == before
    plugin.answers[PRE_UPDATE] = None
    await hooked.call(update(container, cpu_quota=-1))
    assert plugin.calls[-1].request.container_resources.memory_limit_in_bytes == 1 << 28


async def test_b10_failed_start_changes_no_record(hooked: HookStack) -> None:
    """It was not started."""
    container = await create(hooked.call, await run(hooked.call))
    hooked.runtime.fail("StartContainer", Code.UNKNOWN, "exec format error", times=1)
    await failed(hooked.call(cri.StartContainerRequest(container_id=container)))
    assert hooked.built.store.containers[container].state is ContainerState.CREATED


# -- B11


async def test_b11_removed_containers_leave_nothing(scratch: Path, process: StartProcess) -> None:
    """The proxy kept each container that was removed without a stop, as the kubelet does with exited ones."""
    async with process() as node:
        register(node.directory, "plugin", scratch / "plugin.sock")
        node.in_force("plugin")
        for _ in range(5):
            sandbox = await run(node.call)
            for number in range(20):
                container = await create(node.call, sandbox, name=f"c{number}", attempt=number)
                await node.call(cri.StartContainerRequest(container_id=container))
                node.runtime.exit_container(container)
                await node.call(cri.RemoveContainerRequest(container_id=container))
            assert metric(node.admin("/metrics")[1], "interpose_store_containers") == 0
            await create(node.call, sandbox, name="left")
            await node.call(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
            await node.call(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
        text = node.admin("/metrics")[1]
        for kind in ("pods", "containers", "pending", "diverging_containers"):
            assert metric(text, f"interpose_store_{kind}") == 0


async def test_b11_connections_of_plugins_are_closed(scratch: Path, process: StartProcess) -> None:
    """The proxy never closed the connection of a plugin that was unregistered or evicted."""
    async with process() as node:
        register(node.directory, "plugin", scratch / "plugin.sock")
        node.in_force("plugin")
        await run(node.call)
        descriptors = Path(f"/proc/{node.relay.child.pid}/fd")

        def sockets() -> int:
            links = [one.readlink().name for one in descriptors.iterdir() if one.is_symlink()]
            return sum(name.startswith("socket:") for name in links)

        before = sockets()
        names = [f"more{number}" for number in range(12)]
        async with AsyncExitStack() as stack:
            servers = [
                await stack.enter_async_context(serve_hooks(scratch / f"{name}.sock", FakeHookServer()))
                for name in names
            ]
            for name in names:
                register(node.directory, name, scratch / f"{name}.sock")
            await eventually(lambda: all(one.listener.links for one in servers), "all plugins to be connected")
            for name in names:
                (node.directory / f"{name}.json").unlink()
            await eventually(lambda: not any(one.listener.links for one in servers), "the connections to be closed")
            await eventually(lambda: sockets() <= before, "the descriptors to be closed")
        node.in_force("plugin")


# -- B12


@pytest.mark.parametrize("form", ["text", "json"])
async def test_b12_no_secret_in_the_log(scratch: Path, process: StartProcess, form: str) -> None:
    """The proxy logged each container with all its variables, and whole requests that it could not handle."""
    secret = "hunter2"
    async with process("--log-format", form, "--log-level", "debug") as node:
        register(node.directory, "first", scratch / "plugin.sock")
        register(node.directory, "second", scratch / "plugin.sock")
        node.in_force("first", "second")
        passwords = cycle((f"{secret}-1", f"{secret}-2", f"{secret}\0"))

        def answer(_request: Any) -> hook.ContainerResourceHookResponse:
            return hook.ContainerResourceHookResponse(container_envs={"PASSWORD": next(passwords)})

        node.plugin.answers[PRE_CREATE] = answer
        sandbox = await run(node.call)
        envs: dict[str, str | bytes] = {"PASSWORD": secret, "TOKEN": f"{secret}=x", "RAW": secret.encode() + b"\xff"}
        for number in range(8):
            container = await create(node.call, sandbox, name=f"c{number}", envs=envs)
            await node.call(cri.StartContainerRequest(container_id=container))
        for when in ("before", "after"):
            node.runtime.fail("CreateContainer", Code.UNKNOWN, "no", times=1, when=when)
            await failed(create(node.call, sandbox, name=when, envs=envs))
        await failed(create(node.call, "no-such-pod", envs=envs))
        shown = node.admin("/v1/hooks")[1] + node.admin("/metrics")[1]
        assert await asyncio.to_thread(node.relay.child.stop) == 0
        log = node.relay.log.read_text()
    assert "Hook server changed a field" in log
    assert "Two hook servers change the same field" in log
    assert "its answer cannot be used" in log
    assert secret not in log
    assert secret not in shown


# -- B13


async def test_b13_backend_is_found_again_at_once(scratch: Path, plugin: FakeHookServer) -> None:
    """After a long outage the proxy answered UNAVAILABLE for up to two minutes; here the next dial finds it."""
    settings = RelaySettings(limits=LimitSettings(backend_wait=WAIT_LIMIT))
    async with hook_stack(scratch, settings=settings) as node:
        await node.register("plugin", scratch / "plugin.sock")
        await run(node.call)
        away = scratch / "away.sock"
        (scratch / "runtime.sock").rename(away)
        node.stack.runtime.hang_up()
        # By the sixth dial in vain the pauses are as long as they get.
        await eventually(lambda: node.stack.runtime.failures >= 6, "dials to fail")
        away.rename(scratch / "runtime.sock")
        failures = node.stack.runtime.failures
        await run(node.call, pods.pod_config("again"))
        assert node.stack.runtime.failures <= failures + 1  # the dial that was under way
        assert points_of(plugin) == ["PreRunPodSandbox"] * 2


async def test_b13_plugin_is_found_again_at_once(node: HookStack, scratch: Path) -> None:
    """The proxy went on without hooks for 17 s after a plugin came back, making pods that nobody had looked at."""
    await node.register("plugin", scratch / "late.sock", hooks=[PRE_RUN])
    client = node.built.plugins.all[0].caller
    assert isinstance(client, HookClient)
    for number in range(4):
        await run(node.call, pods.pod_config(f"early{number}"))
    assert client.breaker.openings == 1
    server = FakeHookServer()
    async with serve_hooks(scratch / "late.sock", server):
        await eventually(lambda: client.state == "connected", "the plugin to be connected")
        await run(node.call)
    assert points_of(server) == ["PreRunPodSandbox"]


# -- B14


async def test_b14_sigterm_lets_hooked_calls_finish(scratch: Path, process: StartProcess) -> None:
    """The proxy cut calls in flight off and left its socket file behind."""
    async with process() as node:
        register(node.directory, "plugin", scratch / "plugin.sock", failure_policy="Fail")
        node.in_force("plugin")
        stall = node.runtime.stall("RunPodSandbox")
        calling = asyncio.create_task(run(node.call))
        await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
        node.relay.child.signal(signal.SIGTERM)
        await eventually(lambda: not node.relay.socket.exists(), "the socket file to go")
        stall.release()
        assert await calling
        assert await asyncio.to_thread(node.relay.child.wait) == 0


def test_b14_live_socket_is_not_taken(scratch: Path, start_relay: Start, spawn: Spawn) -> None:
    """A second proxy unlinked the socket of the first, and both stayed; the file's mode followed the umask."""
    relay = start_relay()
    assert stat.S_IMODE(relay.socket.stat().st_mode) == 0o600
    inode = relay.socket.stat().st_ino
    second = spawn(*relay_argv(relay.socket, scratch / "runtime.sock", scratch / "other-admin.sock"))
    assert second.wait() != 0
    assert str(relay.child.pid) in second.log_tail()
    assert relay.socket.stat().st_ino == inode
    assert accepts(relay.socket)


# -- B15


async def test_b15_no_edit_is_lost(hooked: HookStack) -> None:
    """The proxy compared coarse times and lost 6 of 100 edits that came right after another."""
    path = hooked.directory / "plugin.json"
    document = json.loads(path.read_text())
    for number in range(40):
        for priority in (500 + number, number):
            path.write_text(json.dumps(document | {"priority": priority}))
        await eventually(
            lambda number=number: hooked.built.plugins.all[0].server.priority == number,  # type: ignore[misc]
            f"edit {number} to be in force",
        )


async def test_b15_deleted_registration_is_out_of_force(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The proxy went on asking for up to a minute."""
    (hooked.directory / "plugin.json").unlink()
    await eventually(lambda: not hooked.built.plugins.all, "the plugin to be forgotten")
    await run(hooked.call)
    assert not plugin.calls


async def test_b15_every_plugin_is_asked_in_order(node: HookStack, scratch: Path) -> None:
    """The proxy asked one plugin, chosen at random: 172 to 28 in 200 calls."""
    order: list[str] = []

    def noting(name: str) -> FakeHookServer:
        def answer(request: Any) -> Any:
            order.append(name)
            return hook.ContainerResourceHookResponse()

        return FakeHookServer(answer)

    async with (
        serve_hooks(scratch / "1.sock", noting("first")),
        serve_hooks(scratch / "2.sock", noting("second")),
        serve_hooks(scratch / "3.sock", noting("third")),
    ):
        register(node.directory, "a", scratch / "2.sock", hooks=[PRE_UPDATE])
        register(node.directory, "b", scratch / "3.sock", hooks=[PRE_UPDATE])
        register(node.directory, "z", scratch / "1.sock", hooks=[PRE_UPDATE], priority=1)
        await node.in_force("a", "b", "z")
        container = await create(node.call, await run(node.call))
        for _ in range(20):
            await node.call(update(container, cpu_shares=5))
    assert order == ["first", "second", "third"] * 20


# -- B16


async def test_b16_authority_is_localhost(scratch: Path, start_relay: Start) -> None:
    """The proxy sent the percent-encoded path of the socket, which strict HTTP/2 servers refuse."""
    directory = scratch / "hookserver.d"
    directory.mkdir(0o755)
    register(directory, "plugin", scratch / "plugin.sock")
    async with raw_backend(scratch / "runtime.sock") as backend, raw_backend(scratch / "plugin.sock") as plugin:
        relay = serving(start_relay("--hooks-dir", str(directory)))
        async with grpc_channel(relay.socket, options=PATIENT) as channel:
            call = CriCaller(channel)
            await run(call)
            await call(cri.VersionRequest())
        own = {"/runtime.v1.RuntimeService/ListPodSandbox", "/runtime.v1.RuntimeService/RunPodSandbox"}
        await eventually(lambda: own <= {one.path for one in backend.requests}, "calls of both kinds")
        for server in (backend, plugin):
            assert server.requests
            assert {dict(one.metadata)[b":authority"] for one in server.requests} == {b"localhost"}


# -- what users of the proxy met besides


async def test_stop_of_a_pod_without_a_hook_for_it(node: HookStack, plugin: FakeHookServer) -> None:
    """The proxy died when a pod was stopped and nobody was registered for that."""
    await node.register("plugin", node.folder / "plugin.sock", hooks=[PRE_RUN])
    sandbox = await run(node.call)
    await node.call(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
    await node.call(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    assert points_of(plugin) == ["PreRunPodSandbox"]
    assert not node.built.store.pods


async def test_plugin_that_dies_in_the_middle_of_a_call(node: HookStack, plugin: FakeHookServer) -> None:
    """A koordlet that crashed took the proxy with it; here the call goes on, and the next one is hooked again."""
    await node.register("plugin", node.folder / "plugin.sock")
    plugin.crash(PRE_RUN)
    sandbox = await run(node.call)
    plugin.crash()
    client = node.built.plugins.all[0].caller
    assert isinstance(client, HookClient)
    await eventually(lambda: client.state == "connected", "the plugin to be connected")
    await create(node.call, sandbox)
    assert points_of(plugin) == ["PreRunPodSandbox", "PreCreateContainer"]


async def test_plugin_that_is_a_pod_can_be_created(node: HookStack) -> None:
    """Under Fail a plugin that runs as a pod could never be created again; the skip label is for it."""
    await node.register("plugin", node.folder / "nowhere.sock", failure_policy="Fail")
    own = pods.pod_config("koordlet", labels={"runtimeproxy.koordinator.sh/skip-hookserver": "true"})
    sandbox = await run(node.call, own)
    container = await create(node.call, sandbox, own)
    await node.call(cri.StartContainerRequest(container_id=container))
    assert (await failed(run(node.call))).code() is grpc.StatusCode.FAILED_PRECONDITION
