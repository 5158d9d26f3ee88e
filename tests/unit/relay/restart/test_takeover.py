"""What a predecessor leaves, over a real socket pair of descriptors; whole take-overs are in tests/integration."""

import socket
import threading
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.host.unix_sockets import bind_unix
from interpose.relay.restart.takeover import TakeoverState, hand_over, request_takeover
from interpose.testing.eventually import WAIT_LIMIT


def answered(
    folder: Path, memory: dict[str, object], metrics: tuple[str, socket.socket] | None = None
) -> TakeoverState:
    """Ask a predecessor that remembers this; what arrived, with its sockets closed but for that of metrics."""
    listen, admin = bind_unix(str(folder / "l.sock")), bind_unix(str(folder / "a.sock"))
    admin.sock.setblocking(True)

    def serve() -> None:
        sock, _ = admin.sock.accept()
        with sock:
            sock.recv(4096)
            hand_over(sock, listen, admin, 3.0, memory, metrics)
            sock.recv(64)

    thread = threading.Thread(target=serve, name="predecessor")
    thread.start()
    try:
        found = request_takeover(str(folder / "a.sock"))
        assert found is not None
        assert found.estate.watchdog_interval == 3.0
        found.ready()
        found.estate.listen.release()
        found.estate.admin.release()
        return found.estate
    finally:
        thread.join(WAIT_LIMIT)
        listen.close()
        admin.close()


@pytest.mark.parametrize("size", [0, 100, 1_000_000])
def test_memory_of_any_size_arrives(tmp_path: Path, size: int) -> None:
    """It may be more than one read of the socket brings."""
    memory: dict[str, object] = {"requested": {f"c{number}": "x" * 50 for number in range(size // 50)}}
    assert answered(tmp_path, memory).memory == memory


def test_the_socket_for_metrics_is_handed_over(tmp_path: Path) -> None:
    """With the address as it was said: whoever says the same goes on with it. Most relays have none."""
    assert answered(tmp_path, {}).metrics is None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        estate = answered(tmp_path, {}, (":9095", listening))
        assert estate.metrics_listen == ":9095"
        assert estate.metrics is not None
        with estate.metrics as got:
            assert got.getsockname() == listening.getsockname()


def test_answer_that_ends_early_is_refused(tmp_path: Path) -> None:
    """A predecessor that dies while it answers."""
    admin = bind_unix(str(tmp_path / "a.sock"))
    admin.sock.setblocking(True)

    def serve() -> None:
        sock, _ = admin.sock.accept()
        with sock:
            sock.recv(4096)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")

    thread = threading.Thread(target=serve, name="predecessor")
    thread.start()
    try:
        with pytest.raises(ConfigError, match="cut short"):
            request_takeover(str(tmp_path / "a.sock"))
    finally:
        thread.join(WAIT_LIMIT)
        admin.close()


def test_nobody_there(tmp_path: Path) -> None:
    """The first start has no predecessor."""
    assert request_takeover(str(tmp_path / "a.sock")) is None
