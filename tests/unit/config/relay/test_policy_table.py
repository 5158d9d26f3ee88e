"""Settings about policies."""

import pytest

from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.relay.table import RELAY
from interpose.core.policy.names import NAMES
from interpose.errors import ConfigError


def given(**values: str) -> LoadedSettings:
    """Settings with these flags."""
    return load(
        RELAY, flags={f"policy.{key}": SettingText(text, f"flag {key}") for key, text in values.items()}, env={}
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_kept_under_its_first_name(name: str) -> None:
    """Whatever it was called."""
    loaded = given(name=name)
    assert loaded.settings.policy.name == NAMES[name]
    assert loaded.origins["policy.name"] == "flag name"


def test_that_no_policy_was_named_can_be_told_from_none() -> None:
    """A document decides only if nobody did here."""
    loaded = given()
    assert (loaded.settings.policy.name, loaded.origins["policy.name"]) == ("none", "default")


def test_empty_values_say_nothing() -> None:
    """A unit file may pass on variables that are empty."""
    empty = dict.fromkeys(
        (
            "name",
            "reserved",
            "available",
            "config",
            "fallback",
            "config_socket",
            "agent_socket",
            "pools_file",
            "pools_dir",
        ),
        "",
    )
    assert given(**empty).settings == given().settings


@pytest.mark.parametrize("text", ["cpu=1000m", " cpu=0,2 ", "cpu=cgroup:/system.slice,memory=1Gi"])
def test_resources_are_checked_and_kept_as_written(text: str) -> None:
    """--print-config shows what was typed."""
    assert given(reserved=text).settings.policy.reserved == text.strip()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"name": "statik"}, "flag name: 'statik' is not one of none, null, static, static-plus, static-pools, stp"),
        ({"reserved": "cpu=x"}, "flag reserved: 'x' is not a quantity"),
        ({"reserved": "cores=1"}, "flag reserved: 'cores=1' names 'cores'"),
        ({"available": "cpu=4"}, "flag available: 'cpu=4' is an amount, it must say which CPUs"),
        ({"config_socket": "x"}, "flag config_socket: 'x' is not absolute"),
        (
            {"config": "/a", "fallback": "/b"},
            "flag fallback: policy.fallback contradicts policy.config (flag config), which is in force from the start",
        ),
        (
            {"config_socket": "/var/run/interpose/cri.sock"},
            "flag config_socket: policy.config_socket is the socket of listen: '/var/run/interpose/cri.sock'",
        ),
        ({"agent_socket": "x"}, "flag agent_socket: 'x' is not absolute"),
        (
            {"agent_socket": "/run/a.sock", "config_socket": "/run/a.sock"},
            "flag agent_socket: policy.agent_socket is the socket of policy.config_socket: '/run/a.sock'",
        ),
    ],
)
def test_what_cannot_be_used_is_named(values: dict[str, str], problem: str) -> None:
    """With flag and value."""
    with pytest.raises(ConfigError) as caught:
        given(**values)
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


def test_cpus_that_may_be_used_are_named_or_those_of_a_cgroup() -> None:
    """And other domains may be there without them."""
    for text in ("cpu=1-7", "cpu=cgroup:/a", "memory=1Gi"):
        assert given(available=text).settings.policy.available == text


def test_the_config_socket_may_be_a_url() -> None:
    """As all sockets."""
    assert given(config_socket="unix:///run/c.sock").settings.policy.config_socket == "/run/c.sock"
