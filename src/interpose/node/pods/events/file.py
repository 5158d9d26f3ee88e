"""The file with the events of a pod, in the pod's folder. Blocking: call from a thread.

A process creates the file while it holds the pod's lock; after that any process appends, and none creates the file
again: the folder of a removed pod does not come back for it. The file is bounded: when it is long it is rewritten with
equal events as one. An event that another process appends just then is lost, which does no harm: nothing is decided
from events.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from interpose.host.atomic_file import replace_file
from interpose.node.pods.events.events import PodEvent, from_lines, merge_repeated, to_line

_NAME: Final = "events"
_LONG: Final = 128 << 10  # bytes, from which on equal events are written as one
_LONGEST: Final = 1 << 20  # bytes, from which on nothing is added, nor read


def event_file(folder: str) -> Path:
    """The path of the events of a pod."""
    return Path(folder, _NAME)


def begin_events(folder: str, first: PodEvent) -> None:
    """Create the file with a first event if there is none. The caller holds the pod's lock."""
    path = event_file(folder)
    try:
        too_long = path.stat().st_size > _LONG
    except FileNotFoundError:
        replace_file(str(path), to_line(first), mode=0o600)
        return
    if too_long:
        replace_file(str(path), b"".join(map(to_line, read_events(folder))), mode=0o600)


def append_events(folder: str, events: Iterable[PodEvent]) -> None:
    """Append events. A file that does not exist, or is far too long, stays as it is."""
    try:
        fd = os.open(event_file(folder), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        if os.fstat(fd).st_size < _LONGEST:
            os.write(fd, b"".join(map(to_line, events)))
    finally:
        os.close(fd)


def read_events(folder: str) -> list[PodEvent]:
    """The events of a pod, equal ones merged, by when they were last seen; none if the file cannot be read."""
    try:
        with event_file(folder).open("rb") as file:
            return merge_repeated(from_lines(file.read(2 * _LONGEST)))
    except OSError:
        return []
