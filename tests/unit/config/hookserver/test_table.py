"""What no single setting of the hook server shows."""

import pytest

from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.load import SettingText, load
from interpose.errors import ConfigError


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("runtime_endpoint", "/var/run/interpose/hookserver.sock", "is the socket we listen on ourselves"),
        ("admin.listen", "/var/run/interpose/hookserver.sock", "is the socket we listen on ourselves"),
        ("registration.name", "a/b", "'a/b' is not the name of a file"),
        ("registration.name", ".x", "'.x' is not the name of a file"),
        ("cgroups.kubepods", "../x", "'../x' is not the name of a cgroup"),
        ("reconcile.kubelet_url", "localhost:10250", "'localhost:10250' is not a URL"),
        ("mode", "sometimes", "'sometimes'"),
        ("hooks.disable_stages", "A B", "'A B' is not a word"),
    ],
)
def test_mistakes_name_flag_and_value(key: str, text: str, problem: str) -> None:
    """Nothing starts with a setting that cannot work."""
    with pytest.raises(ConfigError, match="flag --x") as error:
        load(HOOKSERVER, flags={key: SettingText(text, "flag --x")}, env={})
    assert problem in str(error.value)


def test_modes_say_what_is_done() -> None:
    """Proxy answers, standalone watches, both do both."""
    modes = {
        mode: (loaded.settings.serves_hooks, loaded.settings.reconciles)
        for mode in ("proxy", "standalone", "both")
        for loaded in (load(HOOKSERVER, flags={"mode": SettingText(mode, "flag --mode")}, env={}),)
    }
    assert modes == {"proxy": (True, False), "standalone": (False, True), "both": (True, True)}


def test_the_relays_variables_are_not_ours() -> None:
    """And the other way round."""
    assert load(HOOKSERVER, flags={}, env={"INTERPOSE_GRACE": "1s"}).warnings == ()
    assert load(HOOKSERVER, flags={}, env={"INTERPOSE_HOOKSERVER_GRACE": "1s"}).warnings
