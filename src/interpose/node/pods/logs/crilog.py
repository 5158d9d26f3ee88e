"""Lines of a container's log as runtimes write them: `TIME STREAM TAGS CONTENT`. Pure."""

from dataclasses import dataclass
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
