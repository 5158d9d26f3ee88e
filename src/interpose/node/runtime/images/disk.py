"""A store of images on disk, for any number of processes at once. Blocking: callers use threads.

    store.json            the form that layers have here
    index.json            images and their names
    configs/HEX           configs of images, by digest
    layers/HEX/fs         unpacked layers, by what they are together with those below
    layers/HEX/layer.json what they cost
    layers/HEX/tar-split  what their tar files were besides the files; not in layers of older versions
    holds/ID              which layers a container needs
    work/                 what does not count yet, or no more; and the layers that processes are bringing
    lock                  held while something of the above changes

Invariant: everything that counts came into its place in one step, whole. An image is in the index only when all of its
layers are there, and layers go only when no image and no hold names them and nobody is bringing them.
"""

import ctypes
import errno
import fcntl
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from interpose.errors import ConfigError
from interpose.host.atomic_file import remove_leftovers, replace_file
from interpose.log import kv
from interpose.node.runtime.images.index import ImageIndex, read_index, write_index
from interpose.node.runtime.images.layers.whiteouts import FORMATS, MARKED, WhiteoutFormat, detect_format
from interpose.node.runtime.images.manifests import chain_ids, read_config
from interpose.node.runtime.images.registry.reference import encoded
from interpose.node.runtime.images.staging import StagingDir, discard
from interpose.node.runtime.images.types import ImageConfig, UnpackResult

SPLIT: Final = "tar-split"
_CONTAINER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FOLDERS: Final = ("configs", "layers", "holds", "work")
_UNFINISHED: Final = re.compile(r".*\.[0-9]+\.tmp")  # what a process that was killed had begun to write
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))

_log = logging.getLogger(__name__)


class ImageDisk:
    """One store. `durable`: what counts is on the disk itself before it is said to be there."""

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root
        self.form: WhiteoutFormat = MARKED
        self._durable = durable
        self._work = StagingDir(root / "work")
        self._index: tuple[object, ImageIndex] = (None, ImageIndex())  # with what the file was; one value, for threads
        self._complained = ""  # what was logged last about it
        self._configs: dict[str, ImageConfig] = {}
        self._costs: dict[str, tuple[int, int]] = {}

    def open(self) -> list[str]:
        """Make what is missing, remove what killed processes left; what was removed. ConfigError if it is no store.

        What cannot be removed is no reason to stay away.
        """
        self.root.mkdir(mode=0o711, parents=True, exist_ok=True)
        for name in _FOLDERS:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)
        with self.locked():
            self.form = self._read_form()
            self.index()
            try:
                return self._sweep()
            except OSError as error:
                _log.warning("Failed to remove leftover image data", extra=kv(err=str(error)))
                return []

    def _sweep(self) -> list[str]:
        swept = self._work.sweep()
        for name in ("index.json", "store.json"):
            remove_leftovers(str(self.root / name))
        return swept

    def close(self) -> None:
        """Remove what does not count."""
        self._work.close()

    def _read_form(self) -> WhiteoutFormat:
        path = self.root / "store.json"
        try:
            document = json.loads(path.read_bytes())
            return FORMATS[document["form"]]
        except FileNotFoundError:
            form = detect_format(self.root / "work")
            replace_file(str(path), json.dumps({"version": 1, "form": form.name}).encode())
            return form
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"file {path}: it is not that of a store of images: key form is missing") from None

    # -- images

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes anything."""
        with _flock(self.root / "lock", fcntl.LOCK_EX):
            yield

    def index(self) -> ImageIndex:
        """The images as they are now, whoever changed them."""
        path = self.root / "index.json"
        try:
            found = path.stat()
        except FileNotFoundError:
            return ImageIndex()
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = self._index
        if seen != known[0]:
            try:
                known = self._index = (seen, read_index(path.read_bytes()))
            except ValueError as error:
                raise ConfigError(f"file {path}: {error}") from None
        return known[1]

    def seen(self) -> ImageIndex:
        """The images as they are now; as they were if the file has become one that cannot be read. For looking only."""
        try:
            return self.index()
        except (ConfigError, OSError) as error:
            if self._index[0] is None:
                raise
            if str(error) != self._complained:
                self._complained = str(error)
                _log.error("Failed to read image index; keeping the one in memory", extra=kv(err=str(error)))
            return self._index[1]

    def change(self, how: Callable[[ImageIndex], ImageIndex]) -> ImageIndex:
        """Change the index. The caller has the lock."""
        index = self.index()
        changed = how(index)
        if changed != index:
            replace_file(str(self.root / "index.json"), write_index(changed))
        return changed

    def shrink(self, how: Callable[[ImageIndex], ImageIndex]) -> bool:
        """Change the index so that images go; whether it changed. Works on a full disk, too, or nothing could help it.

        There may be no room for a smaller index beside the old one. An image without its config is none, so the config
        can go first, with all that is not needed then.
        """
        with self.locked():
            before = self.index()
            after = how(before)
            try:
                return self.change(how) != before
            except OSError as error:
                gone = [entry.id for entry in before.entries if after.get(entry.id) is None]
                if error.errno not in _FULL or not gone:
                    raise
            for image_id in gone:
                self._configs.pop(image_id, None)
                (self.root / "configs" / encoded(image_id)).unlink(missing_ok=True)
        self.collect()
        with self.locked():
            self.change(how)
        return True

    def config(self, image_id: str) -> ImageConfig:
        """The config of an image; ValueError or OSError if it is not there any more or not whole."""
        known = self._configs.get(image_id)
        if known is None:
            known = self._configs[image_id] = read_config(self.config_data(image_id), f"config {image_id}")
        return known

    def put_config(self, image_id: str, data: bytes) -> None:
        """Keep a config."""
        replace_file(str(self.root / "configs" / encoded(image_id)), data)

    def config_data(self, image_id: str) -> bytes:
        """The config of an image as it came."""
        return (self.root / "configs" / encoded(image_id)).read_bytes()

    # -- layers

    def free(self) -> int:
        """Bytes that are free for anybody."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def layer(self, chain_id: str) -> Path:
        """Where the files of a layer are."""
        return self.root / "layers" / encoded(chain_id) / "fs"

    def split(self, chain_id: str) -> Path:
        """Where it is written down what the tar file of a layer was like."""
        return self.root / "layers" / encoded(chain_id) / SPLIT

    def has_layer(self, chain_id: str) -> bool:
        """Whether they are."""
        return self.layer(chain_id).is_dir()

    def new_path(self, kind: str) -> Path:
        """A place for something that does not count yet."""
        return self._work.new_path(kind)

    def put_layer(self, chain_id: str, made: Path, unpacked: UnpackResult) -> None:
        """Let a layer count: `made` has its files in `fs`. If another process was faster, its layer is as good."""
        cost = {"diff_id": unpacked.diff_id, "size": unpacked.size, "inodes": unpacked.inodes}
        (made / "layer.json").write_text(json.dumps(cost), encoding="utf-8")
        if self._durable:
            _sync(made)
        try:
            made.rename(self.root / "layers" / encoded(chain_id))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            discard(made)

    @contextmanager
    def bringing(self, chain: Sequence[str]) -> Iterator[None]:
        """These layers are not removed meanwhile, those that are here and those to come."""
        with ExitStack() as stack:
            with self.locked():
                stack.enter_context(self._work.claim(map(encoded, chain)))
            yield

    def collect(self) -> list[str]:
        """Remove layers and configs that nobody names; which."""
        trash = []
        removed: list[str] = []
        with self.locked():
            images, needed = {encoded(entry.id) for entry in self.index().entries}, self._needed()
            for path in self._garbage("configs", images):
                with _tried(path):
                    path.unlink()
                    self._configs.pop(f"sha256:{path.name}", None)
            for path in self._garbage("layers", needed):
                with _tried(path):
                    gone = self._put_aside(path)
                    self._costs.pop(path.name, None)
                    trash.append(gone)
                    removed.append(path.name)
        for path in trash:
            discard(path)
        return removed

    def _put_aside(self, path: Path) -> Path:
        try:
            return path.rename(self._work.new_path("gone"))
        except OSError as error:
            if error.errno not in _FULL:
                raise
        # A new name in the same folder takes no room. It is no layer's, so it is garbage until it is gone.
        return path.rename(path.with_name(f"{path.name}.{os.getpid()}.gone"))

    def _garbage(self, folder: str, needed: set[str]) -> list[Path]:
        return [path for path in (self.root / folder).iterdir() if path.name not in needed]

    def _needed(self) -> set[str]:
        """Layers that must stay. OSError if that cannot be said: then all do."""
        needed = self._work.claimed()
        for container_id, hold in self.holds().items():
            if "chain" not in hold:
                problem = "it does not say which layers the container needs: none are removed while it is there"
                raise OSError(errno.EBADMSG, problem, str(self.root / "holds" / container_id))
            needed.update(map(encoded, hold["chain"]))
        for entry in self.index().entries:
            with suppress(FileNotFoundError, ValueError):  # an image whose config is gone cannot be used
                needed.update(map(encoded, chain_ids(self.config(entry.id).diff_ids)))
        return needed

    # -- holds

    def hold(self, container_id: str, image_id: str, chain: tuple[str, ...]) -> None:
        """Keep layers for a container; ValueError if they are gone."""
        if not _CONTAINER.fullmatch(container_id):
            raise ValueError(f"container id {container_id[:200]!r}: it cannot be the name of a file")
        with self.locked():
            missing = [one for one in chain if not self.has_layer(one)]
            if missing:
                raise ValueError(f"image {image_id}: it was removed: layer {missing[0]} is not there any more")
            document = json.dumps({"image": image_id, "chain": list(chain)})
            replace_file(str(self.root / "holds" / container_id), document.encode())

    def release(self, container_id: str) -> bool:
        """Let go, also of what is held as `container_id.something`; whether there was something to let go of."""
        if not _CONTAINER.fullmatch(container_id):
            return False
        with self.locked():
            names = os.listdir(self.root / "holds")  # noqa: PTH208 - only the names: there may be many
            held = [name for name in names if name == container_id or name.startswith(f"{container_id}.")]
            for name in held:
                (self.root / "holds" / name).unlink()
        return bool(held)

    def holds(self) -> dict[str, dict[str, Any]]:
        """What containers hold: image and chain by their id. There is no chain in one that cannot be understood."""
        found: dict[str, dict[str, Any]] = {}
        for path in (self.root / "holds").iterdir():
            with suppress(FileNotFoundError):
                found[path.name] = {"chain": []} if _UNFINISHED.fullmatch(path.name) else _read_hold(path.read_bytes())
        return found

    def usage(self) -> tuple[int, int]:
        """Bytes and inodes of all layers and configs."""
        size = inodes = 0
        for path in (self.root / "layers").iterdir():
            known = self._costs.get(path.name)
            if known is None:
                try:
                    document = json.loads((path / "layer.json").read_bytes())
                    known = self._costs[path.name] = (int(document["size"]), int(document["inodes"]))
                except (OSError, ValueError, KeyError, TypeError):
                    continue
            size, inodes = size + known[0], inodes + known[1]
        for path in (self.root / "configs").iterdir():
            with suppress(FileNotFoundError):
                size, inodes = size + path.stat().st_size, inodes + 1
        return size, inodes


def _read_hold(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    chain = document.get("chain") if isinstance(document, dict) else None
    return document if isinstance(chain, list) and all(isinstance(one, str) for one in chain) else {}


@contextmanager
def _flock(path: Path, how: int) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _tried(path: Path) -> Iterator[None]:
    """One that cannot be removed does not keep the others."""
    try:
        yield
    except OSError as error:
        _log.warning("Failed to remove unused data", extra=kv(path=str(path), err=str(error)))


def _sync(folder: Path) -> None:
    """Bring a whole tree to the disk: one call instead of one for each file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)
