"""The lock of a runtime: one runtime for each root and each state, and always the same two together. Orphans, which are
in the state and have no record in the root, are removed at the start, so with another runtime's state all its pods
would be ended.
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
    """The locks of root and state, held until `release`."""

    def __init__(self, paths: RuntimePaths) -> None:
        """Lock existing folders. BlockingIOError names one that another runtime uses, ConfigError one with its pods."""
        root, state = paths.root.resolve(), paths.state.resolve()
        if root == state:
            raise ConfigError(f"root and state are both {str(root)!r}: they have to be two folders")
        self._locks = [_lock(root, "root")]
        try:
            self._locks.append(_lock(state, "state"))
            _check_owner(state / _OWNER, root, used=any(paths.sandboxes.iterdir()))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release both locks; may be repeated."""
        for lock in self._locks:
            lock.release()


def _lock(folder: Path, name: str) -> FileLock:
    def refusal(owner: str) -> str:
        return f"{name} {str(folder)!r}: in use by another runtime (process {owner})"

    return FileLock.take(folder / "lock", refusal)


def _check_owner(note: Path, root: Path, *, used: bool) -> None:
    owner = os.fsdecode(note.read_bytes()) if note.exists() else ""
    if owner == str(root):
        return
    if owner and used:
        raise ConfigError(
            f"state {str(note.parent)!r}: has pods of the runtime with root {owner!r}, which would be ended; "
            f"give {str(root)!r} a state of its own"
        )
    with suppress(OSError):  # a full disk must not prevent a start: pods have to be removed
        note.write_bytes(os.fsencode(root))
