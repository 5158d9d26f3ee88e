"""The settings of the runtime: what is refused, and how it is said."""

import pytest

from interpose.config.load import SettingText, load
from interpose.config.runtime.settings import RuntimeSettings
from interpose.config.runtime.table import RUNTIME
from interpose.errors import ConfigError


def _load(flags: dict[str, str], env: dict[str, str] | None = None) -> RuntimeSettings:
    given = {key: SettingText(text, f"flag {key}") for key, text in flags.items()}
    settings: RuntimeSettings = load(RUNTIME, flags=given, env=env or {}).settings
    return settings


def test_defaults_are_those_of_a_node() -> None:
    """Nothing has to be said."""
    assert _load({}) == RuntimeSettings()


@pytest.mark.parametrize("executor", ["auto", "runc", "crun", "plain", "/usr/local/bin/youki"])
def test_executor_is_a_word_or_a_path(executor: str) -> None:
    """Programs with the command line of runc can be named by their path."""
    assert _load({"executor": executor}).executor == executor


def test_folders_of_plugins_are_a_list() -> None:
    """In the order in which they are looked through."""
    assert _load({"network.bin_dirs": "/a, /b"}).network.bin_dirs == ("/a", "/b")


def test_variables_have_a_prefix_of_their_own() -> None:
    """INTERPOSE_RUNTIME_ENDPOINT is the relay's, and no mistake here."""
    settings = _load({}, {"INTERPOSE_RUNTIME_ROOT": "/data", "INTERPOSE_RUNTIME_ENDPOINT": "/run/x.sock"})
    assert settings.root == "/data"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"executor": "kata"}, "flag executor: 'kata' is neither one of auto, runc, crun, plain nor an"),
        ({"network.bin_dirs": "/a,b"}, "flag network.bin_dirs: 'b' is not an absolute path"),
        ({"listen": "/run/a", "admin.listen": "/run/a"}, "flag admin.listen: admin.listen is the socket we listen on"),
        ({"root": "/a", "state": "/a"}, "flag state: state is the same folder as root: '/a'"),
        ({"cgroups.driver": "systemd", "executor": "plain"}, "flag cgroups.driver: cgroups.driver systemd cannot be"),
        ({"streams.listen": "/run/s.sock"}, "flag streams.listen: streams.listen is a path, '/run/s.sock'"),
    ],
)
def test_what_cannot_be_is_named(flags: dict[str, str], message: str) -> None:
    """One problem each, with its origin."""
    with pytest.raises(ConfigError) as caught:
        _load(flags)
    [problem] = caught.value.problems
    assert message in problem
