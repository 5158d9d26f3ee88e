"""What people see of hook servers."""

from typing import Any

import pytest

from interpose.cli.hooks import check_text, list_text
from interpose.hooks.api.hookpoint import HookPoint

PLUGIN: dict[str, Any] = {
    "name": "koordlet",
    "file": "/etc/runtime/hookserver.d/koordlet.json",
    "endpoint": "/run/koordlet.sock",
    "failure_policy": "Ignore",
    "priority": 100,
    "timeout_seconds": None,
    "hooks": list(HookPoint),
    "selector": None,
    "state": "connected",
    "state_seconds": 93.0,
    "calls": 12,
    "failures": 0,
    "mean_ms": 1.25,
    "last_error": "",
    "last_error_seconds": None,
}
ANSWER = {
    "directory": "/etc/runtime/hookserver.d",
    "plugins": [
        PLUGIN,
        PLUGIN
        | {
            "name": "evil\x1b[2J",
            "state": "broken",
            "state_seconds": 2,
            "failure_policy": "Fail",
            "priority": 5,
            "hooks": ["PreRunPodSandbox"],
            "calls": 0,
            "failures": 3,
            "mean_ms": None,
            "last_error": "no\nsocket",
            "last_error_seconds": 7300.0,
        },
    ],
    "problems": [
        {"file": "x.json", "messages": ["file x.json: is empty", "a\tb"], "in_force": False},
        {"file": "y.json", "messages": ["file y.json: is empty"], "in_force": True},
    ],
    "store": {"pods": 3, "containers": 5, "pending": 1},
}


def test_the_list_is_a_table_then_problems_then_the_store() -> None:
    """Aligned, and text of others cannot move the cursor."""
    assert list_text(ANSWER).splitlines() == [
        "Hook servers registered in /etc/runtime/hookserver.d:",
        "  NAME      STATE         POLICY  PRIORITY  HOOKS             CALLS  FAILURES  MEAN    LAST ERROR",
        "  koordlet  connected 1m  Ignore  100       all               12     0         1.25ms  -",
        "  evil?[2J  broken 2s     Fail    5         PreRunPodSandbox  0      3         -       no?socket (2h ago)",
        "Problems:",
        "  x.json: nothing of it is in force",
        "    - file x.json: is empty",
        "    - a?b",
        "  y.json: the last good version is in force",
        "    - file y.json: is empty",
        "Known to the relay: 3 pods, 5 containers, 1 pending",
    ]


def test_an_empty_list_says_where_files_are_expected() -> None:
    """The question that comes next."""
    assert list_text({"directory": "/d", "plugins": [], "problems": []}) == (
        "No hook servers are registered; files are expected in /d, with names that end in .json"
    )


@pytest.mark.parametrize(
    "answer", ["fine", None, {}, {"plugins": "x", "problems": [1], "store": 5}, {"plugins": [{}, {"hooks": [1]}]}]
)
def test_strange_answers_are_still_shown(answer: object) -> None:
    """A relay of another version may answer anything."""
    assert list_text(answer)


def test_a_check_shows_verdict_registration_problems_and_warnings() -> None:
    """Per file, in this order."""
    registers = {
        "name": "a",
        "endpoint": "/run/a.sock",
        "failure_policy": "Fail",
        "hooks": ["PreRunPodSandbox", "PostStopContainer"],
        "priority": 1,
        "timeout_seconds": 0.5,
        "selector": {"namespaces": ["x"]},
    }
    findings: list[dict[str, Any]] = [
        {"file": "/d/a.json", "registers": registers, "problems": [], "warnings": ["strange\r"], "note": ""},
        {"file": "/d/b.json", "registers": None, "problems": ["one", "two"], "warnings": [], "note": ""},
        {"file": "/e", "registers": None, "problems": [], "warnings": [], "note": "does not exist"},
    ]
    assert check_text(findings).splitlines() == [
        "/d/a.json: ok",
        "  endpoint  /run/a.sock",
        "  hooks     PreRunPodSandbox, PostStopContainer",
        "  policy    Fail",
        "  priority  1",
        "  timeout   0.5s",
        '  selector  {"namespaces": ["x"]}',
        "  warning: strange?",
        "/d/b.json: cannot be used, 2 problems",
        "  problem: one",
        "  problem: two",
        "/e: does not exist",
    ]


def test_warnings_are_among_the_problems() -> None:
    """The file is in force, though perhaps not as its author meant it."""
    warned = {"file": "z.json", "messages": ["file z.json: 'comment' is not a known key"]}
    assert list_text({"plugins": [], "warnings": [warned]}).splitlines()[1:] == [
        "Problems:",
        "  z.json: is in force as far as it is understood",
        "    - file z.json: 'comment' is not a known key",
    ]
