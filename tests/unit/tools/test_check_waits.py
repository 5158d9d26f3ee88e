"""The check of limits in tests finds those that decide on a busy machine, and leaves the others alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tool = Callable[[str], Any]
OWN = "has a limit of its own"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("await asyncio.wait_for(done.wait(), 5)", OWN),
        ("assert gone.wait(10)", OWN),
        ("await eventually(there, 'it', within=20)", OWN),
        ("asyncio.timeout(10)", OWN),
        ("subprocess.run(argv, timeout=30)", OWN),
        ("sock.settimeout(10.0)", OWN),
        ("child.communicate(timeout=20)", OWN),
        ("assert time.monotonic() - began < 2", "a time that passed is compared"),
        ("assert 1 > loop.time() - began", "a time that passed is compared"),
    ],
)
def test_what_needs_a_quiet_machine(tool: Tool, line: str, words: str) -> None:
    """With its line."""
    ((number, said),) = tool("check_waits").problems(f"x = 1\n{line}".replace("await ", ""))
    assert number == 2
    assert words in said


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.wait_for(done.wait(), WAIT_LIMIT)",
        "asyncio.timeout(0.05)",
        "done.wait()",
        "asyncio.wait(tasks)",
        "pytest.mark.timeout(900)",
        "client.call(request, timeout=30)",
        "assert age > 3",
        "story.wait(100)  # clock: of the story",
        "b''.join(1)",
    ],
)
def test_what_is_left_alone(tool: Tool, line: str) -> None:
    """The limit of all, what is meant to run out, and what has a reason."""
    assert list(tool("check_waits").problems(line)) == []


def test_files_are_named(tool: Tool, tmp_path: Path) -> None:
    """With the line in them."""
    (tmp_path / "test_a.py").write_text("\nevent.wait(5)\n")
    assert tool("check_waits").check([tmp_path]) == [f"{tmp_path}/test_a.py:2: wait {OWN}, 5: use WAIT_LIMIT"]
