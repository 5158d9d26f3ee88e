"""The state file: read once at start, written whenever the state changed, off the path of calls.

At most one write is under way, in a thread; what changes meanwhile is in the next one. A write that fails costs
nothing but the chance to remember: it is counted, logged once, and tried again. Reading never fails either: a file is
believed only if nobody but its owner can have written it; one that cannot be used is set aside for people, of which
only the last few stay, and the caller goes on with what the runtime knows. `state` has the format.
"""

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from interpose.core.model.resources import empty_map
from interpose.host.atomic_file import numbers_beside, remove_leftovers, replace_file
from interpose.host.file_trust import Trust
from interpose.resmgr.state.state import State, decode, encode
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

FILE: Final = "policy-state.json"  # below the directory for state
_MAX_BYTES: Final = 32 << 20  # a hundred containers take less than a thousandth of it
MAX_DAMAGED_FILES: Final = 3  # damaged files, so that a disk is not filled by whatever damages them
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def read_own(path: str, limit: int) -> bytes:
    """What a file holds that only its owner can write; FileNotFoundError if there is none.

    ValueError if it is not a file, is somebody else's, others may write to it, or it is larger than `limit`; OSError if
    it cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    except NotADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ValueError("is not a regular file") from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a regular file")
        if doubts := Trust(gids=()).doubts(found):
            raise ValueError(doubts)
        with open(fd, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise ValueError(f"is larger than {limit} bytes")
    return data


def set_aside(path: str) -> str:
    """Give a damaged file another name, and return that; OSError if it cannot be moved. The oldest of these go."""
    taken = sorted(numbers_beside(path, r"damaged-([0-9]{1,9})"))
    last = taken[-1] if taken else 0
    aside = f"{path}.damaged-{last + 1}"
    os.rename(path, aside)  # noqa: PTH104
    for old in taken[: max(0, len(taken) + 1 - MAX_DAMAGED_FILES)]:
        with suppress(OSError):
            os.unlink(f"{path}.damaged-{old}")  # noqa: PTH108
    return aside


class LoadedState(NamedTuple):
    """What a file held. Without a state, the message says why; it is empty if there was no file."""

    state: State | None
    message: str = ""


def load(path: str) -> LoadedState:
    """Read the file. One that cannot be used is set aside."""
    remove_leftovers(path)
    try:
        return LoadedState(decode(read_own(path, _MAX_BYTES)))
    except FileNotFoundError:
        return LoadedState(None)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except ValueError as error:
        problem = str(error)
    try:
        kept = f"kept as {set_aside(path)}"
    except OSError as error:
        kept = f"it cannot be set aside: {error.strerror}"
    return LoadedState(None, f"file {path}: {problem}; {kept}")


def reset_policy(path: str) -> str:
    """Have the next start decide about every container again. Returns what was done; OSError if it cannot be written.

    Containers carry notes of their grants and the runtime knows their CPU sets, so forgetting takes a mark. What is
    known about them besides stays until then: which policy they are under, and what a policy wrote in them.
    """
    loaded = load(path)
    if loaded.state is None and not loaded.message:
        return f"nothing to do, there is no {path}"
    # A file that cannot be used says nothing; what is meant is clear all the same.
    replace_file(path, encode(replace(loaded.state or State(), reset=True)))
    done = f"the next start decides about all containers anew, by a mark in {path}"
    return f"{loaded.message}; {done}" if loaded.message else done


def reset_config(path: str) -> str:
    """Forget the configuration, keep all grants. Returns what was done; OSError if it cannot be written."""
    loaded = load(path)
    if loaded.message:
        return loaded.message
    if loaded.state is None or not loaded.state.config:
        return f"nothing to do, no configuration of an agent is in {path}"
    node = loaded.state.config_node
    replace_file(path, encode(replace(loaded.state, config=empty_map(), config_node="")))
    return f"the configuration that the agent of node {node} sent is no longer in {path}"


class Checkpoint:
    """Writes the state. Everything but the writing itself happens on the loop."""

    def __init__(
        self, path: str, *, now: Callable[[], float], write: Callable[[str, bytes], None] = replace_file
    ) -> None:
        self.path = path
        self.saved = 0
        self.failed = 0
        self.saved_at: float | None = None
        self.error = ""  # why the last write failed; empty if it did not
        self._now = now
        self._put = write
        self._make: Callable[[], State] | None = None  # what is to be written next
        self._bag = TaskBag()
        self._writing: asyncio.Task[None] | None = None

    @property
    def dirty(self) -> bool:
        """Whether something is not on the disk yet."""
        return self._make is not None or self._writing is not None

    def save_soon(self, make: Callable[[], State]) -> None:
        """The state has changed: have it written. `make` is called on the loop when the write before is done.

        What it returns is made text in a thread, so nothing in it may ever change.
        """
        self._make = make
        self.tick()

    def tick(self) -> None:
        """Try again what failed; to be called now and then."""
        if self._make is not None and self._writing is None:
            self._writing = self._bag.spawn(self._write_all(), name="checkpoint")

    async def flush(self) -> bool:
        """Wait until everything is on the disk, or could not be brought there; whether it is."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self.tick()  # what failed just now, or before
        if self._writing is not None:
            await asyncio.wait([self._writing])
        return not self.dirty

    async def _write_all(self) -> None:
        """Write until nothing has changed since, or it fails."""
        try:
            while (make := self._make) is not None:
                self._make = None
                try:
                    await asyncio.to_thread(self._write, make())
                except OSError as error:
                    self._note_failure(make, error)
                    return
                self._note_success()
        finally:
            self._writing = None

    def _write(self, state: State) -> None:
        """Encode and write the state; runs in a thread."""
        self._put(self.path, encode(state))

    def _note_failure(self, make: Callable[[], State], error: OSError) -> None:
        self._make = self._make or make  # what came meanwhile is newer
        self.failed += 1
        if not self.error:
            fields = {"file": self.path, "err": str(error)}
            _log.error("Failed to save state; a restart would rebuild it from the runtime", extra={"kv": fields})
        self.error = str(error)

    def _note_success(self) -> None:
        self.saved += 1
        self.saved_at = self._now()
        if self.error:
            self.error = ""
            _log.info("State is saved again", extra={"kv": {"file": self.path}})
