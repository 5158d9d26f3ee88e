"""What has to hold for any bytes at all in SPDY and WebSocket as `interpose.net.streaming` reads them.

Nothing is raised; how the bytes were cut makes no difference; a failure is the last thing that is told; what is said in
answer, and what is held, is bounded by what came.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from interpose.net import websocket
from interpose.net.spdy import connection as spdy
from interpose.net.streaming.channels import ChannelData, Splitter
from interpose.net.streaming.exit_status import parse_plain_text, parse_status
from interpose.net.streaming.terminal_size import SizeReader

_LIMITS: Final = spdy.SpdyLimits(streams=4, control=2048, headers=4096)
Outcome = tuple[list[Any], bytes]


class BrokenPromise(AssertionError):  # noqa: N818 - a fact about the readers
    """One of the things above does not hold."""


def check_spdy(data: bytes) -> Outcome:
    """A server, or a client with two streams, by the first byte."""
    return _same(data[1:], lambda parts: _spdy(parts, client=bool(data[:1] and data[0] & 1)))


def check_websocket(data: bytes) -> Outcome:
    """A server or a client, by the first byte, with channels on top."""
    return _same(data[1:], lambda parts: _websocket(parts, client=bool(data[:1] and data[0] & 1)))


def check_documents(data: bytes) -> Outcome:
    """Words about the end, and sizes of terminals."""
    parse_status(data)
    parse_plain_text(data)
    return _same(data, _sizes)


TARGETS: Final[Mapping[str, Callable[[bytes], Outcome]]] = {
    "spdy": check_spdy,
    "websocket": check_websocket,
    "documents": check_documents,
}


def _same(data: bytes, run: Callable[[list[bytes]], Outcome]) -> Outcome:
    whole = run([data])
    for size in (1, 7):
        again = run([data[at : at + size] for at in range(0, len(data), size)])
        if again[0] != whole[0]:
            raise BrokenPromise(f"cut every {size} bytes: {again[0]!r}, whole: {whole[0]!r}")
    return whole


def _spdy(parts: list[bytes], *, client: bool) -> Outcome:
    connection = spdy.SpdyConnection(client=client, limits=_LIMITS)
    if client:
        connection.open({})
        connection.open({})
    connection.take()
    seen: list[Any] = []
    said, came = b"", 0
    for part in parts:
        came += len(part)
        for event in connection.receive(part):
            last = seen[-1] if seen else None
            match event, last:
                case spdy.DataReceived(stream, data), spdy.DataReceived(before, held) if stream == before:
                    seen[-1] = spdy.DataReceived(stream, held + data)
                case _:
                    seen.append(event)
            if isinstance(event, spdy.StreamOpened):
                connection.reply(event.stream)
        said += connection.take()
    _bounded(seen, spdy.SpdyFailed, len(said), 100 + 4 * came)
    return seen, said


def _websocket(parts: list[bytes], *, client: bool) -> Outcome:
    socket, splitter = websocket.WebSocket(client=client, random=bytes), Splitter(closes=True)
    seen: list[Any] = []
    said, came = b"", 0
    for part in parts:
        came += len(part)
        for event in socket.receive(part):
            for one in splitter.feed(event) if isinstance(event, websocket.MessagePiece) else (event,):
                last = seen[-1] if seen else None
                match one, last:
                    case ChannelData(channel, data), ChannelData(before, held) if channel == before:
                        seen[-1] = ChannelData(channel, held + data)
                    case _:
                        seen.append(one)
        said += socket.take()
        if socket.held > 125:
            raise BrokenPromise(f"{socket.held} bytes are held")
    _bounded(seen, websocket.WebSocketFailed, len(said), 200 + 4 * came)
    return seen, said


def _sizes(parts: list[bytes]) -> Outcome:
    reader = SizeReader()
    return [size for part in parts for size in reader.feed(part)], b""


def _bounded(seen: list[Any], failed: type, said: int, most: int) -> None:
    if any(isinstance(event, failed) for event in seen[:-1]):
        raise BrokenPromise(f"something was told after a failure: {seen!r}")
    if said > most:
        raise BrokenPromise(f"{said} bytes were said, more than {most}")
