"""Sockets for HTTP, on this machine alone or on any address."""

import errno
import socket
from pathlib import Path

import pytest

from interpose.cli.common.admin_socket import AdminSockets, bind_address, bind_admin
from interpose.host.unix_sockets import BoundSocket


def test_none_is_no_socket() -> None:
    """Turned off."""
    assert bind_admin("none") is None
    assert bind_address("none", "--metrics-listen") is None


def test_an_admin_socket_at_a_path_is_ours_alone(tmp_path: Path) -> None:
    """Mode 0600."""
    bound = bind_admin(str(tmp_path / "a.sock"))
    assert isinstance(bound, BoundSocket)
    assert (tmp_path / "a.sock").stat().st_mode & 0o777 == 0o600
    bound.close()


@pytest.mark.parametrize("where", ["127.0.0.1:0", "localhost:0", "0.0.0.0:0", ":0", "[::]:0"])
def test_an_address_accepts(where: str) -> None:
    """Without a host, and with [::], on both families."""
    if "[" in where and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    sock = bind_address(where, "--metrics-listen")
    assert sock is not None
    with sock, socket.create_connection(("127.0.0.1", sock.getsockname()[1]), 5):
        accepted, _ = sock.accept()
        accepted.close()


def test_an_address_in_use_is_named() -> None:
    """Two daemons on one port is a mistake, and never shared in silence."""
    first = bind_address("127.0.0.1:0", "--x")
    assert first is not None
    with first:
        where = f"127.0.0.1:{first.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen on {where}") as error:
            bind_address(where, "--x")
    assert error.value.errno == errno.EADDRINUSE


def test_a_host_that_does_not_exist_is_named() -> None:
    """Whatever the resolver says."""
    with pytest.raises(OSError, match=r"cannot listen on nowhere\.invalid:1"):
        bind_address("nowhere.invalid:1", "--x")


def test_the_sockets_of_a_daemon_are_bound_together_or_not_at_all(tmp_path: Path) -> None:
    """A wrong address for metrics leaves no admin socket behind; closing removes the file."""
    path = tmp_path / "a.sock"
    with pytest.raises(OSError, match="cannot listen"):
        AdminSockets.bind(str(path), "nowhere.invalid:1")
    assert not path.exists()
    with pytest.raises(OSError, match="cannot listen"):
        AdminSockets.bind("none", "nowhere.invalid:1")
    sockets = AdminSockets.bind(str(path), "127.0.0.1:0")
    assert path.exists()
    sockets.close()
    assert not path.exists()
    assert sockets.metrics is not None
    assert sockets.metrics.fileno() == -1
    AdminSockets.bind("none", "none").close()
