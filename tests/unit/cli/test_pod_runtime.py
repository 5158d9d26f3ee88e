"""Finding and reaching a runtime."""

import os
import socket
from pathlib import Path

import pytest
from click import ClickException

from interpose.cli import pod_runtime
from interpose.cli.pod_options import Reach
from interpose.cli.pod_runtime import Opened, found_endpoint, opened, run_with, words_of
from interpose.errors import ConfigError
from interpose.host.cgroup.paths import Driver
from interpose.rpc.status import Code, RpcError
from interpose.rpc.tasks import TaskBag
from interpose.testing.eventually import eventually
from interpose.testing.fakequeries import Identity
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime


def test_the_first_socket_that_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no socket is none; without any the error says where was looked."""
    monkeypatch.setattr(pod_runtime, "WELL_KNOWN_RUNTIMES", (str(tmp_path / "file"), str(tmp_path / "s")))
    monkeypatch.setattr(pod_runtime, "RelaySettings", lambda: type("Settings", (), {"listen": "/nonexistent/a"}))
    monkeypatch.setattr(pod_runtime, "RuntimeSettings", lambda: type("Settings", (), {"listen": "/nonexistent/b"}))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="/nonexistent/a, /nonexistent/b"):
        found_endpoint()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        assert found_endpoint() == str(tmp_path / "s")


def test_a_socket_that_may_not_be_seen_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not root learns why nothing was found."""
    monkeypatch.setattr(pod_runtime, "WELL_KNOWN_RUNTIMES", ("/closed/s",))
    monkeypatch.setattr(pod_runtime, "RelaySettings", lambda: type("Settings", (), {"listen": "/nonexistent/a"}))
    monkeypatch.setattr(pod_runtime, "RuntimeSettings", lambda: type("Settings", (), {"listen": "/nonexistent/b"}))
    look = Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if str(path).startswith("/closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, **how)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(ConfigError, match="permission denied: /closed/s"):
        found_endpoint()
    with pytest.raises(ClickException, match="runtime /closed/s is not reachable: Permission denied"):
        run_with(Reach(endpoint="/closed/s", root=str(tmp_path)), _nothing)


def test_that_nobody_answers_is_not_said_by_the_runtime(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And it is said once: what the parts below log is not for whoever said a command."""
    (tmp_path / "file").touch()
    with pytest.raises(ClickException) as caught:
        run_with(Reach(endpoint=str(tmp_path / "file"), root=str(tmp_path)), _nothing)
    assert caught.value.message == f"runtime {tmp_path / 'file'} is not reachable: Connection refused"
    assert capfd.readouterr().err == ""
    assert words_of(RpcError(Code.NOT_FOUND, "no such thing")) == "the runtime says: NOT_FOUND: no such thing"


async def _nothing(_runtime: Opened) -> None:
    pass


@pytest.mark.parametrize(("systemd", "driver"), [(True, Driver.SYSTEMD), (False, Driver.CGROUPFS)])
async def test_the_runtime_says_who_makes_cgroups(tmp_path: Path, systemd: bool, driver: Driver) -> None:
    """And pods are put where that is expected."""
    reach = Reach(endpoint=str(tmp_path / "a"), root=str(tmp_path))
    fake = FakeRuntime(identity=Identity(systemd_cgroups=systemd))
    async with serve_runtime(tmp_path / "a", fake), opened(reach) as runtime:
        assert runtime.manager.node.cgroup_driver is driver
        assert runtime.where == str(tmp_path / "a")


async def test_a_runtime_that_does_not_say_it_makes_them_itself(tmp_path: Path) -> None:
    """As older ones do."""
    fake = FakeRuntime()
    fake.fail("RuntimeConfig", Code.UNIMPLEMENTED)
    fake.fail("Status", Code.UNAVAILABLE)
    reach = Reach(endpoint=str(tmp_path / "a"), root=str(tmp_path))
    async with serve_runtime(tmp_path / "a", fake), opened(reach) as runtime:
        assert runtime.manager.node.cgroup_driver is Driver.CGROUPFS
        assert not runtime.manager.node.recursive_read_only


async def test_who_makes_cgroups_can_be_said_by_hand(tmp_path: Path) -> None:
    """For a runtime that does not say it."""
    reach = Reach(endpoint=str(tmp_path / "a"), root=str(tmp_path), cgroup_driver="systemd")
    async with serve_runtime(tmp_path / "a", FakeRuntime()), opened(reach) as runtime:
        assert runtime.manager.node.cgroup_driver is Driver.SYSTEMD


async def test_cgroups_may_be_elsewhere(tmp_path: Path) -> None:
    """What the node has is read there."""
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpu memory\n")
    reach = Reach(endpoint=str(tmp_path / "a"), root=str(tmp_path), cgroup_mount=str(tmp_path / "cgroup"))
    async with serve_runtime(tmp_path / "a", FakeRuntime()), opened(reach) as runtime:
        assert runtime.manager.node.cgroup_version == 2


async def test_a_socket_that_nobody_named_can_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager that starts with the machine may be there before any runtime."""
    monkeypatch.setattr(pod_runtime, "WELL_KNOWN_RUNTIMES", (str(tmp_path / "b"), str(tmp_path / "a")))
    monkeypatch.setattr(pod_runtime, "RelaySettings", lambda: type("Settings", (), {"listen": "/nonexistent/a"}))
    monkeypatch.setattr(pod_runtime, "RuntimeSettings", lambda: type("Settings", (), {"listen": "/nonexistent/b"}))
    monkeypatch.setattr(pod_runtime, "_PAUSE", 0.01)
    found: list[str] = []
    said: list[str] = []

    async def use() -> None:
        async with opened(Reach(root=str(tmp_path)), waits=said.append) as runtime:
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
    reach = Reach(endpoint=str(tmp_path / "a"), root=str(tmp_path))
    names: list[str] = []
    said: list[str] = []

    async def use() -> None:
        async with opened(reach, waits=said.append) as runtime:
            names.append((await runtime.services.version()).runtime_name)

    tasks = TaskBag()
    tasks.spawn(use(), name="use")
    await eventually(lambda: said, "the remark")
    async with serve_runtime(tmp_path / "a", FakeRuntime()):
        await eventually(lambda: names, "the runtime to be used")
    await tasks.cancel()
    assert said == [f"runtime {tmp_path / 'a'} is not reachable: No such file or directory"]
