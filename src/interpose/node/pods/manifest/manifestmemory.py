"""The texts of manifests that counted last, kept beside the pods, so that a manager that comes back while one of the
files is broken still knows what it said. Blocking: call from a thread.

Manifests may hold Secrets: the files are for their owner alone. One for each manifest, so that managers of other files
do not meet here. What cannot be written is told and left: it is needed only after two mishaps in a row.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from interpose.host.atomic_file import remove_leftovers, replace_file
from interpose.log import RateLimited

_log = logging.getLogger(__name__)

_LARGEST: Final = 64 << 20
_SUFFIX: Final = ".json"


class ManifestMemory:
    """The texts in one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._kept: dict[str, str] = {}
        self._remarks = RateLimited(_log)

    def read(self, wanted: Callable[[str], bool]) -> dict[str, str]:
        """The texts of those files that are wanted; what cannot be understood is not there."""
        found: dict[str, str] = {}
        with suppress(OSError):
            for entry in sorted(os.scandir(self._folder), key=lambda one: one.name):
                if not entry.name.endswith(_SUFFIX):
                    # Of a manager that was killed while it wrote: nobody has ever agreed upon it.
                    remove_leftovers(f"{self._folder}/{entry.name.partition('.')[0]}{_SUFFIX}")
                    continue
                with suppress(OSError, ValueError, KeyError, TypeError):
                    document = json.loads(Path(entry.path).read_bytes()[:_LARGEST])
                    file, text = document["file"], document["text"]
                    if isinstance(file, str) and isinstance(text, str) and wanted(file):
                        found[file] = text
        self._kept = dict(found)
        return found

    def write(self, texts: Mapping[str, str]) -> None:
        """These count now, and no others of those that were read or written before."""
        try:
            for file in self._kept.keys() - texts.keys():
                Path(self._place(file)).unlink(missing_ok=True)
            for file, text in texts.items():
                if self._kept.get(file) != text:
                    document = json.dumps({"file": file, "text": text})
                    replace_file(self._place(file), document.encode())
        except (OSError, ValueError) as error:
            self._remarks.log(logging.WARNING, "Manifests cannot be kept for a restart", err=str(error))
        else:
            self._kept = dict(texts)

    def _place(self, file: str) -> str:
        name = hashlib.sha256(file.encode(errors="surrogateescape")).hexdigest()[:32]
        return f"{self._folder}/{name}{_SUFFIX}"
