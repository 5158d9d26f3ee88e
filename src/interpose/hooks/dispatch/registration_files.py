"""Reads the directory of registration files: which files it has, whether they are trusted, what each one says.

Everything here touches the file system and may take long, so it runs in a thread. Nothing is kept: a scan gets the
readings of the previous one and returns new ones. No file can block it, of whatever kind it is.
"""

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from interpose.core.model.text import escaped
from interpose.errors import ConfigError
from interpose.hooks.api.registration import SUFFIX, HookServer, parse_registration
from interpose.host.file_trust import Stamp, Trust
from interpose.host.unix_sockets import kind_of

# Real files are below 1 KiB.
MAX_BYTES = 1 << 20
# A file changed less than this before it was read may change again without a trace: some file systems count time in
# steps of a second.
_SETTLED_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationFile:
    """A registration file as it was read: a hook server, or problems. Neither: it is being written."""

    server: HookServer | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # why it is not trusted; then nothing of it was used
    stamp: Stamp | None = None  # None: to be read again whatever the next stamp is


# Each hook server that is registered costs a connection or looking for one; nodes have a handful.
MAX_FILES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationListing:
    """The registration files by name; None if the directory cannot be read or trusted: see `problem`."""

    files: Mapping[str, RegistrationFile] | None = None
    problem: str = ""


def list_registrations(directory: str, before: Mapping[str, RegistrationFile], trust: Trust) -> RegistrationListing:
    """Read every registration file. A directory that does not exist counts as empty."""
    try:
        dir_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return RegistrationListing(files={})
    except OSError as error:
        return RegistrationListing(problem=f"directory {directory}: cannot be opened: {error.strerror}")
    try:
        if doubts := trust.doubts(os.fstat(dir_fd)):
            return RegistrationListing(problem=f"directory {directory}: {doubts}")
        # All files are reached through this descriptor: they are of one directory, even if it is being swapped.
        names = sorted(name for name in os.listdir(dir_fd) if is_registration(name))  # noqa: PTH208 - of a descriptor
        if len(names) > MAX_FILES:
            return RegistrationListing(
                problem=f"directory {directory}: has {len(names)} registration files, at most {MAX_FILES}"
            )
        readings = {
            (label := escaped(name)): read_registration(f"{directory}/{name}", trust, before.get(label), dir_fd=dir_fd)
            for name in names
        }
    except OSError as error:
        return RegistrationListing(problem=f"directory {directory}: cannot be read: {error.strerror}")
    finally:
        os.close(dir_fd)
    return RegistrationListing(files={label: reading for label, reading in readings.items() if reading is not None})


def is_registration(name: str) -> bool:
    """Whether a file of this name registers a hook server."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def read_registration(
    path: str,
    trust: Trust,
    before: RegistrationFile | None = None,
    *,
    dir_fd: int | None = None,
    check_trust: bool = True,
) -> RegistrationFile | None:
    """Read one file, unless `before` is the reading of the same version; None if there is no such file.

    With `dir_fd`, the file is looked up in that directory. Without `check_trust`, a file that is not trusted is read
    nevertheless, and the caller decides about its `doubts`.
    """
    name = path.rpartition("/")[2] if dir_fd is not None else path
    where = f"file {path}"
    if not path.isprintable():
        return RegistrationFile(problems=(f"file {path!r}: the name holds a character that cannot be printed",))
    try:
        is_link = stat.S_ISLNK(os.lstat(name, dir_fd=dir_fd).st_mode)
    except OSError:
        return None
    try:
        # Checked before opening: opening a device can have effects.
        mode = os.stat(name, dir_fd=dir_fd).st_mode
        if not stat.S_ISREG(mode):
            kind = "a socket" if stat.S_ISSOCK(mode) else kind_of(mode)
            return RegistrationFile(problems=(f"{where}: is {kind}, not a regular file",))
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=dir_fd)
    except FileNotFoundError:
        return RegistrationFile(problems=(f"{where}: is a link to nothing",)) if is_link else None
    except OSError as error:
        return RegistrationFile(problems=(f"{where}: cannot be opened: {error.strerror}",))
    try:
        doubts = _doubts(fd, where, trust, is_link=is_link)
        if doubts and check_trust:
            return RegistrationFile(problems=doubts, doubts=doubts)
        reading = _read(fd, path, before)
        return replace(reading, doubts=doubts) if doubts else reading
    except OSError as error:
        return RegistrationFile(problems=(f"{where}: cannot be read: {error.strerror}",))
    finally:
        os.close(fd)


def _doubts(fd: int, where: str, trust: Trust, *, is_link: bool) -> tuple[str, ...]:
    """Why a file, or the folder of a link's target, is not trusted: a writer of the folder can replace the file."""
    found = []
    if doubts := trust.doubts(os.fstat(fd)):
        found.append(f"{where}: {doubts}")
    if is_link:
        folder = os.path.dirname(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115, PTH120 - what the kernel opened
        if doubts := trust.doubts(os.stat(folder)):  # noqa: PTH116
            found.append(f"{where}: leads to {folder}, which {doubts}")
    return tuple(found)


def _read(fd: int, path: str, before: RegistrationFile | None) -> RegistrationFile:
    where = f"file {path}"
    stamp = _stamp(fd)
    age = time.time_ns() - max(stamp.mtime_ns, stamp.ctime_ns)
    if before is not None and before.stamp == stamp:
        return before
    if stamp.size > MAX_BYTES:
        return RegistrationFile(
            problems=(f"{where}: is larger than {MAX_BYTES} bytes, this is not a registration file",)
        )
    with open(fd, "rb", closefd=False) as file:
        data = file.read(MAX_BYTES + 1)
    settled = stamp if age >= _SETTLED_NS and _stamp(fd) == stamp else None
    if not data.strip() and 0 <= age < _SETTLED_NS:
        # Koordlet empties its file and then writes it: too early to complain.
        return RegistrationFile()
    try:
        parsed = parse_registration(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        return RegistrationFile(problems=(f"{where}: is not UTF-8 text (byte {error.start})",), stamp=settled)
    except ConfigError as error:
        return RegistrationFile(problems=tuple(error.problems), stamp=settled)
    return RegistrationFile(server=parsed.server, warnings=parsed.warnings, stamp=settled)


def _stamp(fd: int) -> Stamp:
    found = os.fstat(fd)
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
