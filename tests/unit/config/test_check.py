"""The checker finds every problem of a document in one walk."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import pytest

from interpose.config.check import Checked, check_document
from interpose.config.documents.yaml import read_document
from interpose.config.relay.table import RELAY

HEADER = "apiVersion: interpose/v1\nkind: RelayConfig\n"


def _check(tmp_path: Path, text: str, name: str = "c.yaml") -> Checked:
    path = tmp_path / name
    path.write_text(text)
    return check_document(read_document(str(path)), name, RELAY)


def test_a_good_document_gives_values_with_their_lines(tmp_path: Path) -> None:
    """Values are parsed, and each knows the line it came from."""
    checked = _check(
        tmp_path,
        HEADER + "listen: unix:///run/x.sock\nsocket:\n  mode: 0660\n  allow_uids: [0, 1000]\n"
        "limits:\n  message: 2MiB\n  backend_wait: 1.5\n  max_streams: 10\nlogging:\n  # all commented out\n",
    )
    assert checked.problems == []
    assert checked.values == {
        "listen": "/run/x.sock",
        "socket.mode": 0o660,
        "socket.allow_uids": (0, 1000),
        "limits.message": 2 << 20,
        "limits.backend_wait": 1.5,
        "limits.max_streams": 10,
    }
    assert checked.origins["limits.message"] == "file c.yaml:8"


def test_every_problem_is_reported_at_once_with_file_line_key_and_value(tmp_path: Path) -> None:
    """One run of the checker shows all mistakes."""
    checked = _check(
        tmp_path,
        "apiVersion: interpose/v2\n"
        "listen: 7\n"
        "limits:\n"
        "  max_stream: 5\n"
        "  message: 5 apples\n"
        "  max_streams: 0\n"
        "  max_streams: 1\n"
        "socket: yes\n"
        "max_connections: 4\n"
        "embedded: 'true'\n"
        "logging:\n"
        "  level:\n"
        "  level_of_detail_xyz: 1\n",
    )
    expected = [
        "file c.yaml line 1: apiVersion: 'interpose/v2' is not known here, it must be interpose/v1",
        "file c.yaml: kind is missing, the file must say kind: RelayConfig",
        "file c.yaml line 2: listen: expected socket path or unix:///path, found a number ('7')",
        "file c.yaml line 4: limits.max_stream: is not a known key, did you mean limits.max_streams?",
        "file c.yaml line 5: limits.message: '5 apples' is not a size",
        "file c.yaml line 6: limits.max_streams: '0' is out of range: allowed are 1 to 100000",
        "file c.yaml line 7: limits.max_streams: is given twice, first in line 6",
        "file c.yaml line 8: socket: expected a group of keys, found true or false ('yes')",
        "file c.yaml line 9: max_connections: is not a known key, did you mean socket.max_connections?",
        "file c.yaml line 10: embedded: expected true or false, found text ('true')",
        "file c.yaml line 12: logging.level: expected debug or info or warning or error, found nothing ('')",
        "file c.yaml line 13: logging.level_of_detail_xyz: is not a known key",
    ]
    assert len(checked.problems) == len(expected), checked.problems
    for problem, start in zip(checked.problems, expected, strict=True):
        assert problem.startswith(start)


def test_the_document_must_be_a_map(tmp_path: Path) -> None:
    """A list or a bare word is not a settings file."""
    assert "not a list" in _check(tmp_path, "- a\n").problems[0]
    assert "not text" in _check(tmp_path, "hello\n").problems[0]


def test_lists_hold_plain_values_only(tmp_path: Path) -> None:
    """A list of something else is refused, not flattened."""
    for text in ("[[1]]", "['1,2']", "[true]"):
        checked = _check(tmp_path, HEADER + f"socket:\n  allow_uids: {text}\n")
        assert "line 4: socket.allow_uids: expected list of user ids, found" in checked.problems[0]


def test_json_is_checked_by_the_same_rules(tmp_path: Path) -> None:
    """The format changes nothing; lines are found for JSON too."""
    text = '{"apiVersion": "interpose/v1", "kind": "RelayConfig",\n"limits": {\n"max_streams": "5"}}'
    checked = _check(tmp_path, text, "c.json")
    assert checked.problems == [
        "file c.json line 3: limits.max_streams: expected whole number, 1 to 100000, found text ('5')"
    ]


def test_a_file_of_something_else_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some problems are told and the rest counted; only for those that are told is looked for what was meant."""
    asked: list[str] = []

    def close(word: str, _known: Sequence[str], **_options: object) -> list[str]:
        asked.append(word)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", close)
    checked = _check(tmp_path, HEADER + "".join(f"key{number}: 1\n" for number in range(80)))
    assert len(checked.problems) == 51
    assert checked.problems[49:] == [
        "file c.yaml line 52: key49: is not a known key",
        "file c.yaml: and 30 problems more",
    ]
    assert len(asked) == 50
