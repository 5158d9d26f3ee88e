"""Going through messages of any type, and what there is of recorded ones."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.dump.model.frames import Message, MessageSide, Packing
from interpose.dump.replay.visit import body_of, first_body, parts, texts, type_name
from interpose.testing.recordings import Script, filled
from tests.support.dump.recorded_node import flows_of


def message(body: bytes, packing: Packing = Packing.PLAIN) -> Message:
    """A recorded message."""
    return Message(number=1, at=0, side=MessageSide.REQUEST, packing=packing, size=len(body), body=body)


def test_parts_are_the_message_and_all_in_it() -> None:
    """Single and repeated ones; maps have no messages in them."""
    request = cri.CreateContainerRequest()
    request.config.metadata.name = "app"
    request.config.labels["a"] = "b"
    request.config.mounts.add(host_path="/a")
    request.config.mounts.add(host_path="/b")
    found = [type_name(part) for part in parts(request)]
    assert found == ["CreateContainerRequest", "ContainerConfig", "ContainerMetadata", "Mount", "Mount"]


def test_maps_of_the_interface_hold_no_messages() -> None:
    """That is what going through them relies on."""
    for kind in cri.DESCRIPTOR.message_types_by_name.values():
        for nested in kind.nested_types:
            if nested.GetOptions().map_entry:
                assert nested.fields_by_name["value"].message_type is None, nested.full_name


def test_texts_are_found_everywhere() -> None:
    """In fields, lists, maps and bytes; numbers are none."""
    request = cri.CreateContainerRequest(pod_sandbox_id="p")
    request.config.command.extend(["c", "d"])
    request.config.labels["key"] = "l"
    request.config.envs.add(key="K", value=b"v")
    request.config.metadata.attempt = 3
    assert set(texts(request)) == {"p", "c", "d", "l", "K", b"v"}


def test_maps_of_numbers_have_no_texts() -> None:
    """There is one in the interface."""
    assert all(isinstance(one, str | bytes) for name in ("StatusResponse", "Container") for one in texts(filled(name)))


def test_a_body_that_was_not_kept_says_why() -> None:
    """The text of the recording."""
    with pytest.raises(ValueError, match="too large"):
        body_of(message(b"too large", Packing.ABSENT))


def test_a_body_that_cannot_be_unpacked_is_no_body() -> None:
    """Damage is told as what cannot be used."""
    with pytest.raises(ValueError, match="unpacked"):
        body_of(message(b"nonsense", Packing.ZLIB))


def test_the_first_side_that_is_there_is_taken() -> None:
    """And a call without any says so."""
    script = Script()
    script.call("StartContainer", b"asked", b"reply", forwarded=b"sent")
    script.call("StartContainer", b"only", code=5)
    changed, plain = flows_of(script.frames)
    assert first_body(changed, MessageSide.FORWARDED, MessageSide.REQUEST) == b"sent"
    assert first_body(plain, MessageSide.FORWARDED, MessageSide.REQUEST) == b"only"
    with pytest.raises(ValueError, match="no reply"):
        first_body(plain, MessageSide.RECEIVED, MessageSide.REPLY)
