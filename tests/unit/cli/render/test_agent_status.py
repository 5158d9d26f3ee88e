"""The page about an agent: what people look for is there, and answers of other versions do no harm."""

from typing import Any

import pytest

from interpose.cli.render.agent_status import agent_status_text

WELL: dict[str, Any] = {
    "version": "1.2.3",
    "pid": 42,
    "uptime_seconds": 93784.2,
    "node": "worker-1",
    "group": "gold",
    "api": {"server": "https://10.0.0.1:6443", "access": "service account of the pod", "up": True, "error": ""},
    "node_object": {"state": "present", "version": "9", "problem": ""},
    "configuration": {
        "state": "applied",
        "since_seconds": 61.0,
        "map": {"name": "kube-system/cfg.group.gold", "version": "77", "keys": ["policy", "policy.static"]},
        "problem": "",
        "problems": [],
        "notes": [],
        "last_accepted": {"name": "kube-system/cfg.group.gold", "version": "77", "keys": ["policy", "policy.static"]},
        "last_accepted_seconds_ago": 61.0,
    },
    "relay": {"socket": "/run/config.sock", "up": True, "error": ""},
    "config_maps": [
        {"name": "cfg.node.worker-1", "namespace": "kube-system", "counts": False, "state": "missing"},
        {"name": "cfg.group.gold", "namespace": "kube-system", "counts": True, "state": "present", "version": "77"},
    ],
    "nodeslo": {"state": "applied", "version": "5", "problems": [], "file": "/run/state.json", "file_problem": ""},
    "reports": {"kinds": ["annotation", "event"], "pending": [], "problems": {}},
    "service": {"socket": "/run/agent.sock", "calls": 3, "refused_connections": 0},
}
PAGE = """\
Node        worker-1 (group gold)
API server  https://10.0.0.1:6443 (service account of the pod), reachable
Relay       /run/config.sock, reachable
Serving     /run/agent.sock, 3 calls
Agent       version 1.2.3, pid 42, up 1d 2h

Configuration applied: the relay has what the cluster wants (1m 1s ago)
  from ConfigMap kube-system/cfg.group.gold (version 77): policy, policy.static

ConfigMaps, the first that is there counts:
      NAME                           STATE    VERSION
      kube-system/cfg.node.worker-1  missing  -
  ->  kube-system/cfg.group.gold     present  77

NodeSLO applied, version 5
  written to /run/state.json

Reports: annotation, event"""


def page(**changed: Any) -> str:
    """The page with some of it changed."""
    return agent_status_text(WELL | changed)


def test_an_agent_that_is_well() -> None:
    """As short as it can be."""
    assert agent_status_text(WELL) == PAGE


def test_a_rejected_configuration() -> None:
    """What is wrong, and what is in force instead."""
    said = WELL["configuration"] | {
        "state": "rejected",
        "problems": ["policy.static: unknown key 'X'", "policy: Active"],
        "notes": ["ConfigMap a/b is passed over"],
        "last_accepted": {"name": "kube-system/cfg", "version": "3"},
        "last_accepted_seconds_ago": 7200,
    }
    text = page(configuration=said)
    assert "Configuration rejected: what was in force before stays" in text
    assert "  - policy.static: unknown key 'X'\n  - policy: Active\n  - ConfigMap a/b is passed over" in text
    assert "  accepted last: ConfigMap kube-system/cfg (version 3), 2h ago" in text


def test_a_configuration_that_is_waited_for() -> None:
    """Its one problem is told where there is no list of them; a map may have no keys."""
    said = {"state": "waiting", "problem": "no answer yet", "map": {"name": "a/b", "version": "1", "keys": []}}
    text = page(configuration=said)
    assert "(at an unknown time)" in text
    assert "  - no answer yet" in text
    assert "from ConfigMap a/b (version 1): no keys" in text


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"group": None}, "Node        worker-1 (group not known)"),
        ({"group": ""}, "Node        worker-1 (no group)"),
        ({"node_object": {"state": "missing"}}, "(group gold), which the cluster does not have"),
        ({"node_object": {"problem": "forbidden"}}, "(group gold): forbidden"),
        ({"relay": None}, "Relay       gets no configuration from the agent"),
        ({"relay": {"socket": "/x", "error": "no such file"}}, "Relay       /x, not reachable: no such file"),
        ({"service": {"socket": "/x", "calls": 1, "refused_connections": 2}}, "/x, 1 calls, 2 connections refused"),
        ({"reports": {"kinds": []}}, "Reports: none are made"),
        ({"reports": {"kinds": ["event"], "pending": ["event"]}}, "Reports: event; still to be written: event"),
        ({"reports": {"kinds": ["event"], "problems": {"event": "403"}}}, "  - event: 403"),
        ({"config_maps": [{"name": "a", "state": "unknown", "problem": "no route"}]}, "  - no route"),
        ({"nodeslo": {"state": "rejected", "problems": ["spec: x"]}}, "NodeSLO rejected: the last good one"),
        ({"nodeslo": {"state": "strange", "file_problem": "disk is full"}}, "  - disk is full"),
        ({"nodeslo": {"state": "strange"}}, "NodeSLO strange"),
        ({"configuration": {"state": "strange"}}, "Configuration strange ("),
        ({"uptime_seconds": 0}, "up 0s"),
        ({"uptime_seconds": 3600}, "up 1h"),
        ({"uptime_seconds": "x"}, "up -"),
    ],
)
def test_what_is_not_well_is_seen(changed: dict[str, Any], line: str) -> None:
    """Each in its place."""
    assert line in page(**changed)


@pytest.mark.parametrize("part", ["service", "nodeslo", "configuration", "config_maps"])
def test_what_is_turned_off_is_left_out(part: str) -> None:
    """There is nothing to say about it."""
    shown = {"service": "Serving", "nodeslo": "NodeSLO", "configuration": "Configuration ", "config_maps": "ConfigMaps"}
    assert shown[part] in PAGE
    assert shown[part] not in page(**{part: None})


@pytest.mark.parametrize("answer", [None, [], {}, {"api": 1, "config_maps": [1], "reports": "x"}])
def test_an_answer_of_somebody_else_is_no_crash(answer: object) -> None:
    """Whatever it is."""
    assert agent_status_text(answer).startswith("Node ")


def test_text_of_others_cannot_move_the_cursor() -> None:
    """Names come from the cluster."""
    assert "\x1b" not in page(node="n\x1b[2J")


def test_an_api_server_that_has_just_gone() -> None:
    """It counts as there for a while, but nobody is told that it is reachable while it is not."""
    api = WELL["api"] | {"up": True, "error": "https://10.0.0.1:443: Connection refused", "last_answer_seconds": 4.2}
    (line,) = [line for line in page(api=api).splitlines() if line.startswith("API server")]
    assert line.endswith("last answered 4s ago, since then: https://10.0.0.1:443: Connection refused")
    assert "reachable" not in line


def test_objects_of_policies_are_listed_with_their_kind() -> None:
    """Beside ConfigMaps, and named as what the configuration is from."""
    title = "BalloonsPolicy kube-system/default"
    chosen = {"name": title, "title": title, "version": "7", "keys": ["config.nri/v1alpha1"]}
    objects = [
        {"kind": "BalloonsPolicy", "name": "default", "namespace": "kube-system", "counts": True, "state": "present"},
        {"kind": "ConfigMap", "name": "cfg", "namespace": "kube-system", "counts": False, "state": "missing"},
    ]
    text = page(config_maps=objects, configuration=WELL["configuration"] | {"map": chosen})
    assert "  from BalloonsPolicy kube-system/default (version 7): config.nri/v1alpha1\n" in text
    assert "accepted last: ConfigMap kube-system/cfg.group.gold (version 77)" in text
    assert "Objects, the first that is there counts:\n" in text
    assert "  ->  BalloonsPolicy kube-system/default" in text
    assert "      ConfigMap kube-system/cfg " in text
