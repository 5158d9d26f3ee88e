"""Reads recordings: one file, or all files of a rotated one, as frames, as calls, or as a list of calls.

Constant memory for frames and calls, whatever the size of the files; lists have one small value per call. Damage is
reported, never raised: `damage` tells of what was read last.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from interpose.dump.model.call import (
    KEPT_CALLS,
    SESSION,
    Assembler,
    CallEventKind,
    Flow,
    Identify,
    Learn,
    Subject,
    part_of,
)
from interpose.dump.model.frame_reader import Damage
from interpose.dump.model.frames import Begin, End, Flags, Frame, Header, Message
from interpose.dump.model.subject import Subjects
from interpose.dump.recording.file_reader import STDIN, RecordingFile, Scan
from interpose.dump.recording.files import rotated_set
from interpose.dump.recording.index import IndexRow
from interpose.dump.recording.tail import follow
from interpose.errors import ConfigError

# How often files are looked for if they are rotated just then.
_ATTEMPTS: Final = 5
# Bodies of calls in flight. More than a relay keeps: whoever reads a file wants to see what is in it.
_KEPT_BYTES: Final = 256 << 20

__all__ = ["FileRange", "Recording", "RecordingEntry", "RecordingSummary", "follow", "open_recording", "rotated_set"]


class FileRange(NamedTuple):
    """Where the frames of a call are in one file. `end` 0: it does not end there."""

    file: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingEntry:
    """A call in a list: what is known without its messages."""

    number: int
    session: str
    time: int  # nanoseconds since the epoch
    elapsed: int | None  # None: it does not end in this recording
    code: int | None
    changed: bool
    flags: Flags
    path: str
    origin: str
    subject: Subject
    ranges: tuple[FileRange, ...]

    @property
    def name(self) -> str:
        """The method, without its service."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSummary:
    """What is in a recording."""

    frames: int = 0
    calls: int = 0
    unfinished: int = 0
    beheaded: int = 0  # calls whose beginning is in a file that is gone
    changed: int = 0
    first: int | None = None  # nanoseconds since the epoch
    last: int | None = None
    message_bytes: int = 0
    dropped: int = 0  # frames
    dropped_bytes: int = 0
    # Method: code (None: unfinished): calls
    methods: dict[str, Counter[int | None]] = field(default_factory=dict)
    sessions: tuple[str, ...] = ()
    indexed: tuple[bool, ...] = ()  # for each file: whether it has an intact index
    damaged: int = 0  # places
    damage: tuple[Damage, ...] = ()


class Recording:
    """Files that are read one after the other, oldest first.

    ConfigError names every file that cannot be read. One in `dispensable` is only damage, unless there is no other.
    """

    def __init__(
        self, paths: str | Path | Sequence[str | Path], *, dispensable: Collection[str | Path] = frozenset()
    ) -> None:
        self.files: list[RecordingFile] = []
        self._missing: list[Damage] = []
        problems: list[str] = []
        for path in [paths] if isinstance(paths, str | Path) else paths:
            try:
                self.files.append(RecordingFile(path))
            except ConfigError as error:
                if path in dispensable:
                    self._missing.append(Damage(offset=0, size=0, why=str(error)))
                else:
                    problems += error.problems
        if problems or not self.files:
            self.close()
            raise ConfigError(problems or [damage.why for damage in self._missing] or "no recording is named")
        self._missing += _gaps(self.files)
        self._entries: list[RecordingEntry] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give descriptors back; also done when nobody uses it any more."""
        for file in self.files:
            file.close()

    @property
    def header(self) -> Header:
        """Of the first file; empty if it is damaged."""
        return self.files[0].header

    @property
    def damage(self) -> list[Damage]:
        """What was found when it was read last; complete when that came to an end."""
        return [*self._missing, *(damage for file in self.files for damage in file.damage)]

    @property
    def damaged(self) -> int:
        """Places of damage, also those that `damage` does not name."""
        return len(self._missing) + sum(file.damaged for file in self.files)

    def frames(self) -> Iterator[Frame]:
        """The frames of all files, oldest file first."""
        return (placed.frame for file in self.files for placed in file.placed())

    def flows(self, identify: Identify | None = None, learn: Learn | None = None) -> Iterator[Flow]:
        """Calls, each when it ended; then those that did not."""
        assembler = Assembler(identify, learn, kept_bytes=_KEPT_BYTES)
        for frame in self.frames():
            yield from _ended_by(assembler, frame)
            event = assembler.feed(frame)
            if event.kind is CallEventKind.END and event.flow is not None:
                yield event.flow
        yield from assembler.open.values()

    def entries(self, identify: Identify | None = None, learn: Learn | None = None) -> list[RecordingEntry]:
        """The calls in the order in which they began. Files with an index are not read for that."""
        if self._entries is None:
            rows = (file.rows() for file in self.files)
            self._entries = _merge_rows(
                (file.session, file.scan(identify, learn).rows if known is None else known)
                for file, known in zip(self.files, rows, strict=True)
            )
        return self._entries

    def flow(self, which: int | RecordingEntry, identify: Identify | None = None) -> Flow | None:
        """One call with its messages, read where it is; None if there is none.

        Numbers are those of one relay process: if there are several, the youngest is meant.
        """
        if isinstance(which, RecordingEntry):
            return self._flow(which, identify)
        for entry in reversed(self.entries()):
            if entry.number == which:
                return self._flow(entry, identify) or self._search(entry, identify)
        return None

    def summary(self) -> RecordingSummary:
        """Read all of it and count."""
        scans = [file.scan() for file in self.files]
        entries = _merge_rows((file.session, scan.rows) for file, scan in zip(self.files, scans, strict=True))
        return replace(
            _count(entries, scans),
            sessions=tuple(dict.fromkeys(file.session for file in self.files)),
            indexed=tuple(file.rows() is not None for file in self.files),
            damaged=self.damaged,
            damage=tuple(self.damage),
        )

    def _flow(self, entry: RecordingEntry, identify: Identify | None) -> Flow | None:
        assembler = Assembler(identify, kept_bytes=_KEPT_BYTES)
        flow: Flow | None = None
        for place in entry.ranges:
            for placed in self.files[place.file].placed(place.begin, place.end or None):
                if not isinstance(placed.frame, Begin | Message | End) or placed.frame.number != entry.number:
                    continue
                flow = assembler.feed(placed.frame).flow or flow
                if isinstance(placed.frame, End):
                    break
        if flow is not None:
            # The writer had seen what was before.
            flow.subject = _complete(flow.subject, entry.subject)
        return flow

    def _search(self, entry: RecordingEntry, identify: Identify | None) -> Flow | None:
        """An index that leads nowhere: read everything."""
        sought = entry.session, entry.number
        for found in self._scanned():
            if (found.session, found.number) == sought:
                return self._flow(found, identify)
        return None

    def _scanned(self) -> list[RecordingEntry]:
        return _merge_rows((file.session, file.scan().rows) for file in self.files)


def open_recording(paths: Sequence[str | Path], *, alone: bool = False) -> Recording:
    """Recordings by their names, read one after the other. FILE stands for all its rotated files unless `alone`.

    ConfigError names every file that cannot be read; a rotated file that nobody named is only damage then.
    """
    named = [Path(path) for path in paths]
    wanted = _files(named, alone=alone)
    recording = Recording(wanted, dispensable=set(wanted) - set(named))
    for _ in range(_ATTEMPTS):
        before, wanted = wanted, _files(named, alone=alone)
        if wanted == before or Path(STDIN) in named:
            break
        recording.close()  # FILE got a number meanwhile: one would be missing
        recording = Recording(wanted, dispensable=set(wanted) - set(named))
    return recording


def _files(named: Sequence[Path], *, alone: bool) -> list[Path]:
    wanted: dict[Path, None] = {}
    for path in named:
        files = [] if alone or str(path) == STDIN else rotated_set(path)
        wanted.update(dict.fromkeys(files or [path]))
    return list(wanted)


def _gaps(files: Sequence[RecordingFile]) -> Iterator[Damage]:
    """Files of one relay process that are missing between others."""
    last: dict[str, int] = {}
    for file in files:
        if not (part := part_of(file.header)):
            continue
        before = last.get(file.session, part)
        last[file.session] = part
        if part > before + 1:  # a writer that is started again begins with 1
            missing = f"{before + 1} is" if part == before + 2 else f"{before + 1} to {part - 1} are"
            why = f"this is part {part} of a recording and the file before it part {before}: {missing} missing"
            yield Damage(offset=0, size=0, why=why, file=str(file.path))


def _complete(subject: Subject, other: Subject) -> Subject:
    """A subject, with what another knows where it says nothing."""
    names = (part.name for part in fields(Subject))
    empty = {name: getattr(other, name) for name in names if not getattr(subject, name)}
    return replace(subject, **empty)


def _ended_by(assembler: Assembler, frame: Frame) -> list[Flow]:
    """Calls that will not end any more, because this frame makes the assembler let go of them."""
    if isinstance(frame, Header):
        last = assembler.header
        other = last is not None and last.facts.get(SESSION) != frame.facts.get(SESSION)
        return list(assembler.open.values()) if other else []
    if not isinstance(frame, Begin):
        return []
    known = assembler.open.get(frame.number)
    if known is not None and frame.flags & Flags.CONTINUED:
        return []
    if known is not None:
        return [known]
    return [next(iter(assembler.open.values()))] if len(assembler.open) >= KEPT_CALLS else []


def _merge_rows(files: Iterable[tuple[str, list[IndexRow]]]) -> list[RecordingEntry]:
    """The rows of several files as one list: a call that goes on in the next file is one call."""
    entries: list[RecordingEntry] = []
    unfinished: dict[tuple[str, int], int] = {}
    for file, (session, rows) in enumerate(files):
        for row in rows:
            key = session, row.number
            place = FileRange(file=file, begin=row.begin, end=row.end)
            at = unfinished.pop(key, None) if row.flags & Flags.CONTINUED else None
            if at is None:
                at = len(entries)
                entries.append(_entry(session, row, place))
            else:
                entries[at] = _continued(entries[at], row, place)
            if not row.end:
                unfinished[key] = at
    return entries


def _entry(session: str, row: IndexRow, place: FileRange) -> RecordingEntry:
    return RecordingEntry(
        number=row.number,
        session=session,
        time=row.time,
        elapsed=row.elapsed if row.end else None,
        code=row.code if row.end else None,
        changed=row.changed,
        flags=row.flags,
        path=row.path,
        origin=row.origin,
        subject=row.subject,
        ranges=(place,),
    )


def _continued(entry: RecordingEntry, row: IndexRow, place: FileRange) -> RecordingEntry:
    return replace(
        entry,
        elapsed=row.elapsed if row.end else None,
        code=row.code if row.end else None,
        changed=entry.changed or row.changed,
        subject=_complete(row.subject, entry.subject),
        ranges=(*entry.ranges, place),
    )


def _count(entries: Sequence[RecordingEntry], scans: Sequence[Scan]) -> RecordingSummary:
    methods: dict[str, Counter[int | None]] = {}
    for entry in entries:
        methods.setdefault(entry.name, Counter())[entry.code] += 1
    return RecordingSummary(
        frames=sum(scan.frames for scan in scans),
        calls=len(entries),
        unfinished=sum(entry.code is None for entry in entries),
        beheaded=sum(bool(entry.flags & Flags.CONTINUED) for entry in entries),
        changed=sum(entry.changed for entry in entries),
        first=min((entry.time for entry in entries), default=None),
        last=max((entry.time + (entry.elapsed or 0) for entry in entries), default=None),
        message_bytes=sum(scan.message_bytes for scan in scans),
        dropped=sum(scan.dropped for scan in scans),
        dropped_bytes=sum(scan.dropped_bytes for scan in scans),
        methods=methods,
    )


# More are faster to get by reading everything once, and would be too many to hold.
MAX_INDEXED_READS: Final = 100


def find_calls(recording: Recording, wanted: Callable[[int], bool], last: int | None = None) -> Iterator[Flow] | None:
    """The calls with the numbers that are wanted, the last ones of them.

    None if that is better done by reading everything, or an index leads nowhere.
    """
    if all(file.rows() is None for file in reversed(recording.files)):
        return None
    subjects = Subjects()
    entries = [entry for entry in recording.entries(subjects.identify, subjects.learn) if wanted(entry.number)]
    if (len(entries) if last is None else last) > MAX_INDEXED_READS:
        return None
    runs = _runs(recording)
    entries.sort(key=lambda entry: _order(entry, runs))
    chosen = entries if last is None else entries[-last:]
    # Who wrote the index knew best whom a call is about.
    flows = [recording.flow(entry, None if entry.subject else subjects.identify) for entry in chosen]
    return None if None in flows else (flow for flow in flows if flow is not None)


def _order(entry: RecordingEntry, runs: list[int]) -> tuple[int, bool, int, int]:
    """What calls are sorted by. Those that have no end keep the order in which they began."""
    place = entry.ranges[-1]
    over = entry.code is not None
    return runs[place.file], not over, place.file if over else 0, place.end


def _runs(recording: Recording) -> list[int]:
    """For each file a number that grows with each change of the relay process."""
    runs: list[int] = []
    for index, file in enumerate(recording.files):
        changed = index > 0 and file.session != recording.files[index - 1].session
        runs.append(runs[-1] + changed if runs else 0)
    return runs
