"""The kernel says who is on the other end."""

import contextlib
import os
import socket
from pathlib import Path

import pytest

from interpose.errors import SocketInUseError
from interpose.host.peer_credentials import PeerCredentials, check_unowned, peer_credentials, require_uids


def test_credentials_of_a_connected_peer() -> None:
    """Both ends of a pair belong to this process."""
    left, right = socket.socketpair()
    with left, right:
        assert peer_credentials(left) == PeerCredentials(os.getpid(), os.getuid(), os.getgid())


def test_who_serves_a_socket_is_checked() -> None:
    """Root and ourselves may, unless it is said who may; others are named."""
    left, right = socket.socketpair()
    with left, right:
        require_uids()(left)
        require_uids({os.getuid()})(left)
        with pytest.raises(PermissionError, match=f"it belongs to uid {os.getuid()}, it must belong to uid 11 or 12"):
            require_uids({12, 11})(left)


def test_absent_and_dead_sockets_have_no_owner(tmp_path: Path) -> None:
    """A missing path and a file whose process is gone are both free."""
    path = str(tmp_path / "s")
    check_unowned(path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()

    check_unowned(path)

    assert Path(path).is_socket()


def test_a_listening_socket_is_owned_by_its_process(tmp_path: Path) -> None:
    """The PID is the one that called listen()."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()
        with pytest.raises(SocketInUseError) as caught:
            check_unowned(path)

    assert caught.value.pid == os.getpid()


def test_an_owner_with_a_full_queue_is_alive(tmp_path: Path) -> None:
    """A busy server that accepts nothing at the moment is not taken for dead."""
    path = str(tmp_path / "s")
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket(socket.AF_UNIX))
        sock.bind(path)
        sock.listen(0)
        stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)

        with pytest.raises(SocketInUseError) as caught:
            check_unowned(path)

    assert caught.value.pid is None


def test_a_datagram_socket_is_alive(tmp_path: Path) -> None:
    """A socket of another type in the way is in use as well."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        with pytest.raises(SocketInUseError):
            check_unowned(path)


def test_what_cannot_be_asked_is_an_error_with_the_path(tmp_path: Path) -> None:
    """A path that cannot be probed is neither called free nor owned."""
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "s")

    with pytest.raises(NotADirectoryError, match=r"cannot tell whether socket .*file/s is in use"):
        check_unowned(path)
