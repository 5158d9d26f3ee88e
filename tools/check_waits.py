"""Tests that would need a quiet machine: waits with a limit of their own, and comparisons with a clock.

    python tools/check_waits.py [FOLDER...]

There is one limit for waiting, `interpose.testing.eventually.WAIT_LIMIT`, against hanging only. Limits below a second
pass: they are for what has to run out. A line that is right for another reason says so with `# clock: REASON`.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("tests/unit", "tests/integration", "tests/e2e", "tests/property")
REASON: Final = "# clock:"
_WAITS: Final = {"wait_for", "timeout", "timeout_at", "wait", "settimeout", "result", "communicate"}
_CLOCKS: Final = {"monotonic", "perf_counter", "time", "monotonic_ns", "perf_counter_ns"}
_SHORT: Final = 1.0


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Line and words for each."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        found = ""
        if isinstance(node, ast.Call):
            found = _limit_of(node)
        elif isinstance(node, ast.Compare) and any(map(_is_elapsed, [node.left, *node.comparators])):
            found = "a time that passed is compared: assert order and state"
        if found and REASON not in lines[node.lineno - 1]:  # type: ignore[attr-defined]
            yield node.lineno, found  # type: ignore[attr-defined]


def _limit_of(call: ast.Call) -> str:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    values = [word.value for word in call.keywords if word.arg == "within"]
    if name in _WAITS and isinstance(call.func, ast.Attribute) and not _is_mark(call.func.value):
        values += call.args[-1:] if name != "wait" or len(call.args) == 1 else []
        values += [word.value for word in call.keywords if word.arg == "timeout"]
    if name == "run" and getattr(getattr(call.func, "value", None), "id", "") == "subprocess":
        values += [word.value for word in call.keywords if word.arg == "timeout"]
    limits = [value.value for value in values if isinstance(value, ast.Constant)]
    for limit in limits:
        if isinstance(limit, int | float) and limit is not True and limit >= _SHORT:
            return f"{name} has a limit of its own, {limit}: use WAIT_LIMIT"
    return ""


def _is_mark(node: ast.AST) -> bool:
    """pytest.mark, whose `timeout` ends a test that hangs."""
    return isinstance(node, ast.Attribute) and node.attr == "mark"


def _is_elapsed(node: ast.AST) -> bool:
    """A difference with the present time in it."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Call)
        and isinstance(node.left.func, ast.Attribute)
        and node.left.func.attr in _CLOCKS
    )


def check(folders: Iterable[Path]) -> list[str]:
    """Every problem in the tests of these folders."""
    return [
        f"{path}:{line}: {words}"
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        for line, words in problems(path.read_text())
    ]


if __name__ == "__main__":
    told = check([Path(one) for one in sys.argv[1:]] or [ROOT / one for one in FOLDERS])
    print("\n".join(told))
    sys.exit(bool(told))
