"""Hooks of the real command: registrations that come and go, stopping, take-over, what people and Prometheus see.

The relay is a process of its own; runtime and hook servers are here, so that a test can stall and release them.
"""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing import pods
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.hookserver import FakeHookServer, register, serve_hooks, set_shares
from interpose.testing.hookstack import CriCaller, points_of
from interpose.testing.serve import serve_runtime
from tests.support.lab.processes import Child
from tests.support.lab.relay import Relay, program, relay_argv
from tests.support.net.echo_service import failed

REFERENCE = Path(__file__).parents[2] / "docs/reference/metrics.md"
UNUSABLE = "interpose_hook_registrations_unusable"
PRE_RUN = HookPoint.PRE_RUN_POD_SANDBOX
MIB = 1024 * 1024
# As the kubelet's client: it waits for the greeting of a busy relay, and sends again what GOAWAY says was never begun.
PATIENT = [("grpc.enable_retries", 1), ("grpc.min_reconnect_backoff_ms", 20_000)]
Ask = Callable[..., tuple[int, str]]
Start = Callable[..., Relay]
Spawn = Callable[..., Child]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A relay process between this process's runtime, with one container, and its hook server on plugin.sock."""

    relay: Relay
    runtime: FakeRuntime
    plugin: FakeHookServer
    directory: Path
    call: CriCaller
    container: str

    async def update(self) -> None:
        """A call that hooks see, and that can be made any number of times."""
        linux = cri.LinuxContainerResources(cpu_shares=300)
        await self.call(cri.UpdateContainerResourcesRequest(container_id=self.container, linux=linux))

    async def until_asked(self, plugin: FakeHookServer) -> None:
        """Call until the hook server was asked."""
        before = len(plugin.calls)
        await self._keep_calling(lambda: len(plugin.calls) > before)

    async def until_not_asked(self, plugin: FakeHookServer) -> None:
        """Call until one went without the hook server."""
        asked: list[int] = [-1]

        def forgotten() -> bool:
            asked.append(len(plugin.calls))
            return asked[-1] == asked[-2]

        await self._keep_calling(forgotten)

    async def _keep_calling(self, reached: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(WAIT_LIMIT):
                await self.update()
                while not reached():
                    await self.update()
        except TimeoutError:
            raise self.relay.child.error("it never came into force") from None


StartNode = Callable[..., AbstractAsyncContextManager[Node]]


def serving(child: Child) -> Child:
    """A relay that answers; from binding the socket until then clients wait, and grpcio does so for a moment only."""
    child.wait_until(lambda: "Relay is listening" in child.log_tail(), what="the start")
    return child


@pytest.fixture
def directory(scratch: Path) -> Path:
    """Where hook servers register."""
    directory = scratch / "etc" / "runtime" / "hookserver.d"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def start_node(scratch: Path, directory: Path, start_relay: Start) -> StartNode:
    """Starts runtime, hook server and relay; nothing is registered but what was before."""

    @asynccontextmanager
    async def start(*options: str) -> AsyncIterator[Node]:
        runtime, plugin = FakeRuntime(), FakeHookServer()
        runtime.populate(1)
        async with serve_runtime(scratch / "runtime.sock", runtime), serve_hooks(scratch / "plugin.sock", plugin):
            relay = start_relay("--hooks-dir", str(directory), *options)
            serving(relay.child)
            async with grpc_channel(relay.socket, options=PATIENT) as channel:
                yield Node(
                    relay=relay,
                    runtime=runtime,
                    plugin=plugin,
                    directory=directory,
                    call=CriCaller(channel),
                    container=next(iter(runtime.containers)),
                )

    return start


def view(admin: Ask) -> Any:
    """What the relay says about hooks."""
    return json.loads(admin("/v1/hooks")[1])


def hooks_list(relay: Relay) -> str:
    """What people see."""
    argv = [str(program()), "hooks", "list", "--admin", str(relay.admin)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


# -- registrations that come, change and go


async def test_directory_that_appears_later(scratch: Path, start_node: StartNode) -> None:
    """With its parents missing too at the start."""
    shutil.rmtree(scratch / "etc")
    async with start_node() as node:
        await node.update()
        node.directory.mkdir(parents=True)
        register(node.directory, "plugin", scratch / "plugin.sock")
        await node.until_asked(node.plugin)


async def test_edits_and_renames(scratch: Path, directory: Path, start_node: StartNode) -> None:
    """An edit in place and an atomic rename move the registration to another hook server, and back."""
    path = register(directory, "plugin", scratch / "plugin.sock")
    other = FakeHookServer()
    async with start_node() as node, serve_hooks(scratch / "other.sock", other):
        await node.until_asked(node.plugin)
        path.write_text(path.read_text().replace("plugin.sock", "other.sock"))
        await node.until_asked(other)
        register(directory, "plugin", scratch / "plugin.sock")
        await node.until_asked(node.plugin)
        await node.until_not_asked(other)


async def test_deleted_and_renamed_away(scratch: Path, directory: Path, start_node: StartNode) -> None:
    """A file that is gone registers nobody; neither does one under a name that is none."""
    path = register(directory, "plugin", scratch / "plugin.sock")
    async with start_node() as node:
        await node.until_asked(node.plugin)
        path.unlink()
        await node.until_not_asked(node.plugin)
        path = register(directory, "plugin", scratch / "plugin.sock")
        await node.until_asked(node.plugin)
        path.rename(path.with_suffix(".disabled"))
        await node.until_not_asked(node.plugin)


async def test_config_map_swaps_its_link(scratch: Path, directory: Path, start_node: StartNode) -> None:
    """As the kubelet updates a mounted ConfigMap: files are links through ..data, which is replaced in one go."""
    other = FakeHookServer()
    versions = {"..1": scratch / "plugin.sock", "..2": scratch / "other.sock"}
    for version, endpoint in versions.items():
        (directory / version).mkdir()
        register(directory / version, "plugin", endpoint)
    (directory / "..data").symlink_to("..1")
    (directory / "plugin.json").symlink_to("..data/plugin.json")
    async with start_node() as node, serve_hooks(scratch / "other.sock", other):
        await node.until_asked(node.plugin)
        (directory / "..data_tmp").symlink_to("..2")
        (directory / "..data_tmp").rename(directory / "..data")
        await node.until_asked(other)
        await node.until_not_asked(node.plugin)


async def test_bad_file_keeps_the_last_good_version(
    scratch: Path, directory: Path, start_node: StartNode, admin: Ask
) -> None:
    """And shows in the metrics and in the list, with file, key and value; mending it ends that."""
    path = register(directory, "plugin", scratch / "plugin.sock")
    good = path.read_text()
    async with start_node() as node:
        path.write_text(good.replace("PreStartContainer", "PreStartle"))
        await eventually(lambda: f"{UNUSABLE} 1.0" in admin("/metrics")[1], "the bad file to be counted")
        await node.update()
        assert points_of(node.plugin) == ["PreUpdateContainerResources"]
        text = hooks_list(node.relay)
        assert "plugin.json: the last good version is in force" in text
        assert "runtime-hooks[3]: 'PreStartle' is not a hook point, did you mean PreStartContainer?" in text
        path.write_text(good)
        await eventually(lambda: not view(admin)["problems"], "the file to be good again")
        assert "Problems" not in hooks_list(node.relay)
        assert f"{UNUSABLE} 0.0" in admin("/metrics")[1]


# -- starting and stopping


async def test_plugin_under_fail_sees_the_very_first_call(
    scratch: Path, directory: Path, runtime_path: Path, spawn: Spawn
) -> None:
    """A client that waits for the socket gets in before anything else can happen, and not past the hook server."""
    register(directory, "plugin", scratch / "nobody.sock", failure_policy="Fail")
    runtime = FakeRuntime()
    argv = relay_argv(scratch / "relay.sock", runtime_path, scratch / "admin.sock", "--hooks-dir", str(directory))
    async with (
        serve_runtime(runtime_path, runtime),
        grpc_channel(scratch / "relay.sock", options=PATIENT) as channel,
    ):
        request = pods.run_request(pods.pod_config("first")).SerializeToString()
        child = spawn(*argv)
        path = "/runtime.v1.RuntimeService/RunPodSandbox"
        error = await failed(channel.unary_unary(path)(request, wait_for_ready=True, timeout=WAIT_LIMIT))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION, child.log_tail()
        assert "hook server plugin (failure policy Fail) at PreRunPodSandbox" in error.details()
    assert runtime.calls["RunPodSandbox"] == 0


@asynccontextmanager
async def stalled_call(node: Node) -> AsyncIterator["asyncio.Task[Any]"]:
    """A RunPodSandbox whose hook server does not answer, and a relay that was told to stop meanwhile."""
    stall = node.plugin.stall(PRE_RUN)
    calling: asyncio.Task[Any] = asyncio.create_task(node.call(pods.run_request(pods.pod_config("slow"))))
    await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
    node.relay.child.signal(signal.SIGTERM)
    await eventually(lambda: not node.relay.socket.exists(), "the relay to drain")
    yield calling
    await asyncio.gather(calling, return_exceptions=True)


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_stop_during_a_stalled_hook(scratch: Path, directory: Path, start_node: StartNode, policy: str) -> None:
    """The hook server's time runs out as always, its policy decides, and the relay leaves no call behind."""
    register(directory, "plugin", scratch / "plugin.sock", failure_policy=policy)
    async with start_node("--hooks-timeout", "500ms") as node, stalled_call(node) as calling:
        if policy == "Ignore":
            assert (await calling).pod_sandbox_id in node.runtime.sandboxes
        else:
            assert (await failed(calling)).code() is grpc.StatusCode.FAILED_PRECONDITION
        assert node.runtime.calls["RunPodSandbox"] == (policy == "Ignore")
        assert await asyncio.to_thread(node.relay.child.wait) == 0


async def test_grace_is_shorter_than_a_stalled_hook(scratch: Path, directory: Path, start_node: StartNode) -> None:
    """The call ends UNAVAILABLE, the runtime never hears of it, the hook server's call is given up."""
    register(directory, "plugin", scratch / "plugin.sock")
    async with start_node("--grace", "200ms", "--hooks-timeout", "20s") as node, stalled_call(node) as calling:
        assert (await failed(calling)).code() is grpc.StatusCode.UNAVAILABLE
        assert await asyncio.to_thread(node.relay.child.wait) == 1
        await eventually(lambda: node.plugin.cancelled == [PRE_RUN], "the hook server to hear of it")
        assert node.runtime.calls["RunPodSandbox"] == 0


async def test_take_over_with_hooks(scratch: Path, directory: Path, start_node: StartNode, admin: Ask) -> None:
    """Before, during and after it no call fails and none goes past the hook server; the successor knows all pods."""
    register(directory, "plugin", scratch / "plugin.sock", failure_policy="Fail")
    async with start_node() as node:
        node.plugin.default = set_shares(7)
        answered = 0
        stop = False

        async def keep_calling() -> None:
            nonlocal answered
            while not stop:
                await node.update()
                answered += 1

        callers = [asyncio.create_task(keep_calling()) for _ in range(3)]
        await eventually(lambda: answered > 20, "the load to begin")
        await asyncio.to_thread(node.relay.take_over)
        so_far = answered
        await eventually(lambda: answered > so_far + 20, "the load to go on")
        stop = True
        await asyncio.gather(*callers)
        assert len(node.plugin.calls) == node.runtime.calls["UpdateContainerResources"] == answered
        assert {one.request.container_resources.oom_score_adj for one in node.plugin.calls} == {999}
        assert node.runtime.state.container(node.container).resources.cpu_shares == 7
        status = await node.call(cri.ContainerStatusRequest(container_id=node.container))
        assert status.status.resources.linux.cpu_shares == 300
        assert view(admin)["store"] == {"pods": 1, "containers": 1, "pending": 0}


# -- other ways to start it


async def test_without_hooks(scratch: Path, directory: Path, start_node: StartNode, admin: Ask) -> None:
    """Nobody is asked, and whoever looks is told why."""
    register(directory, "plugin", scratch / "nobody.sock", failure_policy="Fail")
    async with start_node("--no-hooks") as node:
        await node.update()
        assert admin("/v1/hooks") == (404, '{"error": "hooks are turned off (hooks.enabled)"}\n')
        assert "interpose_hook" not in admin("/metrics")[1]


@pytest.fixture
def drop_in(scratch: Path, directory: Path, runtime_path: Path, spawn: Spawn) -> Callable[..., Child]:
    """Starts the command under its old name."""

    def start(*flags: str) -> Child:
        argv = ["--koord-runtimeproxy-endpoint", scratch / "relay.sock"]
        argv += [f"--remote-runtime-service-endpoint={runtime_path}"]
        env = {"INTERPOSE_HOOKS_DIR": str(directory), "INTERPOSE_ADMIN_LISTEN": str(scratch / "admin.sock")}
        return serving(spawn(program("koord-runtime-proxy"), *argv, *flags, env=env))

    return start


@pytest.mark.parametrize(
    ("flags", "label"),
    [
        ((), ("runtimeproxy.koordinator.sh/skip-hookserver", "true")),
        (
            ("--runtime-hook-server-key", "example.com/skip", "--runtime-hook-server-val=yes"),
            ("example.com/skip", "yes"),
        ),
    ],
    ids=["defaults", "flags"],
)
async def test_drop_in_command(
    scratch: Path,
    directory: Path,
    runtime_path: Path,
    drop_in: Callable[..., Child],
    flags: tuple[str, ...],
    label: tuple[str, str],
) -> None:
    """It asks hook servers too, but not about pods with the label that its two flags name."""
    register(directory, "koordlet", scratch / "plugin.sock")
    plugin = FakeHookServer()
    async with serve_runtime(runtime_path, FakeRuntime()), serve_hooks(scratch / "plugin.sock", plugin):
        drop_in(*flags)
        async with grpc_channel(scratch / "relay.sock", options=PATIENT) as channel:
            call = CriCaller(channel)
            key, value = label
            for name, labels in (("skipped", {key: value}), ("other", {key: f"{value}-not"}), ("plain", {})):
                await call(pods.run_request(pods.pod_config(name, labels=labels)))
    assert [one.request.pod_meta.name for one in plugin.calls] == ["other", "plain"]


# -- what it shows and costs


async def test_metrics_have_their_documented_names(
    scratch: Path, directory: Path, start_node: StartNode, admin: Ask
) -> None:
    """Exactly those of the reference page, and calls are counted."""
    register(directory, "plugin", scratch / "plugin.sock")
    (directory / "bad.json").write_text("{")
    async with start_node() as node:
        node.plugin.default = set_shares(7)
        await node.update()
        text = admin("/metrics")[1]
    prefixes = ("interpose_hook_", "interpose_store_")
    exposed = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    documented = {line.split("`")[1] for line in REFERENCE.read_text().splitlines() if line.startswith("| `")}
    assert {name for name in exposed if name.startswith(prefixes)} == {
        name for name in documented if name.startswith(prefixes)
    }
    labels = 'hook="PreUpdateContainerResources",plugin="plugin"'
    assert f'interpose_hook_calls_total{{{labels},result="ok"}} 1.0' in text
    assert f"interpose_hook_duration_seconds_count{{{labels}}} 1.0" in text
    assert f"interpose_hook_changes_total{{{labels}}} 1.0" in text
    assert 'interpose_hook_connected{plugin="plugin"} 1.0' in text
    assert "interpose_store_containers 1.0" in text
    assert "interpose_store_diverging_containers 1.0" in text


async def test_resident_memory_with_hooks(
    scratch: Path,
    directory: Path,
    start_relay: Start,
    start_runtime: Callable[..., Child],
    spawn: Spawn,
    admin: Ask,
    interpreter_rss: Callable[..., int],
) -> None:
    """With ten pods known and some calls made; whoever asks the admin socket pays for it later."""
    start_runtime()
    socket = scratch / "plugin.sock"
    spawn(sys.executable, "-m", "interpose.testing.hookserver", socket, "--echo", "--set-shares", "7").wait_listening(
        socket
    )
    register(directory, "plugin", socket, failure_policy="Fail")
    relay = start_relay("--hooks-dir", str(directory))
    serving(relay.child)
    async with grpc_channel(relay.socket, options=PATIENT) as channel:
        call = CriCaller(channel)
        containers = [one.id for one in (await call(cri.ListContainersRequest())).containers]
        patch = cri.LinuxContainerResources(cpu_shares=300)
        for container in containers * 3:
            await call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
            await call(cri.ContainerStatusRequest(container_id=container))
        resident = relay.child.rss_bytes()
    assert view(admin)["store"]["pods"] == 10
    assert resident < interpreter_rss("uvloop", "asyncio") + 23 * MIB
