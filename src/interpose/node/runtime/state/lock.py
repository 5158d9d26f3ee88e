"""One runtime for each root and each state, and the same two together: what is in the state and has no record in the
root is swept away at the start, so a state that is another's would be the end of all its pods.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from interpose.errors import ConfigError
from interpose.host.file_lock import FileLock
from interpose.node.runtime.state.paths import RuntimePaths

_OWNER: Final = "root"


class RuntimeStateLock:
    """Held from its making to `release`."""

    def __init__(self, places: RuntimePaths) -> None:
        """The folders are there. BlockingIOError names one that another runtime has, ConfigError one that it left."""
        root, state = places.root.resolve(), places.state.resolve()
        if root == state:
            raise ConfigError(f"root and state are both {str(root)!r}: they have to be two folders")
        self._locks = [_lock(root, "root")]
        try:
            self._locks.append(_lock(state, "state"))
            _settle(state / _OWNER, root, used=any(places.sandboxes.iterdir()))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others have them; may be repeated."""
        for lock in self._locks:
            lock.release()


def _lock(folder: Path, what: str) -> FileLock:
    def refusal(owner: str) -> str:
        return f"{what} {str(folder)!r}: in use by another runtime (process {owner})"

    return FileLock.take(folder / "lock", refusal)


def _settle(note: Path, root: Path, *, used: bool) -> None:
    owner = os.fsdecode(note.read_bytes()) if note.exists() else ""
    if owner == str(root):
        return
    if owner and used:
        raise ConfigError(
            f"state {str(note.parent)!r}: has pods of the runtime with root {owner!r}, which would be ended; "
            f"give {str(root)!r} a state of its own"
        )
    with suppress(OSError):  # a full disk keeps nobody from starting: pods have to be removed
        note.write_bytes(os.fsencode(root))
