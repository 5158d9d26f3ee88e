"""`interpose hooks` checks files as the relay reads them, and shows what a relay has read."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose.cli.hooks import list_text
from interpose.cli.main import cli
from interpose.config.relay.settings import HookSettings
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response

SAMPLES = Path(__file__).parents[3] / "samples/hookserver.d"
GOOD = '{"remote-endpoint": "/run/a.sock", "runtime-hooks": ["PreRunPodSandbox"]}'


def check(*arguments: object) -> Result:
    """Run `interpose hooks check`."""
    return CliRunner().invoke(cli, ["hooks", "check", *map(str, arguments)])


def findings(*arguments: object) -> list[dict[str, Any]]:
    """What it finds, as JSON."""
    found: list[dict[str, Any]] = json.loads(check("--json", *arguments).stdout)
    return found


def test_good_files_are_shown_with_what_they_register(tmp_path: Path) -> None:
    """Exit code 0; a directory stands for its files."""
    for name in ("b.json", "a.json", "other.txt"):
        (tmp_path / name).write_text(GOOD)
    result = check(tmp_path)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if not line.startswith(" ")] == [
        f"{tmp_path}/a.json: ok",
        f"{tmp_path}/b.json: ok",
    ]
    assert "  endpoint  /run/a.sock" in result.output


def test_bad_files_are_shown_with_every_problem(tmp_path: Path) -> None:
    """Exit code 1, also if others are fine."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(GOOD)
    bad.write_text('{"remote-endpoint": "x", "runtime-hooks": ["y"]}')
    result = check(bad, good)
    assert result.exit_code == 1
    assert f"{bad}: cannot be used, 2 problems" in result.output
    assert f"{good}: ok" in result.output


def test_the_findings_are_available_as_json(tmp_path: Path) -> None:
    """For scripts, with the same exit codes."""
    path = tmp_path / "a.json"
    path.write_text(GOOD[:-1] + ', "timeout": 2, "x": 1}')
    assert findings(path) == [
        {
            "file": str(path),
            "registers": {
                "name": "a",
                "endpoint": "/run/a.sock",
                "failure_policy": "Ignore",
                "hooks": ["PreRunPodSandbox"],
                "priority": 100,
                "timeout_seconds": 2.0,
                "selector": None,
            },
            "problems": [],
            "warnings": [f"file {path} line 1: 'x' is not a known key"],
            "note": "",
        }
    ]


def test_the_samples_pass() -> None:
    """What we ship can be copied."""
    assert check(*sorted(SAMPLES.glob("*.json"))).exit_code == 0


def test_owner_and_mode_are_warnings(tmp_path: Path) -> None:
    """The file may be on its way to a node."""
    path = tmp_path / "a.json"
    path.write_text(GOOD)
    path.chmod(0o666)
    tmp_path.chmod(0o777)
    result = check(tmp_path)
    assert result.exit_code == 0
    assert (
        f"directory {tmp_path}: has mode 0777, everybody may write to it (chmod o-w), a relay refuses" in result.output
    )
    assert f"file {path}: has mode 0666, everybody may write to it (chmod o-w), a relay refuses it" in result.output


def test_names_a_relay_would_not_read_are_warnings(tmp_path: Path) -> None:
    """A file by another name can still be checked."""
    (tmp_path / "draft").write_text(GOOD)
    [finding] = findings(tmp_path / "draft")
    assert finding["problems"] == []
    assert "only names that end in .json" in finding["warnings"][0]


@pytest.mark.parametrize("there", ["nothing", "empty", "pipe", "dangling"])
def test_what_cannot_be_read_is_a_problem(tmp_path: Path, there: str) -> None:
    """And never hangs the command."""
    path = tmp_path / "a.json"
    match there:
        case "empty":
            path.touch()
        case "pipe":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to("nowhere")
    assert check(path).exit_code == 1
    [finding] = findings(path)
    assert len(finding["problems"]) == 1


def test_without_arguments_the_directory_of_the_relay_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is missing or empty is fine: nothing is registered."""
    missing = tmp_path / "hookserver.d"
    monkeypatch.setattr("interpose.cli.hooks.HookSettings", lambda: HookSettings(dir=str(missing)))
    result = check()
    assert (result.exit_code, result.output) == (0, f"{missing}: does not exist\n")
    missing.mkdir()
    result = check()
    assert (result.exit_code, result.output) == (
        0,
        f"{missing}: holds no registration files (names end in .json)\n",
    )


def test_the_list_comes_from_the_daemon(serve: Callable[[RouteTable], str]) -> None:
    """As a table, or as it came."""
    answer = {"directory": "/d", "plugins": [{"name": "a", "state": "idle"}], "problems": [], "store": {"pods": 1}}

    async def hooks(request: ServerRequest) -> ServerResponse:
        return json_response(answer)

    address = serve({("GET", "/v1/hooks"): hooks})
    text = CliRunner().invoke(cli, ["hooks", "list", "--admin", address])
    assert (text.exit_code, text.output) == (0, list_text(answer) + "\n")
    as_json = CliRunner().invoke(cli, ["hooks", "list", "--json", "--admin", address])
    assert json.loads(as_json.output) == answer


def test_without_a_daemon_the_code_is_1() -> None:
    """A script can rely on the exit code."""
    result = CliRunner().invoke(cli, ["hooks", "list", "--admin", "/nonexistent/admin.sock"])
    assert result.exit_code == 1
    assert "/nonexistent/admin.sock" in result.stderr
