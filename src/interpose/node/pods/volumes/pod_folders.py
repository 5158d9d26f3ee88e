"""Which pods have a folder on the node, and the mark of a stop by hand in it. Blocking: call from a thread.

ROOT/pods/UID            the folder of a pod: as long as it is there the pod is ours
ROOT/pods/UID/stopped    somebody stopped it
ROOT/pods.lock           who acts on a pod
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from interpose.core.model.text import quoted
from interpose.host.atomic_file import replace_file

_STOPPED: Final = "stopped"


class PodFolders:
    """The folders of all pods below one root."""

    def __init__(self, root: str) -> None:
        # The kernel lists mounts by their real paths.
        self._pods = os.path.realpath(f"{root}/pods")

    @property
    def lock_file(self) -> str:
        """Where it is said who acts on a pod."""
        return f"{self._pods}.lock"

    def folder(self, uid: str) -> str:
        """The folder of a pod; ValueError if a uid is none that can be a name."""
        if not uid or "/" in uid or "\0" in uid or uid in (".", ".."):
            raise ValueError(f"{quoted(uid)} is not a uid of a pod")
        return f"{self._pods}/{uid}"

    def uids(self) -> list[str]:
        """The pods that have a folder."""
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in os.scandir(self._pods) if entry.is_dir(follow_symlinks=False))
        return []

    def mark_stopped(self, uid: str) -> None:
        """Remember that somebody stopped the pod."""
        replace_file(f"{self.folder(uid)}/{_STOPPED}", b"", mode=0o644)

    def is_stopped(self, uid: str) -> bool:
        """Whether the pod was stopped by hand."""
        return Path(self.folder(uid), _STOPPED).exists()

    def clear_stopped(self, uid: str) -> None:
        """Remove the mark that the pod was stopped by hand."""
        Path(self.folder(uid), _STOPPED).unlink(missing_ok=True)
