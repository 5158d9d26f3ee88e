"""What can be asked of a call."""

import pytest

from interpose.dump.filter.terms import (
    BY_LETTER,
    SEARCHED,
    TERMS,
    format_exact_duration,
    kind_of,
    reference_table,
    term_list,
)
from interpose.dump.model.call import Flow, Subject
from interpose.dump.model.frames import End, Flags, Message, MessageSide

NINE = 1_763_283_600_000_000_000  # 2025-11-16T09:00:00Z
TEXTS = {
    MessageSide.REQUEST: "image: web\n",
    MessageSide.FORWARDED: "cpus: 2-3\n",
    MessageSide.RECEIVED: "a: 1\n",
    MessageSide.REPLY: "id: c1\n",
}


def texts(flow: Flow, sides: tuple[MessageSide, ...]) -> str:
    """What stands for the messages of every call."""
    return "".join(TEXTS[side] for side in sides)


def a_flow(**values: object) -> Flow:
    """A call of which only some things matter."""
    known: dict[str, object] = {
        "number": 12,
        "time": NINE,
        "path": "/runtime.v1.RuntimeService/CreateContainer",
        "origin": "client",
        "pid": 1,
        "uid": 0,
        "flags": Flags.NONE,
        "metadata": (),
        "subject": Subject(
            namespace="shop",
            pod="web-0",
            pod_uid="Cafe-1",
            pod_id="beef01",
            container="app",
            container_id="f00d02",
            image="registry/web:3",
        ),
        "end": End(number=12, elapsed=100_000_000, code=5, changed_by=("koordlet", "static")),
    }
    return Flow(**(known | values))  # type: ignore[arg-type]


def asked(letter: str, argument: str, flow: Flow | None = None, now: int | None = None) -> bool:
    """The answer to one question."""
    return BY_LETTER[letter].parse(argument, now).test(flow or a_flow(), texts)


@pytest.mark.parametrize(
    ("letter", "argument", "answer"),
    [
        ("m", "create", True),
        ("m", "^Container", False),
        ("ns", "^shop$", True),
        ("ns", "kube", False),
        ("p", "web", True),
        ("p", "cafe", True),
        ("p", "beef", True),
        ("p", "eef01", False),
        ("c", "^app", True),
        ("c", "F00D", True),
        ("c", "00d", False),
        ("i", "web:3$", True),
        ("i", "db", False),
        ("s", "NOT_FOUND", True),
        ("s", "notfound", True),
        ("s", "5", True),
        ("s", "OK", False),
        ("s", "error", True),
        ("s", "open", False),
        ("s", "99", False),
        ("d", ">99ms", True),
        ("d", ">100ms", False),
        ("d", ">=100ms", True),
        ("d", "<0.2s", True),
        ("d", "<100000us", False),
        ("d", "<= 0.1 s", True),
        ("h", "", True),
        ("h", "koord", True),
        ("h", "nobody", False),
        ("o", "client", True),
        ("o", "policy", False),
        ("k", "passthrough", True),
        ("k", "inter", False),
        ("t", "^id: c1$", True),
        ("t", "image", True),
        ("t", "nothing", False),
        ("q", "cpus", True),
        ("q", "id:", False),
        ("r", "a: 1", True),
        ("r", "image", False),
        ("n", "12", True),
        ("n", "1,10-", True),
        ("n", "-11", False),
        ("n", "13-20", False),
        ("since", "2025-11-16T09:00:00Z", True),
        ("since", "2025-11-16T09:00:00.000001", False),
        ("until", "2025-11-16T10:00:00+01:00", True),
        ("until", "2025-11-15", False),
        ("since", "08:59:59.5", True),
        ("since", "09:01", False),
        ("until", "09:00", True),
    ],
)
def test_questions_have_answers(letter: str, argument: str, answer: bool) -> None:
    """Regular expressions are found anywhere, without regard to case; ids by their beginning."""
    assert asked(letter, argument) is answer


def test_ids_and_names_that_are_not_known_are_not_found() -> None:
    """Not even by an expression that matches nothing at all."""
    nobody = a_flow(subject=Subject())
    assert not asked("p", ".*", nobody)
    assert not asked("c", "", nobody)


def test_a_call_that_is_not_over_is_open() -> None:
    """It has no status, took no time, and nobody is known to have changed it."""
    flow = a_flow(end=None)
    assert asked("s", "open", flow)
    assert not any(asked(letter, argument, flow) for letter, argument in [("s", "OK"), ("d", ">0s"), ("h", "koordlet")])


def test_a_changed_message_is_a_change() -> None:
    """Before the end says who it was."""
    message = Message(number=12, at=0, side=MessageSide.FORWARDED, size=0, body=b"")
    assert asked("h", "", a_flow(end=None, messages=[message]))
    assert not asked("h", "", a_flow(end=None))


def test_relative_times_count_from_now() -> None:
    """With or without a sign."""
    now = NINE + 600 * 10**9
    assert asked("since", "-10m", now=now)
    assert not asked("since", "599s", now=now)
    assert BY_LETTER["since"].parse("-10m", now).text == "2025-11-16T09:00:00Z"


@pytest.mark.parametrize(
    ("letter", "argument", "plain"),
    [
        ("s", "5", "NOT_FOUND"),
        ("s", "77", "77"),
        ("s", "ERROR", "error"),
        ("d", ">1500ms", ">1500ms"),
        ("d", ">1.5s", ">1500ms"),
        ("d", "<2m", "<120s"),
        ("d", ">0.0005ms", ">500ns"),
        ("k", "orig", "originated"),
        ("n", "1, 4-6,-3,9-,7-7", "1,4-6,0-3,9-,7"),
        ("until", "09:00", "09:00:00"),
        ("until", "2025-11-16", "2025-11-16T00:00:00Z"),
        ("m", "a.*", "a.*"),
    ],
)
def test_arguments_have_one_plain_form(letter: str, argument: str, plain: str) -> None:
    """Which is read as the same."""
    assert BY_LETTER[letter].parse(argument, None).text == plain
    assert BY_LETTER[letter].parse(plain, None).text == plain


@pytest.mark.parametrize(
    ("letter", "argument", "reason"),
    [
        ("m", "(", "'(' is not a regular expression"),
        ("s", "bad", "possible are error, open, a number, OK"),
        ("d", "5ms", "such as >100ms"),
        ("d", ">5parsecs", "such as >100ms"),
        ("d", ">5xx", "such as >100ms"),
        ("k", "", "possible are passthrough, intercepted, originated"),
        ("k", "x", "possible are passthrough, intercepted, originated"),
        ("n", "-", "not a number or range"),
        ("n", "a", "not a number or range"),
        ("n", "9-5", "ends before it begins"),
        ("since", "yesterday", "is not a time such as"),
        ("since", "09:00Z", "is not a time such as"),
        ("since", "0001-01-01T00:00+14:00", "is not a time such as"),
        ("since", "-10m", "there is no now here"),
    ],
)
def test_wrong_arguments_say_what_is_possible(letter: str, argument: str, reason: str) -> None:
    """In one sentence with the value."""
    with pytest.raises(ValueError) as error:
        BY_LETTER[letter].parse(argument, None)
    assert reason in str(error.value)


def test_an_expression_with_a_doubtful_future_is_taken() -> None:
    """Python warns about nested sets; the person who filters has no use for that."""
    assert not asked("m", "[[a]b")


def test_only_the_beginning_of_a_text_is_searched() -> None:
    """So that an expression cannot take for ever."""
    read = BY_LETTER["t"].parse("needle", None)
    assert read.test(a_flow(), lambda _flow, _sides: "x" * (SEARCHED - 6) + "needle")
    assert not read.test(a_flow(), lambda _flow, _sides: "x" * SEARCHED + "needle")


@pytest.mark.parametrize(
    ("origin", "flags", "kind"),
    [
        ("client", Flags.NONE, "passthrough"),
        ("client", Flags.INTERCEPTED, "intercepted"),
        ("policy", Flags.INTERCEPTED, "originated"),
        ("store", Flags.NONE, "originated"),
    ],
)
def test_a_call_has_one_kind(origin: str, flags: Flags, kind: str) -> None:
    """Who made it comes before who saw it."""
    flow = a_flow(origin=origin, flags=flags)
    assert kind_of(flow) == kind
    assert [one for one in ("passthrough", "intercepted", "originated") if asked("k", one, flow)] == [kind]


def test_every_question_is_in_the_help() -> None:
    """And in errors."""
    for one in TERMS:
        assert f"~{one.letter} " in reference_table()
        assert f"~{one.letter} (" in term_list()
        assert one.words[0] in reference_table()


def test_durations_are_whole_numbers() -> None:
    """In the largest unit up to seconds."""
    assert [format_exact_duration(one) for one in (0, 1, 1000, 5_000_000, 90 * 10**9)] == [
        "0s",
        "1ns",
        "1us",
        "5ms",
        "90s",
    ]
