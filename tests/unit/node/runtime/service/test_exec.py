"""Commands in containers, and what the stream server asks for."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.net.streaming.handler import StreamHandlerError, TooManyRequestsError
from interpose.node.runtime.service.exec import ExecService, fit_output
from interpose.node.runtime.service.runtime import LocalRuntime
from tests.support.net.typed_input import Typed, Vanishing
from tests.support.node.local_client import LocalClient, code_of
from tests.support.node.local_parts import LocalWorld


class Terminal:
    """A client's side."""

    def __init__(self, stdin: Typed | None = None, *, broken: bool = False) -> None:
        self.stdin = stdin
        self.seen: list[tuple[int, bytes]] = []
        self._broken = broken

    @property
    def resizes(self) -> AsyncIterator[tuple[int, int]]:
        """One size."""

        async def sizes() -> AsyncIterator[tuple[int, int]]:
            yield 80, 24

        return sizes()

    async def write(self, channel: int, data: bytes) -> None:
        """Take output."""
        if self._broken:
            raise ConnectionError("gone")
        self.seen.append((channel, data))


class FakeUrls:
    """A stream server's URLs; full on demand."""

    full = False

    def _url(self, *parts: object) -> str:
        if self.full:
            raise TooManyRequestsError("too many")
        return "http://127.0.0.1/" + "/".join(map(str, parts))

    def exec_url(
        self, container_id: str, command: tuple[str, ...], tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Of exec."""
        return self._url("exec", container_id, *command, tty, stdin, stdout, stderr)

    def attach_url(self, container_id: str, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        """Of attach."""
        return self._url("attach", container_id, tty, stdin, stdout, stderr)

    def port_forward_url(self, sandbox_id: str, ports: tuple[int, ...]) -> str:
        """Of port-forward."""
        return self._url("portforward", sandbox_id, *ports)


@pytest.fixture
def execution(client: LocalClient) -> ExecService:
    """The handler of the client's runtime."""
    assert isinstance(client.runtime, LocalRuntime)
    return client.runtime.execution


async def test_exec_sync(client: LocalClient) -> None:
    """Output and code; a command that takes too long is DEADLINE_EXCEEDED. So late that its container has ended is as
    if it had never run."""
    container = await client.start(await client.run())
    answer = await client.call("ExecSync", container_id=container, cmd=["echo", "hi"], timeout=5)
    assert (answer.stdout, answer.exit_code) == (b"echo hi", 3)
    late = client.call("ExecSync", container_id=container, cmd=["sleep", "9"], timeout=1)
    assert await code_of(late) is Code.DEADLINE_EXCEEDED
    ended = client.call("ExecSync", container_id=container, cmd=["kill", "1"])
    assert await code_of(ended) is Code.FAILED_PRECONDITION
    wrong: list[dict[str, Any]] = [{"cmd": []}, {"cmd": ["true"], "timeout": -1}]
    for bad in wrong:
        assert await code_of(client.call("ExecSync", container_id=container, **bad)) is Code.INVALID_ARGUMENT


async def test_only_in_what_runs(client: LocalClient, world: LocalWorld) -> None:
    """FAILED_PRECONDITION otherwise."""
    sandbox = await client.run()
    created, ended = await client.create(sandbox), await client.start(sandbox, "ended")
    world.end(ended)
    for container in (created, ended):
        for method, fields in (
            ("ExecSync", {"cmd": ["true"]}),
            ("Exec", {"cmd": ["true"], "stdout": True}),
            ("Attach", {"stdout": True}),
            ("ReopenContainerLog", {}),
        ):
            call = client.call(method, container_id=container, **fields)
            assert await code_of(call) is Code.FAILED_PRECONDITION
    await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert await code_of(client.call("PortForward", pod_sandbox_id=sandbox)) is Code.FAILED_PRECONDITION


async def test_urls(client: LocalClient, execution: ExecService) -> None:
    """From the stream server, if there is one and it has room."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    request = cri.ExecRequest(container_id=container[:64], cmd=["sh"], tty=True, stdin=True, stdout=True)
    assert await code_of(client.runtime.call("Exec", request)) is Code.UNIMPLEMENTED
    execution.urls = urls = FakeUrls()
    answer = await client.runtime.call("Exec", request)
    assert answer.url == f"http://127.0.0.1/exec/{container}/sh/True/True/True/False"
    attached = await client.call("Attach", container_id=container, stdout=True)
    assert attached.url == f"http://127.0.0.1/attach/{container}/False/False/True/False"
    forwarded = await client.call("PortForward", pod_sandbox_id=sandbox, port=[80, 81])
    assert forwarded.url == f"http://127.0.0.1/portforward/{sandbox}/80/81"
    urls.full = True
    assert await code_of(client.runtime.call("Exec", request)) is Code.RESOURCE_EXHAUSTED
    await client.call("ReopenContainerLog", container_id=container)


@pytest.mark.parametrize("port", [-5, 0, 70_000])
async def test_ports_that_are_none(client: LocalClient, execution: ExecService, port: int) -> None:
    """No URL is given out for them."""
    execution.urls = FakeUrls()
    sandbox = await client.run()
    with pytest.raises(RpcError, match=f"port: {port} ") as caught:
        await client.call("PortForward", pod_sandbox_id=sandbox, port=[80, port])
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("command", "size"),
    [(["x" * (9 << 20)], 9 << 20), (["x"] * (2 << 20), 4 << 20), (["\1" * (3 << 19)], 3 << 19)],
    ids=["long", "words", "escapes"],
)
async def test_commands_that_are_too_long(
    client: LocalClient, execution: ExecService, command: list[str], size: int
) -> None:
    """Refused here: the kernel would not take them, and the shim would not even hear them out."""
    execution.urls = FakeUrls()
    container = await client.start(await client.run())
    for method, more in (("ExecSync", {}), ("Exec", {"stdout": True})):
        with pytest.raises(RpcError, match=rf"cmd: {str(size)[:-1]}\d bytes in all") as caught:
            await client.call(method, container_id=container, cmd=command, **more)
        assert caught.value.code is Code.INVALID_ARGUMENT


async def test_long_commands_are_run(client: LocalClient) -> None:
    """As long as they may be."""
    container = await client.start(await client.run())
    answer = await client.call("ExecSync", container_id=container, cmd=["x" * ((2 << 20) - 1)])
    assert len(answer.stdout) == (2 << 20) - 1


async def test_sessions(client: LocalClient, execution: ExecService) -> None:
    """Bytes both ways, then the exit code."""
    container = await client.start(await client.run())
    terminal = Terminal(Typed(b"one", b"two"))
    assert await execution.exec(container, ("sh", "-i"), True, terminal) == 5
    assert terminal.seen == [(1, b"sh -i"), (2, b"one"), (2, b"two")]
    terminal = Terminal(Typed())
    assert await execution.attach(container, False, terminal) == 5
    assert terminal.seen == [(1, b"attached typing")]


async def test_a_client_that_vanishes(client: LocalClient, execution: ExecService) -> None:
    """Its error ends the session."""
    container = await client.start(await client.run())
    with pytest.raises(ConnectionError):
        await execution.exec(container, ("cat",), False, Terminal(Vanishing(), broken=True))


async def test_what_cannot_be_done_is_said(client: LocalClient, execution: ExecService, world: LocalWorld) -> None:
    """In words for the client."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    with pytest.raises(StreamHandlerError, match="nobody listens at 80"):
        await execution.port_forward(sandbox, 80)
    with pytest.raises(StreamHandlerError, match="not found"):
        await execution.port_forward("feed", 80)
    world.end(container)
    with pytest.raises(StreamHandlerError, match="EXITED"):
        await execution.exec(container, ("sh",), False, Terminal())
    with pytest.raises(StreamHandlerError, match="EXITED"):
        await execution.attach(container, False, Terminal())


@pytest.mark.parametrize(
    ("stdout", "stderr", "kept"),
    [
        (3, 4, (3, 4)),
        (20, 0, (10, 0)),
        (0, 20, (0, 10)),
        (20, 20, (5, 5)),
        (20, 2, (8, 2)),
        (2, 20, (2, 8)),
    ],
)
def test_outputs_share_the_room_of_an_answer(stdout: int, stderr: int, kept: tuple[int, int]) -> None:
    """Neither one takes the other more than half of it, and what one does not need the other has."""
    found = fit_output(b"o" * stdout, b"e" * stderr, 10)
    assert (len(found[0]), len(found[1])) == kept
