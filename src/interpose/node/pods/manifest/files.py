"""Manifests as files and folders: which pods they want, now and whenever they change.

A file that becomes unreadable, wrong or empty keeps the pods it last gave; what is wrong with it is reported once. A
file that is gone from a folder wants none; a file or folder that was named itself and is gone is a problem, and says
nothing. Files are written in place, and by editors that move them away first: a change counts when it was seen twice, a
second apart.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interpose.config.documents.yaml import MAX_FILE_BYTES, read_text
from interpose.errors import ConfigError
from interpose.host.dirwatch import DirWatch
from interpose.node.pods.manifest.cache import NOTHING, AcceptedManifests, ManifestCache, accept_manifests
from interpose.node.pods.spec import PodSpec
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

SUFFIXES = (".yaml", ".yml", ".json")
SETTLING: Final = 1.0  # seconds that a change has to stand before it counts
_LATER: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSnapshot:
    """Pods, and what is wrong with which file. `unsettled`: something has changed that does not count yet."""

    pods: tuple[PodSpec, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unsettled: bool = field(default=False, compare=False)


class ManifestSources:
    """Files and folders, in the order they were named. Folders are not searched deeper; hidden files are left out.

    With a memory the first look knows what counted before; without one it takes all as it is.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        memory: ManifestCache | None = None,
        settling: float = SETTLING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settling = settling
        self._paths = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - links stay what they are
        self._memory = memory
        self._clock = clock
        self._agreed: AcceptedManifests | None = None
        self._judged: Mapping[str, str] | None = None  # the texts that led to it
        self._changes: dict[str, tuple[str | None, float]] = {}  # what differs from what counts, and since when
        self._wrong: frozenset[str] = frozenset()

    def owns(self, file: str) -> bool:
        """Whether pods of a manifest file that are not wanted may go: it is one of these, or in one of these folders,
        and it is known what it says. Of a file that is wrong, or a folder that cannot be read, that is not known."""
        folder = os.path.dirname(file)  # noqa: PTH120
        return not self._wrong & {file, folder} and self._named(file)

    def read(self) -> ManifestSnapshot:
        """Everything as it is now. Blocking. A file with problems gives the pods that it last gave."""
        before = self._agreed
        if before is None:
            known = self._memory.read(self._named) if self._memory is not None else {}
            before = AcceptedManifests(texts=known) if known else NOTHING
        texts, problems = self._texts(before.texts)
        settled, unsettled = (texts, False) if self._agreed is None else self._settled(texts, before.texts)
        # The same texts lead to the same: they are looked at every other second, and seldom another.
        found = before if settled == self._judged else accept_manifests(settled, before)
        problems.update({file: why for file, why in found.problems.items() if file not in problems})
        self._wrong = frozenset(problems)
        self._agreed, self._judged = found, settled
        if self._memory is not None:
            self._memory.write(found.texts)
        return ManifestSnapshot(pods=found.pods, problems=problems, unsettled=unsettled)

    def folders(self) -> list[str]:
        """What has to be watched."""
        return list(dict.fromkeys(path if Path(path).is_dir() else os.path.dirname(path) for path in self._paths))  # noqa: PTH120

    def _named(self, file: str) -> bool:
        return any(file == path or os.path.dirname(file) == path for path in self._paths)  # noqa: PTH120

    def _settled(self, texts: Mapping[str, str], before: Mapping[str, str]) -> tuple[dict[str, str], bool]:
        """The texts that count: of a file that was there before, only what has been the same for a while. And whether
        there are others."""
        now = self._clock()
        found: dict[str, str] = {}
        changes: dict[str, tuple[str | None, float]] = {}
        unsettled = False
        for file in dict.fromkeys((*texts, *before)):
            text = texts.get(file)
            if file in before and text != before[file]:
                seen, since = self._changes.get(file, (None, now))
                since = since if file in self._changes and seen == text else now
                changes[file] = (text, since)
                if now - since < self.settling:
                    unsettled = True
                    text = before[file]
            if text is not None:
                found[file] = text
        self._changes = changes
        return found, unsettled

    def _texts(self, before: Mapping[str, str]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
        """What all files hold; of those that cannot be read, what they held before."""
        texts: dict[str, str] = {}
        problems: dict[str, tuple[str, ...]] = {}
        for path in self._paths:
            known = {file: text for file, text in before.items() if os.path.dirname(file) == path}  # noqa: PTH120
            try:
                files = _files(path, folder=bool(known))
            except OSError as error:
                problems[path] = (f"folder {path}: cannot be read: {error.strerror}",)
                # A folder that cannot be read, or is not there, says nothing about its files.
                texts.update(known)
                continue
            for file in files:
                try:
                    texts[file] = read_text(file, MAX_FILE_BYTES)
                except ConfigError as error:
                    if os.path.lexists(file) or file in self._paths:
                        problems[file] = tuple(error.problems)
                        if file in before:
                            texts[file] = before[file]
        return texts, problems


def _files(path: str, *, folder: bool) -> list[str]:
    """The manifests at a path. `folder`: it was one before, so whatever else it is now is an OSError."""
    if not folder and not os.path.isdir(path):  # noqa: PTH112
        return [path]
    with os.scandir(path) as entries:
        return sorted(
            entry.path for entry in entries if entry.name.endswith(SUFFIXES) and not entry.name.startswith(".")
        )


def _logged(problem: str) -> None:
    _log.error("Invalid manifest, keeping its last valid version", extra={"kv": {"problem": problem}})


class ManifestWatcher:
    """Reads sources again whenever something in them changes, and hands over what they want then. A problem is reported
    when it is new."""

    def __init__(
        self,
        sources: ManifestSources,
        changed: Callable[[ManifestSnapshot], None],
        report: Callable[[str], None] = _logged,
    ) -> None:
        self._sources = sources
        self._changed = changed
        self._report = report
        self._tasks = TaskBag()
        self._again = asyncio.Event()
        self._last: ManifestSnapshot | None = None
        self._failing = False
        self._watches: list[DirWatch] = []

    def start(self) -> None:
        """Begin; the first hand-over follows soon."""
        self._tasks.spawn(self._run(), name="manifests")
        self._watches = [DirWatch(folder, self._again.set) for folder in self._sources.folders()]

    async def close(self) -> None:
        """Stop the watch; `want` is not called after it."""
        for watch in self._watches:
            watch.close()
        await self._tasks.cancel()

    async def _run(self) -> None:
        unsettled = False
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sources.settling + _LATER if unsettled else None):
                    await self._again.wait()
            self._again.clear()
            wanted = await self._read()
            if wanted is None:
                continue
            unsettled = wanted.unsettled
            before = self._last.problems if self._last is not None else {}
            for file, problems in wanted.problems.items():
                if before.get(file) != problems:
                    for problem in problems:
                        self._report(problem)
            if wanted != self._last:
                self._last = wanted
                self._changed(wanted)

    async def _read(self) -> ManifestSnapshot | None:
        """What the sources want; None if that fails in a way nobody has thought of: pods stay as they are, and the next
        change is looked at all the same."""
        try:
            wanted = await asyncio.to_thread(self._sources.read)
        except Exception:
            if not self._failing:
                _log.exception("Failed to read manifests, keeping their last valid version")
            self._failing = True
            return None
        self._failing = False
        return wanted
