"""Calls put together from frames."""

import pytest

from interpose.dump.model import call as module
from interpose.dump.model.call import (
    CALLS,
    NO_SUBJECT,
    PART,
    SESSION,
    Assembler,
    CallEvent,
    CallEventKind,
    Flow,
    Subject,
    begin_frame,
    part_of,
    subjects_from_facts,
    subjects_to_facts,
)
from interpose.dump.model.frames import (
    Begin,
    Context,
    Dropped,
    End,
    Flags,
    Header,
    Message,
    MessageSide,
    Packing,
    Trailer,
)
from tests.support.builds import patches_constants

BEGIN = Begin(number=1, time=10, path="/runtime.v1.RuntimeService/CreateContainer", metadata=(("a", "b"),))
END = End(number=1, elapsed=500, code=0)


def message(side: MessageSide = MessageSide.REQUEST, body: bytes = b"x", number: int = 1) -> Message:
    """A small message."""
    return Message(number=number, at=1, side=side, size=len(body), body=body)


def header(session: str) -> Header:
    """Of a relay process."""
    return Header(facts={SESSION: session})


def flow_of(event: CallEvent) -> Flow:
    """The call of an event that has one."""
    assert event.flow is not None
    return event.flow


def whole(begin: Begin, *messages: Message, end: End | None = END) -> Flow:
    """A call from its frames."""
    assembler = Assembler()
    flow = flow_of(assembler.feed(begin))
    assembler.feed_all([*messages, *([] if end is None else [end])])
    return flow


def test_a_call_is_put_together() -> None:
    """Each frame says what it did."""
    assembler = Assembler()
    events = assembler.feed_all([BEGIN, message(), message(MessageSide.REPLY), END])
    assert [event.kind for event in events] == [
        CallEventKind.BEGIN,
        CallEventKind.MESSAGE,
        CallEventKind.MESSAGE,
        CallEventKind.END,
    ]
    flow = flow_of(events[-1])
    assert all(event.flow is flow for event in events)
    assert (flow.number, flow.time, flow.metadata, flow.end) == (1, 10, (("a", "b"),), END)
    assert flow.messages_of(MessageSide.REPLY) == [message(MessageSide.REPLY)]
    assert flow.duration == 500
    assert not assembler.open


def test_a_call_in_flight_has_no_duration() -> None:
    """And has not failed."""
    flow = whole(BEGIN, message(), end=None)
    assert (flow.duration, flow.failed) == (None, False)


def test_calls_are_told_apart_by_number() -> None:
    """Their frames may be mixed."""
    assembler = Assembler()
    assembler.feed_all([BEGIN, BEGIN._replace(number=2), message(number=2), END])
    assert list(assembler.open) == [2]
    assert len(assembler.open[2].messages) == 1


def test_frames_of_a_call_that_began_before_are_nobodys() -> None:
    """They give events without a call."""
    assembler = Assembler()
    assert [event.flow for event in assembler.feed_all([message(), END])] == [None, None]


def test_a_call_that_goes_on_in_another_file_is_the_same_call() -> None:
    """If we saw its beginning; otherwise it begins there."""
    assembler = Assembler()
    again = BEGIN._replace(flags=Flags.CONTINUED)
    first = flow_of(assembler.feed(BEGIN))
    assert assembler.feed(again) == CallEvent(CallEventKind.OTHER, first, again)
    assert Assembler().feed(again).kind is CallEventKind.BEGIN


def test_calls_of_another_process_are_not_mixed_up() -> None:
    """Their numbers mean other calls; a header of the same one changes nothing."""
    assembler = Assembler()
    assembler.feed_all([header("a"), BEGIN, header("a")])
    assert list(assembler.open) == [1]
    assembler.feed(header("b"))
    assert not assembler.open
    assert assembler.header == header("b")


def test_other_frames_are_taken_note_of() -> None:
    """Drops are counted, a context is kept."""
    assembler = Assembler()
    context = Context(facts={"pods": []})
    dropped = Dropped(frames=4, size=10, time=0)
    events = assembler.feed_all([context, dropped, dropped, Trailer(index_at=0)])
    assert [event.kind for event in events] == [
        CallEventKind.OTHER,
        CallEventKind.DROPPED,
        CallEventKind.DROPPED,
        CallEventKind.OTHER,
    ]
    assert (assembler.context, assembler.dropped) == (context, 8)


def test_a_stream_keeps_its_request_and_its_newest_messages() -> None:
    """What was let go of is counted."""
    assembler = Assembler(kept_messages=3)
    flow = flow_of(assembler.feed(BEGIN))
    assembler.feed_all([message(body=b"ask"), *(message(MessageSide.REPLY, body=b"%d" % n) for n in range(5))])
    assert [one.body for one in flow.messages] == [b"ask", b"3", b"4"]
    assert flow.forgotten == 3


@patches_constants
def test_calls_that_never_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is let go of."""
    monkeypatch.setattr(module, "KEPT_CALLS", 2)
    assembler = Assembler()
    assembler.feed_all([BEGIN._replace(number=number) for number in (1, 2, 3)])
    assert list(assembler.open) == [2, 3]


@patches_constants
def test_a_call_that_takes_the_number_of_another_pushes_out_no_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that it replaces made room."""
    monkeypatch.setattr(module, "KEPT_CALLS", 2)
    assembler = Assembler()
    assembler.feed_all([BEGIN._replace(number=number) for number in (1, 2, 2)])
    assert list(assembler.open) == [1, 2]


def bodies(flow: Flow) -> list[int | str]:
    """How long each is, or why there is none."""
    return [one.absent or len(one.body) for one in flow.messages]


GONE = module.BODY_DROPPED.decode()


def test_bodies_of_the_oldest_calls_make_room() -> None:
    """Calls whose end was lost must not fill the memory. Which messages there were stays known."""
    assembler = Assembler(kept_bytes=5000)
    flows = [flow_of(assembler.feed(BEGIN._replace(number=number))) for number in (1, 2, 3)]
    for number in (1, 2, 3):
        assembler.feed(message(MessageSide.FORWARDED, bytes(2000), number))
    assert [bodies(flow) for flow in flows] == [[GONE], [2000], [2000]]
    assert flows[0].changed
    assert (flows[0].messages[0].packing, flows[0].messages[0].size) == (Packing.ABSENT, 2000)
    assembler.feed(message(MessageSide.REPLY, b"small", 1))
    assert bodies(flows[0]) == [GONE, 5]


def test_calls_that_are_over_do_not_count() -> None:
    """Nor do those of another process, or messages that a stream has let go of."""
    assembler = Assembler(kept_bytes=5000, kept_messages=2)
    for number in (1, 2, 3):
        assembler.feed_all([BEGIN._replace(number=number), message(body=bytes(4000), number=number)])
        assembler.feed(END._replace(number=number))
    assembler.feed_all([header("a"), BEGIN, message(body=bytes(4000)), header("b"), BEGIN])
    flow = assembler.open[1]
    for _ in range(5):
        assembler.feed(message(body=bytes(2000)))
    assert (bodies(flow), flow.forgotten) == ([2000, 2000], 3)


def test_a_single_call_keeps_its_newest_message_in_any_case() -> None:
    """Of a long stream most other messages go as a whole: they take memory without a body, too."""
    assembler = Assembler(kept_bytes=20_000)
    flow = flow_of(assembler.feed(BEGIN))
    for _ in range(30):
        assembler.feed(message(body=bytes(300)))
    assembler.feed(message(body=bytes(30_000)))
    assert bodies(flow) == [GONE] * 15 + [30_000]
    assert flow.forgotten == 15


WEB = Subject(namespace="shop", pod="web", pod_id="1f")


def test_a_context_tells_whom_calls_are_about_that_began_before() -> None:
    """By number, of the same process; the messages that would tell are in another file."""
    context = Context(facts={CALLS: subjects_to_facts({1: WEB, 2: NO_SUBJECT})})
    assembler = Assembler()
    assembler.feed_all([header("a"), context])
    again = BEGIN._replace(flags=Flags.CONTINUED)
    assert flow_of(assembler.feed(again)).subject == WEB
    assert flow_of(assembler.feed(again._replace(number=2))).subject == NO_SUBJECT
    assert flow_of(assembler.feed(BEGIN)).subject == NO_SUBJECT
    assembler.feed(header("b"))
    assert flow_of(assembler.feed(again)).subject == NO_SUBJECT


@pytest.mark.parametrize("told", [None, [], {"x": [""] * 7}, {"1": ["a"]}, {"1": [1] * 7}, {"1": {}}, {"1" * 5000: []}])
def test_subjects_that_make_no_sense_are_passed_over(told: object) -> None:
    """A file may be of anybody."""
    assert subjects_from_facts({CALLS: told}) == {}


def test_each_message_may_tell_whom_a_call_is_about() -> None:
    """Whoever knows is asked."""
    assembler = Assembler(lambda flow, message: Subject(pod=message.body.decode()))
    flow = flow_of(assembler.feed(BEGIN))
    assert flow.subject == NO_SUBJECT
    assembler.feed(message(body=b"web"))
    assert flow.subject.pod == "web"


def test_the_method_is_known_by_its_path() -> None:
    """In both API versions; a method of somebody else is none of the table."""
    flow = whole(BEGIN)
    assert (flow.name, flow.service) == ("CreateContainer", "runtime.v1.RuntimeService")
    assert flow.method is not None
    assert flow.method.request == "CreateContainerRequest"
    assert whole(BEGIN._replace(path="/other.Service/CreateContainer")).method is None
    assert whole(BEGIN._replace(path="/x.Y/Z")).method is None


@pytest.mark.parametrize(
    ("messages", "end", "changed"),
    [
        ([message()], END, False),
        ([message(), message(MessageSide.FORWARDED)], END, True),
        ([message(), message(MessageSide.RECEIVED)], None, True),
        ([message()], END._replace(changed_by=("policy",)), True),
        ([], None, False),
    ],
)
def test_a_changed_call_is_told_by_its_messages_or_its_end(
    messages: list[Message], end: End | None, changed: bool
) -> None:
    """Either is enough."""
    assert whole(BEGIN, *messages, end=end).changed is changed


def test_calls_know_where_they_come_from() -> None:
    """And whether somebody could change them."""
    assert not whole(BEGIN).originated
    assert whole(BEGIN._replace(origin="policy")).originated
    assert not whole(BEGIN).intercepted
    assert whole(BEGIN._replace(flags=Flags.INTERCEPTED)).intercepted
    assert whole(BEGIN, end=END._replace(code=5)).failed


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (NO_SUBJECT, ""),
        (Subject(namespace="shop", pod="web-0"), "shop/web-0"),
        (Subject(namespace="shop", pod="web-0", container="app"), "shop/web-0:app"),
        (Subject(pod_id="0123456789abcdef", container_id="fedcba9876543210"), "0123456789abc:fedcba9876543"),
        (Subject(image="registry/web:3"), "registry/web:3"),
    ],
)
def test_a_subject_is_shown_by_names_or_ids(subject: Subject, text: str) -> None:
    """Whatever is known; one that is not is nobody."""
    assert str(subject) == text
    assert bool(subject) is bool(text)


def test_what_a_stream_let_go_of_is_counted() -> None:
    """All messages, and those the caller got, with their bytes."""
    sides = (MessageSide.REQUEST, MessageSide.RECEIVED, MessageSide.REPLY, MessageSide.REPLY, MessageSide.REPLY)
    events = Assembler(kept_messages=2).feed_all([BEGIN, *(message(side, b"123") for side in sides)])
    flow = flow_of(events[-1])
    assert (flow.forgotten, flow.forgotten_replies, flow.forgotten_size) == (3, 2, 6)


def test_a_call_can_be_given_up() -> None:
    """Its end will not come; what comes of it later is nobody's."""
    assembler = Assembler()
    flow = flow_of(assembler.feed(BEGIN))
    assert (assembler.lose(BEGIN.number), flow.lost) == (flow, True)
    assert assembler.lose(BEGIN.number) is None
    assert assembler.feed(END).flow is None


def test_a_call_knows_its_beginning() -> None:
    """The frame is the same; a call that began before says so."""
    flow = flow_of(Assembler().feed(BEGIN))
    assert (begin_frame(flow), flow.continued) == (BEGIN, False)
    assert flow_of(Assembler().feed(BEGIN._replace(flags=Flags.CONTINUED))).continued


@pytest.mark.parametrize(("facts", "part"), [({PART: 3}, 3), ({}, 0), ({PART: "x"}, 0)])
def test_a_header_says_which_part_it_is_of(facts: dict[str, object], part: int) -> None:
    """Or nothing that can be used."""
    assert part_of(Header(facts=facts)) == part


def test_a_call_of_docker_is_named_by_its_method_and_path() -> None:
    """It is not a CRI method, whatever its path ends with; calls about different containers are of one sort."""
    flow = whole(BEGIN._replace(path="/docker/GET /v1.41/containers/0123abcd/json"))
    assert (flow.name, flow.service) == ("GET /containers/0123abcd/json", "docker")
    assert flow.method_name == "GET /containers/{id}/json"
    assert flow.http is not None
    assert whole(BEGIN._replace(path="/docker/GET /runtime.v1.RuntimeService/Version")).method is None
    plain = whole(BEGIN)
    assert (plain.method_name, plain.http) == ("CreateContainer", None)
