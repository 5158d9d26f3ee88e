"""The file in a pod's folder with what happened with it. Blocking: call from a thread.

Whoever acts on the pod begins the file while it has the pod's lock; after that everybody appends, and nobody makes the
file anew: a pod that is being removed does not come back for it. The file is bounded: when it is long it is written
anew with equal events as one. An event that another process appends just then is lost, which does no harm: nothing is
decided from events.
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
    """Where the events of a pod are."""
    return Path(folder, _NAME)


def begin_events(folder: str, first: PodEvent) -> None:
    """Have a file, with this as its first event if there was none. The caller has the pod's lock."""
    path = event_file(folder)
    try:
        too_long = path.stat().st_size > _LONG
    except FileNotFoundError:
        replace_file(str(path), to_line(first), mode=0o600)
        return
    if too_long:
        replace_file(str(path), b"".join(map(to_line, read_events(folder))), mode=0o600)


def append_events(folder: str, events: Iterable[PodEvent]) -> None:
    """Add what happened. A pod that has no such file, or one that is far too long, stays as it is."""
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
    """What happened with a pod, equal events as one, by when they were last seen; nothing if that cannot be read."""
    try:
        with event_file(folder).open("rb") as file:
            return merge_repeated(from_lines(file.read(2 * _LONGEST)))
    except OSError:
        return []
