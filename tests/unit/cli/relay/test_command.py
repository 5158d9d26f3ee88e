"""`interpose relay` hands the right settings to the relay."""

import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.config.relay.settings import RelaySettings


def _relay(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["relay", *arguments], env=env)


def test_without_flags_the_defaults_are_run(process: Any) -> None:
    """The plain command runs a relay with the documented defaults."""
    assert _relay().exit_code == 0
    assert process.runs == [RelaySettings()]


def test_the_relays_exit_code_is_the_programs(process: Any) -> None:
    """What the relay returns is what the caller sees."""
    process.exit_code = 7
    assert _relay().exit_code == 7


def test_flags_environment_and_file_reach_the_relay(process: Any, tmp_path: Path) -> None:
    """Each source delivers its values in the documented order."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "apiVersion: interpose/v1\nkind: RelayConfig\nprocess: {grace: 1s}\nlimits: {resets: 11, max_streams: 12}\n"
    )
    result = _relay(
        "--config",
        str(path),
        "--runtime-endpoint=unix:///run/c.sock",
        "--max-streams",
        "14",
        "--take-over",
        "--detach",
        env={"INTERPOSE_MAX_RESETS": "13", "INTERPOSE_LOG_FORMAT": "json"},
    )
    assert result.exit_code == 0, result.output
    (settings,) = process.runs
    assert settings.process.grace == 1.0
    assert settings.limits.resets == 13
    assert settings.limits.max_streams == 14
    assert settings.runtime_endpoint == "/run/c.sock"
    assert settings.logging.format == "json"
    assert settings.process.take_over
    assert settings.process.detach


def test_print_config_shows_values_with_origin_and_runs_nothing(process: Any) -> None:
    """A person can see what would be in force, and why."""
    result = _relay("--print-config", "--listen", "/run/x.sock", env={"INTERPOSE_GRACE": "5s"})
    assert result.exit_code == 0
    assert re.search(r"^listen +/run/x\.sock +flag --listen$", result.stdout, re.MULTILINE)
    assert re.search(r"^process\.grace +5s +environment INTERPOSE_GRACE$", result.stdout, re.MULTILINE)
    assert re.search(r"^socket\.mode +0600 +default$", result.stdout, re.MULTILINE)
    assert process.runs == []


def test_unknown_variables_are_pointed_out_on_stderr(process: Any) -> None:
    """A misspelt variable does not stop the relay, but it is not silent either."""
    result = _relay(env={"INTERPOSE_LISTENN": "/x"})
    assert result.exit_code == 0
    text = "is not a known setting and has no effect, did you mean INTERPOSE_LISTEN?"
    assert result.stderr == f"warning: environment INTERPOSE_LISTENN: {text}\n"
    assert len(process.runs) == 1


def test_docker_mode_has_a_socket_of_its_own(process: Any) -> None:
    """Who asks for dockerd and names no socket listens where no CRI client looks."""
    result = _relay("--backend", "docker", "--print-config")
    assert re.search(r"^listen +/var/run/interpose/docker\.sock +default$", result.stdout, re.MULTILINE)
    assert _relay("--backend", "docker").exit_code == 0
    (settings,) = process.runs
    assert (settings.backend, settings.listen) == ("docker", "/var/run/interpose/docker.sock")


def test_docker_mode_has_no_image_endpoint(process: Any) -> None:
    """dockerd has one socket for everything."""
    result = _relay("--backend", "docker", env={"INTERPOSE_IMAGE_ENDPOINT": "/run/i.sock"})
    assert result.exit_code == 78
    assert "environment INTERPOSE_IMAGE_ENDPOINT: image_endpoint '/run/i.sock' cannot be used" in result.stderr
    assert process.runs == []


def test_embedded_runtime_leaves_no_room_for_another(process: Any) -> None:
    """A backend that is named as well is refused with both origins."""
    result = _relay("--embedded", "--runtime-endpoint", "/run/x.sock")
    assert result.exit_code == 78
    assert "flag --runtime-endpoint: runtime_endpoint contradicts embedded (flag --embedded)" in result.stderr
    assert process.runs == []
