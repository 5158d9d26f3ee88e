"""Command lines of Koordinator's runtime proxy work as they did."""

from typing import Any

import pytest

from interpose import __version__
from interpose.cli.compat.koord_runtime_proxy import FLAGS, load_flags, run_command
from interpose.config.relay.settings import RelaySettings

DEFAULTS = RelaySettings(
    listen="/var/run/koord-runtimeproxy/runtimeproxy.sock", runtime_endpoint="/var/run/containerd/containerd.sock"
)


def test_the_bare_command_has_the_old_defaults(process: Any) -> None:
    """`koord-runtime-proxy` alone listens and connects where it always did."""
    assert run_command([], {}) == 0
    assert process.runs == [DEFAULTS]


@pytest.mark.parametrize(
    "line",
    [
        "--remote-runtime-service-endpoint=/run/r.sock --remote-image-service-endpoint=/run/i.sock",
        "-remote-runtime-service-endpoint /run/r.sock -remote-image-service-endpoint unix:///run/i.sock",
        "-remote-runtime-service-endpoint=/run/r.sock --remote-image-service-endpoint /run/i.sock",
        """--remote-runtime-service-endpoint=/run/r.sock --backend-runtime-mode=Containerd
        -runtime-hook-server-key=k --runtime-hook-server-val v --remote-image-service-endpoint=/run/i.sock""",
    ],
)
def test_printed_command_lines_work_in_every_spelling(process: Any, line: str) -> None:
    """The command lines of the old documentation are understood."""
    assert run_command(line.split(), {}) == 0
    (settings,) = process.runs
    assert (settings.runtime_endpoint, settings.image_endpoint) == ("/run/r.sock", "/run/i.sock")
    assert settings.listen == DEFAULTS.listen


def test_origins_name_the_old_flags() -> None:
    """Whoever asks where a value came from reads the flag that was typed."""
    loaded = load_flags({"koord-runtimeproxy-endpoint": "/run/k.sock"}, {"INTERPOSE_GRACE": "3s"})
    assert loaded.origins["listen"] == "flag --koord-runtimeproxy-endpoint"
    assert loaded.origins["runtime_endpoint"] == "default of koord-runtime-proxy"
    assert loaded.origins["process.grace"] == "environment INTERPOSE_GRACE"
    assert loaded.settings.process.grace == 3.0


def test_the_environment_beats_the_old_defaults_but_not_the_flags() -> None:
    """INTERPOSE_* works here as it does for `interpose relay`."""
    env = {"INTERPOSE_LISTEN": "/run/env.sock"}
    assert load_flags({}, env).settings.listen == "/run/env.sock"
    assert load_flags({"koord-runtimeproxy-endpoint": "/run/k.sock"}, env).settings.listen == "/run/k.sock"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--backend-runtime-mode", "docker"], 78, "'docker' is not one of Containerd, Docker"),
        (["--koord-runtimeproxy-endpoint=x.sock"], 78, "flag --koord-runtimeproxy-endpoint"),
        (["--v=4"], 2, "unknown flag --v\n"),
        (["--polcy", "x"], 2, "unknown flag --polcy; for --policy of `interpose relay` set INTERPOSE_POLICY\n"),
        (
            ["-runtime-endpoint", "x"],
            2,
            "unknown flag --runtime-endpoint, did you mean --remote-runtime-service-endpoint?\n",
        ),
        (["--backend-runtime-mode"], 2, "flag --backend-runtime-mode needs a value"),
    ],
)
def test_mistakes_name_the_old_flag_and_start_nothing(
    process: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    """Wrong values end with 78, wrong usage with 2, each with a message on stderr."""
    assert run_command(arguments, {}) == code
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""
    assert process.runs == []


def test_docker_mode_finds_dockerd_where_it_is(process: Any) -> None:
    """The default of the runtime endpoint follows the mode, the socket for the kubelet does not."""
    assert run_command(["--backend-runtime-mode=Docker"], {}) == 0
    (settings,) = process.runs
    assert (settings.backend, settings.listen) == ("docker", DEFAULTS.listen)
    assert settings.runtime_endpoint == "/var/run/docker.sock"
    loaded = load_flags({"backend-runtime-mode": "Docker"}, {})
    assert loaded.origins["runtime_endpoint"] == "default of koord-runtime-proxy in Docker mode"


def test_docker_mode_asked_for_by_the_environment_finds_dockerd_too() -> None:
    """What the mode is counts, not who said so."""
    assert load_flags({}, {"INTERPOSE_BACKEND": "docker"}).settings.runtime_endpoint == "/var/run/docker.sock"


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ({"remote-runtime-service-endpoint": "/run/d.sock"}, {}),
        ({}, {"INTERPOSE_RUNTIME_ENDPOINT": "/run/d.sock"}),
    ],
)
def test_docker_mode_takes_the_named_dockerd(flags: dict[str, str], env: dict[str, str]) -> None:
    """Flag and environment beat the default of the mode."""
    loaded = load_flags({"backend-runtime-mode": "Docker", **flags}, env)
    assert loaded.settings.runtime_endpoint == "/run/d.sock"


def test_docker_mode_ignores_the_image_endpoint_with_a_warning(
    process: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unit files that have it keep working: there never was an image service of its own in that mode."""
    assert run_command(["--backend-runtime-mode=Docker", "--remote-image-service-endpoint=/run/i.sock"], {}) == 0
    assert process.runs[0].image_endpoint == ""
    warning = "warning: flag --remote-image-service-endpoint: has no effect in Docker mode"
    assert capsys.readouterr().err.startswith(warning)


def test_help_lists_all_flags_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """-h, -help and --help print the flags."""
    for word in ("-h", "-help", "--help"):
        assert run_command([word], {}) == 0
        text = capsys.readouterr().out
        for name, flag in FLAGS.items():
            assert f"--{name} string" in text
            assert flag.default in text


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The drop-in says which program it really is."""
    assert run_command(["--version"], {}) == 0
    assert capsys.readouterr().out == f"koord-runtime-proxy (interpose {__version__})\n"


def test_skip_label_of_pods_is_a_setting() -> None:
    """The two hook flags choose which pods hook servers do not see."""
    loaded = load_flags({"runtime-hook-server-key": "example.com/skip", "runtime-hook-server-val": "yes"}, {})
    assert (loaded.settings.hooks.skip_key, loaded.settings.hooks.skip_value) == ("example.com/skip", "yes")
    assert load_flags({}, {}).settings.hooks.skip_key == "runtimeproxy.koordinator.sh/skip-hookserver"
