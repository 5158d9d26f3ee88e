"""`interpose pod port-forward`: ports as they are written, and a pod that does not stay as it was.

A fake runtime's URLs lead nowhere; what is forwarded is tested with the forwarder.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from click import ClickException

from interpose._pb import cri_pb2 as cri
from interpose.cli.pod.connect import pod_runtime
from interpose.cli.pod.options import ConnectionOptions
from interpose.cli.pod.port_forward import forward_ports
from interpose.core.model.kubernetes_names import POD_UID
from interpose.net.grpc.status import Code
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime
from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        yield made


@pytest.mark.parametrize("port", ["x", "1:x", "0", "70000", "1:2:3", "80:"])
def test_what_is_no_port_is_refused(commands: PodCommands, port: str) -> None:
    """With the forms there are."""
    result = commands("port-forward", "web", port)
    assert result.exit_code == 2
    assert "none of PORT, LOCAL:PORT and :PORT" in result.stderr


def test_a_pod_that_does_not_run_has_no_ports(commands: PodCommands) -> None:
    """Its network is gone."""
    commands("stop", "web")
    assert "does not run" in commands("port-forward", "web", ":80").stderr


class Forwarding:
    """A pod of a fake runtime with a port that is forwarded; `said` is what stands on standard error."""

    def __init__(self, runtime: FakeRuntime, capsys: pytest.CaptureFixture[str]) -> None:
        self.runtime = runtime
        self.said = ""
        self.running: asyncio.Task[int]
        (self.sandbox,) = runtime.populate(1)
        self.port = 0
        self._capsys = capsys

    @property
    def lines(self) -> list[str]:
        """Of standard error, up to now."""
        captured = self._capsys.readouterr()
        self.said += captured.err
        if found := re.search(r"Forwarding 127.0.0.1:(\d+) -> 80", captured.out):
            self.port = int(found[1])
        return self.said.splitlines()

    async def connect(self) -> None:
        """A connection, which cannot be forwarded and is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert await reader.read() == b""
        writer.close()

    async def remove(self) -> None:
        """The pod is removed, as others do it."""
        await self.runtime.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=self.sandbox.id))
        await self.runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=self.sandbox.id))

    def asked(self) -> list[str]:
        """The sandboxes that the runtime was asked to forward to."""
        return [one.pod_sandbox_id for one in self.runtime.requests_of("PortForward")]


@pytest.fixture
async def forwarding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Forwarding]:
    made = Forwarding(FakeRuntime(), capsys)
    connection = ConnectionOptions(endpoint=str(tmp_path / "s"), root=str(tmp_path))
    async with serve_runtime(tmp_path / "s", made.runtime), pod_runtime(connection) as runtime:
        name = made.sandbox.config.metadata.name
        parameters = {"name": name, "namespace": None, "ports": [(0, 80)], "address": "127.0.0.1"}
        made.running = asyncio.create_task(forward_ports(runtime, parameters))
        await eventually(lambda: made.lines or made.port, "the port")
        yield made
        made.running.cancel()
        await asyncio.wait((made.running,))


async def test_a_pod_that_is_gone_is_the_end(forwarding: Forwarding, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, at the next connection."""
    await forwarding.connect()
    await eventually(lambda: len(forwarding.lines) == 1, "why the first was not forwarded")
    await forwarding.remove()
    await forwarding.connect()
    async with asyncio.timeout(WAIT_LIMIT):
        with pytest.raises(ClickException, match="pod production/load-0000-6d4cf56db6-x000 is gone") as caught:
            await forwarding.running
    assert caught.value.exit_code == 1
    assert len(forwarding.lines) == 1
    assert not caplog.records


async def test_a_pod_that_is_gone_is_seen_whatever_the_failure_is(forwarding: Forwarding) -> None:
    """Over a connection that is there already only the server says that it cannot forward."""
    await forwarding.remove()
    forwarding.runtime.fail("PortForward", Code.UNKNOWN, "sandbox is not running")
    await forwarding.connect()
    async with asyncio.timeout(WAIT_LIMIT):
        with pytest.raises(ClickException, match="is gone"):
            await forwarding.running


async def test_a_new_sandbox_of_the_pod_is_used(forwarding: Forwarding) -> None:
    """At once: nobody notices. One with the same name elsewhere is another pod."""
    await forwarding.connect()
    other = cri.PodSandboxConfig()
    other.CopyFrom(forwarding.sandbox.config)
    other.metadata.namespace, other.metadata.uid = "elsewhere", "other"
    other.labels[POD_UID] = "other"
    forwarding.runtime.state.run_sandbox(other, "runc")
    await forwarding.remove()
    config = forwarding.sandbox.config
    config.metadata.attempt += 1
    new = forwarding.runtime.state.run_sandbox(config, "runc")
    await forwarding.connect()
    await forwarding.connect()
    old = forwarding.sandbox.id
    assert forwarding.asked() == [old, old, new.id, new.id]
    assert not forwarding.running.done()


async def test_a_pod_that_does_not_run_for_a_while_is_waited_for(forwarding: Forwarding) -> None:
    """It is there, and may get a new sandbox."""
    stop = cri.StopPodSandboxRequest(pod_sandbox_id=forwarding.sandbox.id)
    await forwarding.runtime.call("StopPodSandbox", stop)
    await forwarding.connect()
    await eventually(lambda: forwarding.lines, "the reason")
    (line,) = forwarding.lines
    assert line.startswith("error: the runtime says: UNKNOWN: sandbox container")
    assert not forwarding.running.done()


async def test_a_runtime_that_is_away_is_waited_for(forwarding: Forwarding, caplog: pytest.LogCaptureFixture) -> None:
    """In one line for each connection; when it is back all is as before."""
    for method in ("PortForward", "ListPodSandbox"):
        forwarding.runtime.fail(method, Code.UNAVAILABLE, "nobody\nanswers")
    await forwarding.connect()
    await eventually(lambda: forwarding.lines, "the reason")
    assert forwarding.lines == ["error: nobody?answers"]
    assert not caplog.records
    forwarding.runtime.clear()
    await forwarding.connect()
    await eventually(lambda: len(forwarding.lines) == 2, "the way to be asked for")
    assert "127.0.0.1:10010" in forwarding.lines[1]
    assert not forwarding.running.done()
