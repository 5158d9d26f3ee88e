"""The manifests in force, while some files are invalid or conflict with others, and their copies for a restart.

The first file keeps what it has: a file that was accepted before never gives way to one that came or changed since. So
nothing that is written into one file ends the pods of another.

`ManifestCache` keeps the accepted texts beside the pods, so that a manager that restarts while one of the files is
broken still has its last valid content. Manifests may hold Secrets: only their owner may read the copies. There is one
copy per manifest, so that managers of other files do not interfere. A copy that cannot be written is logged, not
fatal: it is needed only after two failures in a row.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interpose.host.atomic_file import remove_leftovers, replace_file
from interpose.log import RateLimited
from interpose.node.pods.manifest.reader import FolderPods, combine_manifests
from interpose.node.pods.spec import PodSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedManifests:
    """The pods that are wanted, in the order of their files; what is wrong with which file; the texts that count."""

    pods: tuple[PodSpec, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


NOTHING = AcceptedManifests()


def accept_manifests(texts: Mapping[str, str], before: AcceptedManifests = NOTHING) -> AcceptedManifests:
    """The next agreement, from the texts as they are now and from the one before.

    A text that has a problem gives way to the one before it, or is left out. If it is the same as before, others made
    it wrong (a ConfigMap that it needs went): then its pods stay as they were.
    """
    chosen = dict(texts)
    problems: dict[str, tuple[str, ...]] = {}
    while True:
        found = combine_manifests(_oldest_first(chosen, before.texts))
        wrong = {**found.problems, **_emptied(found, before.texts)}
        newcomers = [file for file in wrong if chosen[file] != before.texts.get(file)]
        if not newcomers:
            break
        for file in newcomers:
            problems[file] = wrong[file]
            if file in before.texts:
                chosen[file] = before.texts[file]
            else:
                del chosen[file]
    problems.update({file: why for file, why in wrong.items() if file not in problems})
    kept = [pod for pod in before.pods if pod.source in wrong and not _is_among(pod, found.pods)]
    order = {file: place for place, file in enumerate(texts)}
    pods = sorted([*found.pods, *kept], key=lambda pod: order[pod.source])
    return AcceptedManifests(
        pods=tuple(pods), problems=problems, texts={file: chosen[file] for file in texts if file in chosen}
    )


def _oldest_first(chosen: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(chosen.items(), key=lambda item: before.get(item[0]) != item[1]))


def _emptied(found: FolderPods, before: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """A file that held something and holds nothing is being written, or its disk is full: nobody says so that he wants
    its pods no more."""
    known = combine_manifests({file: before[file] for file in found.empty if file in before})
    return {
        file: (f"file {file}: holds nothing any more; remove the file to end its pods",)
        for file in sorted(found.empty)
        if file in before and file not in known.empty
    }


def _is_among(pod: PodSpec, pods: tuple[PodSpec, ...]) -> bool:
    return any(pod.uid == other.uid or pod.title == other.title for other in pods)


_log = logging.getLogger(__name__)
_LARGEST: Final = 64 << 20
_SUFFIX: Final = ".json"


class ManifestCache:
    """The texts in one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._copies: dict[str, str] = {}
        self._limited_log = RateLimited(_log)

    def read(self, wanted: Callable[[str], bool]) -> dict[str, str]:
        """The texts of those files that are wanted; what cannot be understood is not there."""
        found: dict[str, str] = {}
        with suppress(OSError):
            for entry in sorted(os.scandir(self._folder), key=lambda entry: entry.name):
                if not entry.name.endswith(_SUFFIX):
                    # Of a manager that was killed while it wrote: nobody has ever agreed upon it.
                    remove_leftovers(f"{self._folder}/{entry.name.partition('.')[0]}{_SUFFIX}")
                    continue
                with suppress(OSError, ValueError, KeyError, TypeError):
                    document = json.loads(Path(entry.path).read_bytes()[:_LARGEST])
                    file, text = document["file"], document["text"]
                    if isinstance(file, str) and isinstance(text, str) and wanted(file):
                        found[file] = text
        self._copies = dict(found)
        return found

    def write(self, texts: Mapping[str, str]) -> None:
        """These count now, and no others of those that were read or written before."""
        try:
            for file in self._copies.keys() - texts.keys():
                Path(self._copy_path(file)).unlink(missing_ok=True)
            for file, text in texts.items():
                if self._copies.get(file) != text:
                    document = json.dumps({"file": file, "text": text})
                    replace_file(self._copy_path(file), document.encode())
        except (OSError, ValueError) as error:
            self._limited_log.log(logging.WARNING, "Manifests cannot be kept for a restart", err=str(error))
        else:
            self._copies = dict(texts)

    def _copy_path(self, file: str) -> str:
        name = hashlib.sha256(file.encode(errors="surrogateescape")).hexdigest()[:32]
        return f"{self._folder}/{name}{_SUFFIX}"
