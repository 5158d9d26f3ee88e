"""Records on disk: one small file for each object, replaced as a whole. Blocking; called in threads.

Nothing is synced to the disk: a process that is killed loses nothing, and after a power failure no container runs any
more, so a record that is corrupt then is not needed. A record that cannot be read just now is not corrupt: without it
its running object would be removed as an orphan, so nothing is loaded at all.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from interpose.host.atomic_file import replace_at
from interpose.log import kv
from interpose.node.runtime.state.ids import is_id
from interpose.node.runtime.state.records import ContainerRecord, Record, RecordError, SandboxRecord, decode, encode

_log = logging.getLogger(__name__)
_FOLDERS: Final[Mapping[type, str]] = MappingProxyType({SandboxRecord: "sandboxes", ContainerRecord: "containers"})
_SUFFIX: Final = ".json"
_TRIES: Final = 5
_PAUSE: Final = 0.2


class FileRecordStore:
    """The records of one runtime. One writer for each record at a time."""

    def __init__(
        self,
        root: Path,
        *,
        read: Callable[[Path], bytes] = Path.read_bytes,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root
        self._read_file = read
        self._sleep = sleep

    def prepare(self) -> None:
        """Make the folders, and remove what a kill in `put` left behind."""
        for name in _FOLDERS.values():
            folder = self._root / name
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for leftover in folder.glob(".*.tmp"):
                leftover.unlink(missing_ok=True)

    def put(self, record: SandboxRecord | ContainerRecord) -> None:
        """Write a record, or replace it; OSError leaves the old one."""
        path = self._path(type(record), record.id)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            replace_at(directory, path.name, encode(record), temporary=f".{record.id}.tmp", sync=False)
        finally:
            os.close(directory)

    def drop(self, record: SandboxRecord | ContainerRecord) -> None:
        """Delete a record; a missing one is fine."""
        with suppress(FileNotFoundError):
            self._path(type(record), record.id).unlink()

    def load(self, kind: type[Record]) -> dict[str, Record]:
        """All records of a kind by id. A corrupt one is set aside, and its object is removed as an orphan.

        OSError names a file that cannot be read after several attempts.
        """
        found: dict[str, Record] = {}
        for path in sorted((self._root / _FOLDERS[kind]).glob(f"*{_SUFFIX}")):
            object_id = path.name.removesuffix(_SUFFIX)
            try:
                record = decode(kind, self._read(path))
                if record.id != object_id or not is_id(object_id):
                    raise RecordError(f"it is about {record.id!r}")
            except RecordError as error:
                _log.error("Corrupt record set aside", extra=kv(file=str(path), err=str(error)))
                with suppress(OSError):
                    os.replace(path, path.with_name(f"{path.name}.broken"))  # noqa: PTH105
                continue
            found[object_id] = record
        return found

    def _read(self, path: Path) -> bytes:
        """Read a file with retries: the error may be transient (no descriptors, no memory, a disk that returns)."""
        for _ in range(_TRIES - 1):
            try:
                return self._read_file(path)
            except IsADirectoryError as error:
                raise RecordError(str(error)) from None
            except OSError as error:
                _log.warning("Failed to read record; retrying", extra=kv(file=str(path), err=str(error)))
                self._sleep(_PAUSE)
        try:
            return self._read_file(path)
        except OSError as error:
            raise OSError(error.errno, f"record cannot be read: {error.strerror}", str(path)) from error

    def _path(self, kind: type, object_id: str) -> Path:
        return self._root / _FOLDERS[kind] / f"{object_id}{_SUFFIX}"
