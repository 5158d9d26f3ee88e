"""Messages as trees."""

import zlib
from typing import Any

import pytest
from google.protobuf import struct_pb2

from interpose._pb import cri_pb2 as cri
from interpose.dump.decode.api import DecodedMessage
from interpose.dump.decode.decode import Decoder, to_tree
from interpose.dump.model.call import Assembler, CallEventKind, Flow
from interpose.dump.model.frames import Flags, Message, MessageSide, Packing
from interpose.testing.recordings import every_method_frames


def flow(path: str = "/runtime.v1.RuntimeService/ExecSync") -> Flow:
    """A call."""
    return Flow(number=1, time=0, path=path, origin="client", pid=0, uid=0, flags=Flags.NONE, metadata=())


def message(
    body: bytes, side: MessageSide = MessageSide.REQUEST, packing: Packing = Packing.PLAIN, size: int = -1
) -> Message:
    """A message of it."""
    return Message(number=1, at=0, side=side, packing=packing, size=len(body) if size < 0 else size, body=body)


@pytest.mark.parametrize("side", [MessageSide.REQUEST, MessageSide.FORWARDED])
def test_a_request_is_read_as_the_request_of_its_method(side: MessageSide) -> None:
    """As it came and as it went on."""
    data = cri.ExecSyncRequest(container_id="c1", cmd=["ls", "-l"]).SerializeToString()
    assert Decoder().message(flow(), message(data, side)) == DecodedMessage(
        tree={"container_id": "c1", "cmd": ["ls", "-l"]}
    )


@pytest.mark.parametrize("side", [MessageSide.RECEIVED, MessageSide.REPLY])
def test_a_reply_is_read_as_the_reply_of_its_method(side: MessageSide) -> None:
    """As it came and as it went on."""
    data = cri.ExecSyncResponse(exit_code=3).SerializeToString()
    assert Decoder().message(flow(), message(data, side)).tree == {"exit_code": 3}


def test_a_packed_message_is_unpacked() -> None:
    """Recordings keep large messages packed."""
    data = cri.ExecSyncRequest(container_id="c1").SerializeToString()
    packed = message(zlib.compress(data), packing=Packing.ZLIB, size=len(data))
    assert Decoder().message(flow(), packed).tree == {"container_id": "c1"}


def test_a_message_that_was_not_kept_says_why() -> None:
    """And is not mistaken for an empty one."""
    absent = message(b"too large", packing=Packing.ABSENT, size=99)
    assert Decoder().message(flow(), absent) == DecodedMessage(tree=None, note="too large")


def test_a_message_that_cannot_be_unpacked_says_so() -> None:
    """It costs this message only."""
    decoded = Decoder().message(flow(), message(b"garbage", packing=Packing.ZLIB, size=5))
    assert decoded.tree is None
    assert decoded.note.startswith("damaged: the body of a message cannot be unpacked")


def test_an_unknown_method_gives_a_summary_of_the_bytes() -> None:
    """Nobody knows what they mean."""
    decoded = Decoder().message(flow("/other.Service/Method"), message(b"\x08\x07"))
    assert decoded == DecodedMessage(tree=None, note="not a known CRI method: 2 bytes, 1 field: 1 varint 7")


def test_unreadable_bytes_give_a_summary() -> None:
    """With what was expected of them."""
    decoded = Decoder().message(flow(), message(b"\xff\xff"))
    assert decoded.tree is None
    assert decoded.note.startswith("not a ExecSyncRequest")
    assert decoded.note.endswith("2 bytes, no protobuf message: ff ff")


def test_an_empty_message_is_an_empty_tree() -> None:
    """Everything in it has its zero value."""
    assert to_tree(cri.VersionRequest()) == {}


def test_a_part_that_is_set_but_empty_is_there() -> None:
    """Being there is all it says."""
    request = cri.RunPodSandboxRequest()
    request.config.linux.SetInParent()
    assert to_tree(request) == {"config": {"linux": {}}}


def test_enums_are_names_and_those_without_one_numbers() -> None:
    """A later version may send more of them."""
    status = cri.ContainerStatus(state=cri.CONTAINER_EXITED)
    assert to_tree(status) == {"state": "CONTAINER_EXITED"}
    assert to_tree(cri.ContainerStatus.FromString(b"\x18\x63")) == {"state": 99}


def test_maps_are_sorted_by_key() -> None:
    """Their order on the wire means nothing, and differences are looked for."""
    config = cri.PodSandboxConfig(labels={"b": "2", "a": "1"})
    assert list(to_tree(config)["labels"].items()) == [("a", "1"), ("b", "2")]


def test_large_numbers_are_numbers() -> None:
    """Unlike in the JSON of protobuf."""
    assert to_tree(cri.Int64Value(value=-(1 << 60))) == {"value": -(1 << 60)}


def test_numbers_that_are_none_are_texts() -> None:
    """JSON has no word for them."""
    assert to_tree(cri.PsiData(Avg10=float("nan"), Avg60=float("-inf"), Avg300=0.5)) == {
        "Avg10": "nan",
        "Avg60": "-inf",
        "Avg300": 0.5,
    }


def test_bytes_that_are_text_are_shown_as_text() -> None:
    """Several lines of it, too."""
    assert to_tree(cri.ExecSyncResponse(stdout=b"a\nb\n")) == {"stdout": "a\nb\n"}


def test_bytes_that_are_no_text_are_base64_with_a_note() -> None:
    """The note tells which; the key stays the same."""
    decoded = Decoder().decode(cri.ExecSyncResponse(stdout=b"\xff", stderr=b"ok"))
    assert decoded.tree == {"stdout": "/w==", "stderr": "ok"}
    assert decoded.note == "base64, because it is not text: ExecSyncResponse.stdout"


def test_unknown_fields_are_shown() -> None:
    """All five types of them, wherever they are."""
    unknown = b"\xa0\x06\x07\xa5\x06\x01\x00\x00\x00\xa1\x06\x02" + bytes(7) + b"\xa2\x06\x02hi\xa3\x06\x08\x01\xa4\x06"
    request = cri.RunPodSandboxRequest(config=cri.PodSandboxConfig.FromString(unknown))
    assert to_tree(request)["config"]["unknown_fields"] == [
        {"number": 100, "type": "varint", "value": 7},
        {"number": 100, "type": "fixed32", "value": 1},
        {"number": 100, "type": "fixed64", "value": 2},
        {"number": 100, "type": "bytes", "value": "hi"},
        {"number": 100, "type": "group", "value": [{"number": 1, "type": "varint", "value": 1}]},
    ]


def test_groups_within_groups_end_somewhere() -> None:
    """Nobody looks that deep."""
    data = b"\xa3\x06" * 50 + b"\xa4\x06" * 50
    assert "deeper than anybody looks" in str(to_tree(cri.VersionRequest.FromString(data)))


@pytest.mark.parametrize(
    ("large", "shown", "left_out"),
    [
        (cri.ExecSyncRequest(cmd=["x"] * 20), 9, 11),
        (cri.PodSandboxConfig(labels={str(one): "" for one in range(20)}), 9, 11),
        (cri.ListContainersResponse(containers=[cri.Container(id="c", image_ref="i")] * 20), 3, 17),
        (cri.VersionRequest.FromString(b"\xa0\x06\x07" * 20), 10, 10),
    ],
)
def test_a_message_with_too_many_values_is_cut_and_says_so(large: Any, shown: int, left_out: int) -> None:
    """Whatever there is too much of: texts, labels, parts, unknown fields."""
    decoded = Decoder(max_values=10).decode(large)
    assert decoded.tree is not None
    (values,) = decoded.tree.values()
    assert len(values) == shown
    assert decoded.note == f"too large to show: {left_out} values left out"


def test_maps_of_messages_are_shown_too() -> None:
    """The interface has none yet."""
    struct = struct_pb2.Struct()
    struct.update({"b": 1.5, "a": {"c": "x"}})
    assert to_tree(struct) == {
        "fields": {"a": {"struct_value": {"fields": {"c": {"string_value": "x"}}}}, "b": {"number_value": 1.5}}
    }


def test_every_message_of_every_method_gives_a_tree() -> None:
    """In both versions of the interface, requests and replies, with every field set."""
    assembler, decoder = Assembler(), Decoder()
    seen = set()
    for event in map(assembler.feed, every_method_frames()):
        if event.kind is CallEventKind.MESSAGE:
            assert event.flow is not None
            assert isinstance(event.frame, Message)
            decoded = decoder.message(event.flow, event.frame)
            assert decoded.tree is not None, decoded.note
            seen.add((event.flow.path, event.frame.side.is_reply))
    assert len(seen) > 150
