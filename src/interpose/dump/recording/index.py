"""Where the calls of one file of a recording are, and what is said of each in a list.

Pure. `IndexBuilder` is told of frames and their places, by whoever writes a file or reads one that has no index; what
it knows goes into an INDEX frame, as columns of numbers and tables of texts, and comes back from there as rows. A row
costs about 60 bytes in memory and 20 in the file, less than the frames of the call.

Invariant: an index that `read_index` accepts has a text for every number that stands for one. Where its offsets lead is
for the reader to check.
"""

import struct
import zlib
from array import array
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from typing import Any, Final, Generic, NamedTuple, TypeVar

from interpose.dump.model.call import KEPT_CALLS, NO_SUBJECT, Subject
from interpose.dump.model.frames import Begin, End, Flags, Frame, Message, MessageSide, is_continued

T = TypeVar("T", bound=Hashable)

# Of one file. With more it has no index, and is read from its beginning instead.
MAX_CALLS: Final = 1_000_000
# Bytes an index has at most per call, texts not counted, and at all. For whoever has to keep room for it.
ROW_BYTES: Final = 48
LEAST_BYTES: Final = 1024

# Name of a column and the form of its numbers.
_COLUMNS: Final[Mapping[str, str]] = {
    "number": "Q",
    "begin": "Q",
    "end": "Q",
    "time": "q",
    "elapsed": "Q",
    "code": "B",
    "flags": "B",
    "changed": "B",
    "path": "I",
    "origin": "I",
    "subject": "I",
}
_WORST_CODE: Final = 0xFF
_CHANGES: Final = (MessageSide.FORWARDED, MessageSide.RECEIVED)
_SUBJECT: Final = tuple(field.name for field in fields(Subject))


class IndexRow(NamedTuple):
    """A call in one file. A tuple, because there may be a million of them."""

    number: int
    begin: int  # offset of its BEGIN
    end: int  # offset behind its END; 0: it does not end in this file
    time: int  # nanoseconds since the epoch
    elapsed: int
    code: int
    flags: Flags
    changed: bool
    path: str
    origin: str
    subject: Subject


class _Table(Generic[T]):
    """Values by number, each once."""

    def __init__(self) -> None:
        self.size = 0  # bytes of their texts, about
        self._numbers: dict[T, int] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self._numbers)

    def number(self, value: T) -> int:
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self._numbers)
            texts = astuple(value) if isinstance(value, Subject) else (str(value),)
            self.size += sum(map(len, texts)) + 4 * len(texts)
        return known


class IndexBuilder:
    """Takes note of calls in the order of their frames."""

    def __init__(self, *, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._columns = {name: array(code) for name, code in _COLUMNS.items()}
        self._appends = [column.append for column in self._columns.values()]
        self._open: dict[int, int] = {}  # number of the call: number of its row
        self._paths: _Table[str] = _Table()
        self._origins: _Table[str] = _Table()
        self._subjects: _Table[Subject] = _Table()
        self._no_subject = self._subjects.number(NO_SUBJECT)
        self._tables = (self._paths, self._origins, self._subjects)
        self._full = False
        self.size = self._measured()  # bytes that the frame will have, rather too many than too few

    def __len__(self) -> int:
        return len(self._columns["number"])

    def add(self, frame: Frame, begin: int, end: int, subject: Subject = NO_SUBJECT) -> None:
        """A frame, where it begins and ends, and whom its call is about as far as it is known now."""
        if isinstance(frame, Message):
            row = self._open.get(frame.number)
            if row is not None and frame.side in _CHANGES:
                self._columns["changed"][row] = 1
        elif isinstance(frame, Begin):
            self._begin(frame, begin)
            row = self._open.get(frame.number)
        elif isinstance(frame, End):
            row = self._open.pop(frame.number, None)
            if row is not None:
                self._end(frame, row, end)
        else:
            return
        if row is not None and subject:
            self._columns["subject"][row] = self._subjects.number(subject)
            self.size = self._measured()

    def _end(self, frame: End, row: int, end: int) -> None:
        columns = self._columns
        columns["end"][row] = end
        columns["elapsed"][row] = frame.elapsed
        columns["code"][row] = min(frame.code, _WORST_CODE)
        columns["changed"][row] |= bool(frame.changed_by)

    def _begin(self, frame: Begin, at: int) -> None:
        if frame.number in self._open and is_continued(frame.flags):
            return
        if self._full or len(self) >= self._max_calls:
            self._full = True
            self.size = 0
            return
        self._open.pop(frame.number, None)  # of one that never ended
        if len(self._open) >= KEPT_CALLS:
            self._open.pop(next(iter(self._open)))
        self._open[frame.number] = len(self)
        path, origin = self._paths.number(frame.path), self._origins.number(frame.origin)
        # In the order of the columns.
        row = (frame.number, at, 0, frame.time, 0, 0, frame.flags, 0, path, origin, self._no_subject)
        for append, value in zip(self._appends, row, strict=True):
            append(value)
        self.size = self._measured()

    def _measured(self) -> int:
        return 0 if self._full else LEAST_BYTES + ROW_BYTES * len(self) + sum(table.size for table in self._tables)

    def rows(self) -> Iterator[IndexRow]:
        """What is known, in the order in which calls began."""
        return _rows(self._columns, list(self._paths), list(self._origins), list(self._subjects))

    def facts(self) -> dict[str, Any] | None:
        """For an INDEX frame; None if there is too much."""
        if self._full:
            return None
        return {
            "calls": len(self),
            "columns": {name: _pack(_COLUMNS[name], column) for name, column in self._columns.items()},
            "paths": list(self._paths),
            "origins": list(self._origins),
            "subjects": [astuple(subject) for subject in self._subjects],
        }


def read_index(facts: Mapping[str, Any]) -> list[IndexRow]:
    """The rows that an INDEX frame has; ValueError if it has not what it should."""
    try:
        calls = int(facts["calls"])
        if not 0 <= calls <= MAX_CALLS:
            raise ValueError(f"{calls} calls")
        columns = {name: _unpack(code, facts["columns"][name], calls) for name, code in _COLUMNS.items()}
        paths, origins = ([str(text) for text in facts[name]] for name in ("paths", "origins"))
        return list(_rows(columns, paths, origins, [_subject(map(str, row)) for row in facts["subjects"]]))
    except (KeyError, IndexError, TypeError, ValueError, struct.error, zlib.error) as error:
        raise ValueError(f"the index cannot be used: {error!r}") from None


def _subject(texts: Iterable[str]) -> Subject:
    return Subject(**dict(zip(_SUBJECT, texts, strict=True)))


def _rows(
    columns: Mapping[str, "array[int]"], paths: Sequence[str], origins: Sequence[str], subjects: Sequence[Subject]
) -> Iterator[IndexRow]:
    flags = [Flags(value) for value in range(256)]
    for number, begin, end, time, elapsed, code, flag, changed, path, origin, subject in zip(
        *(columns[name] for name in _COLUMNS), strict=True
    ):
        yield IndexRow(
            number=number,
            begin=begin,
            end=end,
            time=time,
            elapsed=elapsed,
            code=code,
            flags=flags[flag],
            changed=bool(changed),
            path=paths[path],
            origin=origins[origin],
            subject=subjects[subject],
        )


def _pack(code: str, column: "array[int]") -> str:
    return b64encode(zlib.compress(struct.pack(f"<{len(column)}{code}", *column), 6)).decode()


def _unpack(code: str, text: str, calls: int) -> "array[int]":
    form = struct.Struct(f"<{calls}{code}")
    data = zlib.decompressobj().decompress(b64decode(text, validate=True), form.size + 1)
    return array(code, form.unpack(data))
