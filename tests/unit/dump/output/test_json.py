"""A call as one document."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from interpose.dump.decode.api import DecodedMessage
from interpose.dump.model.call import Flow, Subject
from interpose.dump.model.frames import End, Flags, Message, MessageSide
from interpose.dump.output.json import clean, flow_document, flow_kind, milliseconds, time_text

KEYS = [
    *("number", "time", "time_ns", "method", "service", "path", "kind", "origin", "pid", "uid", "metadata"),
    *("subject", "namespace", "pod", "pod_uid", "pod_id", "container", "container_id", "image"),
    *("status", "code", "message", "duration_ms", "continued", "lost", "changed", "changed_by"),
    *("messages", "forgotten", "request_diff", "reply_diff"),
]


class Bodies:
    """Decodes what it was given: the bytes of a message name its tree."""

    def __init__(self, trees: Mapping[bytes, Any]) -> None:
        self.trees = trees

    def message(self, flow: Flow, message: Message) -> DecodedMessage:
        """The tree; none for bytes it was not given."""
        assert flow.number == message.number
        tree = self.trees.get(message.body)
        return DecodedMessage(tree=tree, note="" if tree is not None else "not decoded")


NOTHING = Bodies({})


def flow(*messages: Message, flags: Flags = Flags.NONE, origin: str = "client", end: End | None = None) -> Flow:
    """A call with these messages."""
    return Flow(
        number=12,
        time=1_763_283_600_123_456_789,
        path="/runtime.v1.RuntimeService/CreateContainer",
        origin=origin,
        pid=7,
        uid=1000,
        flags=flags,
        metadata=(("user-agent", "kubelet"),),
        messages=list(messages),
        end=end,
        subject=Subject(namespace="shop", pod="web-0", container="app", image="busybox"),
    )


def message(side: MessageSide, body: bytes, at: int = 1_500_000) -> Message:
    """One of them."""
    return Message(number=12, at=at, side=side, size=len(body), body=body)


def test_a_call_in_flight_has_all_keys() -> None:
    """Whoever reads it need not ask whether they are there."""
    document = flow_document(flow(), NOTHING)
    assert list(document) == KEYS
    assert (document["status"], document["code"], document["duration_ms"]) == ("", None, None)
    assert (document["message"], document["changed"], document["changed_by"]) == ("", False, [])


def test_the_call_and_its_subject_are_told() -> None:
    """When, what, by whom and about whom."""
    document = flow_document(flow(), NOTHING)
    assert document["number"] == 12
    assert document["time"] == "2025-11-16T09:00:00.123456Z"
    assert document["time_ns"] == 1_763_283_600_123_456_789
    assert document["method"] == "CreateContainer"
    assert document["service"] == "runtime.v1.RuntimeService"
    assert document["path"] == "/runtime.v1.RuntimeService/CreateContainer"
    assert (document["origin"], document["pid"], document["uid"]) == ("client", 7, 1000)
    assert document["metadata"] == [["user-agent", "kubelet"]]
    assert document["subject"] == "shop/web-0:app"
    assert (document["namespace"], document["pod"], document["container"]) == ("shop", "web-0", "app")
    assert document["image"] == "busybox"


def test_an_end_tells_status_and_duration() -> None:
    """By name and by number."""
    end = End(number=12, elapsed=1_234_567, code=13, message="no", changed_by=("resmgr",))
    document = flow_document(flow(end=end), NOTHING)
    assert (document["status"], document["code"], document["message"]) == ("INTERNAL", 13, "no")
    assert document["duration_ms"] == 1.234567
    assert (document["changed"], document["changed_by"]) == (True, ["resmgr"])


def test_messages_have_their_side_time_size_and_tree() -> None:
    """Or a note that says why there is no tree."""
    document = flow_document(
        flow(message(MessageSide.REQUEST, b"a"), message(MessageSide.REPLY, b"bc")), Bodies({b"a": {"x": 1}})
    )
    assert document["messages"] == [
        {"side": "request", "at_ms": 1.5, "size": 1, "body": {"x": 1}, "note": ""},
        {"side": "reply", "at_ms": 1.5, "size": 2, "body": None, "note": "not decoded"},
    ]


def test_changes_on_the_way_are_lines() -> None:
    """From what came to what went on, in both directions."""
    trees = Bodies({b"a": {"x": 1}, b"b": {"x": 2}, b"c": {"z": 1}, b"d": {}})
    document = flow_document(
        flow(
            message(MessageSide.REQUEST, b"a"),
            message(MessageSide.FORWARDED, b"b"),
            message(MessageSide.RECEIVED, b"c"),
            message(MessageSide.REPLY, b"d"),
        ),
        trees,
    )
    assert document["changed"]
    assert document["request_diff"] == ["- x: 1", "+ x: 2"]
    assert "- z: 1" in document["reply_diff"]


def test_a_stream_has_its_changes_one_behind_the_other() -> None:
    """Replies that nobody changed have none."""
    trees = Bodies({b"a": {"x": 1}, b"b": {"x": 2}, b"c": {"x": 3}})
    document = flow_document(
        flow(
            message(MessageSide.REPLY, b"a"),
            message(MessageSide.RECEIVED, b"a"),
            message(MessageSide.REPLY, b"b"),
            message(MessageSide.REPLY, b"c"),
            message(MessageSide.RECEIVED, b"b"),
            message(MessageSide.REPLY, b"c"),
        ),
        trees,
    )
    assert document["reply_diff"] == ["- x: 1", "+ x: 2", "@@", "- x: 2", "+ x: 3"]


@pytest.mark.parametrize(("before", "after"), [(b"a", b"?"), (b"?", b"a")])
def test_what_was_not_decoded_has_no_difference(before: bytes, after: bytes) -> None:
    """Both sides are needed for it."""
    messages = (message(MessageSide.REQUEST, before), message(MessageSide.FORWARDED, after))
    assert flow_document(flow(*messages), Bodies({b"a": {"x": 1}}))["request_diff"] == []


@pytest.mark.parametrize(
    ("flags", "origin", "kind"),
    [
        (Flags.NONE, "client", "passthrough"),
        (Flags.INTERCEPTED, "client", "intercepted"),
        (Flags.INTERCEPTED, "resmgr", "originated"),
    ],
)
def test_a_call_is_of_one_kind(flags: Flags, origin: str, kind: str) -> None:
    """A call of the relay's own is that before anything else."""
    assert flow_kind(flow(flags=flags, origin=origin)) == kind


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        ((1 << 63) - 1, "2262-04-11T23:47:16.854775Z"),
        (-(1 << 63), "1677-09-21T00:12:43.145224Z"),
    ],
)
def test_every_time_that_fits_has_a_text(nanoseconds: int, text: str) -> None:
    """A damaged clock is no reason to fail."""
    assert time_text(nanoseconds) == text


def test_milliseconds_have_all_their_digits() -> None:
    """And no more than there are nanoseconds."""
    assert milliseconds(1_000_001) == 1.000001


def test_bytes_that_are_no_text_can_be_written() -> None:
    """They travel as surrogates until somebody wants to see them."""
    assert clean("a\udcff") == "a\N{REPLACEMENT CHARACTER}"
    assert clean("ä") == "ä"


def test_a_document_is_json() -> None:
    """As it is, without anything that has to be converted."""
    end = End(number=12, elapsed=1, code=99, message="a\udcff", changed_by=("b\udcff",))
    text = json.dumps(flow_document(flow(message(MessageSide.REQUEST, b"a"), end=end), NOTHING), ensure_ascii=False)
    assert json.loads(text.encode())["status"] == "CODE_99"
