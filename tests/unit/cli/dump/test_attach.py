"""Attaching to a relay: what comes, what a refusal says, and how it is ended."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from interpose.cli.dump.attach import attach
from interpose.testing.eventually import WAIT_LIMIT

HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"


@contextmanager
def relay(path: Path, act: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """Somebody who answers one request."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(WAIT_LIMIT)

        def serve() -> None:
            try:
                sock, _ = listener.accept()
            except OSError:
                return  # nobody came
            with sock:
                act(sock, sock.recv(4096))

        thread = threading.Thread(target=serve, name="relay")
        thread.start()
        try:
            yield str(path)
        finally:
            listener.close()
            thread.join(WAIT_LIMIT)


def answering(data: bytes) -> Callable[[socket.socket, bytes], None]:
    """Says this and leaves."""
    return lambda sock, _request: sock.sendall(data)


def test_frames_come_as_they_are(tmp_path: Path) -> None:
    """With the head and behind it, until the relay leaves."""
    asked: list[bytes] = []

    def act(sock: socket.socket, request: bytes) -> None:
        asked.append(request)
        sock.sendall(HEAD + b"one")
        sock.sendall(b"two")

    with relay(tmp_path / "admin.sock", act) as admin, attach(admin, ["reset,full:Vers.*n,short:Status"]) as attached:
        assert b"".join(attached) == b"onetwo"
    assert asked[0].startswith(b"GET /v1/dump?full=Version&calls=Status&others= HTTP/1.1\r\n")


def test_waiting_has_an_end(tmp_path: Path) -> None:
    """Nothing came: that is not the end of it."""
    left = threading.Event()

    def act(sock: socket.socket, _request: bytes) -> None:
        sock.sendall(HEAD)
        left.wait(WAIT_LIMIT)

    with relay(tmp_path / "admin.sock", act) as admin, attach(admin) as attached:
        assert attached.read(0.01) is None
        attached.close()
        attached.close()
        assert attached.read() == b""
        left.set()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'HTTP/1.1 403 Forbidden\r\n\r\n{"error": "not here"}', "not here (403)"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nwhat", "no reason given"),
        (b"220 mail ESMTP\r\n\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
    ],
)
def test_refusal_is_told(tmp_path: Path, answer: bytes, said: str) -> None:
    """With the address that was asked."""
    with relay(tmp_path / "admin.sock", answering(answer)) as admin, pytest.raises(click.ClickException) as caught:
        attach(admin)
    assert said in caught.value.message
    assert str(tmp_path) in caught.value.message


def test_nobody_there(tmp_path: Path) -> None:
    """As every command that asks a relay says it."""
    with pytest.raises(click.ClickException, match="is the relay running"):
        attach(str(tmp_path / "none.sock"))
    with pytest.raises(click.ClickException, match="without an admin socket"):
        attach("none")
