"""From frames to events."""

from interpose.cri.parser import CriParser
from interpose.dump.live.board import Pipeline
from interpose.dump.model.call import CallEventKind
from interpose.dump.model.frames import Begin, Context, Frame, Header, Message, MessageSide
from interpose.testing.recordings import story_frames


def test_calls_have_subjects() -> None:
    """And the facts of the header are kept."""
    pipeline = Pipeline()
    events = pipeline.feed(story_frames())
    subjects = {str(event.flow.subject) for event in events if event.flow is not None}
    assert "shop/web-0:app" in subjects
    assert pipeline.facts["host"] == "node-1"


def test_calls_in_flight_do_not_survive_a_connection() -> None:
    """Their numbers mean other calls then; without a header nothing is known about the source."""
    pipeline = Pipeline()
    assert pipeline.facts == {}
    pipeline.feed([Begin(number=1, time=0, path="/a/b")])
    pipeline.restart()
    (event,) = pipeline.feed([Message(number=1, at=0, side=MessageSide.REPLY, size=0, body=b"")])
    assert event.kind is CallEventKind.OTHER


def test_names_survive_a_connection() -> None:
    """And are learned from what a rotated recording begins with."""
    pipeline = Pipeline()
    pipeline.feed(story_frames())
    known = pipeline._subjects.context()
    other = Pipeline()
    other.feed([Header(facts={}), Context(facts=known)])
    other.restart()
    container = next(iter(known["containers"]))
    identifier = container if isinstance(container, str) else container[0]
    parser = CriParser("StopContainerRequest")
    request = parser.parse(b"")
    request.container_id = identifier
    body = parser.serialize(request)
    frames: list[Frame] = [
        Begin(number=9, time=0, path="/runtime.v1.RuntimeService/StopContainer"),
        Message(number=9, at=0, side=MessageSide.REQUEST, size=len(body), body=body),
    ]
    flow = other.feed(frames)[-1].flow
    assert flow is not None
    assert flow.subject.pod
