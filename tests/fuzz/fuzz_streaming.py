"""Fuzz SPDY and WebSocket: bytes of all kinds against the promises in `tests.support.fuzz.streams`.

    python tests/fuzz/fuzz_streaming.py --seconds 60 [--target spdy] [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_streaming.py --replay crash-spdy-0123abcd.bin

With atheris installed it is guided by coverage; otherwise inputs are mutations of right ones, from a seed that is
printed. A broken promise is written to a file, named, and the exit code is 1.
"""

import sys

from interpose.net import websocket
from interpose.net.spdy import connection as spdy
from interpose.net.spdy.frames import GoAway, Ping, RstStream, Settings, SpdyHeaders, WindowUpdate, encode
from interpose.net.spdy.headers import HeaderPacker
from interpose.net.streaming import exit_status
from interpose.net.streaming.channels import end_message, message
from interpose.net.streaming.terminal_size import encode_size
from tests.support.fuzz.loop import Fuzzer
from tests.support.fuzz.streams import TARGETS


def _spdy() -> list[bytes]:
    """One session each way, and frames that stand alone."""
    client, server = spdy.SpdyConnection(client=True), spdy.SpdyConnection(client=False)
    up, down = b"", b""
    client.begin()
    for kind in ("error", "stdin", "stdout"):
        client.open({"streamType": kind, "port": "80", "requestID": "1"})
    client.send(3, b"typed")
    client.finish(3)
    up += client.take()
    server.begin()
    server.receive(up)
    for stream in (1, 3, 5):
        server.reply(stream)
    server.send(5, b"output")
    server.finish(5)
    server.reset(1)
    server.go_away()
    down += server.take()
    frames = (Ping(1), RstStream(1, 5), Settings(((7, 100),)), GoAway(1), WindowUpdate(1, 5), WindowUpdate(0, 5))
    alone = [encode(frame) for frame in (*frames, SpdyHeaders(1, HeaderPacker().pack({"a": "b"}), True))]
    return [b"\x00" + up, b"\x01" + down, *(b"\x00" + one for one in alone), *(b"\x01" + one for one in alone)]


def _websocket() -> list[bytes]:
    found = []
    for client in (False, True):
        socket = websocket.WebSocket(client=client, random=bytes)
        socket.ping(b"x")
        for data in (message(0, b"typed"), end_message(0), message(3, exit_status.exit_document(3)), bytes(200)):
            socket.message(data)
        socket.close(1000, "bye")
        found.append((b"\x00" if client else b"\x01") + socket.take())
    return found


def seeds(target: str) -> list[bytes]:
    """Where mutation starts from."""
    match target:
        case "spdy":
            return _spdy()
        case "websocket":
            return _websocket()
        case _:
            return [
                exit_status.success_document(),
                exit_status.exit_document(3),
                exit_status.failure_document("x"),
                encode_size(80, 24) + encode_size(1, 2),
            ]


FUZZER = Fuzzer(targets=TARGETS, seeds=seeds, longest=4000)

if __name__ == "__main__":
    sys.exit(FUZZER.run(__doc__ or ""))
