"""Which call a request is, as dockerd would say."""

import pytest

from interpose.cri.methods import METHODS
from interpose.net.h1.heads import RequestHead
from interpose.relay.docker.routes import (
    METHODS_OF,
    NAMES,
    OTHER,
    DockerOperation,
    classify,
    kills,
    operation_of,
    parameters,
    renamed,
)
from tests.support.docker.calls import HEADS

FORM = "application/x-www-form-urlencoded"


def head(line: str, *fields: str) -> RequestHead:
    """Of a request."""
    return HEADS.request("\r\n".join((f"{line} HTTP/1.1", "Host: docker", *fields, "", "")).encode())


@pytest.mark.parametrize(
    ("method", "path", "act", "ref"),
    [
        ("POST", "/containers/create", DockerOperation.CREATE, ""),
        ("POST", "/v1.41/containers/create", DockerOperation.CREATE, ""),
        ("POST", "/v1.24/containers/abc/start", DockerOperation.START, "abc"),
        ("POST", "/v999.0.1/containers/abc/start", DockerOperation.START, "abc"),
        ("POST", "/containers/abc/stop", DockerOperation.STOP, "abc"),
        ("POST", "/containers/abc/kill", DockerOperation.KILL, "abc"),
        ("POST", "/containers/abc/restart", DockerOperation.RESTART, "abc"),
        ("POST", "/containers/abc/update", DockerOperation.UPDATE, "abc"),
        ("DELETE", "/v1.41/containers/abc", DockerOperation.REMOVE, "abc"),
        # dockerd takes anything for a name: links to others have a slash.
        ("POST", "/containers/web/db/start", DockerOperation.START, "web/db"),
        ("POST", "/containers/start/start", DockerOperation.START, "start"),
        ("DELETE", "/containers/create", DockerOperation.REMOVE, "create"),
    ],
)
def test_acts_with_and_without_a_version(method: str, path: str, act: DockerOperation, ref: str) -> None:
    """Everything that changes a container is seen, whoever asks for it."""
    routed = classify(method, path, "")
    assert (routed.endpoint.operation, routed.ref) == (act, ref)


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
    ("signal", "killing"),
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
        ("signal=" + "0" * 60_000 + "9", True),
        ("signal=" + "0" * 60_000 + "x", False),
        ("signal=%2B", False),
        ("signal=%2B%2B9", False),
        ("signal=90", False),
        ("signal=K%C4%B1LL", True),
        ("signal=K\xc4\xb1LL", True),  # letters stand for bytes
        ("signal=HUP&signal=KILL", False),
        ("signal=SIGSIGKILL", False),
    ],
)
def test_a_signal_that_does_not_kill_is_no_act(signal: str, killing: bool) -> None:
    """The row stays the same for metrics."""
    routed = classify("POST", "/containers/abc/kill", signal)
    assert kills(routed.params) is killing
    assert routed.endpoint.name == "POST /containers/{id}/kill"
    if len(signal) < 100 and signal.isascii():
        assert operation_of(head(f"POST /containers/abc/kill?{signal}")) is (DockerOperation.KILL if killing else None)


@pytest.mark.parametrize("kind", [FORM, FORM.upper(), f" {FORM} ; charset=utf-8"])
def test_a_kill_with_a_form_may_kill(kind: str) -> None:
    """dockerd takes the signal of the form first, and that has not come yet."""
    assert operation_of(head("POST /containers/abc/kill?signal=HUP", f"Content-Type: {kind}")) is DockerOperation.KILL
    assert operation_of(head("POST /containers/abc/kill?signal=HUP", "Content-Type: application/json")) is None


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("X: y", DockerOperation.START),
        ("Content-Length: 0", DockerOperation.START),
        ("Content-Length: 7", DockerOperation.START),
        ("Content-Length: 8", DockerOperation.RESET),
        ("Transfer-Encoding: chunked", DockerOperation.RESET),
    ],
)
def test_a_start_with_a_body(field: str, act: DockerOperation) -> None:
    """dockerd takes no body of up to seven bytes for one."""
    assert operation_of(head("POST /v1.23/containers/abc/start", field)) is act
    assert operation_of(head("POST /containers/abc/stop", field)) is DockerOperation.STOP


@pytest.mark.parametrize(
    ("kind", "body", "readings"),
    [
        ("application/json", b"t=1", [{"t": "5", "q": ""}]),
        (FORM, b"", [{"t": "5", "q": ""}]),
        (FORM, b"t=1&t=2&x=\xc4\xb1", [{"t": "1", "q": "", "x": "\u0131"}]),
        (f"{FORM}; a=b; a=c", b"t=1", [{"t": "1", "q": ""}, {"t": "5", "q": ""}]),
    ],
)
def test_parameters_of_a_form_come_first(kind: str, body: bytes, readings: list[dict[str, str]]) -> None:
    """With more said about the form, Go may not read it: then both count."""
    found = parameters(head("POST /containers/abc/stop?t=5&q", f"Content-Type: {kind}"), body)
    assert [dict(one) for one in found] == readings


@pytest.mark.parametrize(
    ("target", "renamed_to"),
    [
        ("/containers/abc/start", "/containers/f00/start"),
        ("/v1.41/%63ontainers/web%2Fdb/stop?t=%35&x", "/v1.41/containers/f00/stop?t=%35&x"),
        ("http://docker/v1.24/containers/containers/x/kill", "/v1.24/containers/f00/kill"),
        ("/containers/start/start", "/containers/f00/start"),
    ],
)
def test_requests_that_name_a_container_by_its_id(target: str, renamed_to: str) -> None:
    """Everything else is as it came."""
    assert renamed(head(f"POST {target}"), "f00") == renamed_to
    assert renamed(head("DELETE /v1.41/containers/x?force=1"), "f00") == "/v1.41/containers/f00?force=1"


@pytest.mark.parametrize(
    ("query", "act"),
    [
        ("", DockerOperation.REMOVE),
        ("force=1&v=1", DockerOperation.REMOVE),
        ("link=0", DockerOperation.REMOVE),
        ("link=1", None),
        ("link=true", None),
    ],
)
def test_taking_a_link_away_is_no_removal(query: str, act: DockerOperation | None) -> None:
    """Only a name goes, the container stays."""
    assert classify("DELETE", "/containers/web/db", query).endpoint.operation is act


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


def test_a_wait_ends_with_its_container() -> None:
    """Its answer is the exit code, so nobody may cut it as an answer that never ends."""
    assert not classify("POST", "/containers/abc/wait", "condition=next-exit").endpoint.endless


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
    assert set(METHODS_OF) == set(DockerOperation)
    assert {name for names in METHODS_OF.values() for name in names} <= METHODS.keys()


def test_names_are_a_fixed_set() -> None:
    """They are labels of metrics."""
    assert len(set(NAMES)) == len(NAMES)
    assert classify("HEAD", "/_ping", "").endpoint.name in NAMES
    assert OTHER.name in NAMES
