"""What containers that were resized in place were last given. Runtimes do not keep that, so it is in the pod's folder.

One small file per pod, replaced as a whole: a file that cannot be read counts as none, and then the runtime is told the
same resources once more.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from interpose.host.atomic_file import replace_file
from interpose.node.pods.labels import RESOURCES, resources_text
from interpose.node.pods.status.annotations import parse_annotations
from interpose.node.pods.status.container_values import ResourceRequirements

_NAME = "resized.json"


class ResizeRecord:
    """By pod and container id. `folder_of` says where the folder of a pod is."""

    def __init__(self, folder_of: Callable[[str], str]) -> None:
        self._folder_of = folder_of
        self._known: dict[str, dict[str, str]] = {}

    def of(self, uid: str, container_id: str) -> ResourceRequirements | None:
        """What it was last given; None if it has what it was made with."""
        text = self._pod(uid).get(container_id)
        return None if text is None else parse_annotations({RESOURCES: text}).resources

    def note(
        self, uid: str, container_id: str, resources: ResourceRequirements, *, present: Mapping[str, object]
    ) -> None:
        """It has this now. Those that are not `present` any more are forgotten."""
        entries = {known_id: text for known_id, text in self._pod(uid).items() if known_id in present}
        entries[container_id] = resources_text(resources)
        self._known[uid] = entries
        # Kept in memory at least: a full disk must not keep a container from being resized.
        with contextlib.suppress(OSError):
            replace_file(str(self._path(uid)), json.dumps(entries).encode())

    def forget(self, uid: str) -> None:
        """The pod is gone, and its folder with it."""
        self._known.pop(uid, None)

    def _path(self, uid: str) -> Path:
        return Path(self._folder_of(uid)) / _NAME

    def _pod(self, uid: str) -> dict[str, str]:
        entries = self._known.get(uid)
        if entries is None:
            entries = self._known[uid] = self._read(uid)
        return entries

    def _read(self, uid: str) -> dict[str, str]:
        try:
            document = json.loads(self._path(uid).read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(document, dict):
            return {}
        return {key: text for key, text in document.items() if isinstance(key, str) and isinstance(text, str)}
