"""Reading the log of a container: from its rotated files to its end, and on while it is written.

Files are read in blocks; nothing is kept in memory but the lines that are handed on. A log that is rotated while it is
followed is read to its end, once more after its successor was seen, before that is begun.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from interpose.node.pods.logs.files import PACKED, LogPosition, first, list_earlier, open_aside
from interpose.node.pods.logs.format import LogLine, LogLineJoiner, is_line_end

_BLOCK: Final = 256 << 10
_PAUSE: Final = 0.2  # seconds between looks at a log that is followed


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What is wanted of a log. `tail` None: all; `since`: nanoseconds of the day."""

    tail: int | None = None
    since: int = 0
    follow: bool = False


def read_log(path: str, wish: LogOptions) -> Iterator[LogLine]:
    """What is there now. Blocking. OSError if the log cannot be read."""
    joiner = LogLineJoiner(since=wish.since)
    with Path(path).open("rb") as current:
        if wish.tail is None:
            for file in list_earlier(Path(path), current):
                yield from joiner.feed(_lines_of(file))
            yield from joiner.feed(raw.removesuffix(b"\n") for raw in current)
        else:
            lines, rest = _tail(path, current, wish.tail)
            kept = deque(joiner.feed([*lines, rest] if rest else lines), maxlen=wish.tail)
            yield from kept
    yield from joiner.rest()


def _lines_of(file: Path) -> Iterator[bytes]:
    # One that is gone was too old to be kept.
    with suppress(FileNotFoundError), open_aside(file) as source:
        for raw in source:
            yield raw.removesuffix(b"\n")


def _tail(path: str, current: BinaryIO, wanted: int) -> tuple[list[bytes], bytes]:
    """At least the raw lines of which the last `wanted` lines are made, from as many files as that takes, and what
    stands behind the last line feed."""
    lines, rest = _last_lines(current, wanted)
    for file in reversed(list_earlier(Path(path), current)):
        if (missing := wanted - sum(map(is_line_end, lines))) < 0:
            break
        lines = [*_end_of(file, missing), *lines]
    return lines, rest


def _end_of(file: Path, wanted: int) -> list[bytes]:
    with suppress(FileNotFoundError):
        if file.suffix != PACKED:
            with file.open("rb") as source:
                lines, rest = _last_lines(source, wanted)
                return [*lines, *([rest] if rest else [])]
    return list(_lines_of(file))  # compressed, maybe just now


def _last_lines(source: BinaryIO, wanted: int) -> tuple[list[bytes], bytes]:
    """One line more than wanted if there is one: the first may go on in front of it. Leaves the file at its end."""
    size = source.seek(0, os.SEEK_END)
    length = _BLOCK
    while True:
        start = max(size - length, 0)
        source.seek(start)
        *lines, rest = source.read(size - start).split(b"\n")
        if start and lines:
            del lines[0]  # begins before the block
        if not start or sum(map(is_line_end, lines)) > wanted:
            return lines, rest
        length *= 2


async def follow_log(
    path: str,
    wish: LogOptions,
    running: Callable[[], Awaitable[bool]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncGenerator[LogLine]:
    """What is there, then what comes, until the container has ended (`running` is asked when nothing comes)."""
    joiner = LogLineJoiner(since=wish.since)
    place = Path(path)
    current: BinaryIO = await asyncio.to_thread(place.open, "rb")
    position = await asyncio.to_thread(first, place, current)
    following: LogPosition | None = None
    rest = b""
    try:
        if wish.tail is None:
            for file in await asyncio.to_thread(list_earlier, place, current):
                for line in joiner.feed(_lines_of(file)):
                    yield line
        else:
            raw, rest = await asyncio.to_thread(_tail, path, current, wish.tail)
            for line in deque(joiner.feed(raw), maxlen=wish.tail):
                yield line
        ended = False
        while True:
            if data := await asyncio.to_thread(position.file.read, _BLOCK):
                *lines, rest = (rest + data).split(b"\n")
                for line in joiner.feed(lines):
                    yield line
            elif following is not None:
                for line in joiner.feed([rest] if rest else []):
                    yield line
                await asyncio.to_thread(position.file.close)
                position, following, rest = following, None, b""
            elif (following := await asyncio.to_thread(position.following, place)) is not None:
                continue  # what was written before the next file was begun may have come since we read
            elif ended:
                break
            elif not await running():
                ended = True  # once more: what it wrote at last may have come while we asked
            else:
                await sleep(_PAUSE)
        for line in [*joiner.feed([rest] if rest else []), *joiner.rest()]:
            yield line
    finally:
        position.file.close()
        if following is not None:
            following.file.close()
