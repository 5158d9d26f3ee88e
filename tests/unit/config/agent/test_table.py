"""Settings of the agent: names as Kubernetes has them, and what no single one shows."""

from typing import Any

import pytest

from interpose.config.agent.settings import REPORTS, AgentSettings
from interpose.config.agent.table import AGENT
from interpose.config.load import LoadedSettings, SettingText, load
from interpose.errors import ConfigError


def told(**said: str) -> LoadedSettings:
    """Settings as flags say them; keys with two underscores for a dot."""
    return load(
        AGENT, flags={key.replace("__", "."): SettingText(text, "flag --x") for key, text in said.items()}, env={}
    )


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("node_name", "Node_1", "'Node_1' is not the name of a node"),
        ("node_name", "a" * 254, "is not the name of a node"),
        ("config__namespace", "a/b", "'a/b' is not the name of a namespace"),
        ("config__namespace", "a" * 64, "is not the name of a namespace"),
        ("config__map", "", "'' is not the name of a ConfigMap"),
        ("config__map", "-x", "'-x' is not the name of a ConfigMap"),
        ("config__group_label", "a b", "'a b' is not the name of a label"),
        ("config__when_missing", "forget", "'forget' is not one of withdraw, keep"),
        ("config__socket", "relative.sock", "is not absolute"),
        ("report", "annotation,mail", "'mail' is not one of annotation, condition, event, status, or none alone"),
        ("report", "event,none", "'none' is not one of"),
        (
            "config__sources",
            "ConfigMap,Secret",
            "'Secret' is not one of ConfigMap, TopologyAwarePolicy, BalloonsPolicy",
        ),
        ("config__sources", ",", "each once at most"),
        ("config__sources", "ConfigMap,configmap", "each once at most"),
        ("config__object_group_labels", "a/b/c", "'a/b/c' is not the name of a label"),
        ("admin__metrics_listen", "9097", "is not an address"),
        ("service__socket", "/var/run/interpose/agent-admin.sock", "admin.listen is the agent socket"),
        ("service__socket", "/var/run/interpose/config.sock", "service.socket is the config socket of the relay"),
        ("admin__listen", "/var/run/interpose/config.sock", "admin.listen is the config socket of the relay"),
        ("node_state__file", "/var/run/interpose/agent.sock", "node_state.file is a socket, service.socket"),
        ("node_state__file", "/var/run/interpose/config.sock", "node_state.file is a socket, config.socket"),
    ],
)
def test_mistakes_name_place_and_value(key: str, text: str, problem: str) -> None:
    """Nothing starts with a setting that cannot work."""
    with pytest.raises(ConfigError) as error:
        told(**{key: text})
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("node_name", "", ""),
        ("node_name", "worker-1.example.com", "worker-1.example.com"),
        ("config__group_label", "", ""),
        ("config__group_label", "example.com/Group_A", "example.com/Group_A"),
        ("config__socket", "none", "none"),
        ("service__socket", "", "none"),
        ("node_state__file", "", "none"),
        ("node_state__file", "/x/state.json", "/x/state.json"),
        ("report", "none", ()),
        ("config__sources", "balloonspolicy,ConfigMap", ("BalloonsPolicy", "ConfigMap")),
        ("config__object_group_labels", "a/b, c", ("a/b", "c")),
        ("report", "event,annotation", ("annotation", "event")),
        ("service__allow_keys", "cmk.intel.com/*,x", ("cmk.intel.com/*", "x")),
    ],
)
def test_values_are_taken_as_they_are_meant(key: str, text: str, value: Any) -> None:
    """What may be empty may be empty, and lists are lists."""
    settings: Any = told(**{key: text}).settings
    for name in key.split("__"):
        settings = getattr(settings, name)
    assert settings == value


def test_what_is_shown_is_read_back() -> None:
    """Also reports that are none."""
    kind = next(setting.kind for setting in AGENT.table if setting.key == "report")
    for value in ((), ("event",), REPORTS):
        assert kind.parse(kind.show(value), "x") == value


def test_what_is_turned_off_is_not_done() -> None:
    """And contradicts nothing."""
    settings: AgentSettings = told(config__socket="none", service__socket="none", node_state__file="none").settings
    assert (settings.pushes, settings.serves, settings.feeds) == (False, False, False)
    settings = told().settings
    assert (settings.pushes, settings.serves, settings.feeds) == (True, True, True)


def test_objects_of_policies_are_followed_where_they_are_wanted() -> None:
    """Not by default, and not without a relay that gets them."""
    settings: AgentSettings = told().settings
    assert not settings.follows_objects
    settings = told(config__sources="ConfigMap,BalloonsPolicy").settings
    assert settings.follows_objects
    settings = told(config__sources="BalloonsPolicy", config__socket="none").settings
    assert not settings.follows_objects


def test_the_relays_variable_for_our_socket_is_not_ours() -> None:
    """INTERPOSE_AGENT_SOCKET is where a relay looks for us; other strange ones are pointed out."""
    assert load(AGENT, flags={}, env={"INTERPOSE_AGENT_SOCKET": "/x"}).warnings == ()
    assert load(AGENT, flags={}, env={"INTERPOSE_AGENT_NODE": "x"}).warnings
