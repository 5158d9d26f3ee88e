"""Recordings made without a relay."""

from pathlib import Path

import pytest

from interpose.cri.methods import API_VERSIONS, METHODS, Method
from interpose.dump.model.call import Assembler, CallEventKind, Flow
from interpose.dump.model.frames import Frame, MessageSide
from interpose.dump.recording.reader import Recording
from interpose.testing.recordings import every_method_frames, filled, sample_recording, story_frames, write_recording


def calls(frames: list[Frame]) -> list[Flow]:
    """The calls that end."""
    events = Assembler().feed_all(frames)
    return [event.flow for event in events if event.kind is CallEventKind.END and event.flow is not None]


def test_every_method_is_there_in_both_versions() -> None:
    """Once each, with request and reply."""
    flows = calls(every_method_frames())
    assert {flow.path for flow in flows} == {path for method in METHODS.values() for path in method.paths}
    assert len(flows) == len(METHODS) * len(API_VERSIONS)
    assert all(flow.messages_of(MessageSide.REQUEST) and flow.messages_of(MessageSide.REPLY) for flow in flows)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_all_fields_of_a_message_are_filled(method: Method) -> None:
    """Of a oneof one is; there is none besides optional fields in CRI."""
    for name in (method.request, method.response):
        message = filled(name)
        assert {field.name for field, _ in message.ListFields()} == {one.name for one in message.DESCRIPTOR.fields}


def test_the_story_has_what_is_out_of_the_ordinary() -> None:
    """Changes both ways, calls of our own, failures, and calls that do not end."""
    flows = calls(story_frames())
    assert any(flow.messages_of(MessageSide.FORWARDED) for flow in flows)
    assert any(flow.messages_of(MessageSide.RECEIVED) for flow in flows)
    assert any(flow.originated for flow in flows)
    assert {flow.end.code for flow in flows if flow.end} >= {0, 4, 5, 12}
    assert any(flow.method is None for flow in flows)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Frame by frame."""
    frames = every_method_frames()
    assert list(Recording(write_recording(tmp_path / "all.crirec", frames)).frames()) == frames
    assert list(Recording(sample_recording(tmp_path / "story.crirec")).frames()) == story_frames()
