"""`interpose config validate` says of each file what its program would say."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli

ROOT = Path(__file__).parents[4]
RELAY = "apiVersion: interpose/v1\nkind: RelayConfig\n"


def validate(*arguments: object, text: str | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["config", "validate", *map(str, arguments)], input=text)


def findings(*arguments: object, text: str | None = None) -> list[dict[str, Any]]:
    """What it finds, as JSON."""
    found: list[dict[str, Any]] = json.loads(validate("-o", "json", *arguments, text=text).stdout)
    return found


def test_good_files_have_a_line_each(write: Any) -> None:
    """With what they are; exit code 0."""
    first, second = write("a.yaml", RELAY), write("b.yaml", "policy: {Active: static}")
    result = validate(first, second)
    assert result.exit_code == 0
    assert result.output == f"ok {first}: RelayConfig\nok {second}: PolicyDocument\n"


def test_every_problem_is_told_with_its_place(write: Any) -> None:
    """Exit code 78 although another file is fine."""
    bad, good = write("a.yaml", f"{RELAY}listn: /x\ngrace: 1\n"), write("b.yaml", RELAY)
    result = validate(bad, good)
    assert result.exit_code == 78
    assert result.output.splitlines() == [
        f"bad {bad}",
        f"  error: file {bad} line 3: listn: is not a known key, did you mean listen?",
        f"  error: file {bad} line 4: grace: is not a known key, did you mean process.grace?",
        f"ok {good}: RelayConfig",
    ]


def test_what_has_no_effect_is_a_warning(write: Any) -> None:
    """The file is fine."""
    path = write("a.yaml", "policy: {Active: static, eda: {}}\nlogger: {}\n")
    result = validate(path)
    assert (result.exit_code, result.output.count("has no effect here")) == (0, 2)


def test_findings_are_available_as_json(write: Any) -> None:
    """With lines of their own."""
    path = write("a.yaml", f"{RELAY}x: 1\n")
    assert findings(path) == [
        {
            "file": str(path),
            "kind": None,
            "ok": False,
            "problems": [{"line": 3, "text": f"file {path} line 3: x: is not a known key"}],
            "warnings": [],
        }
    ]


def test_standard_input_can_be_checked() -> None:
    """As a dash; what it is can be said."""
    assert validate("-", text=RELAY).output == "ok <stdin>: RelayConfig\n"
    (found,) = findings("-", "--kind", "hookserverconfig", text=RELAY)
    assert (found["file"], found["ok"]) == ("-", False)


def test_a_directory_is_checked_whole(tmp_path: Path) -> None:
    """What is not ours is said to be skipped."""
    (tmp_path / "a.yaml").write_text(RELAY)
    (tmp_path / "job.yaml").write_text("apiVersion: batch/v1\nkind: Job\n")
    (tmp_path / "values.yaml").write_text("replicas: 2\n")
    assert validate(tmp_path).output.splitlines() == [
        f"ok {tmp_path}/a.yaml: RelayConfig",
        f"skipped {tmp_path}/job.yaml: not looked at: Job",
        f"skipped {tmp_path}/values.yaml: nothing that is known here",
    ]
    assert [one["kind"] for one in findings(tmp_path)] == ["RelayConfig", None, None]


def test_a_directory_for_kubectl_is_one_map(tmp_path: Path) -> None:
    """The keys are the names of its files."""
    (tmp_path / "policy.static").write_text("RelaxedIsolation: true\n")
    assert validate(tmp_path).output == f"ok {tmp_path}: ConfigMap (keys policy.static)\n"
    (tmp_path / "policy.static").write_text("RelaxedIsolaton: true\n")
    result = validate(tmp_path)
    assert result.exit_code == 78
    assert "ConfigMap key policy.static line 1: RelaxedIsolaton: is not a known key" in result.output


def test_nothing_to_check_is_no_success(tmp_path: Path) -> None:
    """A wrong path in a pipeline is noticed."""
    (tmp_path / "empty").mkdir()
    assert validate(tmp_path / "empty").exit_code == 78
    assert validate(tmp_path / "gone").exit_code == 78
    assert validate().exit_code == 2


def test_parts_of_other_nodes_count_unless_one_is_named(write: Any) -> None:
    """A mistake for node-2 does not concern node-1."""
    text = "apiVersion: v1\nkind: ConfigMap\ndata: {policy.static.node-2: 'x: 1'}\n"
    path = write("map.yaml", text)
    assert (validate(path).exit_code, validate(path, "--node", "node-1").exit_code) == (78, 0)


def test_a_kind_that_is_not_there_is_a_problem(write: Any) -> None:
    """Whoever says ConfigMap means one."""
    result = validate(write("a.yaml", "apiVersion: v1\nkind: Secret\n"), "--kind", "ConfigMap")
    assert (result.exit_code, "holds no ConfigMap" in result.output) == (78, True)


def test_the_environment_counts_only_if_asked(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is checked by itself."""
    monkeypatch.setenv("INTERPOSE_GRACE", "soon")
    path = write("a.yaml", RELAY)
    assert (validate(path).exit_code, validate(path, "--with-env").exit_code) == (0, 78)


def test_names_of_files_move_no_cursor(write: Any) -> None:
    """They may be anything."""
    assert "\x1b" not in validate(write("\x1b[2J.yaml", RELAY)).output


@pytest.mark.parametrize("folder", ["samples", "deploy"])
def test_everything_we_ship_is_fine(folder: str) -> None:
    """Settings, documents, manifests, registrations, option files."""
    result = validate(ROOT / folder)
    assert result.exit_code == 0, result.output
