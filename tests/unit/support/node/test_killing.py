"""A process that kills itself at a chosen act."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.node.killing import Acts


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Kills that were meant for us."""
    kills: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: kills.append((pid, number)))
    return kills


def logged(path: Path, at: int = 0, **options: object) -> Acts:
    """Acts with a log."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return Acts(at, ["/ours"], log=log, **options)  # type: ignore[arg-type]


def test_dies_at_the_chosen_act(tmp_path: Path, struck: list[tuple[int, int]]) -> None:
    """After it was written down, before it is done."""
    acts = logged(tmp_path / "acts", at=2)
    acts.act("one")
    assert struck == []
    acts.act("two")
    assert struck == [(os.getpid(), signal.SIGKILL)]
    assert (tmp_path / "acts").read_text() == "1 one\n2 two\n"


def test_only_some_count(tmp_path: Path, struck: list[tuple[int, int]]) -> None:
    """Those that begin with a word."""
    acts = logged(tmp_path / "acts", at=1, only=["call"])
    acts.act("file write /x")
    assert struck == []
    acts.act("call Version")
    assert len(struck) == 1


def test_changes_of_files(tmp_path: Path) -> None:
    """Below the folders given, in cgroups, or by descriptor; looking is no act."""
    acts = logged(tmp_path / "acts")
    acts.audit("open", ("/ours/a", "r", os.O_RDONLY))
    acts.audit("open", ("/ours/a", None, os.O_WRONLY | os.O_CREAT))
    acts.audit("open", ("/theirs/a", None, os.O_WRONLY))
    acts.audit("open", (b"/ours/bytes", None, os.O_RDWR))
    acts.audit("os.rename", ("/ours/a", "/ours/b", -1, -1))
    acts.audit("os.remove", ("name", 7))
    acts.audit("os.truncate", (7, 0))
    acts.audit("os.mkdir", ("/sys/fs/cgroup/cpu/x", 0o755, -1))
    acts.audit("os.listdir", ("/ours",))
    assert [line.partition(" ")[2] for line in (tmp_path / "acts").read_text().splitlines()] == [
        "file write /ours/a",
        "file write b'/ours/bytes'",
        "file rename /ours/a",
        "file remove name",
        "file truncate 7",
        "file mkdir /sys/fs/cgroup/cpu/x",
    ]


async def test_around_a_coroutine(tmp_path: Path) -> None:
    """Before it, while it takes long, and after it; or after it only."""

    async def double(number: int) -> int:
        await asyncio.sleep(0.03)
        return 2 * number

    acts = logged(tmp_path / "acts")
    owner = SimpleNamespace(work=double, answer=double)
    acts.around(owner, "work", lambda number: f"work {number}")
    acts.around(owner, "answer", lambda number: f"answer {number}", before=False)
    assert await owner.work(4) == 8
    assert await owner.answer(5) == 10
    words = [line.partition(" ")[2] for line in (tmp_path / "acts").read_text().splitlines()]
    assert words[0] == "work 4"
    assert words[1] == "work 4 since 0.005 s"
    assert words[-2:] == ["work 4 done", "answer 5 done"]


@pytest.mark.parametrize("at", [0, 1])
def test_it_is_the_program(tmp_path: Path, at: int) -> None:
    """As `interpose` itself, but for its end."""
    (tmp_path / "images").mkdir()
    words = ["--at", str(at), "--acts", str(tmp_path / "acts"), "--below", str(tmp_path)]
    argv = [sys.executable, "-m", "tests.support.node.killing", *words, "--", "image", "ls", "--root", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, timeout=WAIT_LIMIT, check=False)
    assert done.returncode == (-signal.SIGKILL if at else 0), done.stderr.decode()
    assert (len((tmp_path / "acts").read_text().splitlines()) == 1) is bool(at)
