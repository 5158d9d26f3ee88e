"""What a pass-through relay has loaded: every module it does not need is memory on every node."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from interpose.testing.dockershim import DockerClient
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.lab.processes import Child
from interpose.testing.lab.relay import DOCKER, relay_argv

# The real command line; the list is written at exit, so that whatever was loaded at any time is in it.
RECORDED = """
import atexit, sys
@atexit.register
def write():
    with open(sys.argv[1], "w") as file:
        file.write("\\n".join(sorted(sys.modules)))
from interpose.cli.main import cli
cli(sys.argv[2:], prog_name="interpose")
"""
NEVER = (
    "google.protobuf",
    "interpose.api",
    "interpose.testing",
    "yaml",
    "msgspec",
    "prometheus_client",
    "h11",
    "watchfiles",
    "grpc",
    "kubernetes",
    "lightkube",
    "aiohttp",
    "rich",
    "textual",
    "jinja2",
    "opentelemetry",
    # Only with subscribers.
    "interpose.relay.chain",
    "interpose.relay.collected",
    "interpose.relay.messages",
    "interpose.relay.reporting",
    "interpose.relay.rewriting",
    "interpose.relay.taps",
    "interpose.relay.bookkeeping",
    "interpose.store",
    "interpose.cli.relay_interceptors",
    "interpose.dispatcher.client",
    "interpose.dispatcher.dispatcher",
    "interpose.hookapi.messages",
    "interpose.rpc.server",
    # Only with a policy.
    "interpose.cli.relay_policy",
    "interpose.cpuallocator",
    "interpose.policy.registry",
    "interpose.resmgr",
    "interpose.topology",
    "interpose.views",
    # Only when somebody looks on.
    "interpose.cli.relay_dump",
    "interpose.dump",
    # Only when somebody asks the admin socket.
    "interpose.admin.connection",
    # Large parts of the standard library that nothing here needs.
    "http.client",
    "unittest",
    "multiprocessing",
    "concurrent.futures.process",
)
MIB = 1024 * 1024


async def test_pass_through_relay_loads_only_what_it_needs(
    scratch: Path,
    runtime_path: Path,
    spawn: Callable[..., Child],
    start_runtime: Callable[..., Child],
    interpreter_rss: Callable[..., int],
) -> None:
    """None of the expensive packages, no code of seams nobody uses, and 11 MiB above an interpreter with a loop."""
    start_runtime()
    relay = scratch / "relay.sock"
    modules = scratch / "modules.txt"
    argv = relay_argv(relay, runtime_path, scratch / "admin.sock")[1:]
    child = spawn(sys.executable, "-c", RECORDED, modules, *argv)
    child.wait_listening(relay)
    async with grpc_channel(relay) as channel:
        for version in ("v1", "v1alpha2"):
            path = f"/runtime.{version}.RuntimeService/ListContainers"
            assert await channel.unary_unary(path)(b"", wait_for_ready=True, timeout=WAIT_LIMIT)
    resident = child.rss_bytes()
    assert await asyncio.to_thread(child.stop) == 0
    loaded = modules.read_text().split()
    assert "interpose.relay.passthrough" in loaded
    assert [name for name in loaded for bad in NEVER if name == bad or name.startswith(f"{bad}.")] == []
    assert resident < interpreter_rss("uvloop", "asyncio") + 11 * MIB


async def test_pass_through_docker_relay_loads_only_what_it_needs(
    scratch: Path, spawn: Callable[..., Child], interpreter_rss: Callable[..., int]
) -> None:
    """The same in front of dockerd, where h11 looks at heads, with 2 MiB more."""
    dockerd, relay, modules = scratch / "docker.sock", scratch / "relay.sock", scratch / "modules.txt"
    spawn(sys.executable, "-m", "interpose.testing.fakedocker", dockerd).wait_listening(dockerd)
    argv = relay_argv(relay, dockerd, scratch / "admin.sock", *DOCKER)[1:]
    child = spawn(sys.executable, "-c", RECORDED, modules, *argv)
    child.wait_listening(relay)
    with DockerClient(relay, "/v1.41") as client:
        for target in ("/_ping", "/containers/json"):
            assert (await asyncio.to_thread(client.request, "GET", target)).status == 200
    resident = child.rss_bytes()
    assert await asyncio.to_thread(child.stop) == 0
    loaded = modules.read_text().split()
    assert "interpose.relay.docker.passing" in loaded
    never = [*(set(NEVER) - {"h11", "interpose.store"}), "interpose.store.convert", "interpose.store.sync"]
    assert [name for name in loaded for bad in never if name == bad or name.startswith(f"{bad}.")] == []
    assert resident < interpreter_rss("uvloop", "asyncio") + 13 * MIB
