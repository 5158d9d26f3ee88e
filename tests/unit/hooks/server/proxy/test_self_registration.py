"""Our own registration file: written whole, kept right, removed only if it is ours."""

import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.registration import parse_registration
from interpose.hooks.server.proxy.self_registration import Registrar

HOOKS = (HookPoint.PRE_CREATE_CONTAINER, HookPoint.PRE_RUN_POD_SANDBOX)
ENDPOINT = "/run/interpose/hookserver.sock"


def registrar(directory: Path, **more: Any) -> Registrar:
    """Of a hook server named qos."""
    endpoint, hooks = more.pop("endpoint", ENDPOINT), more.pop("hooks", HOOKS)
    return Registrar(directory, "qos", endpoint=endpoint, hooks=hooks, **more)


def test_writes_a_file_that_reads_back(tmp_path: Path) -> None:
    """With all that was said, readable for everybody."""
    one = registrar(tmp_path, failure_policy=FailurePolicy.FAIL, priority=7, timeout=0.5)
    assert one.write()
    assert one.is_registered
    server = parse_registration(one.path.read_text(), str(one.path)).server
    assert (server.name, server.endpoint, server.hooks) == ("qos", ENDPOINT, frozenset(HOOKS))
    assert (server.failure_policy, server.priority, server.timeout) == (FailurePolicy.FAIL, 7, 0.5)
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["qos.json"]


def test_makes_the_directory(tmp_path: Path) -> None:
    """So that only its owner may write to it, whatever the umask is."""
    before = os.umask(0)
    try:
        one = registrar(tmp_path / "runtime" / "hookserver.d")
        assert one.write()
    finally:
        os.umask(before)
    assert stat.S_IMODE(one.path.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o644


def test_equal_file_is_left_alone(tmp_path: Path) -> None:
    """No watcher is woken for nothing."""
    one = registrar(tmp_path)
    one.write()
    before = one.path.stat()
    assert registrar(tmp_path).write()
    assert one.check()
    after = one.path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert one.rewritten == 0


def test_remains_of_a_kill_are_no_obstacle(tmp_path: Path) -> None:
    """A half-written file from before is replaced, and nothing is left."""
    (tmp_path / ".qos.json.new").write_text("{")
    assert registrar(tmp_path).write()
    assert [entry.name for entry in tmp_path.iterdir()] == ["qos.json"]


@pytest.mark.parametrize("how", ["deleted", "changed", "writable", "directory gone", "link"])
def test_check_puts_it_right(tmp_path: Path, how: str) -> None:
    """Whatever somebody did to it."""
    directory = tmp_path / "d"
    one = registrar(directory)
    one.write()
    text = one.path.read_text()
    if how == "changed":
        one.path.write_text("{}")
    elif how == "writable":
        one.path.chmod(0o666)
    else:
        one.path.unlink()
    if how == "directory gone":
        directory.rmdir()
    if how == "link":
        (tmp_path / "other").write_text(text)
        one.path.symlink_to(tmp_path / "other")
    assert one.check()
    assert one.path.read_text() == text
    assert stat.S_IMODE(one.path.lstat().st_mode) == 0o644
    assert one.rewritten == 1


def test_check_does_nothing_before_and_after(tmp_path: Path) -> None:
    """Only what is registered is kept."""
    one = registrar(tmp_path)
    assert not one.check()
    one.write()
    assert one.deregister()
    assert not one.check()
    assert not one.is_registered
    assert not list(tmp_path.iterdir())


def test_impossible_directory_is_told_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is the operator's to repair, and no reason to end."""
    blocked = tmp_path / "d"
    blocked.write_text("a file where the directory should be")
    one = registrar(blocked)
    assert not one.write()
    assert not one.check()
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert errors[0].kv["file"] == str(blocked / "qos.json")  # type: ignore[attr-defined]
    assert one.problem.startswith(f"file {blocked}/qos.json: ")
    assert not one.is_registered
    blocked.unlink()
    assert one.check()
    assert (one.problem, one.is_registered) == ("", True)


def test_directory_under_our_name_is_a_problem(tmp_path: Path) -> None:
    """Nothing is deleted to make room."""
    (tmp_path / "qos.json").mkdir()
    one = registrar(tmp_path)
    assert not one.write()
    assert [entry.name for entry in tmp_path.iterdir()] == ["qos.json"]
    assert not one.remove()


@pytest.mark.parametrize("policy", list(FailurePolicy))
def test_clean_exit(tmp_path: Path, policy: FailurePolicy) -> None:
    """Under Ignore calls go on without us; under Fail the registration says that they must not."""
    one = registrar(tmp_path, failure_policy=policy)
    one.write()
    one.close()
    assert one.path.exists() == (policy is FailurePolicy.FAIL)
    assert not one.is_registered


def test_clean_exit_without_a_registration_touches_nothing(tmp_path: Path) -> None:
    """Somebody else's server of that name goes on."""
    registrar(tmp_path).write()
    registrar(tmp_path).close()
    assert (tmp_path / "qos.json").exists()


def test_deregister_removes_under_fail(tmp_path: Path) -> None:
    """Also in a process that did not write it; twice is no mistake."""
    registrar(tmp_path, failure_policy=FailurePolicy.FAIL).write()
    one = registrar(tmp_path)
    assert one.deregister()
    assert not one.path.exists()
    assert one.deregister()


@pytest.mark.parametrize("text", ['{"remote-endpoint": "/run/other.sock", "runtime-hooks": []}', "no JSON", ""])
def test_file_of_somebody_else_stays(tmp_path: Path, text: str) -> None:
    """It leads to another socket, or nowhere we know."""
    one = registrar(tmp_path)
    one.write()
    one.path.write_text(text)
    assert not one.remove()
    assert one.path.read_text() == text


@pytest.mark.parametrize("text", ['{"remote-endpoint": "/run/other.sock", "runtime-hooks": []}', "no JSON", "", None])
def test_deregister_removes_whatever_it_says(tmp_path: Path, text: str | None) -> None:
    """Somebody asked for it. That there is none is fine, and a link goes without what it leads to."""
    one = registrar(tmp_path)
    if text is not None:
        (tmp_path / "target").write_text(text)
        one.path.symlink_to(tmp_path / "target")
        assert one.deregister()
        one.path.write_text(text)
    assert one.deregister()
    assert [entry.name for entry in tmp_path.iterdir()] == ([] if text is None else ["target"])


def test_deregister_of_a_directory_is_told(tmp_path: Path) -> None:
    """Nobody knows what is in it."""
    one = registrar(tmp_path)
    one.path.mkdir()
    assert not one.deregister()
    assert one.problem.startswith(f"file {one.path}: ")


@pytest.mark.parametrize("policy", list(FailurePolicy))
def test_who_serves_nothing_is_not_registered(
    tmp_path: Path, policy: FailurePolicy, caplog: pytest.LogCaptureFixture
) -> None:
    """What was registered before goes, whatever the policy; it is told once."""
    registrar(tmp_path, failure_policy=policy).write()
    one = registrar(tmp_path, hooks=(), failure_policy=policy)
    assert one.write()
    assert not one.check()
    one.close()
    assert not list(tmp_path.iterdir())
    assert (one.is_registered, one.problem) == (False, "")
    assert caplog.messages == ["No enabled plugin uses a hook point, not registering"]


def test_who_serves_nothing_leaves_the_file_of_somebody_else(tmp_path: Path) -> None:
    """It is not what we wrote."""
    registrar(tmp_path, endpoint="/run/other.sock").write()
    assert not registrar(tmp_path, hooks=()).write()
    assert (tmp_path / "qos.json").exists()


def test_where_the_file_leads_to(tmp_path: Path) -> None:
    """Nowhere, if nobody can tell."""
    one = registrar(tmp_path)
    assert one.registered_endpoint == ""
    registrar(tmp_path, endpoint="/run/other.sock").write()
    assert one.registered_endpoint == "/run/other.sock"
    one.path.write_text("{")
    assert one.registered_endpoint == ""


def test_taking_over_a_name_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The name is ours by configuration; whoever had it may wonder."""
    registrar(tmp_path, endpoint="/run/other.sock").write()
    assert registrar(tmp_path).write()
    assert ENDPOINT in (tmp_path / "qos.json").read_text()
    assert "Replacing a registration file of another hook server" in caplog.text


def test_pipe_under_our_name_does_not_hold_us_up(tmp_path: Path) -> None:
    """It is replaced like any other file that is not a registration."""
    os.mkfifo(tmp_path / "qos.json")
    assert registrar(tmp_path).write()
    assert (tmp_path / "qos.json").is_file()


def test_removal_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    one = registrar(tmp_path)
    one.write()

    def refuse(_path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert not one.remove()
    assert one.problem.endswith("qos.json: Permission denied")


def test_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays whole."""
    registrar(tmp_path, endpoint="/run/other.sock").write()

    def refuse(*_names: str, **_directories: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    one = registrar(tmp_path)
    assert not one.write()
    assert "/run/other.sock" in one.path.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["qos.json"]
