"""Exec, attach and port forwarding: the CRI calls, and the sessions of the stream server.

A URL is returned if the session is possible now; when the client connects, the container is looked up again, because it
may have exited in between.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.net.streaming.handler import ByteReader, ByteWriter, SessionIo, StreamHandlerError, TooManyRequestsError
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.cri_views import state_name
from interpose.node.runtime.service.errors import failed, invalid, unsupported, wrong_state
from interpose.node.runtime.service.interfaces import NotRunningError, PartError, Shim, ShimStreams
from interpose.node.runtime.service.methods import MemoryMethod, Methods, QueryMethod
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.service.validation import check_command, check_streams
from interpose.node.runtime.state.records import NetworkMode
from interpose.tasks import TaskBag

# gRPC clients accept 16 MiB, with the message around the outputs.
_MAX_OUTPUT: Final = (16 << 20) - 1024
# Bytes of a command: about what the kernel accepts, with the environment.
_MAX_COMMAND: Final = 2 << 20
# The same as JSON, where a byte may become six: a request to a shim has 8 MiB at most, the environment among it.
_MAX_COMMAND_JSON: Final = 6 << 20
# Opens a connection to a port of this machine inside a network namespace ("" for our own).
Connect = Callable[[str, int], Awaitable[tuple[ByteReader, ByteWriter]]]


class StreamUrls(Protocol):
    """The stream server's URLs for sessions."""

    def exec_url(
        self, container_id: str, command: tuple[str, ...], tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str: ...

    def attach_url(self, container_id: str, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str: ...

    def port_forward_url(self, sandbox_id: str, ports: tuple[int, ...]) -> str: ...


class ExecService:
    """The CRI methods for exec, attach, ports and logs; also the handler of the stream server's sessions."""

    def __init__(self, core: RuntimeCore, connect: Connect) -> None:
        self._core = core
        self._connect = connect
        self.urls: StreamUrls | None = None  # None: there is no stream server

    def methods(self) -> Methods:
        """The part of the method table that lives here."""
        return {
            "ExecSync": QueryMethod(self._exec_sync),
            "Exec": MemoryMethod(self._exec),
            "Attach": MemoryMethod(self._attach),
            "PortForward": MemoryMethod(self._port_forward),
            "ReopenContainerLog": QueryMethod(self._reopen_log),
        }

    async def _exec_sync(self, request: cri.ExecSyncRequest) -> cri.ExecSyncResponse:
        container, shim = self._running(request.container_id)
        _check_command(request.cmd)
        if request.timeout < 0:
            raise RpcError(Code.INVALID_ARGUMENT, f"timeout: {request.timeout} is negative")
        with _convert_errors("exec in container"):
            result = await shim.exec_sync(container.id, list(request.cmd), request.timeout)
        if result.timed_out:
            raise RpcError(
                Code.DEADLINE_EXCEEDED,
                f"failed to exec in container: timeout {request.timeout}s exceeded: context deadline exceeded",
            )
        stdout, stderr = fit_output(result.stdout, result.stderr)
        return cri.ExecSyncResponse(stdout=stdout, stderr=stderr, exit_code=result.code)

    async def _reopen_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        container, shim = self._running(request.container_id)
        with _convert_errors("reopen log"):
            await shim.reopen_log(container.id)
        return cri.ReopenContainerLogResponse()

    # -- URLs

    def _exec(self, request: cri.ExecRequest) -> cri.ExecResponse:
        check_streams(request)
        _check_command(request.cmd)
        container, _ = self._running(request.container_id)
        streams = (request.tty, request.stdin, request.stdout, request.stderr)
        return cri.ExecResponse(url=self._url(lambda urls: urls.exec_url(container.id, tuple(request.cmd), *streams)))

    def _attach(self, request: cri.AttachRequest) -> cri.AttachResponse:
        check_streams(request)
        container, _ = self._running(request.container_id)
        streams = (request.tty, request.stdin, request.stdout, request.stderr)
        return cri.AttachResponse(url=self._url(lambda urls: urls.attach_url(container.id, *streams)))

    def _port_forward(self, request: cri.PortForwardRequest) -> cri.PortForwardResponse:
        ports = tuple(request.port)
        for port in ports:
            if not 1 <= port <= 65535:
                raise invalid("port", f"{port} is not between 1 and 65535")
        sandbox = self._core.registry.sandbox(request.pod_sandbox_id)
        if not sandbox.record.ready:
            raise wrong_state(f'sandbox "{sandbox.id}" is not ready')
        return cri.PortForwardResponse(url=self._url(lambda urls: urls.port_forward_url(sandbox.id, ports)))

    def _url(self, make: Callable[[StreamUrls], str]) -> str:
        if self.urls is None:
            raise unsupported("streaming (it is switched off)")
        try:
            return make(self.urls)
        except TooManyRequestsError as error:
            raise RpcError(Code.RESOURCE_EXHAUSTED, str(error)) from None

    # -- sessions of the stream server

    async def exec(self, container_id: str, command: tuple[str, ...], tty: bool, streams: SessionIo) -> int:
        """Run a command with a client's streams."""
        try:
            container, shim = self._running(container_id)
            session = await shim.exec(container.id, command, tty=tty, stdin=streams.stdin is not None)
            code = await _forward_session(session, streams)
        except RpcError as error:
            raise StreamHandlerError(error.message) from None
        except PartError as error:
            raise StreamHandlerError(f"failed to exec in container: {error}") from None
        return 255 if code is None else code

    async def attach(self, container_id: str, tty: bool, streams: SessionIo) -> int | None:
        """Connect a client to the streams of a container."""
        try:
            container, shim = self._running(container_id)
            return await _forward_session(await shim.attach(container.id, stdin=streams.stdin is not None), streams)
        except RpcError as error:
            raise StreamHandlerError(error.message) from None
        except PartError as error:
            raise StreamHandlerError(f"failed to attach to container: {error}") from None

    async def port_forward(self, sandbox_id: str, port: int) -> tuple[ByteReader, ByteWriter]:
        """Connect to a port inside a sandbox."""
        try:
            sandbox = self._core.registry.sandbox(sandbox_id)
            return await self._connect(_network_path(sandbox), port)
        except RpcError as error:
            raise StreamHandlerError(error.message) from None
        except (PartError, OSError) as error:
            raise StreamHandlerError(f"failed to connect to localhost:{port} in the pod: {error}") from None

    def _running(self, container_id: str) -> tuple[ContainerEntry, Shim]:
        container = self._core.registry.container(container_id)
        if not container.record.running or container.sandbox.shim is None:
            raise wrong_state(f"container is in {state_name(container)} state")
        return container, container.sandbox.shim


def _check_command(command: Collection[str]) -> None:
    """Refuse an empty command, and one too long for the kernel or for a request to the shim."""
    check_command(command)
    size = sum(len(word.encode()) + 1 for word in command)  # each argument ends with a zero byte
    if size > _MAX_COMMAND:
        raise invalid("cmd", f"{size} bytes in all, {_MAX_COMMAND} are allowed")
    json_size = len(json.dumps(list(command)))
    if json_size > _MAX_COMMAND_JSON:
        raise invalid("cmd", f"{size} bytes in all are {json_size} as JSON, {_MAX_COMMAND_JSON} are allowed")


@contextmanager
def _convert_errors(action: str) -> Generator[None]:
    """Raise errors of the shim as CRI errors. The container may have exited since it was looked up."""
    try:
        yield
    except NotRunningError as error:
        raise wrong_state(f"failed to {action}: {error}") from error
    except PartError as error:
        raise failed(action, error) from error


def fit_output(stdout: bytes, stderr: bytes, room: int = _MAX_OUTPUT) -> tuple[bytes, bytes]:
    """Cut both outputs so that clients accept the answer; each gets at least half of `room` if it needs it."""
    stdout = stdout[: room - min(len(stderr), room // 2)]
    return stdout, stderr[: room - len(stdout)]


def _network_path(sandbox: SandboxEntry) -> str:
    if not sandbox.record.ready:
        raise wrong_state(f'sandbox "{sandbox.id}" is not ready')
    return f"/proc/{sandbox.pause_pid}/ns/net" if sandbox.record.place is NetworkMode.POD else ""


async def _forward_session(session: ShimStreams, streams: SessionIo) -> int | None:
    """Forward bytes both ways until the process has exited and all of its output is delivered."""
    helpers = TaskBag()
    helpers.spawn(_forward_stdin(session, streams), name="forward stdin")
    helpers.spawn(_forward_sizes(session, streams.resizes), name="forward sizes")
    try:
        async for channel, data in session.output():
            await streams.write(channel, data)
        return await session.wait()
    finally:
        await helpers.cancel()
        await asyncio.shield(session.close())


async def _forward_stdin(session: ShimStreams, streams: SessionIo) -> None:
    """Forward stdin to its end. A client that disconnects does not end stdin: its session is closed."""
    with suppress(ConnectionError):
        while streams.stdin is not None and (data := await streams.stdin.read()):
            await session.write(data)
        await session.write_eof()


async def _forward_sizes(session: ShimStreams, sizes: AsyncIterator[tuple[int, int]]) -> None:
    async for width, height in sizes:
        await session.resize(width, height)
