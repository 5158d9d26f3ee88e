"""Directories with `resources.sh` for containers, below the state directory of the relay.

A directory is made before its container is created, as the runtime binds it into the container; it goes when the
container has ended. Its file is replaced as a whole, so a process reads the old text or the new one. The files are for
containers, not for us: nothing is read back, nothing here fails a call, and no call waits for a disk for long.
"""

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from interpose.core.policy.request import Key
from interpose.host.atomic_file import replace_file
from interpose.log import RateLimited
from interpose.resmgr.exports.resources_text import FILE_NAME
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

WRITE_LIMIT: Final = 1.0  # seconds that a create waits for its file; a disk that is slower has other problems
_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_NAME: Final = re.compile(r"[0-9a-f]{32}")  # of a directory
_T = TypeVar("_T")


class ResourceFiles:
    """The files of all containers. `container_path` is where they see theirs; empty: no container gets one.

    `keys` are the containers that there are, and `text` tells what the file of one should say now.
    """

    def __init__(
        self, folder: str, container_path: str, keys: Callable[[], Iterable[Key]], text: Callable[[Key], str]
    ) -> None:
        self._folder = Path(folder)
        self._container_path = container_path
        self._keys, self._text = keys, text
        self._written: dict[str, str] = {}  # by name of the directory: what its file says, as far as it is known
        self._listed = False  # whether directories of an earlier relay are among them
        self._tasks = TaskBag()
        self._lock = asyncio.Lock()
        self._refreshing = self._again = False
        self._rate_limited = RateLimited(_log)
        self.problem = ""  # why files could not be written last

    async def add(self, request: Any, key: Key) -> None:
        """Write the file of a container and mount its directory, by its CreateContainerRequest."""
        mounts = request.config.mounts
        if not self._container_path or any(mount.container_path == self._container_path for mount in mounts):
            return
        name, text = directory_name(key), self._text(key)
        self._written[name] = ""  # whatever becomes of it, it is removed with its container
        try:
            await asyncio.wait_for(self._in_thread(self._write, name, text), WRITE_LIMIT)
        except (OSError, TimeoutError) as error:
            self._report(error)
            return
        self._written[name] = text
        mounts.add(host_path=str(self._folder / name), container_path=self._container_path, readonly=True)

    @property
    def is_due(self) -> bool:
        """Whether files have to be written though nothing changes: after the start, and after a failure."""
        return not self._listed or bool(self.problem)

    def refresh_soon(self) -> None:
        """Bring all files up to date in the background, and remove those of containers that are gone."""
        self._again = True
        if not self._refreshing:
            self._refreshing = True
            self._tasks.spawn(self._refresh(), name="write resources of containers")

    async def _refresh(self) -> None:
        try:
            while self._again:
                self._again = False
                await self._refresh_once()
            self.problem = ""
        except OSError as error:
            self._report(error)
        finally:
            self._refreshing = False

    async def _refresh_once(self) -> None:
        if not self._listed:
            found = await self._in_thread(self._list)
            self._written = {**dict.fromkeys(found, ""), **self._written}
            self._listed = True
        if not self._written:
            return
        keys = {directory_name(key): key for key in self._keys()}
        # A container from before the files were switched on has no directory, and needs none.
        wanted = {name: self._text(keys[name]) for name in self._written if name in keys}
        changed = {name: text for name, text in wanted.items() if self._written[name] != text}
        gone = [name for name in self._written if name not in keys]
        if changed or gone:
            await self._in_thread(self._apply, changed, gone)
            self._written.update(changed)
            for name in gone:
                self._written.pop(name, None)

    async def _in_thread(self, work: Callable[..., _T], *arguments: Any) -> _T:
        """One at a time: two that replace the same file would be in each other's way."""
        async with self._lock:
            return await asyncio.to_thread(work, *arguments)

    async def close(self) -> None:
        """Cancel what is written in the background; a thread that writes comes to its end."""
        await self._tasks.cancel()

    def _report(self, error: Exception) -> None:
        reason = str(error) or f"not done within {WRITE_LIMIT:g} s"
        self.problem = f"resources of containers cannot be written below {self._folder}: {reason}"
        self._rate_limited.log(logging.WARNING, "Resources of containers cannot be written", err=reason)

    # -- in threads

    def _list(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if _NAME.fullmatch(name)]  # noqa: PTH208
        except FileNotFoundError:
            return []

    def _write(self, name: str, text: str) -> None:
        directory = self._folder / name
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(_DIRECTORY_MODE)  # whatever our umask is
        replace_file(str(directory / FILE_NAME), text.encode(), mode=_FILE_MODE, sync=False)

    def _apply(self, changed: Mapping[str, str], gone: Iterable[str]) -> None:
        for name, text in changed.items():
            self._write(name, text)
        for name in gone:
            self._remove(self._folder / name)

    def _remove(self, directory: Path) -> None:
        """Remove a directory of ours; what somebody else put into it stays, and the directory with it."""
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(directory):  # noqa: PTH208
                if name.startswith(FILE_NAME):
                    (directory / name).unlink(missing_ok=True)
            with suppress(OSError):
                directory.rmdir()


def directory_name(key: Key) -> str:
    """The name of a container's directory: names of containers of Docker can be anything."""
    return hashlib.sha256(str(key).encode()).hexdigest()[:32]
