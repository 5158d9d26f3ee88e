"""The files that a log consists of: those that were moved aside, by the time in their names, and the current one.

They change while they are read: the current one is moved aside, one that was moved aside is compressed, the oldest are
removed. Whoever reads holds a file open, and asks here what comes after it.
"""

import gzip
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

PACKED: Final = ".gz"
_STAMP: Final = re.compile(r"[0-9]{8}-[0-9]{6}", re.ASCII)

LogFile: TypeAlias = "BinaryIO | gzip.GzipFile"


def list_rotated(path: Path) -> list[Path]:
    """The logs that were moved aside, oldest first; of one that is there in both forms the plain one."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        for entry in os.scandir(path.parent):
            stamp = entry.name.removeprefix(f"{path.name}.").removesuffix(PACKED)
            if entry.name.startswith(f"{path.name}.") and _STAMP.fullmatch(stamp):
                plain = not entry.name.endswith(PACKED)
                if plain or stamp not in found:
                    found[stamp] = Path(entry.path)
    return [found[stamp] for stamp in sorted(found)]


def stamp_of(file: Path) -> str:
    """The time in the name of a log that was moved aside."""
    return file.name.removesuffix(PACKED).rpartition(".")[2]


def open_aside(file: Path) -> LogFile:
    """Open a log that was moved aside, and may be compressed meanwhile. FileNotFoundError if it is gone."""
    if file.suffix != PACKED:
        with suppress(FileNotFoundError):
            return file.open("rb")
        file = file.with_name(file.name + PACKED)
    return gzip.open(file, "rb")


def list_earlier(path: Path, current: BinaryIO) -> list[Path]:
    """The files before one that was opened as the current one, oldest first. It may have been moved among them
    meanwhile; then those behind it are later ones."""
    own = os.fstat(current.fileno())
    found = list_rotated(path)
    return found[: next((number for number, file in enumerate(found) if _is_same(file, own)), len(found))]


@dataclass(slots=True, kw_only=True)
class LogPosition:
    """A file that is read. `after`: files with a later time in their names are not earlier than this one."""

    file: LogFile
    after: str

    def following(self, path: Path) -> "LogPosition | None":
        """What comes after it, opened; None if there is nothing yet. The file itself may have grown before."""
        current = _opened(path)
        own = os.fstat(self.file.fileno())
        if current is not None and os.path.samestat(os.fstat(current.fileno()), own):
            current.close()
            return None
        # Only now: the file that we have just opened is the last one, or among these.
        later = self._later(path, own)
        last = None if current is None else os.fstat(current.fileno())
        if not later or (last is not None and _is_same(later[0], last)):
            return None if current is None else LogPosition(file=current, after=self._own_stamp(path, own))
        if current is not None:
            current.close()
        try:
            return LogPosition(file=open_aside(later[0]), after=stamp_of(later[0]))
        except FileNotFoundError:
            return None  # the next look will show the one behind it

    def _later(self, path: Path, own: os.stat_result) -> list[Path]:
        stamp = self._own_stamp(path, own)
        return [file for file in list_rotated(path) if stamp_of(file) > stamp]

    def _own_stamp(self, path: Path, own: os.stat_result) -> str:
        """The time in its name, if it has been moved aside, compressed or not; else that of the last one before it."""
        return next((stamp_of(file) for file in list_rotated(path) if _is_same(file, own)), self.after)


def first(path: Path, current: BinaryIO) -> LogPosition:
    """Where to go on after a file that was opened as the current one."""
    before = list_earlier(path, current)
    return LogPosition(file=current, after=stamp_of(before[-1]) if before else "")


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None  # just being rotated, or removed


def _is_same(file: Path, own: os.stat_result) -> bool:
    """Whether a file is the one that we have open, or was made of it: what is compressed keeps its time."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, own) or (file.suffix == PACKED and found.st_mtime_ns == own.st_mtime_ns)
