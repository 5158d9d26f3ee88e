"""Where devices are, by their numbers: sysfs is read, nothing else, and nothing is written.

Everything here blocks, and a path on a file system whose server is gone blocks for ever: it belongs in a thread that
nobody waits for.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from interpose.core.topology.hints import HINT_FILES, DeviceFolder, TopologyHint, device_hint
from interpose.resmgr.hints.rules import HintKind, HintPath

_MAX_CACHED: Final = 256  # devices
_MAX_DEPTH: Final = 8  # of devices below devices: partitions of raids of encrypted disks have four
_MAX_BYTES: Final = 4096
_VFIO: Final = "vfio"


class DeviceHint(NamedTuple):
    """A hint, and the folder of the device that it is of."""

    device: str
    hint: TopologyHint


class DeviceHints:
    """Finds hints of paths below the root of a host. What a device said is remembered by its folder."""

    def __init__(self, root: str = "/") -> None:
        self._root = Path(root)
        self._sys = Path(os.path.realpath(self._root / "sys"))
        self._cached: dict[str, tuple[DeviceHint, ...]] = {}

    def find(self, path: HintPath) -> tuple[DeviceHint, ...]:
        """The hints of what is at a path of the host: of a device itself, or of the disk that a file is on.

        OSError if there is nothing. File systems without a disk have no hint.
        """
        status = os.stat(self._root / path.path.lstrip("/"))  # noqa: PTH116
        kind = "block" if stat.S_ISBLK(status.st_mode) else "char" if stat.S_ISCHR(status.st_mode) else ""
        number = status.st_rdev
        if not kind:
            if path.kind is HintKind.DEVICES:
                return ()
            kind, number = "block", status.st_dev
        return self.find_number(kind, os.major(number), os.minor(number))

    def find_number(self, kind: str, major: int, minor: int) -> tuple[DeviceHint, ...]:
        """The hints of a block or char device."""
        folder = self._folder(self._sys / "dev" / kind / f"{major}:{minor}")
        if folder is None:
            return ()
        key = str(folder)
        if (known := self._cached.get(key)) is not None:
            return known
        found = tuple(self._find_below(folder, 0))
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key] = found
        return found

    def find_folder(self, path: str) -> tuple[DeviceHint, ...]:
        """The hints of a device by its path below /sys, whether that is a link or the folder itself."""
        folder = self._folder(self._sys / path.removeprefix("/sys/"))
        return () if folder is None else tuple(self._find_below(folder, 0))

    def _folder(self, link: Path) -> Path | None:
        """The folder of a device behind a link; None if there is none, or if it is no device."""
        folder = Path(os.path.realpath(link))
        return folder if folder.is_relative_to(self._sys / "devices") and folder.is_dir() else None

    def _find_below(self, folder: Path, depth: int) -> Iterator[DeviceHint]:
        """The hints of a device; if it has none, those of the devices that it is made of."""
        hint = device_hint(list(self._folders(folder)))
        if hint is not None:
            yield DeviceHint(self._shown(folder), hint)
        elif depth < _MAX_DEPTH:
            for part in self._parts(folder):
                yield from self._find_below(part, depth + 1)

    def _parts(self, folder: Path) -> Iterator[Path]:
        members = folder / "slaves"
        if folder.parent.name == _VFIO:
            members = self._sys / "kernel/iommu_groups" / folder.name / "devices"
        try:
            links = sorted(os.listdir(members))  # noqa: PTH208
        except OSError:
            return
        yield from filter(None, (self._folder(members / link) for link in links))

    def _folders(self, folder: Path) -> Iterator[DeviceFolder]:
        """A folder and those above it, up to that of all devices."""
        while folder != self._sys / "devices":
            files = {name: text for name in HINT_FILES if (text := _read(folder / name))}
            if files:
                yield DeviceFolder(path=self._shown(folder), files=files)
            folder = folder.parent

    def _shown(self, folder: Path) -> str:
        return f"/sys/{folder.relative_to(self._sys)}"


def _read(path: Path) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            return (file.read(_MAX_BYTES) or b"").decode("ascii", "replace").strip()
    except OSError:
        return ""
