"""Frames of a recording as it grows, from file to file.

A file that got a number is read to its end, then the one after it. Its end is its TRAILER; a writer that was killed
leaves none, so a file that has a newer one beside it and has not grown between two looks has ended, too. Frames that
the predecessor of a take-over writes later than that are not seen; they are in its file.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from interpose.dump.model.call import CALLS, Assembler, begin_frame, subjects_to_facts
from interpose.dump.model.frame_reader import Damage, FrameStream
from interpose.dump.model.frames import Context, Flags, Frame, Header, Trailer
from interpose.dump.model.subject import Subjects
from interpose.dump.recording.file_reader import check_version
from interpose.dump.recording.files import bad_beginning, is_open_file, rotated_set
from interpose.errors import ConfigError

# Seconds between looks.
PAUSE: Final = 0.25
_PIECE: Final = 1 << 20
# How often files may be renamed just when we want to open one.
_ATTEMPTS: Final = 20
# Messages of calls that are passed over: what they are about has been understood by then.
_KEPT: Final = 2


def never_stop() -> bool:
    """Stop condition of a tail that goes on for ever."""
    return False


def follow(
    path: str | Path,
    stop: Callable[[], bool] = never_stop,
    *,
    beginning: bool = False,
    alone: bool = False,
    wait: Callable[[float], object] = time.sleep,
    on_damage: Callable[[Damage], object] = bool,
) -> Iterator[Frame]:
    """Frames until `stop` says so; it is asked at every pause. `damaged` is told of damage.

    Begins with what is written from now on, after the HEADER, the CONTEXT (what can be known by then) and a BEGIN for
    each call in flight; or at the beginning of the oldest of its files, or of FILE if it is to be read `alone`.
    ConfigError if there is no such file, or it is not a recording.
    """
    newest = Path(path)
    tail = _first(newest, on_damage) if beginning and not alone else _Tail(newest, on_damage)
    try:
        if not beginning:
            yield from tail.skip()
        while not stop():
            yield from _read_to_end(tail, newest, stop, wait)
            successor = None if stop() else _open_after(tail, newest, on_damage)
            if successor is not None:
                tail.close()
                tail = successor
    finally:
        tail.close()


def _first(path: Path, on_damage: Callable[[Damage], object]) -> "_Tail":
    """The oldest file there is; it may be removed just then."""
    for oldest in rotated_set(path):
        with suppress(ConfigError):
            return _Tail(oldest, on_damage)
    return _Tail(path, on_damage)


def _read_to_end(
    tail: "_Tail", path: Path, stop: Callable[[], bool], wait: Callable[[float], object]
) -> Iterator[Frame]:
    """What comes in this file until it is over."""
    superseded = False
    while not stop():
        grown = False
        while piece := tail.read():
            grown = True
            yield from tail.feed(piece)
        tail.report_damage()
        # Asked before the last look, so that nothing comes between.
        if tail.ended or (superseded and not grown):
            if _find_next(tail, path) is not None:
                yield from tail.stream.finish()
                tail.report_damage()
                return
        else:
            superseded = not is_open_file(path, tail.fd) and _find_next(tail, path) is not None
        wait(PAUSE)


def _find_next(tail: "_Tail", path: Path) -> Path | None:
    """The file that comes after this one; None if it is the newest. The oldest there is if it has been removed."""
    files = rotated_set(path)
    for index, file in enumerate(files):
        if is_open_file(file, tail.fd):
            return files[index + 1] if index + 1 < len(files) else None
    return files[0] if files else None


def _open_after(tail: "_Tail", path: Path, on_damage: Callable[[Damage], object]) -> "_Tail | None":
    """The same, opened. Files get numbers meanwhile: what was opened has to be what was meant."""
    for _ in range(_ATTEMPTS):
        following = _find_next(tail, path)
        if following is None:
            return None
        try:
            opened = _Tail(following, on_damage)
        except ConfigError:
            if following.exists():
                raise
            continue
        meant = _find_next(tail, path)
        if meant is not None and is_open_file(meant, opened.fd):
            return opened
        opened.close()
    raise ConfigError(f"{following}: cannot be read: files come and go too fast, or a link leads nowhere")


class _Tail:
    """A file that is read piece by piece."""

    def __init__(self, path: Path, on_damage: Callable[[Damage], object]) -> None:
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
        self.path = path
        self.stream = FrameStream()
        self.ended = False
        self._on_damage = on_damage
        self._reported = 0
        self._begun = False

    def close(self) -> None:
        os.close(self.fd)

    def read(self) -> bytes:
        try:
            piece = os.read(self.fd, _PIECE)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from None
        if piece and not self._begun:
            self._begun = True
            if strange := bad_beginning(piece):
                raise ConfigError(f"{self.path}: {strange}")
        return piece

    def feed(self, piece: bytes) -> list[Frame]:
        frames = self.stream.feed(piece)
        for frame in frames:
            if isinstance(frame, Header):
                check_version(self.path, frame)
            self.ended = self.ended or isinstance(frame, Trailer)
        return frames

    def report_damage(self) -> None:
        """Report damage that was not reported before."""
        for damage in self.stream.damage[self._reported :]:
            self._on_damage(replace(damage, file=str(self.path)))
        self._reported = len(self.stream.damage)

    def skip(self) -> Iterator[Frame]:
        """Pass over what is there, but for what one has to know to go on: also the names of what began meanwhile."""
        subjects = Subjects()
        assembler = Assembler(subjects.identify, subjects.learn, kept_messages=_KEPT)
        while piece := self.read():
            for frame in self.feed(piece):
                if isinstance(frame, Header):
                    yield frame
                assembler.feed(frame)
        calls = assembler.open
        if assembler.header is not None:
            told = subjects_to_facts({number: call.subject for number, call in calls.items()})
            yield Context(facts={**subjects.context(), CALLS: told})
        yield from (begin_frame(call)._replace(flags=call.flags | Flags.CONTINUED) for call in calls.values())
