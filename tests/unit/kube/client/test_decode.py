"""What the bytes of an API server mean."""

import json
from typing import Any

import pytest

from interpose.kube.client.api import NODE_SLOS, NODES, ApiError, WatchChange
from interpose.kube.client.decode import (
    Lines,
    read_error,
    read_event,
    read_list,
    read_object,
    read_one,
    read_plurals,
    read_versions,
    status_error,
)
from interpose.net.http.errors import shortened

LIST = {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": []}


def test_lines() -> None:
    """Whole ones come out, wherever bytes were cut; empty ones do not."""
    lines = Lines(100)
    assert lines.feed(b"a") == []
    assert lines.cut
    assert lines.feed(b"b\ncd\n\n \r\nef") == [b"ab", b"cd"]
    assert lines.feed(b"\n") == [b"ef"]
    assert not lines.cut


def test_line_that_does_not_end() -> None:
    """It is not collected for ever; whole lines before it count."""
    lines = Lines(5)
    assert lines.feed(b"ab\n1234567") == [b"ab"]
    with pytest.raises(ValueError, match="longer than 5 bytes"):
        lines.feed(b"8")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[" * 100_000, b"\xff\xfe\xff"])
def test_objects_that_are_none(body: bytes) -> None:
    """Whatever it is, it is told in one short line."""
    with pytest.raises(ValueError, match="the answer is not JSON") as caught:
        read_object(body)
    assert len(str(caught.value)) < 300


def test_half_of_an_object_is_not_shown() -> None:
    """It may be half of a Secret."""
    with pytest.raises(ValueError, match="not JSON: 26 bytes that begin as JSON does"):
        read_object(b'{"data": {"key": "hidden",')


def test_object_of_another_kind() -> None:
    """JSON that is not an object."""
    with pytest.raises(ValueError, match="not a JSON object: 3 bytes that begin as JSON does"):
        read_object(b"[1]")


def test_lists() -> None:
    """Objects are told what they are; what they say themselves counts more."""
    body = {"metadata": {"resourceVersion": "5", "continue": "c"}, "items": [{"a": 1}, {"kind": "Other"}]}
    listed, following = read_list(json.dumps(LIST | body).encode(), NODES)
    assert listed.items == ({"apiVersion": "v1", "kind": "Node", "a": 1}, {"apiVersion": "v1", "kind": "Other"})
    assert (listed.version, following) == ("5", "c")


def test_empty_lists() -> None:
    """Go writes null for an empty list."""
    assert read_list(json.dumps(LIST | {"items": None}).encode(), NODES) == (((), ""), "")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": {}, "items": None},
        LIST | {"items": {}},
        LIST | {"metadata": 1},
        LIST | {"kind": "PodList"},
        LIST | {"kind": "Node"},
        LIST | {"apiVersion": "v2"},
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"},
    ],
)
def test_lists_that_are_none(body: Any) -> None:
    """What has no objects in it is not yet an empty list."""
    with pytest.raises(ValueError, match="not a list of nodes"):
        read_list(json.dumps(body).encode(), NODES)


def test_one_object() -> None:
    """It has to be of the kind that was asked for."""
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {}}
    assert read_one(json.dumps(node).encode(), NODES) == node
    for change in ({"kind": "Status"}, {"apiVersion": "v2"}, {"metadata": None}):
        with pytest.raises(ValueError, match="the answer is not a valid Node: "):
            read_one(json.dumps(node | change).encode(), NODES)


def test_what_a_server_has() -> None:
    """Versions of groups, and the kinds of one of them; what is not as it should be is passed over."""
    versions = [{"groupVersion": NODE_SLOS.api_version}, "x"]
    groups = {"groups": [{"versions": versions}, {"versions": None}, 1]}
    body = {"kind": "APIGroupList", "apiVersion": "v1", **groups}
    assert read_versions(json.dumps(body).encode()) == {NODE_SLOS.api_version}
    body = {"kind": "APIResourceList", "apiVersion": "v1", "resources": [{"name": "nodeslos"}, {"name": "x/status"}]}
    assert read_plurals(json.dumps(body).encode()) == {"nodeslos", "x/status"}


@pytest.mark.parametrize("body", [{}, {"kind": "APIGroupList", "apiVersion": "v1"}, {"kind": "Status", "groups": []}])
def test_what_says_nothing_of_groups(body: Any) -> None:
    """It must not pass for a server that has none."""
    with pytest.raises(ValueError, match="the answer is not a valid APIGroupList"):
        read_versions(json.dumps(body).encode())


def test_list_of_other_things() -> None:
    """Only objects are in lists."""
    with pytest.raises(ValueError, match="the list of nodes has something else than objects in it"):
        read_list(json.dumps(LIST | {"items": ["x"]}).encode(), NODES)


def test_events() -> None:
    """What changed, and how it is now."""
    assert read_event(b'{"type": "DELETED", "object": {"a": 1}}') == (WatchChange.DELETED, {"a": 1})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"type": "ADDED", "object": 1}', "has no object"),
        (b'{"type": "NEWS", "object": {}}', "unknown type 'NEWS'"),
        (b'{"type": ["x"], "object": {}}', "unknown type"),
        (b"{", "not JSON"),
    ],
)
def test_events_that_are_none(line: bytes, said: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=said):
        read_event(line)


def test_error_event() -> None:
    """It is raised as what it tells."""
    with pytest.raises(ApiError) as caught:
        read_event(b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}')
    assert caught.value.expired


@pytest.mark.parametrize(
    ("headers", "body", "error"),
    [
        (
            {},
            b'{"kind": "Status", "code": 403, "message": "no", "reason": "Forbidden"}',
            (403, "Forbidden", "no", None),
        ),
        ({}, b'{"kind": "Status", "code": true}', (400, "", "the server gave no reason", None)),
        ({}, b'{"kind": "Status", "code": 0, "reason": null}', (400, "", "the server gave no reason", None)),
        ({}, b"", (400, "", "the server gave no reason", None)),
        ({}, b"404 page\n not found", (400, "", "404 page not found", None)),
        ({}, b'{"kind": "Other"}', (400, "", '{"kind": "Other"}', None)),
        ({"retry-after": "7"}, b"x", (400, "", "x", 7.0)),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"x", (400, "", "x", None)),
        ({"retry-after": "9" * 30}, b"x", (400, "", "x", None)),
        ({}, b'{"kind": "Status", "details": {"retryAfterSeconds": 3}}', (400, "", "the server gave no reason", 3.0)),
        (
            {"retry-after": "7"},
            b'{"kind": "Status", "details": {"retryAfterSeconds": 3}}',
            (400, "", "the server gave no reason", 7.0),
        ),
    ],
)
def test_errors(headers: dict[str, str], body: bytes, error: tuple[int, str, str, float | None]) -> None:
    """A Status says it all; what others say is shown as it is."""
    found = read_error(400, headers, body)
    assert (found.code, found.reason, found.message, found.retry_after) == error


def test_errors_about_an_object() -> None:
    """Its name is told; a Status about something else has none."""
    assert status_error({"details": {"name": "n1"}}, code=404).name == "n1"
    assert status_error({"details": {}}, code=404).name == ""
    assert status_error({"details": ["n1"]}, code=404).name == ""


def test_long_messages_are_shortened() -> None:
    """A Status may quote the whole object."""
    assert len(status_error({"message": "x" * 100_000}, code=422).message) == 2048


def test_shortened_text_is_one_line() -> None:
    """Nobody forges a line of a log."""
    assert shortened(b"a\n\tb\x00\x1b[0m\xff") == "a b??[0m\ufffd"
    assert shortened(b"x" * 300) == "x" * 197 + "..."
