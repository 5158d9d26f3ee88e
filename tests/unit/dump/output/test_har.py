"""HAR 1.2: the file follows the rules of the format, checked by a table of them."""

import json
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from interpose.dump.decode.decode import Decoder
from interpose.dump.model.call import Assembler, CallEventKind
from interpose.dump.model.frames import Begin, End, Frame
from interpose.dump.output.har import entry, har_pieces
from interpose.dump.output.json import flow_document
from interpose.testing.recordings import HEADER, START, every_method_frames, story_frames

NUMBER = (int, float)
# Path in the document: its type, and whether it must be there. A list's items are at `path[]`.
RULES: dict[str, tuple[Any, bool]] = {
    "log": (dict, True),
    "log.version": (str, True),
    "log.creator": (dict, True),
    "log.creator.name": (str, True),
    "log.creator.version": (str, True),
    "log.pages": (list, False),
    "log.entries": (list, True),
    "log.entries[]": (dict, True),
    "log.entries[].startedDateTime": (str, True),
    "log.entries[].time": (NUMBER, True),
    "log.entries[].request": (dict, True),
    "log.entries[].request.method": (str, True),
    "log.entries[].request.url": (str, True),
    "log.entries[].request.httpVersion": (str, True),
    "log.entries[].request.cookies": (list, True),
    "log.entries[].request.headers": (list, True),
    "log.entries[].request.headers[]": (dict, True),
    "log.entries[].request.headers[].name": (str, True),
    "log.entries[].request.headers[].value": (str, True),
    "log.entries[].request.queryString": (list, True),
    "log.entries[].request.postData": (dict, False),
    "log.entries[].request.postData.mimeType": (str, True),
    "log.entries[].request.postData.text": (str, True),
    "log.entries[].request.postData.comment": (str, False),
    "log.entries[].request.headersSize": (int, True),
    "log.entries[].request.bodySize": (int, True),
    "log.entries[].response": (dict, True),
    "log.entries[].response.status": (int, True),
    "log.entries[].response.statusText": (str, True),
    "log.entries[].response.httpVersion": (str, True),
    "log.entries[].response.cookies": (list, True),
    "log.entries[].response.headers": (list, True),
    "log.entries[].response.headers[]": (dict, True),
    "log.entries[].response.headers[].name": (str, True),
    "log.entries[].response.headers[].value": (str, True),
    "log.entries[].response.content": (dict, True),
    "log.entries[].response.content.size": (int, True),
    "log.entries[].response.content.mimeType": (str, True),
    "log.entries[].response.content.text": (str, False),
    "log.entries[].response.content.comment": (str, False),
    "log.entries[].response.redirectURL": (str, True),
    "log.entries[].response.headersSize": (int, True),
    "log.entries[].response.bodySize": (int, True),
    "log.entries[].cache": (dict, True),
    "log.entries[].timings": (dict, True),
    "log.entries[].timings.send": (NUMBER, True),
    "log.entries[].timings.wait": (NUMBER, True),
    "log.entries[].timings.receive": (NUMBER, True),
}


def problems(value: Any, path: str = "") -> list[str]:
    """What is against the rules. Fields with an underscore are free."""
    found = []
    if path:
        kind, _required = RULES.get(path, (None, False))
        if kind is None:
            return [f"{path} is not in HAR 1.2"]
        if not isinstance(value, kind) or isinstance(value, bool):
            return [f"{path} is {value!r}"]
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        inside = {key: rule for key, rule in RULES.items() if key.startswith(prefix)}
        own = {key.removeprefix(prefix) for key in inside if "." not in key.removeprefix(prefix)}
        needed = {key for key in own if inside[prefix + key][1] and "[]" not in key}
        found += [f"{prefix}{key} is missing" for key in needed - value.keys()]
        for key, one in value.items():
            if not key.startswith("_"):
                found += problems(one, prefix + key)
    if isinstance(value, list):
        for one in value:
            found += problems(one, f"{path}[]")
    return found


def documents(frames: list[Frame]) -> list[dict[str, Any]]:
    """All calls."""
    assembler = Assembler()
    flows = [
        event.flow for event in assembler.feed_all(frames) if event.kind is CallEventKind.END and event.flow is not None
    ]
    return [flow_document(flow, Decoder()) for flow in [*flows, *assembler.open.values()]]


@pytest.mark.parametrize("frames", [story_frames(), every_method_frames(), []], ids=["story", "methods", "nothing"])
def test_the_file_follows_the_rules_of_the_format(frames: list[Frame]) -> None:
    """Fields, types, times, sums."""
    har = json.loads("".join(har_pieces(documents(frames), HEADER.facts)))
    assert problems(har) == []
    assert har["log"]["version"] == "1.2"
    for one in har["log"]["entries"]:
        assert datetime.fromisoformat(one["startedDateTime"]).tzinfo is not None
        assert one["time"] == pytest.approx(sum(one["timings"].values()))
        assert min(one["timings"].values()) >= 0
        url = urlsplit(one["request"]["url"])
        assert (url.scheme, url.netloc) == ("http", "node-1")


def test_the_checker_finds_mistakes() -> None:
    """What is missing, what is too much, what has the wrong type."""
    har = json.loads("".join(har_pieces(documents(story_frames())[:1], {})))
    one = har["log"]["entries"][0]
    del one["cache"]
    one["request"]["bodySize"] = "7"
    one["response"]["colour"] = "red"
    assert sorted(problems(har)) == [
        "log.entries[].cache is missing",
        "log.entries[].request.bodySize is '7'",
        "log.entries[].response.colour is not in HAR 1.2",
    ]


def by_number(number: int) -> dict[str, Any]:
    """The entry of a call of the story."""
    return next(entry(one) for one in documents(story_frames()) if one["number"] == number)


@pytest.mark.parametrize(
    ("number", "status", "text"),
    [(1, 200, "OK"), (13, 404, "NOT_FOUND"), (17, 504, "DEADLINE_EXCEEDED"), (19, 501, "UNIMPLEMENTED"), (20, 0, "")],
)
def test_a_status_has_the_number_that_http_has_for_it(number: int, status: int, text: str) -> None:
    """So that readers show failures as such."""
    response = by_number(number)["response"]
    assert (response["status"], response["statusText"]) == (status, text)


def test_a_status_that_http_does_not_know_is_a_failure() -> None:
    """500."""
    document = documents(story_frames())[0] | {"code": 99}
    assert entry(document)["response"]["status"] == 500


def test_the_real_status_is_in_the_headers() -> None:
    """With its text, if there is one."""
    assert by_number(1)["response"]["headers"] == [{"name": "grpc-status", "value": "0"}]
    assert by_number(17)["response"]["headers"] == [
        {"name": "grpc-status", "value": "4"},
        {"name": "grpc-message", "value": "command timed out"},
    ]
    assert by_number(20)["response"]["headers"] == []


def test_bodies_are_json() -> None:
    """One message as it is, those of a stream as a list; what was not decoded is in the comment."""
    assert json.loads(by_number(8)["response"]["content"]["text"]) == {}
    assert len(json.loads(by_number(3)["response"]["content"]["text"])) == 3
    unknown = by_number(19)["request"]["postData"]
    assert unknown["text"] == ""
    assert "not a known CRI method" in unknown["comment"]


def test_what_har_has_no_place_for_is_there() -> None:
    """In fields with an underscore."""
    found = by_number(7)
    assert found["_subject"] == documents(story_frames())[5]["subject"]
    assert found["_changed_by"] == ["koordlet", "static"]
    assert "+       cpuset_cpus: 2-3" in found["_request_diff"]


def test_times_add_up() -> None:
    """Until the request was on its way, until the first reply, and the rest. A call in flight ends with its last."""
    assert by_number(7)["timings"] == pytest.approx({"send": 12.025, "wait": 36.075, "receive": 0})
    assert by_number(3)["time"] == pytest.approx(8200)
    nothing = documents(story_frames())[0] | {"messages": [], "duration_ms": None}
    assert entry(nothing)["time"] == 0


@pytest.mark.parametrize("host", [None, "", "a b", "nöde", 7])
def test_a_host_that_makes_no_url_is_not_used(host: object) -> None:
    """Nor what a path may hold."""
    document = documents(story_frames())[0] | {"path": "/a?b=c#d\n/ü"}
    har = json.loads("".join(har_pieces([document], {"host": host})))
    assert har["log"]["entries"][0]["request"]["url"] == "http://localhost/a_b_c_d_/_"


def test_calls_of_docker_are_what_they_were() -> None:
    """Method, URL and status of HTTP; bodies and headers are not known."""
    frames: list[Frame] = [
        Begin(number=1, time=START, path="/docker/GET /v1.41/containers/json"),
        End(number=1, elapsed=1_200_000, code=0),
        Begin(number=2, time=START, path="/docker/DEL\x1bETE /v1.41/images/x y"),
        End(number=2, elapsed=1_200_000, code=5, message="HTTP 404"),
        Begin(number=3, time=START, path="/docker/POST /build"),
        End(number=3, elapsed=1_200_000, code=14, message="dockerd is gone"),
        Begin(number=4, time=START, path="/docker/GET /events"),
    ]
    har = json.loads("".join(har_pieces(documents(frames), HEADER.facts)))
    assert problems(har) == []
    entries = har["log"]["entries"]
    assert [(one["request"]["method"], one["request"]["url"], one["response"]["status"]) for one in entries] == [
        ("GET", "http://node-1/v1.41/containers/json", 200),
        ("DEL_ETE", "http://node-1/v1.41/images/x_y", 404),
        ("POST", "http://node-1/build", 503),
        ("GET", "http://node-1/events", 0),
    ]
    for one in entries:
        assert "postData" not in one["request"]
        assert one["response"]["headers"] == []
        assert {one["request"]["httpVersion"], one["response"]["httpVersion"]} == {"HTTP/1.1"}
