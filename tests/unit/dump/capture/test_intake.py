"""What comes out of a relay: redacted before anybody sees it, and put together."""

from pathlib import Path

from interpose.config.dump_redaction import parse_redaction
from interpose.dump.capture.intake import Intake
from interpose.dump.model.call import CallEventKind
from interpose.dump.model.frames import Begin, Context, End, Message, encode
from interpose.dump.recording.writer import RecordingWriter
from interpose.dump.redact.frames import Redactor
from interpose.testing.recordings import HEADER, story_frames


def intake(redact: str = "default") -> Intake:
    """With redaction."""
    return Intake(Redactor(parse_redaction(redact)).frame)


def test_every_call_of_a_stream_is_put_together() -> None:
    """However the bytes are cut; with whom it is about."""
    it = intake()
    frames = story_frames()
    data = b"".join(map(encode, frames))
    events = [event for start in range(0, len(data), 777) for event in it.feed(data[start : start + 777])]
    assert len(events) == len(frames)
    assert it.header == HEADER
    ended = [event.flow for event in events if event.kind is CallEventKind.END and event.flow is not None]
    assert {"CreateContainer", "StartContainer"} <= {flow.name for flow in ended}
    assert all(flow.subject.pod for flow in ended if flow.name == "CreateContainer")


def test_nobody_behind_it_sees_secrets() -> None:
    """They are in the frames that come in, and in none that goes out."""
    data = b"".join(map(encode, story_frames()))
    shown = {
        redact: b"".join(event.frame.data for event in intake(redact).feed(data) if isinstance(event.frame, Message))
        for redact in ("default", "none")
    }
    assert b"<redacted>" in shown["default"]
    assert b"<redacted>" not in shown["none"]


def test_context_teaches_names() -> None:
    """A recording that goes on in another file."""
    it = intake()
    source = intake()
    source.feed(b"".join(map(encode, story_frames())))
    context = source.subjects.context()
    it.feed(encode(HEADER) + encode(Context(facts=context)))
    assert it.subjects.context() == context


def test_bytes_of_a_frame_are_handed_on_unless_a_secret_was_in_it() -> None:
    """So they are as good as the frame: encoding it again gives them."""
    data = b"".join(map(encode, story_frames()))
    kept = [(event.frame, event.wire) for event in intake().feed(data) if event.wire]
    assert kept == [(frame, encode(frame)) for frame, _ in kept]
    changed = [event.frame for event in intake().feed(data) if not event.wire]
    assert any(isinstance(frame, Message) and b"<redacted>" in frame.data for frame in changed)
    assert {type(frame) for frame, _ in kept} == {Begin, Message, End}


def test_a_recording_is_the_same_from_frames_and_from_their_bytes(tmp_path: Path) -> None:
    """Also of bodies that are packed on the way."""
    data = b"".join(map(encode, story_frames()))
    files = [tmp_path / "frames.crirec", tmp_path / "bytes.crirec"]
    for path in files:
        writer = RecordingWriter(path, header_facts=HEADER.facts, now=lambda: 0)
        for event in intake().feed(data):
            writer.write(event.frame, wire=event.wire if path is files[1] else b"")
        writer.close()
    assert files[0].read_bytes() == files[1].read_bytes()
