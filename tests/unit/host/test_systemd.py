"""Sockets from systemd and messages to it, with a fake on the other side."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.host.systemd import Notifier, listen_fds, named_listen_fds
from interpose.testing.eventually import WAIT_LIMIT

# Reports what it was given, then serves one connection on the inherited socket.
ACTIVATED = """
import json, os
from interpose.host.systemd import named_listen_fds
[(name, sock)] = named_listen_fds(os.environ)
left = [key for key in os.environ if key.startswith("LISTEN_")]
print(json.dumps([name, sock.fileno(), sock.get_inheritable(), sock.getblocking(), left]), flush=True)
sock.setblocking(True)
sock.accept()[0].sendall(b"hello")
"""

# What systemd does between fork and exec.
LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="cri")
os.execv(sys.argv[2], sys.argv[2:])
"""


def listener(path: Path) -> socket.socket:
    """A listening unix socket, as systemd would make it."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen()
    return sock


def environ_for(count: int, names: str = "") -> dict[str, str]:
    """What systemd sets for this process."""
    return {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(count), "LISTEN_FDNAMES": names, "PATH": "/bin"}


def test_an_inherited_descriptor_is_taken_and_serves(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    """A process started the way systemd does it answers on the socket it was given, and passes nothing on."""
    with listener(tmp_path / "s") as sock:
        wrap = [sys.executable, "-c", LAUNCHER, str(sock.fileno())]
        child = spawn(ACTIVATED, pass_fds=[sock.fileno()], wrap=wrap)

    assert child.stdout is not None
    assert json.loads(child.stdout.readline()) == ["cri", 3, False, False, []]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        assert client.recv(100) == b"hello"
    assert child.wait(WAIT_LIMIT) == 0


@pytest.mark.parametrize("pid", ["1", "", "x", None])
def test_descriptors_for_another_process_are_ignored_and_forgotten(pid: str | None) -> None:
    """Variables inherited from a parent mean nothing to us, nor to our children."""
    environ = environ_for(1)
    del environ["LISTEN_PID"]
    if pid is not None:
        environ["LISTEN_PID"] = pid

    assert listen_fds(environ) == []
    assert environ == {"PATH": "/bin"}


def test_no_variables_no_sockets() -> None:
    """Started by hand there is nothing to take."""
    assert listen_fds({}) == []


def test_names_are_matched_by_position(tmp_path: Path) -> None:
    """FileDescriptorName= tells several sockets apart; a missing name is systemd's `unknown`."""
    first = listener(tmp_path / "a").detach()
    second = os.dup2(first, first + 1)
    taken = named_listen_fds(environ_for(2, "cri"), first_fd=first)

    assert [(name, sock.fileno()) for name, sock in taken] == [("cri", first), ("unknown", second)]
    for _, sock in taken:
        sock.close()


@pytest.mark.parametrize("count", ["", "x", "-1", "99999"])
def test_a_bad_count_is_refused(count: str) -> None:
    """The variable and its value are named."""
    with pytest.raises(ConfigError, match=f"LISTEN_FDS: '{count}' is not a number"):
        listen_fds({**environ_for(0), "LISTEN_FDS": count})


def test_a_closed_descriptor_is_refused() -> None:
    """A count larger than what was passed stops the start."""
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)

    with pytest.raises(ConfigError, match=f"descriptor {fd} .unknown. is not an open socket"):
        listen_fds(environ_for(1), first_fd=fd)


def test_a_file_is_refused() -> None:
    """Only sockets can be served."""
    fd = os.open("/dev/null", os.O_RDONLY)

    with pytest.raises(ConfigError, match="not an open socket"):
        listen_fds(environ_for(1), first_fd=fd)
    os.close(fd)


def test_a_connected_socket_is_refused() -> None:
    """Accept=yes in the unit passes connections instead of the listener; the message says what to change."""
    left, right = socket.socketpair()
    with right, pytest.raises(ConfigError, match="does not listen, set Accept=no"):
        listen_fds(environ_for(1), first_fd=left.detach())


@pytest.mark.parametrize(
    ("family", "kind"), [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM)]
)
def test_another_kind_of_socket_is_refused(family: socket.AddressFamily, kind: socket.SocketKind) -> None:
    """ListenStream= with a port and ListenDatagram= are mistakes in the unit."""
    fd = socket.socket(family, kind).detach()

    with pytest.raises(ConfigError, match="is not a unix stream socket, use ListenStream="):
        listen_fds(environ_for(1), first_fd=fd)


@pytest.fixture(params=["path", "abstract"])
def notified(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """A fake systemd: the value of NOTIFY_SOCKET and the socket behind it."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@interpose-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address.replace("@", "\0", 1))
        sock.settimeout(WAIT_LIMIT)
        yield address, sock


def test_each_state_has_its_lines(notified: tuple[str, socket.socket]) -> None:
    """What systemd expects, in one datagram per call, over both kinds of address."""
    address, sock = notified
    notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "20000000"})

    assert notifier.enabled
    dialogue: list[tuple[Callable[[], bool], str]] = [
        (lambda: notifier.ready("listening"), "READY=1\nSTATUS=listening"),
        (lambda: notifier.ready(), "READY=1"),
        (lambda: notifier.ready(mainpid=42), "READY=1\nMAINPID=42"),
        (lambda: notifier.stopping(), "STOPPING=1"),
        (lambda: notifier.status("two\nREADY=1"), "STATUS=two READY=1"),
        (lambda: notifier.status(""), "STATUS= "),
        (lambda: notifier.watchdog(), "WATCHDOG=1"),
        (lambda: notifier.mainpid(42, "taken over"), "MAINPID=42\nSTATUS=taken over"),
    ]
    for call, expected in dialogue:
        assert call()
        assert sock.recv(4096).decode() == expected


def test_reloading_carries_the_monotonic_time(notified: tuple[str, socket.socket]) -> None:
    """Type=notify-reload compares it with the moment it sent the signal."""
    address, sock = notified
    before = time.monotonic_ns() // 1000
    assert Notifier({"NOTIFY_SOCKET": address}).reloading()
    first, second = sock.recv(4096).decode().split("\n")

    assert first == "RELOADING=1"
    assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_a_watchdog_that_does_not_watch_gets_no_datagram(notified: tuple[str, socket.socket]) -> None:
    """Without WATCHDOG_USEC the tick of a daemon sends nothing; a successor may still be told to."""
    address, sock = notified
    notifier = Notifier({"NOTIFY_SOCKET": address})
    assert not notifier.watchdog()
    notifier.watchdog_interval = 10.0
    assert notifier.watchdog()
    assert sock.recv(4096) == b"WATCHDOG=1"


@pytest.mark.parametrize("value", [None, "", "relative", "vsock:2:1234"])
def test_without_a_usable_address_nothing_is_sent(value: str | None) -> None:
    """Started by hand, or by a manager we cannot reach, every call is a quiet no."""
    notifier = Notifier({} if value is None else {"NOTIFY_SOCKET": value})

    assert not notifier.enabled
    assert not notifier.ready("x")
    assert not notifier.watchdog()


@pytest.mark.parametrize("name", ["missing", "x" * 200, "a\0b"])
def test_a_failing_notification_is_false_not_an_error(tmp_path: Path, name: str) -> None:
    """A wrong address never takes the service down."""
    assert Notifier({"NOTIFY_SOCKET": f"{tmp_path}/{name}"}).ready() is False


def test_a_manager_that_does_not_read_does_not_hold_us_up(notified: tuple[str, socket.socket]) -> None:
    """When the queue is full the call gives up after a moment."""
    notifier = Notifier({"NOTIFY_SOCKET": notified[0]})
    # The length of the queue is a kernel setting (usually 10); a megabyte of messages never fits.
    answers = iter(lambda: notifier.status("x" * 1000), False)
    sent = sum(1 for _ in zip(range(10_000), answers, strict=False))

    assert 0 < sent < 10_000
    assert notified[1].recv(4096).startswith(b"STATUS=x")
    assert notifier.ready()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_interval_is_half_of_what_systemd_allows(variables: dict[str, str], expected: float | None) -> None:
    """Only when it is meant for this process and is a number."""
    assert Notifier({"NOTIFY_SOCKET": "/x", **variables}).watchdog_interval == expected
