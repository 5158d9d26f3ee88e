"""Lines of a container's log as runtimes write them (`TIME STREAM TAGS CONTENT`), parsed and joined. Pure.

Runtimes write times with nine digits and `Z`, or with an offset; both are read, and a line whose time cannot be read
counts as new.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

_PARTS: Final = 4
_STREAMS: Final = (b"stdout", b"stderr")
_FULL: Final = b"F"
_PARTIAL: Final = b"P"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line, or with `full` False a part of one that the next of the same stream continues."""

    time: str
    stream: str
    full: bool
    content: bytes


def parse_line(line: bytes) -> LogLine | None:
    """The line, without its line feed; None if it is none (cut off, or written by something else)."""
    parts = line.removesuffix(b"\n").split(b" ", _PARTS - 1)
    if len(parts) == _PARTS - 1:
        parts.append(b"")  # an empty line, and somebody removed white space at its end
    if len(parts) != _PARTS or parts[1] not in _STREAMS:
        return None
    tag = parts[2].split(b":", 1)[0]
    if tag not in (_FULL, _PARTIAL):
        return None
    return LogLine(
        time=parts[0].decode("ascii", "replace"), stream=parts[1].decode(), full=tag == _FULL, content=parts[3]
    )


def last_content(data: bytes, *, lines: int, size: int) -> str:
    """The content of the last lines of a log, at most `size` bytes of it. A cut first line is left out."""
    contents = []
    for line in data.split(b"\n")[-(lines + 1) :]:
        parsed = parse_line(line)
        if parsed is not None:
            contents.append(parsed.content + (b"\n" if parsed.full else b""))
    return b"".join(contents)[-size:].decode("utf-8", "replace")


_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_NANO: Final = 1_000_000_000
_LONGEST: Final = 16 << 20  # of a line whose end does not come


def nanoseconds(text: str) -> int | None:
    """A time of day of a log as nanoseconds since the epoch; None if it is none."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    if match[3] != "Z":
        sign = -1 if match[3][0] == "-" else 1
        moment -= sign * timedelta(hours=int(match[3][1:3]), minutes=int(match[3][4:6]))
    fraction = ((match[2] or "") + "0" * 9)[:9]
    return int(moment.timestamp()) * _NANO + int(fraction)


@dataclass(slots=True, kw_only=True)
class LogLineJoiner:
    """Makes whole lines of parts, for each stream apart. A line has the time of its first part."""

    since: int = 0  # nanoseconds; lines before are left out
    _open: dict[str, tuple[str, bytearray]] = field(default_factory=dict)

    def feed(self, lines: Iterable[bytes]) -> Iterator[LogLine]:
        """Whole lines. What is not a line of a log is given as it is, so that nothing is hidden."""
        for raw in lines:
            line = parse_line(raw)
            if line is None:
                if raw:
                    yield LogLine(time="", stream="stdout", full=True, content=raw)
                continue
            time, content = self._open.pop(line.stream, (line.time, bytearray()))
            content += line.content
            if not line.full and len(content) < _LONGEST:
                self._open[line.stream] = (time, content)
            elif self._is_new(time):
                yield LogLine(time=time, stream=line.stream, full=True, content=bytes(content))

    def rest(self) -> Iterator[LogLine]:
        """Lines whose end has not come, when nothing comes any more."""
        for stream, (time, content) in self._open.items():
            if self._is_new(time):
                yield LogLine(time=time, stream=stream, full=False, content=bytes(content))
        self._open.clear()

    def _is_new(self, time: str) -> bool:
        if not self.since:
            return True
        moment = nanoseconds(time)
        return moment is None or moment >= self.since


def is_line_end(raw: bytes) -> bool:
    """Whether this is the end of a line for people: parts of long lines are not."""
    line = parse_line(raw)
    return line is None or line.full
