"""Lines of containers' logs for people: parts joined, old ones left out. Pure; times are compared as text.

Runtimes write times with nine digits and `Z`, or with an offset; both are read, and a line whose time cannot be read
counts as new.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from interpose.node.pods.logs.crilog import LogLine, parse_line

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
class Joiner:
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


def counts(raw: bytes) -> bool:
    """Whether this is the end of a line for people: parts of long lines are not."""
    line = parse_line(raw)
    return line is None or line.full
