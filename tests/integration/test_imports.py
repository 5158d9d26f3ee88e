"""What a pass-through relay has loaded: every module it does not need is memory on every node."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.grpcpeer import grpc_channel
from tests.support.docker.dockershim import DockerClient
from tests.support.lab.processes import Child
from tests.support.lab.relay import DOCKER, relay_argv

# The real command line; the list is written at exit, so that whatever was loaded at any time is in it.
RECORDED = """
import atexit, sys
place = sys.argv.pop(1)
@atexit.register
def write():
    with open(place, "w") as file:
        # What only takes the place of a module has no spec.
        file.write("\\n".join(sorted(name for name, one in sys.modules.items() if getattr(one, "__spec__", None))))
from interpose.__main__ import main
main()
"""
NEVER = (
    "google.protobuf",
    "interpose._pb",
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
    "interpose.relay.intercepted",
    "interpose.cri.parser",
    "interpose.relay.status_rewriter",
    "interpose.relay.stream_editor",
    "interpose.relay.taps",
    "interpose.relay.store_updater",
    "interpose.relay.store_updates",
    "interpose.cri.store",
    "interpose.cli.relay.interceptors",
    "interpose.hooks.dispatch.client",
    "interpose.hooks.dispatch.dispatcher",
    "interpose.hooks.api.messages",
    "interpose.net.grpc.server",
    # Only with a policy.
    "interpose.cli.relay.policy",
    "interpose.core.cpuallocator",
    "interpose.core.policy.registry",
    "interpose.resmgr",
    "interpose.core.topology",
    "interpose.cli.render",
    # Only when somebody looks on.
    "interpose.cli.relay.dump",
    "interpose.dump",
    # Only when somebody asks the admin socket.
    "interpose.net.httpd.connection",
    # OpenSSL.
    "ssl",
    "_ssl",
    "_hashlib",
    # Large parts of the standard library that nothing here needs.
    "http.client",
    "unittest",
    "multiprocessing",
    "concurrent.futures.process",
    "calendar",
    "ipaddress",
    "tokenize",
)
MIB = 1024 * 1024


async def test_pass_through_relay_loads_only_what_it_needs(
    scratch: Path,
    runtime_path: Path,
    spawn: Callable[..., Child],
    start_runtime: Callable[..., Child],
    interpreter_rss: Callable[..., int],
) -> None:
    """None of the expensive packages, no code of seams nobody uses, and 7 MiB above an interpreter with a loop."""
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
    assert resident < interpreter_rss("uvloop", "asyncio") + 7 * MIB


async def test_pass_through_docker_relay_loads_only_what_it_needs(
    scratch: Path, spawn: Callable[..., Child], interpreter_rss: Callable[..., int]
) -> None:
    """The same in front of dockerd, where h11 looks at heads, with 2 MiB more."""
    dockerd, relay, modules = scratch / "docker.sock", scratch / "relay.sock", scratch / "modules.txt"
    spawn(sys.executable, "-m", "tests.support.docker.fake", dockerd).wait_listening(dockerd)
    argv = relay_argv(relay, dockerd, scratch / "admin.sock", *DOCKER)[1:]
    child = spawn(sys.executable, "-c", RECORDED, modules, *argv)
    child.wait_listening(relay)
    with DockerClient(relay, "/v1.41") as client:
        for target in ("/_ping", "/containers/json"):
            assert (await asyncio.to_thread(client.request, "GET", target)).status == 200
    resident = child.rss_bytes()
    assert await asyncio.to_thread(child.stop) == 0
    loaded = modules.read_text().split()
    assert "interpose.relay.docker.passthrough" in loaded
    never = [*(set(NEVER) - {"h11", "interpose.cri.store"}), "interpose.cri.store.convert", "interpose.cri.store.sync"]
    assert [name for name in loaded for bad in never if name == bad or name.startswith(f"{bad}.")] == []
    assert resident < interpreter_rss("uvloop", "asyncio") + 9 * MIB


# What acts on pods, and what only daemons need.
ACTING = (
    "interpose.testing",
    "interpose.node.runtime",
    "interpose.net.streaming",
    "interpose.net.httpd",
    "interpose.cri.store",
    "interpose.config.relay.settings",
    "interpose.config.documents.yaml",
    "interpose.metrics",
    "interpose.cli.pod.manager",
    "interpose.node.pods.sync.actions",
    "interpose.node.pods.prober.client",
    "interpose.node.pods.sync.image_puller",
    "interpose.node.pods.sync.loop",
    "interpose.node.pods.sync.kill",
    "interpose.node.pods.sync.manager",
    "interpose.node.pods.manifest.reader",
    "interpose.node.pods.manifest.kinds",
    "interpose.node.pods.node_probe",
    "interpose.node.pods.spec",
    "interpose.node.pods.cgroups.pod_cgroups",
    "interpose.node.pods.volumes.pod_dirs",
    "interpose.node.pods.sync.sync_pod",
    "interpose.node.pods.volumes.volumes",
    "yaml",
    "prometheus_client",
    "h11",
    "grpc",
    "http.client",
    "unittest",
    "multiprocessing",
)
# What asking a runtime takes.
ASKING = (
    "asyncio",
    "uvloop",
    "ssl",
    "google.protobuf",
    "interpose._pb",
    "interpose.cri",
    "interpose.net.grpc",
    "interpose.net.h2",
)


def loaded(scratch: Path, *argv: str) -> list[str]:
    """The modules that a command has loaded by its end; it may fail."""
    modules = scratch / "modules.txt"
    subprocess.run(
        [sys.executable, "-c", RECORDED, modules, *argv], check=False, capture_output=True, timeout=WAIT_LIMIT
    )
    return modules.read_text().split()


def of(names: Iterable[str], packages: Iterable[str]) -> list[str]:
    """Those that are one of the packages, or in one."""
    return [name for name in names for one in packages if name == one or name.startswith(f"{one}.")]


@pytest.mark.parametrize("verb", ["ls", "status web", "stats", "logs web"])
def test_commands_that_look_at_pods_load_nothing_that_acts(
    scratch: Path, runtime_path: Path, start_runtime: Callable[..., Child], verb: str
) -> None:
    """What is not loaded takes no time: people and scripts say these commands again and again."""
    start_runtime()
    names = loaded(scratch, "pod", *verb.split(), "-r", str(runtime_path), "--root", str(scratch))
    assert "interpose.node.pods.status.reader" in names
    assert of(names, ACTING) == []


def test_events_are_shown_without_asking_anybody(scratch: Path) -> None:
    """They are in files."""
    names = loaded(scratch, "pod", "events", "--root", str(scratch))
    assert "interpose.cli.pod.events" in names
    assert of(names, (*ACTING, *ASKING)) == []


@pytest.mark.parametrize("argv", [("--help",), ("pod", "--help"), ("pod", "ls", "--help")])
def test_help_loads_command_lines_alone(scratch: Path, argv: tuple[str, ...]) -> None:
    """No part of the program that does the work."""
    assert of(loaded(scratch, *argv), (*ACTING, *ASKING, "interpose.node.pods")) == []
