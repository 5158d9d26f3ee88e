"""Sources are merged by rank, origins are kept, mistakes of all sources come together."""

from pathlib import Path

import pytest

from interpose.config.load import SettingText, load
from interpose.config.relay.settings import RelaySettings
from interpose.config.relay.table import RELAY
from interpose.config.schema import Instead
from interpose.errors import ConfigError

HEADER = "apiVersion: interpose/v1\nkind: RelayConfig\n"


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "relay.yaml"
    path.write_text(HEADER + text)
    return str(path)


def test_nothing_given_means_defaults() -> None:
    """Without any source every value is the default and says so."""
    loaded = load(RELAY, flags={}, env={})
    assert loaded.settings == RelaySettings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == ()


def test_flag_beats_environment_beats_file_beats_preset_beats_default(tmp_path: Path) -> None:
    """The documented precedence, one step at a time."""
    preset = {
        "process.grace": SettingText("4s", "default of old"),
        "limits.resets": SettingText("44", "default of old"),
    }
    path = _file(tmp_path, "process:\n  grace: 3s\nlimits:\n  max_streams: 33\n")
    env = {"INTERPOSE_GRACE": "2s", "INTERPOSE_LISTEN": "/run/env.sock"}
    steps = [
        (load(RELAY, flags={}, env={}, presets=preset), 4.0, "default of old"),
        (load(RELAY, flags={}, env={}, presets=preset, path=path), 3.0, f"file {path}:4"),
        (load(RELAY, flags={}, env=env, presets=preset, path=path), 2.0, "environment INTERPOSE_GRACE"),
        (
            load(RELAY, flags={"process.grace": SettingText("1s", "flag --grace")}, env=env, presets=preset, path=path),
            1.0,
            "flag --grace",
        ),
    ]
    for loaded, grace, origin in steps:
        assert loaded.settings.process.grace == grace
        assert loaded.origins["process.grace"] == origin
    last = steps[-1][0].settings
    assert (last.listen, last.limits.max_streams, last.limits.resets) == ("/run/env.sock", 33, 44)


def test_the_file_may_be_named_in_the_environment_and_the_flag_wins(tmp_path: Path) -> None:
    """INTERPOSE_CONFIG works like --config."""
    path = _file(tmp_path, "process:\n  grace: 3s\n")
    assert load(RELAY, flags={}, env={"INTERPOSE_CONFIG": path}).settings.process.grace == 3.0
    assert load(RELAY, flags={}, env={"INTERPOSE_CONFIG": "/nonexistent.yaml"}, path=path).settings.process.grace == 3.0


def test_an_empty_variable_counts_as_not_set() -> None:
    """A unit file can only empty a variable, not unset it."""
    loaded = load(RELAY, flags={}, env={"INTERPOSE_GRACE": ""})
    assert loaded.origins["process.grace"] == "default"


def test_unknown_variables_are_reported_and_foreign_ones_are_not() -> None:
    """A misspelt INTERPOSE_ variable is a warning, not an error."""
    loaded = load(RELAY, flags={}, env={"INTERPOSE_GRASE": "1s", "HOME": "/root"})
    text = "environment INTERPOSE_GRASE: is not a known setting and has no effect, did you mean INTERPOSE_GRACE?"
    assert loaded.warnings == (text,)


def test_mistakes_of_all_sources_come_together(tmp_path: Path) -> None:
    """Nobody has to start the relay three times to find three mistakes."""
    path = _file(tmp_path, "limits:\n  message: big\n")
    with pytest.raises(ConfigError) as caught:
        load(
            RELAY,
            flags={"process.grace": SettingText("x", "flag --grace")},
            env={"INTERPOSE_LOG_LEVEL": "loud"},
            path=path,
        )
    places = [problem.split(": ")[0] for problem in caught.value.problems]
    assert places == [f"file {path} line 4", "environment INTERPOSE_LOG_LEVEL", "flag --grace"]


def test_an_unreadable_file_does_not_hide_other_mistakes() -> None:
    """The missing file and the bad flag are both named."""
    with pytest.raises(ConfigError) as caught:
        load(RELAY, flags={"process.grace": SettingText("x", "flag --grace")}, env={}, path="/nonexistent.yaml")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"backend": "docker", "image_endpoint": "/run/i.sock"},
            "flag image_endpoint: image_endpoint '/run/i.sock' cannot be used with the backend docker (flag backend)",
        ),
        (
            {"backend": "docker", "listen": "/var/run/docker.sock"},
            "flag listen: listen is where a backend is looked for",
        ),
        ({"listen": "/run/crio/crio.sock"}, "flag listen: listen is where a backend is looked for"),
        ({"embedded": "true", "backend": "docker"}, "flag backend: backend contradicts embedded (flag embedded)"),
        ({"listen": "/run/a.sock", "runtime_endpoint": "unix:///run/a.sock"}, "runtime_endpoint is the socket we"),
        ({"listen": "/run/a.sock", "image_endpoint": "/run/a.sock"}, "image_endpoint is the socket we"),
        ({"listen": "/run/a.sock", "admin.listen": "unix:///run/a.sock"}, "admin.listen is the socket we"),
        ({"socket.like_backend": "true", "socket.mode": "0660"}, "socket.mode contradicts socket.like_backend"),
        ({"limits.max_total_streams": "10"}, "limits.max_total_streams 10 is below limits.max_streams 1000 (default)"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(flags: dict[str, str], message: str) -> None:
    """Contradictions and things that do not exist yet are named with their origin."""
    given = {key: SettingText(text, f"flag {key}") for key, text in flags.items()}
    with pytest.raises(ConfigError) as caught:
        load(RELAY, flags=given, env={})
    assert len(caught.value.problems) == 1
    assert message in caught.value.problems[0]


def test_a_default_may_depend_on_another_setting(tmp_path: Path) -> None:
    """Whoever says that dockerd is behind the relay gets a socket with another name, wherever it is said."""
    docker = "/var/run/interpose/docker.sock"
    path = _file(tmp_path, "backend: docker\n")
    for loaded in (
        load(RELAY, flags={"backend": SettingText("docker", "flag --backend")}, env={}),
        load(RELAY, flags={}, env={"INTERPOSE_BACKEND": "docker"}),
        load(RELAY, flags={}, env={}, path=path),
        load(RELAY, flags={}, env={}, presets={"backend": SettingText("docker", "default of old")}),
    ):
        assert (loaded.settings.listen, loaded.origins["listen"]) == (docker, "default")
    assert (
        load(RELAY, flags={"backend": SettingText("cri", "flag --backend")}, env={}, path=path).settings
        == RelaySettings()
    )


@pytest.mark.parametrize("named", ["flag", "environment", "file", "preset"])
def test_whoever_names_a_value_gets_no_dependent_default(tmp_path: Path, named: str) -> None:
    """A default of ours is below everything that somebody says, and below the defaults of another program."""
    given = {"listen": SettingText("/run/x.sock", "somebody")}
    loaded = load(
        RELAY,
        flags=given if named == "flag" else {},
        env={"INTERPOSE_BACKEND": "docker"} | ({"INTERPOSE_LISTEN": "/run/x.sock"} if named == "environment" else {}),
        path=_file(tmp_path, "listen: /run/x.sock\n") if named == "file" else None,
        presets=given if named == "preset" else {},
    )
    assert loaded.settings.listen == "/run/x.sock"
    assert loaded.origins["listen"] != "default"


def test_another_program_may_have_a_dependent_default_instead_of_its_usual_one() -> None:
    """It is above its usual default and below what anybody says."""
    presets = {"runtime_endpoint": SettingText("/run/usual.sock", "default of old")}
    instead = {"runtime_endpoint": Instead("backend", "docker", "/run/other.sock", "default of old with docker")}
    env = {"INTERPOSE_BACKEND": "docker"}
    loaded = load(RELAY, flags={}, env=env, presets=presets, instead=instead)
    assert loaded.settings.runtime_endpoint == "/run/other.sock"
    assert loaded.origins["runtime_endpoint"] == "default of old with docker"
    assert (
        load(RELAY, flags={}, env={}, presets=presets, instead=instead).settings.runtime_endpoint == "/run/usual.sock"
    )
    flags = {"runtime_endpoint": SettingText("/run/said.sock", "flag")}
    said = load(RELAY, flags=flags, env=env, presets=presets, instead=instead)
    assert (said.settings.runtime_endpoint, said.origins["runtime_endpoint"]) == ("/run/said.sock", "flag")


def test_a_path_may_be_relative_in_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To where the program was started; files and variables have no such place."""
    monkeypatch.chdir(tmp_path)
    flags = {
        "policy.config": SettingText("sub/p.yaml", "flag --policy-config"),
        "dump.file": SettingText("", "flag --dump-file"),
    }
    settings = load(RELAY, flags=flags, env={}).settings
    assert (settings.policy.config, settings.dump.file) == (f"{tmp_path}/sub/p.yaml", "")
    path = _file(tmp_path, "policy: {config: p.yaml}\n")
    preset = {"policy.pools_file": SettingText("pools", "default of old")}
    with pytest.raises(ConfigError) as caught:
        load(RELAY, flags={}, env={"INTERPOSE_DUMP_FILE": "d"}, path=path, presets=preset)
    assert caught.value.problems == [
        "default of old: 'pools' is not an absolute path",
        f"file {path} line 3: policy.config: 'p.yaml' is not an absolute path",
        "environment INTERPOSE_DUMP_FILE: 'd' is not an absolute path",
    ]


def test_a_working_directory_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing can be relative to it, and the flag is named."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="flag --dump-file: 'd' is not an absolute path"):
        load(RELAY, flags={"dump.file": SettingText("d", "flag --dump-file")}, env={})


def test_a_file_may_say_the_defaults_beside_a_switch_that_replaces_them(tmp_path: Path) -> None:
    """As one with every key does; it contradicts nothing."""
    path = _file(tmp_path, 'socket: {mode: "0600", owner: "", like_backend: true}\n')
    assert load(RELAY, flags={}, env={}, path=path).settings.socket.like_backend
