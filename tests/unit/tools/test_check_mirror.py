"""The mirror check notices what is missing on either side, and lists that have grown old."""

from collections.abc import Callable
from typing import Any


def test_a_complete_mirror_has_no_problems(tool: Callable[[str], Any]) -> None:
    """Modules with their test files, scripts with theirs, and the listed exceptions are fine."""
    problems = tool("check_mirror").problems(
        {"h2/frames", "cli/run"}, {"tools/x"}, {"h2/test_frames", "tools/test_x", "test_deploy"}, {"cli/run": "a"},
        {"test_deploy": "b"},
    )  # fmt: skip

    assert problems == []


def test_a_module_without_tests_is_named(tool: Callable[[str], Any]) -> None:
    """The message says which file is expected."""
    problems = tool("check_mirror").problems({"h2/frames"}, set(), set(), {}, {})

    assert problems == ["src/interpose/h2/frames.py has no tests/unit/h2/test_frames.py"]


def test_a_test_without_a_module_is_named(tool: Callable[[str], Any]) -> None:
    """A module that was renamed leaves its test behind, and that shows."""
    problems = tool("check_mirror").problems(set(), set(), {"h2/test_gone"}, {}, {})

    assert problems == ["tests/unit/h2/test_gone.py mirrors no module: there is no h2/gone.py"]


def test_exceptions_do_not_outlive_their_reason(tool: Callable[[str], Any]) -> None:
    """An exception for a module that is gone, or has a test by now, must go too."""
    problems = tool("check_mirror").problems({"a/x"}, set(), {"a/test_x"}, {"a/x": "why", "a/y": "why"}, {})

    assert problems == [
        "tools/check_mirror.py lists a/x, which has its own test now",
        "tools/check_mirror.py lists a/y, which is gone",
    ]


def test_a_long_test_may_be_split(tool: Callable[[str], Any]) -> None:
    """A test file may add a topic to the name of its module; the longest module name counts."""
    problems = tool("check_mirror").problems(
        {"h2/frames", "h2/frames_x"}, set(), {"h2/test_frames_padding", "h2/test_frames_x_y"}, {}, {}
    )

    assert problems == []


def test_a_whole_folder_can_be_tested_elsewhere(tool: Callable[[str], Any]) -> None:
    """Every module of it, and only of it; an empty folder is gone."""
    problems = tool("check_mirror").problems(
        {"a/b/x", "a/b/y", "a/bx"}, set(), set(), {"a/b/": "there", "a/c/": "nowhere"}, {}
    )

    assert problems == [
        "src/interpose/a/bx.py has no tests/unit/a/test_bx.py",
        "tools/check_mirror.py lists a/c/, which is gone",
    ]
