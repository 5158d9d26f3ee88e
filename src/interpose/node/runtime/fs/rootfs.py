"""Root file systems of containers: layers of an image with a writable layer on top, by overlayfs or as a copy.

Each container has one folder below our root, with all its files and mounts. `prepare` can be interrupted anywhere:
`remove` removes what is there, and `find_orphans` finds folders of unknown containers.
"""

import asyncio
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from interpose.host.rmtree import remove_tree
from interpose.node.runtime.fs import mounts
from interpose.node.runtime.fs.scoped_path import open_inside
from interpose.node.runtime.images.layers.flatten import flatten

# The kernel takes one page of options; above this paths are passed by descriptor, which is shorter.
_MAX_OPTIONS: Final = 3900
_SPECIAL: Final = frozenset(",:\\")
# This number fits in any case. Longer options are cut off by the kernel, which fails or mounts without the rest.
_MAX_LAYERS: Final = 150
_MAKERS: Final = 4
_REMOVERS: Final = 2
_T = TypeVar("_T")


def can_mount_overlay(folder: Path) -> bool:
    """Whether overlayfs can be mounted below a folder, by trying it."""
    if os.geteuid() != 0:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".try-") as scratch:
        path = Path(scratch)
        for name in ("lower", "upper", "work", "merged"):
            (path / name).mkdir()
        try:
            _mount_overlay([path / "lower"], path / "merged", upper=path / "upper", work=path / "work")
        except OSError:
            return False
        mounts.unmount(str(path / "merged"))
        return True


class Rootfs:
    """All root file systems below one folder. Work is done in threads."""

    def __init__(self, root: Path, *, overlay: bool | None = None) -> None:
        self._root = Path(os.path.realpath(root))
        self._overlay = overlay
        self._probe_lock = threading.Lock()
        # Threads of their own: trees may be large; other work does not wait for them, nor a creation for a removal.
        self._makers = ThreadPoolExecutor(_MAKERS, "rootfs-making")
        self._removers = ThreadPoolExecutor(_REMOVERS, "rootfs-removing")

    async def close(self) -> None:
        """Begin no new work; work that runs goes on."""
        for pool in (self._makers, self._removers):
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def folder(self) -> Path:
        """The folder of all root file systems: containers write to its file system."""
        return self._root

    @property
    def overlay(self) -> bool:
        """Whether layers are mounted with overlayfs; otherwise they are copied. Probed when first needed."""
        with self._probe_lock:
            if self._overlay is None:
                self._overlay = can_mount_overlay(self._root)
            return self._overlay

    async def prepare(self, container_id: str, layers: Sequence[Path]) -> Path:
        """Make the root file system of a container from its layers, lowest first; returns its path."""
        return await _run_in(self._makers, self._prepare, self._folder_of(container_id), tuple(layers))

    async def volumes(self, container_id: str, paths: Iterable[str]) -> dict[str, str]:
        """Folders for the volumes of the image, with the image's files; by path in the container."""
        return await _run_in(self._makers, self._volumes, self._folder_of(container_id), tuple(paths))

    async def mount_image(self, container_id: str, name: str, layers: Sequence[Path], sub_path: str = "") -> Path:
        """An image, or a folder of it, to be mounted read-only in a container. FileNotFoundError without the folder."""
        return await _run_in(self._makers, self._image, self._folder_of(container_id), name, tuple(layers), sub_path)

    async def remove(self, container_id: str) -> None:
        """Remove all files and mounts of a container; may be repeated."""
        await _run_in(self._removers, self._remove, self._folder_of(container_id))

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of containers that have a folder here and are not in `known`."""
        return await asyncio.to_thread(self._find_orphans, frozenset(known))

    def writable(self, container_id: str) -> Path:
        """The folder with the files that a container has written; without overlayfs with all its files. For threads."""
        return self._folder_of(container_id) / ("upper" if self.overlay else "merged")

    def path(self, container_id: str) -> Path:
        """The path of the root file system of a container, whether it exists or not."""
        return self._folder_of(container_id) / "merged"

    # -- in threads

    def _folder_of(self, container_id: str) -> Path:
        if not container_id or container_id.startswith(".") or "/" in container_id:
            raise ValueError(f"{container_id!r} is not an id of a container")
        return self._root / container_id

    def _prepare(self, folder: Path, layers: tuple[Path, ...]) -> Path:
        merged = folder / "merged"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.overlay:
            _fill_once(merged, lambda path: flatten(layers, path))
            return merged
        for name in ("upper", "work", "merged"):
            (folder / name).mkdir(mode=0o755, exist_ok=True)
        if not os.path.ismount(merged):
            layers = _limit_layers(layers, folder)
            _copy_root_attributes(layers, folder / "upper")
            _mount_overlay(layers or (_empty(folder),), merged, upper=folder / "upper", work=folder / "work")
        return merged

    def _volumes(self, folder: Path, paths: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for number, path in enumerate(sorted(set(paths))):
            volume = folder / "volumes" / str(number)
            volume.parent.mkdir(mode=0o755, exist_ok=True)
            source = _folder_inside(folder / "merged", path)
            _fill_once(volume, partial(flatten, () if source is None else (source,)))
            found[path] = str(volume)
        return found

    def _image(self, folder: Path, name: str, layers: tuple[Path, ...], sub_path: str) -> Path:
        path = folder / "images" / name
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not self.overlay:
            _fill_once(path / "merged", lambda target: flatten(layers, target))
        else:
            (path / "merged").mkdir(exist_ok=True)
            if not os.path.ismount(path / "merged"):
                # Two at least: overlayfs does not take a single layer when there is nothing to write on.
                lower = (_empty(path), *layers) if len(layers) < 2 else _limit_layers(layers, path)
                _mount_overlay(lower, path / "merged")
        with open_inside(str(path / "merged"), sub_path) as fd:
            return Path(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115

    def _remove(self, folder: Path) -> None:
        if not folder.exists():
            return
        if mounts.unmount_below(str(folder)) and (paths := mounts.mounts_below(str(folder))):
            raise OSError(f"{paths[0]} is still mounted")  # what is in it is not ours to remove
        remove_tree(folder)

    def _find_orphans(self, known: frozenset[str]) -> list[str]:
        try:
            names = sorted(entry.name for entry in os.scandir(self._root) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        for name in names:
            if name.startswith(".try-"):
                self._remove(self._root / name)
        return [name for name in names if name not in known and not name.startswith(".")]


async def _run_in(pool: ThreadPoolExecutor, work: Callable[..., _T], *arguments: object) -> _T:
    return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)


def _mount_overlay(
    layers: Sequence[Path], merged: Path, *, upper: Path | None = None, work: Path | None = None
) -> None:
    """`layers` from the lowest; the kernel wants the highest first."""
    names = [str(layer) for layer in reversed(layers)]
    writable = [] if upper is None else [("upperdir", str(upper)), ("workdir", str(work))]
    options = _options(names, writable)
    with ExitStack() as stack:
        if len(os.fsencode(options)) > _MAX_OPTIONS or any(_SPECIAL & set(name) for name in (*names, str(merged))):
            options = _options(
                [_by_descriptor(stack, name) for name in names],
                [(key, _by_descriptor(stack, name)) for key, name in writable],
            )
        mounts.mount("overlay", str(merged), "overlay", 0 if writable else mounts.MS_RDONLY, options)


def _options(lower: Sequence[str], writable: Sequence[tuple[str, str]]) -> str:
    return ",".join([f"lowerdir={':'.join(lower)}", *(f"{key}={name}" for key, name in writable)])


def _by_descriptor(stack: ExitStack, name: str) -> str:
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return f"/proc/self/fd/{descriptor}"


def _copy_root_attributes(layers: Sequence[Path], upper: Path) -> None:
    """Give the upper folder owner and mode of the highest layer's root: overlayfs shows those of the upper one."""
    if layers:
        _copy_owner_and_mode(layers[-1], upper)


def _copy_owner_and_mode(source: Path, target: Path) -> None:
    found = source.stat()
    with suppress(PermissionError):
        os.chown(target, found.st_uid, found.st_gid)
    target.chmod(stat.S_IMODE(found.st_mode))


def _folder_inside(root: Path, path: str) -> Path | None:
    with suppress(FileNotFoundError, NotADirectoryError), open_inside(str(root), path) as descriptor:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    return None


def _limit_layers(layers: tuple[Path, ...], folder: Path) -> tuple[Path, ...]:
    """At most as many layers as can be mounted: the lowest of very many are copied into one."""
    if len(layers) <= _MAX_LAYERS:
        return layers
    cut = len(layers) - _MAX_LAYERS + 1
    base = folder / "base"
    _fill_once(base, partial(flatten, layers[:cut]))
    return (base, *layers[cut:])


def _empty(folder: Path) -> Path:
    path = folder / "empty"
    path.mkdir(mode=0o755, exist_ok=True)
    return path


def _fill_once(path: Path, fill: Callable[[Path], None]) -> None:
    """Create a folder with its content in one step; an existing one stays."""
    if path.exists():
        return
    staged = path.with_name(f"{path.name}.new")
    if staged.exists():
        remove_tree(staged)
    staged.mkdir(mode=0o755)
    fill(staged)
    staged.rename(path)
