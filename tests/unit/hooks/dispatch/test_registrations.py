"""Hook servers in force follow the files, and nothing bad that happens to a file takes one out."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.hooks.api.hookpoint import FailurePolicy
from interpose.hooks.dispatch.registrations import Registrations
from interpose.testing.eventually import eventually


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """The directory."""
    folder = tmp_path / "hooks.d"
    folder.mkdir(mode=0o755)
    return folder


def text(endpoint: str = "/run/a.sock", **more: object) -> str:
    """A registration; keys with underscores for dashes."""
    keys = {key.replace("_", "-"): value for key, value in more.items()}
    return json.dumps({"remote-endpoint": endpoint, "runtime-hooks": ["PreRunPodSandbox"], **keys})


def names(registrations: Registrations) -> list[str]:
    """Who is in force, in order."""
    return [server.name for server in registrations.servers]


class Following:
    """Registrations that are followed, and how often somebody was told."""

    def __init__(self, directory: Path) -> None:
        self.registrations = Registrations(str(directory))
        self.registrations.load()
        self.seen: list[list[str]] = []
        self.registrations.start(lambda: self.seen.append(names(self.registrations)))

    async def become(self, *expected: str) -> None:
        """Wait until exactly these are in force."""
        await eventually(lambda: names(self.registrations) == list(expected), f"{expected} to be in force")


@pytest.fixture
async def following(hooks: Path) -> AsyncIterator[Following]:
    """Follows the directory, which is empty."""
    started = Following(hooks)
    yield started
    await started.registrations.close()


def test_the_order_is_priority_then_file_name(hooks: Path) -> None:
    """Lower is asked first; several may have one endpoint."""
    (hooks / "c.json").write_text(text(priority=1))
    (hooks / "b.json").write_text(text())
    (hooks / "a.json").write_text(text())
    (hooks / "d.json").write_text(text(priority=1000))
    registrations = Registrations(str(hooks))
    assert registrations.load() is True
    assert names(registrations) == ["c", "a", "b", "d"]
    assert registrations.load() is False


def test_a_bad_file_keeps_its_last_good_version(hooks: Path) -> None:
    """For a file that never was good there is none; the others are not affected."""
    for name in ("a", "b"):
        (hooks / f"{name}.json").write_text(text())
    registrations = Registrations(str(hooks))
    registrations.load()
    (hooks / "a.json").write_text("{")
    (hooks / "b.json").write_text(text(failure_policy="Fail"))
    (hooks / "c.json").write_text(text(failure_policy="fail"))
    assert registrations.load() is True
    assert names(registrations) == ["a", "b"]
    assert registrations.servers[1].failure_policy is FailurePolicy.FAIL
    assert list(registrations.problems) == ["a.json", "c.json"]
    assert registrations.problems["c.json"] == (
        f"file {hooks}/c.json line 1: failure-policy: 'fail' is neither Fail nor Ignore, did you mean Fail?",
    )
    assert registrations.errors == 2
    (hooks / "a.json").write_text(text("/run/new.sock"))
    registrations.load()
    assert registrations.servers[0].endpoint == "/run/new.sock"
    assert list(registrations.problems) == ["c.json"]


def test_a_file_that_others_may_write_keeps_what_was_read_before(hooks: Path) -> None:
    """What they write does not count."""
    path = hooks / "a.json"
    path.write_text(text("/run/ours.sock"))
    registrations = Registrations(str(hooks))
    registrations.load()
    path.chmod(0o666)
    path.write_text(text("/run/theirs.sock"))
    assert registrations.load() is False
    assert registrations.servers[0].endpoint == "/run/ours.sock"
    assert "everybody may write" in registrations.problems["a.json"][0]


def test_a_refused_directory_changes_nothing(hooks: Path) -> None:
    """Also not what was deleted in it; the problem is listed under its path."""
    (hooks / "a.json").write_text(text())
    registrations = Registrations(str(hooks))
    registrations.load()
    hooks.chmod(0o777)
    (hooks / "a.json").unlink()
    assert registrations.load() is False
    assert names(registrations) == ["a"]
    assert list(registrations.problems) == [str(hooks)]
    hooks.chmod(0o755)
    assert registrations.load() is True
    assert (names(registrations), registrations.problems, registrations.errors) == ([], {}, 1)


def test_files_of_other_users_are_refused(hooks: Path) -> None:
    """Whose files count can be said."""
    (hooks / "a.json").write_text(text())
    registrations = Registrations(str(hooks), uids=(os.getuid() + 1,))
    registrations.load()
    assert registrations.servers == ()
    assert "belongs to uid" in registrations.problems[str(hooks)][0]


def test_a_deleted_directory_registers_nothing(hooks: Path) -> None:
    """Its files are gone."""
    (hooks / "a.json").write_text(text())
    registrations = Registrations(str(hooks))
    registrations.load()
    shutil.rmtree(hooks)
    assert registrations.load() is True
    assert registrations.servers == ()


def test_what_was_said_of_files_that_are_gone_is_forgotten(hooks: Path) -> None:
    """Somebody who makes a thousand bad files and deletes them costs nothing."""
    registrations = Registrations(str(hooks))
    for number in range(100):
        bad = hooks / f"{number}.json"
        bad.write_text("{")
        registrations.load()
        bad.unlink()
    registrations.load()
    assert (registrations.errors, registrations.problems, registrations._reported) == (100, {}, {})


def test_each_problem_is_logged_once(hooks: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However often it is found; a new problem is a new line, and so is one that comes back after the file was good."""
    caplog.set_level(logging.INFO)
    registrations = Registrations(str(hooks))
    path = hooks / "a.json"

    def warnings(content: str) -> list[str]:
        caplog.clear()
        path.write_text(content)
        registrations.load()
        registrations.load()
        return [record.kv["problem"] for record in caplog.records if record.levelno == logging.WARNING]  # type: ignore[attr-defined]

    first, second = text(priority="x"), text(timeout="y")
    assert len(warnings(first)) == 1
    assert warnings(first) == []
    assert len(warnings(second)) == 1
    assert warnings(first) == []
    assert warnings(text()) == []
    assert warnings(first) == [f"file {path} line 1: priority: expected a whole number, found text ('x')"]
    assert registrations.errors == 3


def test_what_is_strange_is_logged_once(hooks: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It does not keep the file from being used, nor count as an error."""
    path = hooks / "a.json"
    path.write_text(text(comment="of a person"))
    registrations = Registrations(str(hooks))
    registrations.load()
    registrations.load()
    assert names(registrations) == ["a"]
    assert [record.getMessage() for record in caplog.records] == ["Hook server registration has warnings"]
    assert registrations.errors == 0
    assert registrations.warnings == {"a.json": (f"file {path} line 1: 'comment' is not a known key",)}
    path.write_text(text())
    registrations.load()
    assert registrations.warnings == {}


def test_a_slip_of_a_key_leaves_the_last_good_version_in_force(hooks: Path) -> None:
    """It would otherwise be in force with that key's default."""
    path = hooks / "a.json"
    path.write_text(text(**{"failure-policy": "Fail"}))
    registrations = Registrations(str(hooks))
    registrations.load()
    good = registrations.servers
    path.write_text(text(**{"failure-polcy": "Fail"}))
    registrations.load()
    assert registrations.servers == good
    assert good[0].failure_policy == "Fail"
    assert list(registrations.problems) == ["a.json"]


def test_coming_changing_and_going_are_logged(hooks: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With what changed, and nothing else."""
    caplog.set_level(logging.INFO)
    registrations = Registrations(str(hooks))
    path = hooks / "a.json"
    path.write_text(text())
    registrations.load()
    path.write_text(text("/run/b.sock", timeout="2s"))
    registrations.load()
    path.unlink()
    registrations.load()
    assert [(record.getMessage(), record.kv) for record in caplog.records] == [  # type: ignore[attr-defined]
        (
            "Hook server registered",
            {
                "file": "a.json",
                "endpoint": "/run/a.sock",
                "policy": "Ignore",
                "hooks": "PreRunPodSandbox",
                "priority": "100",
            },
        ),
        (
            "Hook server registration changed",
            {"file": "a.json", "endpoint": "/run/a.sock -> /run/b.sock", "timeout": " -> 2s"},
        ),
        ("Hook server is no longer registered", {"file": "a.json"}),
    ]


async def test_files_take_effect_as_they_come_change_and_go(hooks: Path, following: Following) -> None:
    """Created, renamed into place, edited, renamed, deleted."""
    (hooks / "a.json").write_text(text())
    await following.become("a")
    (hooks / "tmp").write_text(text(priority=1))
    (hooks / "tmp").rename(hooks / "b.json")
    await following.become("b", "a")
    (hooks / "b.json").write_text(text(priority=200))
    await following.become("a", "b")
    (hooks / "a.json").rename(hooks / "c.json")
    await following.become("c", "b")
    (hooks / "c.json").unlink()
    (hooks / "b.json").unlink()
    await following.become()


async def test_nobody_is_told_when_nothing_is_different(hooks: Path, following: Following) -> None:
    """A file written again with the same text is no news, nor is a bad one."""
    (hooks / "a.json").write_text(text())
    await following.become("a")
    (hooks / "a.json").write_text(text())
    (hooks / "b.json").write_text("{")
    await eventually(lambda: following.registrations.problems, "the problem")
    (hooks / "c.json").write_text(text())
    await following.become("a", "c")
    assert following.seen == [["a"], ["a", "c"]]


async def test_emptying_and_writing_never_takes_it_out(hooks: Path, following: Following) -> None:
    """As koordlet writes its file at every start."""
    path = hooks / "a.json"
    path.write_text(text())
    await following.become("a")
    for number in range(20):
        os.truncate(path, 0)
        (hooks / f"mark{number}.json").write_text(text(priority=500))
        await eventually(lambda number=number: f"mark{number}" in names(following.registrations), "a scan")  # type: ignore[misc]
        path.write_text(text(timeout=number + 1))
        await eventually(
            lambda number=number: following.registrations.servers[0].timeout == number + 1,  # type: ignore[misc]
            "the new text",
        )
    assert all("a" in seen for seen in following.seen)
    assert following.registrations.errors == 0


async def test_the_directory_may_come_later(tmp_path: Path) -> None:
    """With all that is above it, and again after it was deleted."""
    hooks = tmp_path / "etc/runtime/hooks.d"
    following = Following(hooks)
    for _ in range(2):
        hooks.mkdir(parents=True)
        (hooks / "a.json").write_text(text())
        await following.become("a")
        shutil.rmtree(tmp_path / "etc")
        await following.become()
    await following.registrations.close()


async def test_the_swap_of_a_config_map_is_one_change(hooks: Path) -> None:
    """All files of the new version at once, never a mix."""
    for version in (1, 2):
        folder = hooks / f"..v{version}"
        folder.mkdir()
        for name in ("a", "b"):
            (folder / f"{name}.json").write_text(text(priority=version))
    (hooks / "..data").symlink_to("..v1")
    for name in ("a", "b"):
        (hooks / f"{name}.json").symlink_to(f"..data/{name}.json")
    following = Following(hooks)
    registrations = following.registrations
    assert [server.priority for server in registrations.servers] == [1, 1]
    (hooks / "..data_tmp").symlink_to("..v2")
    (hooks / "..data_tmp").rename(hooks / "..data")
    await eventually(lambda: [server.priority for server in registrations.servers] == [2, 2], "the new version")
    assert following.seen == [["a", "b"]]
    await registrations.close()


async def test_nothing_changes_after_close(hooks: Path, following: Following) -> None:
    """What is in force stays in force."""
    (hooks / "a.json").write_text(text())
    await following.become("a")
    await following.registrations.close()
    other = Following(hooks)
    (hooks / "a.json").unlink()
    await other.become()
    assert names(following.registrations) == ["a"]
    await other.registrations.close()


def test_it_costs_little_to_import() -> None:
    """A relay watches for registrations long before it needs messages."""
    heavy = ["google", "yaml", "watchfiles", "prometheus_client", "h11", "difflib", "interpose._pb"]
    code = f"import sys, interpose.hooks.dispatch.registrations; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_successor_keeps_the_last_good_version_of_a_bad_file(hooks: Path) -> None:
    """A take-over is no way to lose a plugin under Fail; what is gone or good again is read from the directory."""
    for name in ("bad", "gone", "good"):
        (hooks / f"{name}.json").write_text(text(failure_policy="Fail"))
    first = Registrations(str(hooks))
    first.load()
    for name in ("bad", "gone", "good"):
        (hooks / f"{name}.json").write_text("{")
    first.load()
    memory = json.loads(json.dumps(first.memory()))
    assert sorted(memory) == ["bad.json", "gone.json", "good.json"]
    (hooks / "gone.json").unlink()
    (hooks / "good.json").write_text(text("/run/other.sock"))
    second = Registrations(str(hooks))
    second.inherit(memory)
    second.load()
    found = {server.name: (server.endpoint, server.failure_policy) for server in second.servers}
    assert found == {
        "bad": ("/run/a.sock", FailurePolicy.FAIL),
        "good": ("/run/other.sock", FailurePolicy.IGNORE),
    }


@pytest.mark.parametrize("memory", [None, [], {"a.json": 3}, {"a.json": "{"}], ids=repr)
def test_strange_memory_is_no_trouble(hooks: Path, memory: object) -> None:
    """A predecessor of another version may say anything."""
    registrations = Registrations(str(hooks))
    registrations.inherit(memory)
    registrations.load()
    assert registrations.servers == ()
