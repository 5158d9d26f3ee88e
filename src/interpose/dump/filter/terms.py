"""What a filter can ask of a call: one row per question, with its letter, its word, and how its argument is read.

Pure. Reading an argument gives a test and the argument's plain form, or a ValueError that says what is possible. The
parser in `filters`, the help of commands and the tests go through the same table.
"""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Final, TypeAlias

from interpose.core.model.text import quoted
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import MessageSide
from interpose.dump.model.grpc_codes import NAMES, code_name

# The text of the messages of these sides of a call, as YAML.
Texts: TypeAlias = Callable[[Flow, tuple[MessageSide, ...]], str]
Test: TypeAlias = Callable[[Flow, Texts], bool]

REQUESTS: Final = (MessageSide.REQUEST, MessageSide.FORWARDED)
REPLIES: Final = (MessageSide.RECEIVED, MessageSide.REPLY)
# A regular expression can take very long over a long text: what lies behind this is not searched.
SEARCHED: Final = 1 << 20  # characters of a call

_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1, "m": 60 * 10**9, "h": 3600 * 10**9}
)
_AGO: Final[Mapping[str, int]] = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})
_COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = MappingProxyType(
    {
        ">": lambda number, other: number > other,
        "<": lambda number, other: number < other,
        ">=": lambda number, other: number >= other,
        "<=": lambda number, other: number <= other,
    }
)
_DURATION: Final = re.compile(r"(>=|<=|>|<)\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(\w{1,2})")
_RANGE: Final = re.compile(r"([0-9]{1,18})?(-)?([0-9]{1,18})?")
_RELATIVE: Final = re.compile(r"-?([0-9]{1,9})([smhd])")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS: Final[Mapping[str, Callable[[Flow], bool]]] = MappingProxyType(
    {
        "passthrough": lambda flow: not (flow.originated or flow.intercepted),
        "intercepted": lambda flow: flow.intercepted and not flow.originated,
        "originated": lambda flow: flow.originated,
    }
)
_ERROR: Final = "error"
_OPEN: Final = "open"


@dataclass(frozen=True, slots=True)
class ParsedArgument:
    """The argument of a term after parsing: its canonical text and its test."""

    text: str  # reads back to the same
    test: Test


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterTerm:
    """One row: `~letter ARGUMENT`, or `word=ARGUMENT`."""

    letter: str
    words: tuple[str, ...]
    argument: str  # what it is called in the help
    meaning: str
    parse: Callable[[str, int | None], ParsedArgument]  # the argument and the time now
    optional: bool = False  # whether it can stand without an argument
    compares: bool = False  # whether the word is followed by < or >, not =


def kind_of(flow: Flow) -> str:
    """The kind of a call: `passthrough`, `intercepted` or `originated`."""
    return next(kind for kind, holds in _KINDS.items() if holds(flow))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # doubts about the future of an expression are not ours
            return re.compile(text, re.IGNORECASE | re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{quoted(text)} is not a regular expression: {error}") from None


def _regexp(
    of: Callable[[Flow], tuple[str, ...]], ids: Callable[[Flow], tuple[str, ...]] | None = None
) -> Callable[[str, int | None], ParsedArgument]:
    """Found anywhere in one of the texts; or the beginning of one of the ids."""

    def read(text: str, _now: int | None) -> ParsedArgument:
        search = _pattern(text).search
        start = text.lower()

        def test(flow: Flow, _texts: Texts) -> bool:
            if any(text and search(text) for text in of(flow)):
                return True
            return ids is not None and any(object_id and object_id.lower().startswith(start) for object_id in ids(flow))

        return ParsedArgument(text, test)

    return read


def _text(*sides: MessageSide) -> Callable[[str, int | None], ParsedArgument]:
    def read(text: str, _now: int | None) -> ParsedArgument:
        search = _pattern(text).search
        return ParsedArgument(text, lambda flow, texts: search(texts(flow, sides), 0, SEARCHED) is not None)

    return read


def _status(text: str, _now: int | None) -> ParsedArgument:
    word = text.strip().lower()
    if word == _ERROR:
        return ParsedArgument(_ERROR, lambda flow, _texts: flow.failed)
    if word == _OPEN:
        return ParsedArgument(_OPEN, lambda flow, _texts: flow.end is None)
    names = {name.lower().replace("_", ""): code for code, name in enumerate(NAMES)}
    code = int(word) if re.fullmatch("[0-9]{1,3}", word) else names.get(word.replace("_", ""))
    if code is None:
        raise ValueError(f"{quoted(text)} is not a status; possible are error, open, a number, {', '.join(NAMES)}")
    plain = code_name(code) if code < len(NAMES) else str(code)
    return ParsedArgument(plain, lambda flow, _texts: flow.end is not None and flow.end.code == code)


def _duration(text: str, _now: int | None) -> ParsedArgument:
    match = _DURATION.fullmatch(text.strip())
    factor = _UNITS.get(match[3].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{quoted(text)} is not a duration with < or > before it, such as >100ms, <=5ms or >1.5s")
    compare, limit = _COMPARISONS[match[1]], _nanoseconds(match[2], factor)

    def test(flow: Flow, _texts: Texts) -> bool:
        return flow.duration is not None and compare(flow.duration, limit)

    return ParsedArgument(match[1] + format_exact_duration(limit), test)


def _nanoseconds(number: str, factor: int) -> int:
    """Exact: 0.1 of a millisecond is 100000 nanoseconds; parts of a nanosecond are cut off."""
    whole, _, part = number.partition(".")
    return int(whole) * factor + int(part.ljust(9, "0")) * factor // 10**9


def format_exact_duration(nanoseconds: int) -> str:
    """A duration in the largest of the small units that gives a whole number."""
    unit = next(unit for unit in ("s", "ms", "us", "ns") if nanoseconds % _UNITS[unit] == 0)
    return f"{nanoseconds // _UNITS[unit]}{unit}"


def _changed(text: str, _now: int | None) -> ParsedArgument:
    if not text:
        return ParsedArgument("", lambda flow, _texts: flow.changed)
    search = _pattern(text).search
    return ParsedArgument(text, lambda flow, _texts: flow.end is not None and any(map(search, flow.end.changed_by)))


def _kind(text: str, _now: int | None) -> ParsedArgument:
    found = [kind for kind in _KINDS if text and kind.startswith(text.lower())]
    if not found:
        raise ValueError(f"{quoted(text)} is not a kind of call; possible are {', '.join(_KINDS)}")
    holds = _KINDS[found[0]]
    return ParsedArgument(found[0], lambda flow, _texts: holds(flow))


Ranges: TypeAlias = Sequence[tuple[int, int | None]]


def number_ranges(text: str) -> Ranges:
    """`1,4-6,100-`: the first and the last number of each; None has no end."""
    ranges: list[tuple[int, int | None]] = []
    for part in text.replace(" ", "").split(","):
        match = _RANGE.fullmatch(part)
        if match is None or not (match[1] or match[3]):
            raise ValueError(f"{quoted(text)} is not a number or range such as 12, 5-9, 100- or 1,4-6")
        first = int(match[1] or 0)
        last = int(match[3]) if match[3] else None if match[2] else first
        if last is not None and last < first:
            raise ValueError(f"{quoted(part)} ends before it begins")
        ranges.append((first, last))
    return ranges


def in_ranges(number: int, ranges: Ranges) -> bool:
    """Whether a number is one of them."""
    return any(first <= number and (last is None or number <= last) for first, last in ranges)


def _number(text: str, _now: int | None) -> ParsedArgument:
    ranges = number_ranges(text)

    def test(flow: Flow, _texts: Texts) -> bool:
        return in_ranges(flow.number, ranges)

    return ParsedArgument(",".join(_show_range(*bounds) for bounds in ranges), test)


def _show_range(first: int, last: int | None) -> str:
    return str(first) if first == last else f"{first}-{'' if last is None else last}"


def _time_bound(*, until: bool) -> Callable[[str, int | None], ParsedArgument]:
    def read(text: str, now: int | None) -> ParsedArgument:
        of_day, limit, plain = _time(text.strip(), now)

        def test(flow: Flow, _texts: Texts) -> bool:
            at = flow.time % _DAY if of_day else flow.time
            return at <= limit if until else at >= limit

        return ParsedArgument(plain, test)

    return read


_DAY: Final = 86_400 * 10**9


def _time(text: str, now: int | None) -> tuple[bool, int, str]:
    """Whether it is a time of any day, the nanoseconds since the epoch or midnight, and the plain form."""
    if match := _RELATIVE.fullmatch(text):
        if now is None:
            raise ValueError(f"{quoted(text)} counts from now, and there is no now here: give a date and a time")
        limit = now - int(match[1]) * _AGO[match[2]] * 10**9
        return False, limit, _iso(limit)
    for read in (_of_day, _of_date):
        try:
            return read(text)
        except (ValueError, OverflowError):
            pass
    raise ValueError(
        f"{quoted(text)} is not a time such as 2026-11-16T09:00:00Z, 09:00:30 (any day, UTC) or -10m (ago)"
    )


def _of_day(text: str) -> tuple[bool, int, str]:
    moment = time.fromisoformat(text)
    if moment.tzinfo is not None or ":" not in text:
        raise ValueError("a time of day has colons and no zone")
    since_midnight = datetime.combine(date(1970, 1, 1), moment, UTC) - _EPOCH
    return True, since_midnight // timedelta(microseconds=1) * 1000, moment.isoformat()


def _of_date(text: str) -> tuple[bool, int, str]:
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    limit = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    return False, limit, _iso(limit)


def _iso(nanoseconds: int) -> str:
    # Parts of a microsecond are cut off, once: the plain form is read back to itself.
    moment = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    return moment.replace(tzinfo=None).isoformat() + "Z"


def parse_bare(text: str, _now: int | None) -> ParsedArgument:
    """A word on its own: part of the method or of whom the call is about."""
    wanted = text.casefold()

    def test(flow: Flow, _texts: Texts) -> bool:
        return wanted in flow.name.casefold() or wanted in str(flow.subject).casefold()

    return ParsedArgument(text, test)


TERMS: Final[tuple[FilterTerm, ...]] = (
    FilterTerm(
        letter="m", words=("method",), argument="RE", meaning="method", parse=_regexp(lambda flow: (flow.name,))
    ),
    FilterTerm(
        letter="ns",
        words=("namespace", "ns"),
        argument="RE",
        meaning="namespace",
        parse=_regexp(lambda flow: (flow.subject.namespace,)),
    ),
    FilterTerm(
        letter="p",
        words=("pod",),
        argument="RE",
        meaning="pod: its name, or the beginning of its uid or id",
        parse=_regexp(lambda flow: (flow.subject.pod,), lambda flow: (flow.subject.pod_uid, flow.subject.pod_id)),
    ),
    FilterTerm(
        letter="c",
        words=("container",),
        argument="RE",
        meaning="container: its name, or the beginning of its id",
        parse=_regexp(lambda flow: (flow.subject.container,), lambda flow: (flow.subject.container_id,)),
    ),
    FilterTerm(
        letter="i",
        words=("image",),
        argument="RE",
        meaning="image",
        parse=_regexp(lambda flow: (flow.subject.image,)),
    ),
    FilterTerm(
        letter="s",
        words=("status",),
        argument="STATUS",
        meaning="OK, NOT_FOUND, ...; a number; error: any failure; open: not over",
        parse=_status,
    ),
    FilterTerm(
        letter="d",
        words=("duration",),
        argument=">100ms",
        meaning="took longer, or shorter (<5ms); a call that is not over never matches",
        parse=_duration,
        compares=True,
    ),
    FilterTerm(
        letter="h",
        words=("changed",),
        argument="[RE]",
        meaning="changed on the way, by anybody or by this hook server or policy",
        parse=_changed,
        optional=True,
    ),
    FilterTerm(
        letter="o",
        words=("origin",),
        argument="RE",
        meaning="who made the call: client, store, policy ...",
        parse=_regexp(lambda flow: (flow.origin,)),
    ),
    FilterTerm(
        letter="k",
        words=("kind",),
        argument="KIND",
        meaning="passthrough, intercepted or originated",
        parse=_kind,
    ),
    FilterTerm(
        letter="t",
        words=("text",),
        argument="RE",
        meaning="anywhere in requests and replies, as YAML",
        parse=_text(*REQUESTS, *REPLIES),
    ),
    FilterTerm(letter="q", words=("request",), argument="RE", meaning="in the request", parse=_text(*REQUESTS)),
    FilterTerm(letter="r", words=("reply",), argument="RE", meaning="in the reply", parse=_text(*REPLIES)),
    FilterTerm(
        letter="n",
        words=("number",),
        argument="NUMBERS",
        meaning="its number: 12, 5-9, 100- or 1,4-6",
        parse=_number,
    ),
    FilterTerm(
        letter="since",
        words=("since",),
        argument="TIME",
        meaning="began at or after: 2026-11-16T09:00:00Z, 09:00:30 (of any day, UTC), -10m",
        parse=_time_bound(until=False),
    ),
    FilterTerm(
        letter="until", words=("until",), argument="TIME", meaning="began at or before", parse=_time_bound(until=True)
    ),
)
# Questions that the request cannot answer, or not wholly.
END_TERMS: Final = frozenset({"s", "d", "h", "t", "q", "r"})
# Those about whom a call is about; the empty one is a word on its own.
SUBJECT_TERMS: Final = frozenset({"", "ns", "p", "c", "i"})
BY_LETTER: Final[Mapping[str, FilterTerm]] = MappingProxyType({term.letter: term for term in TERMS})
BY_WORD: Final[Mapping[str, FilterTerm]] = MappingProxyType({word: term for term in TERMS for word in term.words})


def term_list() -> str:
    """All questions on one line, for errors."""
    return ", ".join(f"~{term.letter} ({term.words[0]})" for term in TERMS)


def reference_table() -> str:
    """All questions, for people: one line each."""
    rows = [(f"~{term.letter} {term.argument}", _spelled(term), term.meaning) for term in TERMS]
    rows += [
        ("WORD", "", "part of the method or of namespace/pod:container"),
        ("!A", "", "not"),
        ("A & B, A B", "", "both"),
        ("A | B", "", "one of them; ! binds tightest, | least"),
        ("( )", "", "groups; '...' and \"...\" hold blanks"),
    ]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{letter:<{first}}  {words:<{second}}  {meaning}".rstrip() for letter, words, meaning in rows)


def _spelled(question: FilterTerm) -> str:
    word = question.words[0]
    if question.compares:
        return f"{word}{question.argument}"
    return f"{word}[=RE]" if question.optional else f"{word}={question.argument}"
