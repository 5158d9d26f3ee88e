"""The network of each sandbox on disk, so that it can be torn down later by the same plugins.

An entry is written before the first plugin runs, and removed after the last has undone its part.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpose.host.atomic_file import replace_at
from interpose.node.runtime.network import conf
from interpose.node.runtime.network.types import NetworkList


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAttachment:
    """The network of a sandbox. Without a result not all plugins have finished."""

    network: NetworkList
    arguments: str
    offered: Mapping[str, Any]
    result: Mapping[str, Any] | None = None


class CniResultCache:
    """One file for each sandbox. Blocking, small."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, sandbox_id: str, entry: CachedAttachment) -> None:
        """Replace the entry of a sandbox."""
        document = {
            "network": conf.as_document(entry.network),
            "arguments": entry.arguments,
            "offered": entry.offered,
            "result": entry.result,
        }
        name, new = self._names(sandbox_id)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            replace_at(directory, name, json.dumps(document).encode(), temporary=new)
        finally:
            os.close(directory)

    def read(self, sandbox_id: str) -> CachedAttachment | None:
        """The entry of a sandbox; None without one, or if it cannot be read."""
        path = self._folder / self._names(sandbox_id)[0]
        try:
            document = json.loads(path.read_bytes())
            return CachedAttachment(
                network=conf.parse(json.dumps(document["network"]), str(path)),
                arguments=str(document["arguments"]),
                offered=dict(document["offered"]),
                result=document["result"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def remove(self, sandbox_id: str) -> None:
        """Remove the entry of a sandbox, with what a kill in `write` left."""
        for name in reversed(self._names(sandbox_id)):
            (self._folder / name).unlink(missing_ok=True)

    def sandboxes(self) -> list[str]:
        """Ids of all sandboxes that have an entry."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208
        except OSError:
            return []
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def _names(self, sandbox_id: str) -> tuple[str, str]:
        """File names of the entry, and of one that is being written: there is one writer per sandbox."""
        if not sandbox_id or "/" in sandbox_id or sandbox_id.startswith("."):
            raise ValueError(f"{sandbox_id!r} is not an id of a sandbox")
        return f"{sandbox_id}.json", f".{sandbox_id}.tmp"
