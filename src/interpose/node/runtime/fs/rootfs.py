"""Root file systems of containers: layers of an image with a place to write on top, by overlayfs or as a copy.

Each container has one folder below our root, with everything that is made for it, mounts too. `prepare` can be
interrupted anywhere: `remove` takes away what is there, and `leftovers` finds what nobody knows.
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
from interpose.node.runtime.fs import mounts as mounting
from interpose.node.runtime.fs.scoped_path import opened_inside
from interpose.node.runtime.images.layers.flatten import flatten

# The kernel takes one page of options; above this paths are given by descriptor, which is shorter.
_LONGEST_OPTIONS: Final = 3900
_SPECIAL: Final = frozenset(",:\\")
# So many fit in any case. What is too long is cut off by the kernel, which then misses something or mounts the rest.
_MOST_LAYERS: Final = 150
_MAKERS: Final = 4
_REMOVERS: Final = 2
_T = TypeVar("_T")


def overlay_works(folder: Path) -> bool:
    """Whether overlayfs can be mounted there, found out by doing it."""
    if os.geteuid() != 0:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".try-") as scratch:
        place = Path(scratch)
        for name in ("lower", "upper", "work", "merged"):
            (place / name).mkdir()
        try:
            _mount_overlay([place / "lower"], place / "merged", upper=place / "upper", work=place / "work")
        except OSError:
            return False
        mounting.unmount(str(place / "merged"))
        return True


class Rootfs:
    """All root file systems below one folder. Work is done in threads."""

    def __init__(self, root: Path, *, overlay: bool | None = None) -> None:
        self._root = Path(os.path.realpath(root))
        self._wanted = overlay
        self._finding_out = threading.Lock()
        # Of their own: trees may be large, and nobody else waits for them, nor the making of one for a removal.
        self._makers = ThreadPoolExecutor(_MAKERS, "rootfs-making")
        self._removers = ThreadPoolExecutor(_REMOVERS, "rootfs-removing")

    async def close(self) -> None:
        """Nothing more is begun."""
        for pool in (self._makers, self._removers):
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def folder(self) -> Path:
        """Where they are: its file system is what containers write to."""
        return self._root

    @property
    def overlay(self) -> bool:
        """Whether layers are mounted on top of each other; otherwise they are copied. Found out when first needed."""
        with self._finding_out:
            if self._wanted is None:
                self._wanted = overlay_works(self._root)
            return self._wanted

    async def prepare(self, container_id: str, layers: Sequence[Path]) -> Path:
        """Make the root file system of a container, from the lowest layer to the highest; where it is."""
        return await _in(self._makers, self._prepare, self._of(container_id), tuple(layers))

    async def volumes(self, container_id: str, places: Iterable[str]) -> dict[str, str]:
        """Folders for the volumes of the image, with what the image has there; by place in the container."""
        return await _in(self._makers, self._volumes, self._of(container_id), tuple(places))

    async def mount_image(self, container_id: str, name: str, layers: Sequence[Path], sub_path: str = "") -> Path:
        """An image, or a folder of it, to be mounted read-only in a container. FileNotFoundError without the folder."""
        return await _in(self._makers, self._image, self._of(container_id), name, tuple(layers), sub_path)

    async def remove(self, container_id: str) -> None:
        """Take away all that was made for a container; nothing there is fine."""
        await _in(self._removers, self._remove, self._of(container_id))

    async def leftovers(self, known: Collection[str]) -> list[str]:
        """Containers that have something here and are not known."""
        return await asyncio.to_thread(self._leftovers, frozenset(known))

    def writable(self, container_id: str) -> Path:
        """The folder with what a container has written; without overlayfs with all it has. For threads."""
        return self._of(container_id) / ("upper" if self.overlay else "merged")

    def path(self, container_id: str) -> Path:
        """Where the root file system of a container is, or would be."""
        return self._of(container_id) / "merged"

    # -- in threads

    def _of(self, container_id: str) -> Path:
        if not container_id or container_id.startswith(".") or "/" in container_id:
            raise ValueError(f"{container_id!r} is not an id of a container")
        return self._root / container_id

    def _prepare(self, folder: Path, layers: tuple[Path, ...]) -> Path:
        merged = folder / "merged"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.overlay:
            _into_fresh(merged, lambda place: flatten(layers, place))
            return merged
        for name in ("upper", "work", "merged"):
            (folder / name).mkdir(mode=0o755, exist_ok=True)
        if not os.path.ismount(merged):
            layers = _few(layers, folder)
            _look_alike(layers, folder / "upper")
            _mount_overlay(layers or (_empty(folder),), merged, upper=folder / "upper", work=folder / "work")
        return merged

    def _volumes(self, folder: Path, places: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for number, place in enumerate(sorted(set(places))):
            volume = folder / "volumes" / str(number)
            volume.parent.mkdir(mode=0o755, exist_ok=True)
            source = _folder_inside(folder / "merged", place)
            _into_fresh(volume, partial(flatten, () if source is None else (source,)))
            found[place] = str(volume)
        return found

    def _image(self, folder: Path, name: str, layers: tuple[Path, ...], sub_path: str) -> Path:
        place = folder / "images" / name
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not self.overlay:
            _into_fresh(place / "merged", lambda target: flatten(layers, target))
        else:
            (place / "merged").mkdir(exist_ok=True)
            if not os.path.ismount(place / "merged"):
                # Two at least: overlayfs does not take a single layer when there is nothing to write on.
                lower = (_empty(place), *layers) if len(layers) < 2 else _few(layers, place)
                _mount_overlay(lower, place / "merged")
        with opened_inside(str(place / "merged"), sub_path) as fd:
            return Path(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115

    def _remove(self, folder: Path) -> None:
        if not folder.exists():
            return
        if mounting.unmount_below(str(folder)) and (places := mounting.mounts_below(str(folder))):
            raise OSError(f"{places[0]} is still mounted")  # what is in it is not ours to remove
        remove_tree(folder)

    def _leftovers(self, known: frozenset[str]) -> list[str]:
        try:
            names = sorted(entry.name for entry in os.scandir(self._root) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        for name in names:
            if name.startswith(".try-"):
                self._remove(self._root / name)
        return [name for name in names if name not in known and not name.startswith(".")]


async def _in(pool: ThreadPoolExecutor, work: Callable[..., _T], *arguments: object) -> _T:
    return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)


def _mount_overlay(
    layers: Sequence[Path], merged: Path, *, upper: Path | None = None, work: Path | None = None
) -> None:
    """`layers` from the lowest; the kernel wants the highest first."""
    names = [str(layer) for layer in reversed(layers)]
    writable = [] if upper is None else [("upperdir", str(upper)), ("workdir", str(work))]
    options = _options(names, writable)
    with ExitStack() as stack:
        if len(os.fsencode(options)) > _LONGEST_OPTIONS or any(_SPECIAL & set(name) for name in (*names, str(merged))):
            options = _options(
                [_by_descriptor(stack, name) for name in names],
                [(key, _by_descriptor(stack, name)) for key, name in writable],
            )
        mounting.mount("overlay", str(merged), "overlay", 0 if writable else mounting.MS_RDONLY, options)


def _options(lower: Sequence[str], writable: Sequence[tuple[str, str]]) -> str:
    return ",".join([f"lowerdir={':'.join(lower)}", *(f"{key}={name}" for key, name in writable)])


def _by_descriptor(stack: ExitStack, name: str) -> str:
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return f"/proc/self/fd/{descriptor}"


def _look_alike(layers: Sequence[Path], upper: Path) -> None:
    """The root folder looks as in the highest layer: the upper one's look is what is seen."""
    if layers:
        _copy_look(layers[-1], upper)


def _copy_look(source: Path, target: Path) -> None:
    found = source.stat()
    with suppress(PermissionError):
        os.chown(target, found.st_uid, found.st_gid)
    target.chmod(stat.S_IMODE(found.st_mode))


def _folder_inside(root: Path, place: str) -> Path | None:
    with suppress(FileNotFoundError, NotADirectoryError), opened_inside(str(root), place) as descriptor:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    return None


def _few(layers: tuple[Path, ...], folder: Path) -> tuple[Path, ...]:
    """The same in as many layers as can be mounted: the lowest of very many are copied into one."""
    if len(layers) <= _MOST_LAYERS:
        return layers
    cut = len(layers) - _MOST_LAYERS + 1
    base = folder / "base"
    _into_fresh(base, partial(flatten, layers[:cut]))
    return (base, *layers[cut:])


def _empty(folder: Path) -> Path:
    place = folder / "empty"
    place.mkdir(mode=0o755, exist_ok=True)
    return place


def _into_fresh(place: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder so that it is there as a whole or not at all."""
    if place.exists():
        return
    fresh = place.with_name(f"{place.name}.new")
    if fresh.exists():
        remove_tree(fresh)
    fresh.mkdir(mode=0o755)
    fill(fresh)
    fresh.rename(place)
