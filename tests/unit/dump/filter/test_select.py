"""From frames to the calls somebody wants to see."""

import pytest

from interpose.dump.filter.language import parse_filter
from interpose.dump.filter.select import CallSelector, events_of
from interpose.dump.model.call import KEPT_MESSAGES, PART, SESSION, CallEvent, CallEventKind, Flow
from interpose.dump.model.frames import Begin, Context, Dropped, End, Flags, Frame, Header, Message, MessageSide
from interpose.testing.recordings import Script, story_frames


def viewing(text: str = "") -> CallSelector:
    """With a filter that does not look into messages."""
    return CallSelector(parse_filter(text), lambda _flow, _sides: "")


def numbers(flows: list[Flow]) -> list[int]:
    """Which calls."""
    return [flow.number for flow in flows]


def kinds(events: list[CallEvent]) -> list[tuple[CallEventKind, int]]:
    """What happened to whom."""
    return [(event.kind, event.flow.number if event.flow else 0) for event in events]


def test_calls_come_when_they_end_and_the_others_last() -> None:
    """The stream began third and never ends."""
    found = numbers(list(viewing().flows(story_frames())))
    assert found == [1, 2, *range(4, 20), 3, 20]
    assert numbers(list(viewing().flows(story_frames(), unfinished=False))) == [1, 2, *range(4, 20)]


def test_a_filter_chooses_and_all_is_counted() -> None:
    """Whom a call is about is known from other calls."""
    view = viewing("~p batch ~s error")
    assert numbers(list(view.flows(story_frames()))) == [13, 17]
    assert (view.seen_calls, view.shown_calls) == (20, 2)
    assert view.facts["host"] == "node-1"
    assert viewing().facts == {}


def test_messages_come_as_they_are_if_the_request_decides() -> None:
    """A call is announced by its beginning; the stream is there though it never ends."""
    events = list(viewing("~m GetContainerEvents | ~n 1").events(story_frames()))
    assert kinds(events) == [
        (CallEventKind.BEGIN, 1),
        (CallEventKind.MESSAGE, 1),
        (CallEventKind.MESSAGE, 1),
        (CallEventKind.END, 1),
        (CallEventKind.BEGIN, 3),
        *[(CallEventKind.MESSAGE, 3)] * 4,
    ]


def test_what_is_known_of_calls_in_flight_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are asked about again."""
    monkeypatch.setattr("interpose.dump.filter.select._HELD", 1)
    script = Script()
    first, second = script.begin("Version", b""), script.begin("Status", b"")
    script.end(first, 1)
    script.end(second, 1)
    events = kinds(list(viewing().events(script.frames)))
    assert [event for event in events if event[0] is CallEventKind.END] == [
        (CallEventKind.END, 1),
        (CallEventKind.END, 2),
    ]


def test_a_call_comes_whole_if_its_end_decides() -> None:
    """Also one that has none, when there are no more frames."""
    events = list(viewing("~s open | ~s NOT_FOUND").events(story_frames()))
    assert kinds(events)[:3] == [(CallEventKind.BEGIN, 13), (CallEventKind.MESSAGE, 13), (CallEventKind.END, 13)]
    assert {number for _what, number in kinds(events)} == {13, 3, 20}
    assert not list(viewing("~s open").events(story_frames(), unfinished=False))


def test_a_call_without_a_request_is_decided_at_its_end() -> None:
    """Its request was dropped."""
    frames = [frame for frame in story_frames() if not isinstance(frame, Message) or frame.number != 1]
    assert kinds(list(viewing("~n 1").events(frames))) == [(CallEventKind.BEGIN, 1), (CallEventKind.END, 1)]


@pytest.mark.parametrize("text", ["", "~s OK"])
def test_what_was_dropped_is_told(text: str) -> None:
    """Whatever the filter is."""
    view = viewing(text)
    assert [event.kind for event in view.events([Dropped(frames=3, size=9, time=0)])] == [CallEventKind.DROPPED]
    assert view.dropped == 3


def test_calls_of_a_process_that_ended_are_shown() -> None:
    """The next process counts from one again."""
    first, second = (Script(header=Header(facts={SESSION: name})) for name in ("a", "b"))
    first.begin("Version", b"")
    second.call("Status", b"")
    frames = [*first.frames, *second.frames]
    assert [flow.name for flow in viewing().flows(frames)] == ["Version", "Status"]
    names = [
        event.flow.name for event in viewing("!~s 3").events(frames) if event.flow and event.kind is CallEventKind.BEGIN
    ]
    assert names == ["Version", "Status"]
    early = [event.flow.name for event in viewing().events(frames) if event.flow and event.kind is CallEventKind.BEGIN]
    assert early == ["Version", "Status"]


def test_a_call_whose_end_was_lost_is_shown() -> None:
    """When its number is used again."""
    script = Script()
    script.begin("Version", b"")
    again = Script(header=None)
    again.call("Status", b"")
    assert [flow.name for flow in viewing().flows([*script.frames, *again.frames])] == ["Version", "Status"]


def test_names_are_learned_from_a_context() -> None:
    """What earlier files of a rotated recording knew."""
    view = viewing()
    list(view.flows(story_frames()))
    known = view._subjects.context()
    later = [frame for frame in story_frames() if getattr(frame, "number", 0) in (0, 15)]
    (flow,) = viewing().flows([Context(facts=known), *later])
    assert str(flow.subject) == "jobs/batch-7f9c:worker"


def test_what_is_hidden_is_hidden_from_filters_too() -> None:
    """Frames are changed before anybody looks at them."""

    def hide(frame: Frame) -> Frame:
        return frame._replace(size=0, body=b"") if isinstance(frame, Message) else frame

    view = CallSelector(parse_filter(""), lambda _flow, _sides: "", hide=hide)
    assert all(not one.body for flow in view.flows(story_frames()) for one in flow.messages)


def test_calls_of_a_file_that_is_missing_are_lost() -> None:
    """Those in flight before it that do not go on behind it; nobody waits for them."""
    parts = [Header(facts={SESSION: "s", PART: number}) for number in (1, 2, 4)]
    script = Script(header=parts[0])
    first, second, third = (script.begin("Version", b"") for _ in range(3))
    begun = [frame._replace(flags=Flags.CONTINUED) for frame in script.frames if isinstance(frame, Begin)]
    before = [*script.frames, parts[1], *begun]
    gap: list[Frame] = [parts[2], Context(facts={}), begun[1]]
    ends = [End(number=number, elapsed=1, code=0) for number in (first, second, third)]
    for text in ("", "!~s NOT_FOUND"):
        assert [(flow.number, flow.lost) for flow in viewing(text).flows([*before, *gap, ends[1]])] == [
            (first, True),
            (third, True),
            (second, False),
        ]
    whole = kinds(list(viewing("!~s NOT_FOUND").events([*before, *gap, ends[1]])))
    assert [number for what, number in whole if what is CallEventKind.BEGIN] == [first, third, second]
    # Nothing comes behind it.
    assert {flow.number: flow.lost for flow in viewing().flows([*before, *gap])} == {1: True, 2: False, 3: True}
    assert [flow.lost for flow in viewing().flows([*before, *ends])] == [False] * 3


def test_a_writer_that_starts_again_loses_nothing() -> None:
    """Its parts count from one; headers of others do not say which they are."""
    script = Script(header=Header(facts={SESSION: "s", PART: 3}))
    number = script.begin("Version", b"")
    for part in (1, 4, "x", None):
        frames = [*script.frames, Header(facts={SESSION: "s", PART: part}), End(number=number, elapsed=1, code=0)]
        assert [flow.lost for flow in viewing().flows(frames)] == [False]


def test_what_the_answer_tells_is_waited_for() -> None:
    """If a filter asks for whom a call is about; of what the request tells there is no need to."""
    sandbox = "7031703170"
    found = kinds(list(viewing(f"~p {sandbox}").events(story_frames())))
    assert found[:4] == [
        (CallEventKind.BEGIN, 4),
        (CallEventKind.MESSAGE, 4),
        (CallEventKind.MESSAGE, 4),
        (CallEventKind.END, 4),
    ]
    assert (CallEventKind.BEGIN, 4) not in kinds(list(viewing(f"!~p {sandbox}").events(story_frames())))
    frames = story_frames()
    end = next(place for place, frame in enumerate(frames) if isinstance(frame, End) and frame.number == 4)
    assert (CallEventKind.BEGIN, 4) in kinds(list(viewing("~m RunPod").events(frames[:end], unfinished=False)))
    assert (CallEventKind.BEGIN, 4) not in kinds(list(viewing("~p web").events(frames[:end], unfinished=False)))
    assert (CallEventKind.BEGIN, 4) in kinds(list(viewing("~p web").events(frames[:end])))


def test_messages_that_were_let_go_of_are_counted() -> None:
    """Behind the request, before the first that is there."""
    script = Script()
    number = script.begin("GetContainerEvents", b"")
    for _ in range(KEPT_MESSAGES + 4):
        script.message(number, MessageSide.REPLY, b"12")
    (flow,) = viewing().flows(script.frames)
    events = list(events_of(flow))
    assert [event.kind for event in events[:4]] == [
        CallEventKind.BEGIN,
        CallEventKind.MESSAGE,
        CallEventKind.DROPPED,
        CallEventKind.MESSAGE,
    ]
    dropped = events[2].frame
    assert isinstance(dropped, Dropped)
    assert (dropped.frames, dropped.size, events[2].flow) == (5, 10, flow)
    assert sum(event.kind is CallEventKind.DROPPED for event in events) == 1


def test_a_known_call_can_be_asked_about() -> None:
    """One that was found by an index."""
    flow = next(iter(viewing().flows(story_frames())))
    view = viewing("~m Version")
    assert list(view.select(flow)) == [flow]
    assert (view.seen_calls, view.shown_calls) == (1, 1)
    assert [event.kind for event in events_of(flow)] == [
        CallEventKind.BEGIN,
        CallEventKind.MESSAGE,
        CallEventKind.MESSAGE,
        CallEventKind.END,
    ]
    assert flow.messages_of(MessageSide.REQUEST)
