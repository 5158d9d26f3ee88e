"""Events of changes in directories: inotify, called through ctypes.

A library would bring a thread and megabytes for four system calls. Nothing here knows what the events are for.
"""

import ctypes
import os
import struct
from typing import Any, NamedTuple

MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000  # events were lost
IGNORED = 0x8000  # the watch is gone; what it was about came before

_ONLYDIR = 0x01000000
_MASK_ADD = 0x20000000
_HEADER = struct.Struct("iIII")
# One read takes at most this: a flood of events then shares the loop with other work.
_READ_BYTES = 1 << 16


class Event(NamedTuple):
    """An event in a watched directory, of `name` or, if that is empty, of the directory itself."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One inotify descriptor. `OSError` says why the kernel refused; the limits per user are EMFILE and ENOSPC."""

    def __init__(self) -> None:
        # CDLL lets other threads run during a call: looking up a path can take as long as its file system likes.
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self.fd = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def add(self, directory: str, mask: int) -> int:
        """Watch a directory; the number of its watch. One that is watched already keeps its number and gets more."""
        return self._call("inotify_add_watch", self.fd, os.fsencode(directory), mask | _ONLYDIR | _MASK_ADD)

    def remove(self, watch: int) -> None:
        """End a watch; an OSError says that it had ended by itself."""
        self._call("inotify_rm_watch", self.fd, watch)

    def read(self) -> list[Event]:
        """The events that happened since, perhaps none. Call again as long as the descriptor is readable."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        events = []
        at = 0
        while at < len(data):
            watch, mask, _, size = _HEADER.unpack_from(data, at)
            at += _HEADER.size
            events.append(Event(watch, mask, os.fsdecode(data[at : at + size].rstrip(b"\0"))))
            at += size
        return events

    def close(self) -> None:
        """Close the descriptor and all watches."""
        os.close(self.fd)

    def _call(self, function: str, *arguments: object) -> int:
        try:
            result: int = getattr(self._libc, function)(*arguments)
        except AttributeError:
            raise OSError(f"the C library has no {function}") from None
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), function)
        return result
