"""The text of the tabs of a call."""

from typing import Any

import pytest

from interpose.dump.live.tabs import (
    SEEN_MESSAGES,
    DetailLine,
    Tab,
    Tint,
    clipboard_text,
    decodable_part,
    fold,
    lines,
    spans,
)
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Flags, Message, MessageSide


def document(**changes: Any) -> dict[str, Any]:
    """A call as its document, with what a test wants to be different."""
    return {
        "number": 12,
        "time": "2026-11-16T09:00:00.123456Z",
        "time_ns": 1,
        "method": "CreateContainer",
        "service": "runtime.v1.RuntimeService",
        "path": "/runtime.v1.RuntimeService/CreateContainer",
        "kind": "intercepted",
        "origin": "client",
        "pid": 7,
        "uid": 0,
        "metadata": [["user-agent", "grpc-go"]],
        "subject": "shop/web:app",
        "namespace": "shop",
        "pod": "web",
        "pod_uid": "",
        "pod_id": "",
        "container": "app",
        "container_id": "",
        "image": "",
        "status": "OK",
        "code": 0,
        "message": "",
        "duration_ms": 1.5,
        "changed": True,
        "changed_by": ["koordlet"],
        "messages": [
            {"side": "request", "at_ms": 0.0, "size": 12, "body": {"name": "a"}, "note": ""},
            {"side": "forwarded", "at_ms": 0.5, "size": 14, "body": {"name": "b"}, "note": ""},
            {"side": "reply", "at_ms": 1.5, "size": 3, "body": {"id": "x"}, "note": ""},
        ],
        "forgotten": 0,
        "request_diff": ["- name: a", "+ name: b", "@@", "  other: 1"],
        "reply_diff": [],
        **changes,
    }


def texts(found: list[DetailLine]) -> list[str]:
    return [line.text for line in found]


def test_the_request_is_shown_as_sent_and_as_the_runtime_got_it() -> None:
    """Each with a heading."""
    found = lines(document(), Tab.REQUEST)
    assert texts(found) == ["request, 12B, after 0ns", "name: a", "as the runtime got it, 14B, after 500µs", "name: b"]
    assert [line.tint for line in found] == [Tint.HEADING, Tint.YAML] * 2


def test_the_reply_begins_with_what_went_wrong() -> None:
    """A status with its message, and what of a stream is not there."""
    found = lines(document(status="NOT_FOUND", message="no\nsuch", messages=[], forgotten=3), Tab.REPLY)
    assert texts(found) == ["NOT_FOUND: no?such", "3 earlier messages are not shown", "no reply"]
    assert found[0].tint is Tint.REMOVED


def test_a_missing_message_is_said() -> None:
    """An open call has no reply yet, an ended one none at all."""
    assert texts(lines(document(status="", messages=[]), Tab.REPLY)) == ["no reply yet"]
    assert texts(lines(document(messages=[]), Tab.REPLY)) == ["no reply"]
    assert texts(lines(document(status="", messages=[]), Tab.REQUEST)) == ["no request"]


def test_notes_stand_for_what_could_not_be_decoded() -> None:
    """Line by line; an empty message is one, too."""
    message = {"side": "request", "at_ms": 0.0, "size": 5, "body": None, "note": "withheld\nfield 1"}
    empty = {"side": "request", "at_ms": 0.0, "size": 0, "body": {}, "note": ""}
    found = lines(document(messages=[message, empty]), Tab.REQUEST)
    assert texts(found)[1:] == ["withheld", "field 1", "request, 0B, after 0ns", "nothing in it"]


def test_the_diff_says_who_and_what() -> None:
    """With the tints of a diff."""
    found = lines(document(), Tab.DIFF)
    assert texts(found)[0] == "changed by koordlet"
    assert [line.tint for line in found[2:]] == [Tint.REMOVED, Tint.ADDED, Tint.HUNK, Tint.YAML]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("intercepted", "nobody changed it"),
        ("passthrough", "unchanged: passed through as bytes, no interceptor was called"),
        ("originated", "the relay made this call itself"),
    ],
)
def test_no_diff_is_said(kind: str, said: str) -> None:
    """And why there is none."""
    found = lines(document(kind=kind, changed_by=[], request_diff=[]), Tab.DIFF)
    assert texts(found) == [said]


def test_info_has_the_facts_that_are_known() -> None:
    """And leaves out the others."""
    found = texts(lines(document(), Tab.INFO))
    assert "caller:       process 7 of user 0" in found
    assert "took:         1.50ms" in found
    assert "user-agent: grpc-go" in found
    assert "     0ns  request          12B" in found
    assert not any(line.startswith("image") for line in found)
    bare = document(pid=0, duration_ms=None, status="", metadata=[], forgotten=2)
    found = texts(lines(bare, Tab.INFO))
    assert "status:       in flight" in found
    assert "messages, without 2 earlier ones" in found
    assert not any(line.startswith(("caller", "took", "metadata")) for line in found)


def test_long_lists_are_folded() -> None:
    """With a line that says how many more there are; slightly long ones are not."""
    body = {"envs": [str(number) for number in range(30)], "few": list(range(11))}
    message = {"side": "request", "at_ms": 0.0, "size": 5, "body": body, "note": ""}
    found = lines(document(messages=[message]), Tab.REQUEST)
    (line,) = [line for line in found if line.tint is Tint.FOLD]
    assert "20 more" in line.text
    whole = lines(document(messages=[message]), Tab.REQUEST, unfolded=True)
    assert len(whole) > len(found)
    assert not [line for line in whole if line.tint is Tint.FOLD]


def test_maps_are_folded_as_well() -> None:
    """Also inside of lists."""
    tree = [{f"key{number:02}": number for number in range(20)}]
    assert fold(tree) == [{**{f"key{number:02}": number for number in range(10)}, "…": "10 more"}]


def test_what_is_copied_is_whole_yaml() -> None:
    """As the caller saw it; of a stream, documents."""
    stream = [{"side": "reply", "at_ms": 0.0, "size": 5, "body": {"id": number}, "note": ""} for number in (1, 2)]
    assert clipboard_text(document(), Tab.REQUEST) == "name: a\n"
    assert clipboard_text(document(messages=stream), Tab.REPLY) == "id: 1\n---\nid: 2\n"
    assert clipboard_text(document(), Tab.DIFF).splitlines()[2:4] == ["- name: a", "+ name: b"]


def test_no_line_can_move_the_cursor() -> None:
    """Whatever was sent."""
    evil = "a\x1b[2Jb"
    bad = document(
        path=evil,
        status="X",
        message=evil,
        metadata=[[evil, evil]],
        request_diff=[f"+ {evil}"],
        changed_by=[evil],
        messages=[
            {"side": side, "at_ms": 0.0, "size": 5, "body": {evil: evil}, "note": evil} for side in ("request", "reply")
        ],
    )
    for tab in Tab:
        assert all(line.text.isprintable() for line in lines(bad, tab))


def test_a_long_stream_is_seen_through_its_end() -> None:
    """Its request stays."""
    flow = Flow(
        number=1, time=0, path="/a/b", origin="client", pid=0, uid=0, flags=Flags.NONE, metadata=(), forgotten=4
    )
    for number in range(SEEN_MESSAGES + 10):
        flow.messages.append(Message(number=1, at=number, side=MessageSide.REPLY, size=0, body=b""))
    part = decodable_part(flow)
    assert [one.at for one in part.messages] == [0, *range(11, SEEN_MESSAGES + 10)]
    assert part.forgotten == 14
    del flow.messages[10:]
    assert decodable_part(flow) is flow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: web", [("name:", Tint.KEY), ("web", Tint.TEXT)]),
        ("  - count: 12", [("count:", Tint.KEY), ("12", Tint.NUMBER)]),
        ("ready: true", [("ready:", Tint.KEY), ("true", Tint.NUMBER)]),
        ("metadata:", [("metadata:", Tint.KEY)]),
        ("  - plain text", [("plain text", Tint.TEXT)]),
        ('"a: b": c', [('"a: b":', Tint.KEY), ("c", Tint.TEXT)]),
        ("value: <redacted>", [("value:", Tint.KEY), ("<redacted>", Tint.REDACTED)]),
        ("- -5", [("5", Tint.NUMBER)]),
        ("", []),
    ],
)
def test_yaml_has_colours(text: str, expected: list[tuple[str, Tint]]) -> None:
    """Keys, numbers, texts and what is hidden."""
    assert [(text[begin:end], tint) for begin, end, tint in spans(DetailLine(text, Tint.YAML))] == expected


def test_other_lines_have_one_colour() -> None:
    """From their beginning to their end."""
    assert spans(DetailLine("+ a: b", Tint.ADDED)) == [(0, 6, Tint.ADDED)]
