"""Which call a request is, as dockerd would say."""

import pytest

from interpose.relay.docker.routes import METHODS_OF, NAMES, OTHER, Act, classify
from interpose.relay.methods import METHODS


@pytest.mark.parametrize(
    ("method", "path", "act", "ref"),
    [
        ("POST", "/containers/create", Act.CREATE, ""),
        ("POST", "/v1.41/containers/create", Act.CREATE, ""),
        ("POST", "/v1.24/containers/abc/start", Act.START, "abc"),
        ("POST", "/v999.0.1/containers/abc/start", Act.START, "abc"),
        ("POST", "/containers/abc/stop", Act.STOP, "abc"),
        ("POST", "/containers/abc/kill", Act.KILL, "abc"),
        ("POST", "/containers/abc/restart", Act.RESTART, "abc"),
        ("POST", "/containers/abc/update", Act.UPDATE, "abc"),
        ("DELETE", "/v1.41/containers/abc", Act.REMOVE, "abc"),
        # dockerd takes anything for a name: links to others have a slash.
        ("POST", "/containers/web/db/start", Act.START, "web/db"),
        ("POST", "/containers/start/start", Act.START, "start"),
        ("DELETE", "/containers/create", Act.REMOVE, "create"),
    ],
)
def test_acts_with_and_without_a_version(method: str, path: str, act: Act, ref: str) -> None:
    """Everything that changes a container is seen, whoever asks for it."""
    routed = classify(method, path, "")
    assert (routed.endpoint.act, routed.ref) == (act, ref)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/containers/create"),
        ("post", "/containers/create"),
        ("PATCH", "/containers/create"),
        ("POST", "/containers/create/"),
        ("POST", "/v1.41/v1.41/containers/create"),
        ("POST", "/vx/containers/create"),
        ("POST", "//containers/create"),
        ("POST", "/containers//start"),
        ("POST", "/containers/a\n/start"),
        ("POST", "/containers/create\n"),
        ("DELETE", "/containers/"),
        ("POST", "/networks/create"),
        ("GET", "/v1.41"),
    ],
)
def test_what_dockerd_does_not_take_for_an_act(method: str, path: str) -> None:
    """It redirects or refuses them itself."""
    assert classify(method, path, "").endpoint is OTHER


@pytest.mark.parametrize(
    ("signal", "kills"),
    [
        ("", True),
        ("signal=", True),
        ("signal=KILL", True),
        ("signal=SIGKILL", True),
        ("signal=sigkill", True),
        ("signal=9", True),
        ("signal=%2B09", True),
        ("signal=%39", True),
        ("signal=TERM", False),
        ("signal=15", False),
        ("signal=-9", False),
        ("signal=HUP&signal=KILL", False),
        ("signal=SIGSIGKILL", False),
    ],
)
def test_a_signal_that_does_not_kill_is_no_act(signal: str, kills: bool) -> None:
    """The row stays the same for metrics."""
    endpoint = classify("POST", "/containers/abc/kill", signal).endpoint
    assert endpoint.act is (Act.KILL if kills else None)
    assert endpoint.name == "POST /containers/{id}/kill"


@pytest.mark.parametrize(
    ("query", "act"),
    [("", Act.REMOVE), ("force=1&v=1", Act.REMOVE), ("link=0", Act.REMOVE), ("link=1", None), ("link=true", None)],
)
def test_taking_a_link_away_is_no_removal(query: str, act: Act | None) -> None:
    """Only a name goes, the container stays."""
    assert classify("DELETE", "/containers/web/db", query).endpoint.act is act


@pytest.mark.parametrize(
    ("path", "query", "endless"),
    [
        ("/events", "", True),
        ("/containers/abc/logs", "", False),
        ("/containers/abc/logs", "follow=1", True),
        ("/containers/abc/logs", "follow=False", False),
        ("/containers/abc/stats", "", True),
        ("/containers/abc/stats", "stream=0", False),
        ("/containers/abc/stats", "stream=", False),
        ("/containers/json", "all=1", False),
    ],
)
def test_answers_that_do_not_end(path: str, query: str, endless: bool) -> None:
    """By what dockerd makes of the query."""
    assert classify("GET", path, query).endpoint.endless is endless


@pytest.mark.parametrize(
    ("method", "path", "hijack"),
    [
        ("POST", "/containers/abc/attach", True),
        ("POST", "/v1.40/exec/abc/start", True),
        ("GET", "/containers/abc/attach/ws", False),
        ("POST", "/containers/abc/exec", False),
    ],
)
def test_calls_that_take_the_connection_over(method: str, path: str, hijack: bool) -> None:
    """Attach and exec, with or without asking for an upgrade."""
    assert classify(method, path, "").endpoint.hijack is hijack


def test_parameters_as_go_reads_them() -> None:
    """The first of equal ones, decoded; a plus is a space, and older dockerds split at a semicolon."""
    params = classify("POST", "/containers/create", "name=a+b&name=c&&x;y=%2Fz&%6eame2=%zz").params
    assert dict(params) == {"name": "a b", "x": "", "y": "/z", "name2": "%zz"}


def test_every_act_becomes_methods_of_cri() -> None:
    """No act is forgotten, and no name is wrong."""
    assert set(METHODS_OF) == set(Act)
    assert {name for names in METHODS_OF.values() for name in names} <= METHODS.keys()


def test_names_are_a_fixed_set() -> None:
    """They are labels of metrics."""
    assert len(set(NAMES)) == len(NAMES)
    assert classify("HEAD", "/_ping", "").endpoint.name in NAMES
    assert OTHER.name in NAMES
