"""The sockets of the process: stale and live ones, mode and owner, allowed peers, systemd, settings and exit codes."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.grpcpeer import grpc_channel
from tests.support.lab.processes import Child, accepts, wait_for
from tests.support.lab.relay import Relay, program, relay_argv

Start = Callable[..., Relay]
Spawn = Callable[..., Child]
VERSION = "/runtime.v1.RuntimeService/Version"
NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")


def stale_socket(path: Path) -> None:
    """A file that a dead process left."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def test_stale_sockets_are_replaced(start_relay: Start, scratch: Path) -> None:
    """Files of a dead relay do not stop the next one."""
    for name in ("relay.sock", "admin.sock"):
        stale_socket(scratch / name)
    relay = start_relay()
    assert accepts(relay.socket)
    assert accepts(relay.admin)


@pytest.mark.parametrize("which", ["relay.sock", "admin.sock"])
def test_live_socket_is_never_displaced(start_relay: Start, spawn: Spawn, scratch: Path, which: str) -> None:
    """A second instance names the PID of the first, ends with 1, and the first one does not notice."""
    first = start_relay()
    paths = {name: scratch / (name if name == which else f"second-{name}") for name in ("relay.sock", "admin.sock")}
    second = spawn(*relay_argv(paths["relay.sock"], scratch / "runtime.sock", paths["admin.sock"]))
    assert second.wait() == 1
    assert f"socket {scratch / which} is in use by PID {first.child.pid}" in second.log_tail()
    assert "Traceback" not in second.log_tail()
    assert accepts(first.socket)
    assert accepts(first.admin)
    assert not paths["relay.sock"].exists() or which == "relay.sock"


def test_a_file_that_is_no_socket_is_left_alone(spawn: Spawn, scratch: Path) -> None:
    """Somebody's data under our name is not ours to remove."""
    (scratch / "relay.sock").write_text("precious")
    child = spawn(*relay_argv(scratch / "relay.sock", scratch / "runtime.sock", scratch / "admin.sock"))
    assert child.wait() == 78
    assert str(scratch / "relay.sock") in child.log_tail()
    assert (scratch / "relay.sock").read_text() == "precious"


@needs_root
def test_mode_and_owner(start_relay: Start) -> None:
    """As the flags say; the admin socket stays closed to others."""
    relay = start_relay("--socket-mode", "0660", "--socket-owner", f"0:{NOBODY}")
    found = relay.socket.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o660, 0, NOBODY)
    assert stat.S_IMODE(relay.admin.stat().st_mode) == 0o600


@needs_root
def test_mode_and_owner_like_the_backend(start_relay: Start, runtime_path: Path) -> None:
    """Copied from the backend's socket."""
    stale_socket(runtime_path)
    os.chown(runtime_path, 0, NOBODY)
    runtime_path.chmod(0o620)
    relay = start_relay("--socket-like-backend")
    found = relay.socket.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o620, 0, NOBODY)


@needs_root
def test_mode_and_owner_like_a_backend_that_comes_later(
    start_relay: Start, start_runtime: Callable[[], Child], runtime_path: Path
) -> None:
    """Closed to others until the backend is there, then as the backend's socket is."""
    relay = start_relay("--socket-like-backend")
    assert stat.S_IMODE(relay.socket.stat().st_mode) == 0o600
    start_runtime()
    mode = runtime_path.stat().st_mode
    assert stat.S_IMODE(mode) != 0o600
    wait_for(lambda: relay.socket.stat().st_mode == mode, what="the mode to be copied")


CONNECT_AS = """
import os, socket, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(300)
    sock.connect(sys.argv[1])
    try:
        sock.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(3) + b"\\x04" + bytes(5))
        print("served" if sock.recv(9) else "refused")
    except OSError:
        print("refused")
"""


@needs_root
@pytest.mark.parametrize(("allowed", "outcome"), [((), "refused"), (("--allow-uids", f"0,{NOBODY}"), "served")])
def test_peers_are_checked(start_relay: Start, scratch: Path, allowed: tuple[str, ...], outcome: str) -> None:
    """The kernel says who connects; a mode that is too wide does not help a stranger."""
    scratch.chmod(0o755)
    relay = start_relay("--socket-mode", "0666", *allowed)
    argv = [sys.executable, "-I", "-S", "-c", CONNECT_AS, str(relay.socket), str(NOBODY)]
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=True, cwd="/")
    except (PermissionError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this interpreter does not run as another user: {error}")
    assert answer.stdout.strip() == outcome
    if outcome == "refused":
        assert "Peer is not allowed" in relay.child.log_tail()


# -- systemd


@pytest.fixture
def notify(scratch: Path) -> Iterator[socket.socket]:
    """The socket on which systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(scratch / "notify.sock"))
        sock.settimeout(WAIT_LIMIT)
        yield sock


def lines(sock: socket.socket) -> list[str]:
    """The next notification."""
    return sock.recv(4096).decode().splitlines()


def test_systemd_is_told(spawn: Spawn, scratch: Path, notify: socket.socket) -> None:
    """READY with the main PID although there is no backend, then WATCHDOG, then STOPPING."""
    argv = relay_argv(scratch / "relay.sock", scratch / "runtime.sock", scratch / "admin.sock")
    env = {"NOTIFY_SOCKET": str(scratch / "notify.sock"), "WATCHDOG_USEC": "4000000"}
    child = spawn(*argv, env=env)
    ready = lines(notify)
    assert "READY=1" in ready
    assert f"MAINPID={child.pid}" in ready
    assert accepts(scratch / "relay.sock")
    assert lines(notify) == ["WATCHDOG=1"]
    assert child.stop() == 0
    later = []
    while "STOPPING=1" not in later:
        later = lines(notify)
    assert "STOPPING=1" in later


ACTIVATE = """
import os, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
sock.listen()
os.dup2(sock.fileno(), 3)
os.set_inheritable(3, True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.argv[2], sys.argv[2:])
"""


async def test_socket_from_systemd(spawn: Spawn, scratch: Path, start_runtime: Callable[..., Child]) -> None:
    """A listening descriptor is served, whatever --listen says; its file stays when the relay goes."""
    start_runtime()
    given = scratch / "given.sock"
    argv = relay_argv(scratch / "relay.sock", scratch / "runtime.sock", scratch / "admin.sock")
    child = spawn(sys.executable, "-c", ACTIVATE, given, *argv)
    child.wait_listening(given)
    async with grpc_channel(given) as channel:
        assert b"containerd" in await channel.unary_unary(VERSION)(b"", wait_for_ready=True, timeout=WAIT_LIMIT)
    assert not (scratch / "relay.sock").exists()
    assert await asyncio.to_thread(child.stop) == 0
    assert given.exists()


# -- command lines


def test_detach_returns_when_the_relay_serves(spawn: Spawn, scratch: Path) -> None:
    """The command ends with 0 and leaves a relay that listens, in a session of its own."""
    argv = relay_argv(scratch / "relay.sock", scratch / "runtime.sock", scratch / "admin.sock", "--detach")
    parent = spawn(*argv)
    assert parent.wait() == 0
    pid = int(parent.log_tail().rpartition(" pid=")[2].split()[0])
    try:
        assert accepts(scratch / "relay.sock")
        assert pid != parent.pid
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not accepts(scratch / "relay.sock"), what="the relay to end")


def test_detach_reports_a_failed_start(start_relay: Start, spawn: Spawn, scratch: Path) -> None:
    """If the relay cannot serve, the command says so with its exit code."""
    relay = start_relay()
    argv = relay_argv(relay.socket, scratch / "runtime.sock", scratch / "other.sock", "--detach")
    assert spawn(*argv).wait() == 1


def test_print_config_shows_where_values_come_from(spawn: Spawn, scratch: Path) -> None:
    """Flag, environment, file, default, in this order of strength; nothing is started."""
    file = scratch / "relay.yaml"
    head = "apiVersion: interpose/v1\nkind: RelayConfig\n"
    file.write_text(head + "listen: /from/file.sock\nlimits:\n  max_streams: 77\nprocess:\n  grace: 3s\n")
    child = spawn(
        program(), "relay", "--config", file, "--print-config", "--listen", "/from/flag.sock",
        env={"INTERPOSE_GRACE": "9s"},
    )  # fmt: skip
    assert child.wait() == 0
    text = child.log.read_text()
    shown = {words[0]: line for line in text.splitlines() if (words := line.split())}
    assert "/from/flag.sock" in shown["listen"]
    assert "flag --listen" in shown["listen"]
    assert "INTERPOSE_GRACE" in shown["process.grace"]
    assert "relay.yaml" in shown["limits.max_streams"]
    assert "default" in shown["socket.mode"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--socket-mode", "0999"], "--socket-mode"),
        (["--grace", "soon"], "--grace"),
        (["--runtime-endpoint", "tcp://1.2.3.4:5"], "--runtime-endpoint"),
        (["--listen", "/" + "x" * 120], "--listen"),
    ],
)
def test_bad_settings_are_refused(spawn: Spawn, options: list[str], named: str) -> None:
    """Exit code 78; the message names the flag and the value, without a traceback."""
    child = spawn(program(), "relay", *options)
    assert child.wait() == 78
    assert named in child.log_tail()
    assert options[1] in child.log_tail()
    assert "Traceback" not in child.log_tail()


async def test_koord_runtime_proxy_is_a_drop_in(
    spawn: Spawn, scratch: Path, start_runtime: Callable[..., Child]
) -> None:
    """Its flags, in both of Go's spellings, start the same relay; the image endpoint too."""
    start_runtime()
    listen = scratch / "proxy.sock"
    child = spawn(
        program("koord-runtime-proxy"),
        f"--remote-runtime-service-endpoint={scratch / 'runtime.sock'}",
        "-remote-image-service-endpoint",
        scratch / "runtime.sock",
        f"-koord-runtimeproxy-endpoint=unix://{listen}",
        env={"INTERPOSE_ADMIN_LISTEN": "none"},
    )
    child.wait_listening(listen)
    async with grpc_channel(listen) as channel:
        assert b"containerd" in await channel.unary_unary(VERSION)(b"")
    assert await asyncio.to_thread(child.stop) == 0


def test_koord_runtime_proxy_docker_mode_speaks_docker(spawn: Spawn, scratch: Path) -> None:
    """Also while there is no dockerd: clients get an error of Docker's kind that names its socket."""
    listen, dockerd = scratch / "proxy.sock", scratch / "docker.sock"
    child = spawn(
        program("koord-runtime-proxy"),
        "--backend-runtime-mode=Docker",
        f"--remote-runtime-service-endpoint={dockerd}",
        f"--remote-image-service-endpoint={dockerd}",
        f"--koord-runtimeproxy-endpoint=unix://{listen}",
        env={"INTERPOSE_ADMIN_LISTEN": "none", "INTERPOSE_BACKEND_WAIT": "0s"},
    )
    child.wait_listening(listen)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT_LIMIT)
        client.connect(str(listen))
        client.sendall(b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n")
        head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert f"docker daemon {dockerd} is not reachable" in json.loads(body)["message"]
    assert child.stop() == 0
    assert "--remote-image-service-endpoint: has no effect in Docker mode" in child.log_tail()
