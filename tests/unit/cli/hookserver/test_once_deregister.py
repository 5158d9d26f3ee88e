"""--deregister removes the file, unless somebody would write it again."""

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interpose.cli.hookserver.once import remove_registration
from interpose.config.hookserver.settings import HookServerSettings, RegistrationSettings


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """The command sends all logging of its process to stderr; this process is not its own."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [one for one in root.handlers if one not in handlers]:
        root.removeHandler(handler)
        handler.close()


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """Somebody answers there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        yield


def settings(folder: Path) -> HookServerSettings:
    """All paths in one folder."""
    return HookServerSettings(
        listen=str(folder / "ours.sock"), registration=RegistrationSettings(dir=str(folder / "hooks"), name="qos")
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of our name, which leads to somebody else's socket."""
    path = tmp_path / "hooks" / "qos.json"
    path.parent.mkdir()
    path.write_text(
        json.dumps({"remote-endpoint": str(tmp_path / "others.sock"), "runtime-hooks": ["PreRunPodSandbox"]})
    )
    return path


@pytest.mark.parametrize("contents", [None, "{", ""])
def test_file_goes_whatever_it_says(tmp_path: Path, file: Path, contents: str | None) -> None:
    """Nobody answers at either socket; a second time there is nothing to do."""
    if contents is not None:
        file.write_text(contents)
    assert remove_registration(settings(tmp_path)) == 0
    assert not file.exists()
    assert remove_registration(settings(tmp_path)) == 0


@pytest.mark.parametrize("name", ["ours.sock", "others.sock"])
def test_file_of_a_hook_server_that_runs_stays(
    tmp_path: Path, file: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the socket we would listen on, or at the one that the file leads to; the process is named."""
    with listening(tmp_path / name):
        assert remove_registration(settings(tmp_path)) == 1
    assert file.exists()
    why = f"socket {tmp_path / name} is in use by PID {os.getpid()}"
    what = f"a hook server that runs would register again, stop it first; {file} stays"
    assert capsys.readouterr().err == f"error: {why}: {what}\n"


def test_socket_that_cannot_be_is_nobody(tmp_path: Path, file: Path) -> None:
    """A file where its directory should be."""
    (tmp_path / "file").touch()
    text = {"remote-endpoint": str(tmp_path / "file" / "x.sock"), "runtime-hooks": ["PreRunPodSandbox"]}
    file.write_text(json.dumps(text))
    assert remove_registration(settings(tmp_path)) == 0
    assert not file.exists()


def test_file_that_cannot_be_removed(tmp_path: Path, file: Path) -> None:
    """It is no file."""
    file.unlink()
    file.mkdir()
    assert remove_registration(settings(tmp_path)) == 1
