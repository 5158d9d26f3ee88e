"""What may stand around a socket: directories, locks, other files."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.host import unix_sockets
from interpose.host.unix_sockets import bind_unix
from tests.support.files import file_at, umask


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (Path.touch, "a regular file"),
        (Path.mkdir, "a directory"),
        (lambda path: path.symlink_to("/nowhere"), "a symbolic link"),
        (os.mkfifo, "a named pipe"),
    ],
)
def test_anything_but_a_socket_in_the_way_is_refused_and_kept(
    path: str, make: Callable[[Path], None], kind: str
) -> None:
    """We only ever replace sockets; a link is not followed. The same holds for the temporary name."""
    for name in (path, path + ".new"):
        make(Path(name))
        before = file_at(name)
        with pytest.raises(ConfigError, match=f"socket {path}: {name} is {kind}, not a socket"):
            bind_unix(path)
        assert file_at(name) == before
        Path(name).rmdir() if kind == "a directory" else Path(name).unlink()
    # The lock was given back each time.
    bind_unix(path).close()


def test_a_linked_lock_file_is_refused(path: str, tmp_path: Path) -> None:
    """Whoever planted the link would make us create or lock a file elsewhere."""
    Path(path + ".lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match=r"cri\.sock\.lock is a symbolic link"):
        bind_unix(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_that_is_no_file_is_refused(path: str) -> None:
    """A pipe in its place does not make us hang."""
    os.mkfifo(path + ".lock")

    with pytest.raises(ConfigError, match="not a regular file"):
        bind_unix(path)


def test_missing_directories_are_created_and_can_be_passed_but_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below /run; whatever the umask, so that the socket's own mode decides."""
    monkeypatch.setattr(unix_sockets, "VOLATILE", (tmp_path,))
    path = tmp_path / "a" / "b" / "s"
    with umask(0o077):
        bind_unix(str(path)).close()

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o711
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o711


def test_a_missing_directory_elsewhere_is_a_mistyped_path(tmp_path: Path) -> None:
    """Nothing is made, and the message says what is missing."""
    path = tmp_path / "a" / "b" / "s"
    with pytest.raises(ConfigError, match=f"socket {path}: directory {tmp_path}/a does not exist; .* below /run only"):
        bind_unix(str(path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["/run/a/b", "/var/run/a", "/run/x/../a"])
def test_runtime_directories_are_below_run(path: str) -> None:
    """Both names of it are known; what leads out of it is not below it."""
    assert unix_sockets.is_volatile(Path(path))
    assert not unix_sockets.is_volatile(Path(f"{path}/../../../../etc/a"))


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_an_existing_directory_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """It belongs to whoever made it; a sticky one protects its files."""
    directory = tmp_path / "d"
    directory.mkdir()
    directory.chmod(mode)
    bind_unix(str(directory / "s")).close()

    assert stat.S_IMODE(directory.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_directory_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    """They could put their own socket in our place; the message says which directory and what to do."""
    directory = tmp_path / "d"
    directory.mkdir()
    directory.chmod(mode)

    with pytest.raises(ConfigError, match=f"directory {directory} has mode {mode:04o}.*chmod go-w {directory}"):
        bind_unix(str(directory / "s"))
    assert list(directory.iterdir()) == []


def test_a_file_instead_of_the_directory_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    (tmp_path / "d").touch()

    with pytest.raises(ConfigError, match=f"{tmp_path}/d is a regular file, not a directory"):
        bind_unix(str(tmp_path / "d" / "s"))
