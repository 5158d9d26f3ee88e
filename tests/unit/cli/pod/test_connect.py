"""Finding and reaching a runtime."""

import os
import socket
from pathlib import Path

import pytest
from click import ClickException

from interpose.cli.pod import connect as pod_runtime_module
from interpose.cli.pod.connect import PodRuntime, describe_error, find_endpoint, pod_runtime, run_with_runtime
from interpose.cli.pod.options import ConnectionOptions
from interpose.config.relay import settings
from interpose.config.runtime import settings as runtime_settings
from interpose.errors import ConfigError
from interpose.net.grpc.status import Code, RpcError
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime


def test_the_first_socket_that_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no socket is none; without any the error says where was looked."""
    monkeypatch.setattr(pod_runtime_module, "WELL_KNOWN_RUNTIMES", (str(tmp_path / "file"), str(tmp_path / "s")))
    monkeypatch.setattr(settings, "RelaySettings", lambda: type("Settings", (), {"listen": "/nonexistent/a"}))
    monkeypatch.setattr(runtime_settings, "RuntimeSettings", lambda: type("Settings", (), {"listen": "/nonexistent/b"}))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="/nonexistent/a, /nonexistent/b"):
        find_endpoint()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        assert find_endpoint() == str(tmp_path / "s")


def test_a_socket_that_may_not_be_seen_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not root learns why nothing was found."""
    monkeypatch.setattr(pod_runtime_module, "WELL_KNOWN_RUNTIMES", ("/closed/s",))
    monkeypatch.setattr(settings, "RelaySettings", lambda: type("Settings", (), {"listen": "/nonexistent/a"}))
    monkeypatch.setattr(runtime_settings, "RuntimeSettings", lambda: type("Settings", (), {"listen": "/nonexistent/b"}))
    look = Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if str(path).startswith("/closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, **how)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(ConfigError, match="permission denied: /closed/s"):
        find_endpoint()
    with pytest.raises(ClickException, match="runtime /closed/s is not reachable: Permission denied"):
        run_with_runtime(ConnectionOptions(endpoint="/closed/s", root=str(tmp_path)), _nothing)


def test_that_nobody_answers_is_not_said_by_the_runtime(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And it is said once: what the parts below log is not for whoever said a command."""
    (tmp_path / "file").touch()
    with pytest.raises(ClickException) as caught:
        run_with_runtime(ConnectionOptions(endpoint=str(tmp_path / "file"), root=str(tmp_path)), _nothing)
    assert caught.value.message == f"runtime {tmp_path / 'file'} is not reachable: Connection refused"
    assert capfd.readouterr().err == ""
    assert describe_error(RpcError(Code.NOT_FOUND, "no such thing")) == "the runtime says: NOT_FOUND: no such thing"


async def _nothing(_runtime: PodRuntime) -> None:
    pass


async def test_a_socket_that_nobody_named_can_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager that starts with the machine may be there before any runtime."""
    monkeypatch.setattr(pod_runtime_module, "WELL_KNOWN_RUNTIMES", (str(tmp_path / "b"), str(tmp_path / "a")))
    monkeypatch.setattr(settings, "RelaySettings", lambda: type("Settings", (), {"listen": "/nonexistent/a"}))
    monkeypatch.setattr(runtime_settings, "RuntimeSettings", lambda: type("Settings", (), {"listen": "/nonexistent/b"}))
    monkeypatch.setattr(pod_runtime_module, "_PAUSE", 0.01)
    found: list[str] = []
    said: list[str] = []

    async def use() -> None:
        async with pod_runtime(ConnectionOptions(root=str(tmp_path)), on_wait=said.append) as runtime:
            found.append(runtime.where)

    tasks = TaskBag()
    tasks.spawn(use(), name="use")
    await eventually(lambda: said, "the remark")
    async with serve_runtime(tmp_path / "a", FakeRuntime()):
        await eventually(lambda: found, "the runtime to be used")
    await tasks.cancel()
    assert found == [str(tmp_path / "a")]
    assert len(said) == 1


async def test_a_runtime_can_be_waited_for(tmp_path: Path) -> None:
    """That it is not there yet is said once."""
    connection = ConnectionOptions(endpoint=str(tmp_path / "a"), root=str(tmp_path))
    names: list[str] = []
    said: list[str] = []

    async def use() -> None:
        async with pod_runtime(connection, on_wait=said.append) as runtime:
            names.append((await runtime.services.version()).runtime_name)

    tasks = TaskBag()
    tasks.spawn(use(), name="use")
    await eventually(lambda: said, "the remark")
    async with serve_runtime(tmp_path / "a", FakeRuntime()):
        await eventually(lambda: names, "the runtime to be used")
    await tasks.cancel()
    assert said == [f"runtime {tmp_path / 'a'} is not reachable: No such file or directory"]
