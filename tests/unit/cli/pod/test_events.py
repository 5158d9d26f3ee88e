"""`interpose pod events` shows what happened with pods."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interpose.cli.pod import events as pod_events
from tests.support.node.pod_commands import PodCommands, pod_commands

NEVER = {"name": "main", "image": "nosuch:1", "imagePullPolicy": "Never"}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        assert made("run", "-f", made.manifest("bad", containers=[NEVER]), "-q").exit_code == 1
        yield made


def reasons(text: str) -> list[str]:
    """The third column, without the header."""
    return [line.split()[2] for line in text.splitlines()[1:]]


def test_what_happened_is_listed(commands: PodCommands) -> None:
    """Of one pod in its order, of all without a name; a runtime is not asked."""
    lines = commands("events", "web").stdout.splitlines()
    assert lines[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert reasons("\n".join(lines)) == ["Scheduled", "Pulled", "Created", "Started"]
    assert lines[-1].split()[1:] == ["Normal", "Started", "default/web/main", "Started", "container", "main"]
    assert set(reasons(commands("events").stdout)) >= {"Started", "ErrImageNeverPull"}
    assert reasons(commands("events", "web", "-r", "/no/such.sock").stdout)[0] == "Scheduled"


def test_events_can_be_narrowed(commands: PodCommands) -> None:
    """By type, by namespace, by labels."""
    for name in ("Warning", "warning"):
        assert reasons(commands("events", "--types", name).stdout) == ["ErrImageNeverPull"]
    assert commands("events", "-n", "nosuch").stdout == "No events.\n"
    assert commands("events", "-l", "app").stdout == "No events.\n"
    wrong = commands("events", "nosuch")
    assert wrong.exit_code == 1
    assert "there is no pod 'nosuch'" in wrong.stderr


def test_programs_get_json(commands: PodCommands) -> None:
    """With counts and times."""
    commands("run", "-f", commands.manifest("bad", containers=[NEVER]), "-q")
    *_, failed = json.loads(commands("events", "bad", "-o", "json").stdout)
    assert (failed["name"], failed["container"], failed["type"]) == ("bad", "main", "Warning")
    assert failed["count"] == 2
    assert datetime.fromisoformat(failed["lastTimestamp"]).tzinfo is UTC
    assert failed["firstTimestamp"] <= failed["lastTimestamp"]


def test_a_stop_by_hand_is_an_event(commands: PodCommands) -> None:
    """Whoever says it; with the pod its events go."""
    commands("stop", "web")
    assert reasons(commands("events", "web").stdout)[-1] == "Killing"
    commands("rm", "web")
    assert commands("events", "web").exit_code == 1


@pytest.mark.parametrize("output", ["text", "json"])
def test_events_are_followed(commands: PodCommands, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """Those that come, and those that come again; a pod that goes ends nothing."""
    acts = [lambda: commands("stop", "web"), lambda: commands("rm", "web")]

    def sleep(_seconds: float) -> None:
        if not acts:
            raise KeyboardInterrupt
        acts.pop(0)()

    monkeypatch.setattr(pod_events, "_pause", sleep)
    result = commands("events", "web", "-w", "-o", output)
    assert result.exit_code == 130
    lines = result.stdout.splitlines()
    found = [json.loads(one)["reason"] for one in lines] if output == "json" else reasons(result.stdout)
    assert found == ["Scheduled", "Pulled", "Created", "Started", "Killing"]
