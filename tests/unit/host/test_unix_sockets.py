"""Binding unix sockets: who wins, what is refused, what is left behind."""

import fcntl
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from interpose.errors import ConfigError, SocketInUseError
from interpose.host.unix_sockets import adopt, bind_unix, owner_like, peer_credentials
from tests.support.files import file_at, umask

Spawn = Callable[..., subprocess.Popen[str]]

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")

# Binds every path given, one after the other, when told to; says which it won and who has the others.
STARTER = """
import sys
from interpose.errors import SocketInUseError
from interpose.host.unix_sockets import bind_unix
print("ready", flush=True)
sys.stdin.readline()
kept = []
for path in sys.argv[1:]:
    try:
        kept.append(bind_unix(path))
        print("won", flush=True)
    except SocketInUseError as error:
        print("lost", error.pid, flush=True)
sys.stdin.readline()
"""

# Tries to give a socket to root without being root, then binds it for itself. Names are relative to the directory
# because its parents may be closed to the user we change to.
UNPRIVILEGED = """
import os, sys
from interpose.host.unix_sockets import bind_unix
os.chdir(sys.argv[1])
if os.getuid() == 0:
    os.chown(".", 65534, 65534)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    bind_unix("s", uid=0)
except PermissionError as error:
    print(error.strerror, flush=True)
    print(os.listdir(), flush=True)
bind_unix("s").close()
print("again", flush=True)
"""


def say(child: subprocess.Popen[str], text: str) -> None:
    """Send a child one line."""
    assert child.stdin is not None
    child.stdin.write(text + "\n")
    child.stdin.flush()


def hear(child: subprocess.Popen[str]) -> str:
    """The next line a child says."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_a_bound_socket_accepts_and_is_private(path: str) -> None:
    """It listens, does not block, is not inherited, has mode 0600, and leaves no temporary file."""
    with closing(bind_unix(path)) as bound:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            assert peer_credentials(client).pid == os.getpid()
        accepted, _ = bound.sock.accept()
        accepted.close()

        assert not bound.sock.getblocking()
        assert not bound.sock.get_inheritable()
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
        assert sorted(p.name for p in Path(path).parent.iterdir()) == ["cri.sock", "cri.sock.lock"]
        assert stat.S_IMODE(os.lstat(path + ".lock").st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_the_mode_is_exactly_the_one_asked_for(path: str, mode: int) -> None:
    """No umask cuts it or adds to it."""
    for mask in (0o000, 0o077):
        with umask(mask), closing(bind_unix(path, mode=mode)):
            assert stat.S_IMODE(os.lstat(path).st_mode) == mode


def test_the_umask_is_put_back(path: str) -> None:
    """After success and after failure the process creates files as before."""
    with umask(0o026):
        bind_unix(path).close()
        Path(path).mkdir()
        with pytest.raises(ConfigError):
            bind_unix(path)
        assert os.umask(0o026) == 0o026


@needs_root
def test_owner_and_group_are_set(path: str) -> None:
    """Each half by itself, or both."""
    for uid, gid, expected in [(None, 4343, (0, 4343)), (4242, None, (4242, os.getgid())), (4242, 4343, (4242, 4343))]:
        with closing(bind_unix(path, uid=uid, gid=gid)):
            assert (os.lstat(path).st_uid, os.lstat(path).st_gid) == expected


def test_a_name_longer_than_the_temporary_one_may_be(tmp_path: Path) -> None:
    """The full 107 bytes can be used although the temporary name is longer; one more is refused."""
    room = 107 - len(os.fsencode(tmp_path)) - 1
    path = f"{tmp_path}/{'x' * room}"
    with closing(bind_unix(path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    with pytest.raises(ConfigError, match="108 bytes"):
        bind_unix(path + "x")


def test_a_dead_socket_is_replaced(path: str) -> None:
    """What a killed process left behind is not in the way, nor is a half-made socket."""
    for name in (path, path + ".new"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(name)
            dead.listen()
    with closing(bind_unix(path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)

    assert not Path(path).exists()
    assert not Path(path + ".new").exists()


def test_a_live_owner_is_named_and_keeps_its_socket(path: str, spawn: Spawn) -> None:
    """The PID is the other process, which goes on serving; when it dies the name is free."""
    child = spawn(STARTER, path)
    assert hear(child) == "ready"
    say(child, "go")
    assert hear(child) == "won"
    before = file_at(path)

    with pytest.raises(SocketInUseError, match=f"in use by PID {child.pid}") as caught:
        bind_unix(path)

    assert caught.value.pid == child.pid
    assert file_at(path) == before
    child.kill()
    child.wait()
    bind_unix(path).close()


def test_a_live_owner_without_our_lock_is_named_too(path: str) -> None:
    """A runtime or another proxy does not know our lock file; asking the socket is enough."""
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(path)
        foreign.listen()
        with pytest.raises(SocketInUseError) as caught:
            bind_unix(path)

    assert caught.value.pid == os.getpid()


def test_a_held_lock_without_a_socket_means_somebody_is_starting(path: str) -> None:
    """The name is refused although nothing stands there yet, and nobody can be named."""
    with open(path + ".lock", "w") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SocketInUseError, match="just starting or stopping") as caught:
            bind_unix(path)

    assert caught.value.pid is None
    assert not Path(path).exists()


def test_of_concurrent_starters_exactly_one_wins_each_name(tmp_path: Path, spawn: Spawn) -> None:
    """Three processes race for the same names: no name has two owners, none has no owner."""
    paths = [str(tmp_path / str(number)) for number in range(20)]
    children = [spawn(STARTER, *paths) for _ in range(3)]
    for child in children:
        assert hear(child) == "ready"
    for child in children:
        say(child, "go")
    answers = [[hear(child) for _ in paths] for child in children]

    for path, given in zip(paths, zip(*answers, strict=True), strict=True):
        assert sorted(answer.split()[0] for answer in given) == ["lost", "lost", "won"]
        winner = children[given.index("won")].pid
        assert {answer for answer in given if answer != "won"} <= {f"lost {winner}", "lost None"}
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            assert peer_credentials(client).pid == winner


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path, spawn: Spawn) -> None:
    """An owner we may not give ends in an error with the numbers; no socket and no lock stays."""
    child = spawn(UNPRIVILEGED, str(tmp_path))

    assert hear(child) == "cannot give socket s mode 0600, uid 0, gid -1 (-1: unchanged): Operation not permitted"
    assert hear(child) == "['s.lock']"
    assert hear(child) == "again"


def test_close_removes_only_our_own_file(path: str) -> None:
    """A socket that took our place meanwhile stays."""
    bound = bind_unix(path)
    Path(path).unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        theirs = file_at(path)
        bound.close()

        assert file_at(path) == theirs


def test_close_is_quiet_when_the_file_is_gone_and_when_repeated(path: str) -> None:
    """Stopping twice, or after somebody cleaned up, is no error; the lock file stays and is free."""
    bound = bind_unix(path)
    Path(path).unlink()
    bound.close()
    bound.close()

    assert Path(path + ".lock").exists()
    bind_unix(path).close()


def test_a_socket_closed_by_its_event_loop_is_still_removed(path: str) -> None:
    """Servers of event loops close the socket they were given; the file goes all the same."""
    bound = bind_unix(path)
    bound.sock.close()
    bound.close()

    assert not Path(path).exists()


def test_release_leaves_the_file(path: str) -> None:
    """After release, close has nothing left to remove."""
    bound = bind_unix(path)
    bound.release()
    bound.close()

    assert Path(path).is_socket()


def test_an_adopted_socket_is_removed_by_its_new_owner(path: str) -> None:
    """The lock stays held throughout, although the first holder closed its copy."""
    first = bind_unix(path)
    sock_fd, lock_fd = (os.dup(fd) for fd in first.descriptors)
    second = adopt(socket.socket(fileno=sock_fd), lock_fd, path)
    assert second.identity == first.identity
    first.release()

    with open(path + ".lock") as lock, pytest.raises(BlockingIOError):  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second.close()
    assert not Path(path).exists()
    bind_unix(path).close()


@needs_root
def test_an_adopted_socket_knows_its_file_even_if_another_stands_there(path: str) -> None:
    """The kernel is asked which file it is, so a foreign one at the same path is not taken for ours."""
    first = bind_unix(path)
    Path(path).unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        second = adopt(first.sock.dup(), None, path)
        first.release()
        second.close()

        assert Path(path).is_socket()


def test_a_socket_of_systemd_is_not_removed(path: str) -> None:
    """With owned=False the file belongs to the .socket unit."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    sock.listen()
    bound = adopt(sock, None, path, owned=False)

    assert not sock.getblocking()
    assert bound.descriptors == [sock.fileno()]
    bound.close()
    assert Path(path).is_socket()


@needs_root
def test_owner_like_copies_mode_and_owner(path: str, tmp_path: Path) -> None:
    """Also through a link, as /var/run often is one."""
    with closing(bind_unix(path, mode=0o660, uid=4242, gid=4343)):
        (tmp_path / "link").symlink_to(path)

        assert owner_like(str(tmp_path / "link")) == (0o660, 4242, 4343)


def test_owner_like_wants_a_socket(tmp_path: Path) -> None:
    """A wrong path is an error that names it; a missing one is told apart, because it may appear later."""
    with pytest.raises(ConfigError, match=f"{tmp_path}: a directory, not a socket"):
        owner_like(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        owner_like(str(tmp_path / "missing"))
