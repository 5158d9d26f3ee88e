"""An image store on disk, for any number of processes at once. Blocking: callers use threads.

    store.json            the whiteout format of the layers
    index.json            images and their names
    configs/HEX           configs of images, by digest
    layers/HEX/fs         unpacked layers, by chain id
    layers/HEX/layer.json their size in bytes and inodes
    layers/HEX/tar-split  their tar files without the file contents; not in layers of older versions
    holds/ID              which layers a container needs
    work/                 staging folders of processes, with the layers that they claim
    lock                  held while something of the above changes

Invariant: everything outside of work/ was put there in one step, complete. An image is in the index only when all of
its layers are there, and layers go only when no image, no hold and no process that imports names them.
"""

import ctypes
import errno
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
from interpose.host.file_lock import open_locked
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
_UNFINISHED: Final = re.compile(r".*\.[0-9]+\.tmp")  # an unfinished file of a killed process
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))

_log = logging.getLogger(__name__)


class ImageDisk:
    """A store on disk. `durable`: layers are synced before they are visible."""

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root
        self.form: WhiteoutFormat = MARKED
        self._durable = durable
        self._work = StagingDir(root / "work")
        self._index: tuple[object, ImageIndex] = (
            None,
            ImageIndex(),
        )  # with the identity of the file; one value, for threads
        self._logged_error = ""  # the last error that was logged about the index
        self._configs: dict[str, ImageConfig] = {}
        self._costs: dict[str, tuple[int, int]] = {}

    def open(self) -> list[str]:
        """Make missing folders, and remove leftovers of killed processes; their names. ConfigError if it is no store.

        A leftover that cannot be removed is logged.
        """
        self.root.mkdir(mode=0o711, parents=True, exist_ok=True)
        for name in _FOLDERS:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)
        with self.locked():
            self.form = self._read_format()
            self.index()
            try:
                return self._remove_leftovers()
            except OSError as error:
                _log.warning("Failed to remove leftover image data", extra=kv(err=str(error)))
                return []

    def _remove_leftovers(self) -> list[str]:
        removed = self._work.remove_abandoned()
        for name in ("index.json", "store.json"):
            remove_leftovers(str(self.root / name))
        return removed

    def close(self) -> None:
        """Remove the staging folder of this process."""
        self._work.close()

    def _read_format(self) -> WhiteoutFormat:
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
        """Hold the lock of the store: no other process changes it."""
        descriptor = open_locked(self.root / "lock")
        try:
            yield
        finally:
            os.close(descriptor)

    def index(self) -> ImageIndex:
        """The current index, whichever process changed it; ConfigError if it cannot be read."""
        path = self.root / "index.json"
        try:
            found = path.stat()
        except FileNotFoundError:
            return ImageIndex()
        identity = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = self._index
        if identity != known[0]:
            try:
                known = self._index = (identity, read_index(path.read_bytes()))
            except ValueError as error:
                raise ConfigError(f"file {path}: {error}") from None
        return known[1]

    def cached_index(self) -> ImageIndex:
        """The current index, or the last good one if the file cannot be read any more. For read access only."""
        try:
            return self.index()
        except (ConfigError, OSError) as error:
            if self._index[0] is None:
                raise
            if str(error) != self._logged_error:
                self._logged_error = str(error)
                _log.error("Failed to read image index; keeping the one in memory", extra=kv(err=str(error)))
            return self._index[1]

    def change(self, edit: Callable[[ImageIndex], ImageIndex]) -> ImageIndex:
        """Change the index. The caller holds the lock."""
        index = self.index()
        changed = edit(index)
        if changed != index:
            replace_file(str(self.root / "index.json"), write_index(changed))
        return changed

    def shrink(self, edit: Callable[[ImageIndex], ImageIndex]) -> bool:
        """Change the index so that images are removed; True if it changed. Works on a full disk, too.

        There may be no space for a smaller index beside the old one. An image without its config cannot be used, so the
        config is removed first, with all that is unused then.
        """
        with self.locked():
            before = self.index()
            after = edit(before)
            try:
                return self.change(edit) != before
            except OSError as error:
                gone = [entry.id for entry in before.entries if after.get(entry.id) is None]
                if error.errno not in _FULL or not gone:
                    raise
            for image_id in gone:
                self._configs.pop(image_id, None)
                (self.root / "configs" / encoded(image_id)).unlink(missing_ok=True)
        self.collect()
        with self.locked():
            self.change(edit)
        return True

    def config(self, image_id: str) -> ImageConfig:
        """The config of an image; ValueError or OSError if it was removed or is damaged."""
        known = self._configs.get(image_id)
        if known is None:
            known = self._configs[image_id] = read_config(self.config_data(image_id), f"config {image_id}")
        return known

    def put_config(self, image_id: str, data: bytes) -> None:
        """Write the config of an image."""
        replace_file(str(self.root / "configs" / encoded(image_id)), data)

    def config_data(self, image_id: str) -> bytes:
        """The config blob of an image."""
        return (self.root / "configs" / encoded(image_id)).read_bytes()

    # -- layers

    def free(self) -> int:
        """Free bytes of the file system."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def layer(self, chain_id: str) -> Path:
        """The folder with the files of a layer."""
        return self.root / "layers" / encoded(chain_id) / "fs"

    def split(self, chain_id: str) -> Path:
        """The tar-split file of a layer."""
        return self.root / "layers" / encoded(chain_id) / SPLIT

    def has_layer(self, chain_id: str) -> bool:
        """Whether a layer is in the store."""
        return self.layer(chain_id).is_dir()

    def new_path(self, kind: str) -> Path:
        """A new path in the staging folder of this process."""
        return self._work.new_path(kind)

    def put_layer(self, chain_id: str, staged: Path, unpacked: UnpackResult) -> None:
        """Move a staged layer, with its files in `fs`, into the store. The layer of a faster process stays."""
        cost = {"diff_id": unpacked.diff_id, "size": unpacked.size, "inodes": unpacked.inodes}
        (staged / "layer.json").write_text(json.dumps(cost), encoding="utf-8")
        if self._durable:
            _sync(staged)
        try:
            staged.rename(self.root / "layers" / encoded(chain_id))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            discard(staged)

    @contextmanager
    def claim_layers(self, chain: Sequence[str]) -> Iterator[None]:
        """Keep these layers, present and future ones, from being removed."""
        with ExitStack() as stack:
            with self.locked():
                stack.enter_context(self._work.claim(map(encoded, chain)))
            yield

    def collect(self) -> list[str]:
        """Remove layers and configs that are not used; returns the names of the layers."""
        trash = []
        removed: list[str] = []
        with self.locked():
            images, needed = {encoded(entry.id) for entry in self.index().entries}, self._needed()
            for path in self._garbage("configs", images):
                with _log_errors(path):
                    path.unlink()
                    self._configs.pop(f"sha256:{path.name}", None)
            for path in self._garbage("layers", needed):
                with _log_errors(path):
                    gone = self._move_to_trash(path)
                    self._costs.pop(path.name, None)
                    trash.append(gone)
                    removed.append(path.name)
        for path in trash:
            discard(path)
        return removed

    def _move_to_trash(self, path: Path) -> Path:
        try:
            return path.rename(self._work.new_path("gone"))
        except OSError as error:
            if error.errno not in _FULL:
                raise
        # A new name in the same folder needs no space. It is not the name of a layer, so it is garbage.
        return path.rename(path.with_name(f"{path.name}.{os.getpid()}.gone"))

    def _garbage(self, folder: str, needed: set[str]) -> list[Path]:
        return [path for path in (self.root / folder).iterdir() if path.name not in needed]

    def _needed(self) -> set[str]:
        """The layers that are used. OSError if a hold cannot be read: then all layers stay."""
        needed = self._work.claimed()
        for container_id, hold in self.holds().items():
            if "chain" not in hold:
                problem = "it does not say which layers the container needs: none are removed while it is there"
                raise OSError(errno.EBADMSG, problem, str(self.root / "holds" / container_id))
            needed.update(map(encoded, hold["chain"]))
        for entry in self.index().entries:
            with suppress(FileNotFoundError, ValueError):  # an image without its config cannot be used
                needed.update(map(encoded, chain_ids(self.config(entry.id).diff_ids)))
        return needed

    # -- holds

    def hold(self, container_id: str, image_id: str, chain: tuple[str, ...]) -> None:
        """Keep layers for a container; ValueError if one was removed."""
        if not _CONTAINER.fullmatch(container_id):
            raise ValueError(f"container id {container_id[:200]!r}: it cannot be the name of a file")
        with self.locked():
            missing = [chain_id for chain_id in chain if not self.has_layer(chain_id)]
            if missing:
                raise ValueError(f"image {image_id}: it was removed: layer {missing[0]} is not there any more")
            document = json.dumps({"image": image_id, "chain": list(chain)})
            replace_file(str(self.root / "holds" / container_id), document.encode())

    def release(self, container_id: str) -> bool:
        """Remove the holds of a container, also `container_id.something`; True if there were any."""
        if not _CONTAINER.fullmatch(container_id):
            return False
        with self.locked():
            names = os.listdir(self.root / "holds")  # noqa: PTH208 - only the names: there may be many
            held = [name for name in names if name == container_id or name.startswith(f"{container_id}.")]
            for name in held:
                (self.root / "holds" / name).unlink()
        return bool(held)

    def holds(self) -> dict[str, dict[str, Any]]:
        """Image and chain of each hold, by container id. A hold that cannot be read has no chain."""
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
    return document if isinstance(chain, list) and all(isinstance(chain_id, str) for chain_id in chain) else {}


@contextmanager
def _log_errors(path: Path) -> Iterator[None]:
    """Log an OSError: the removal goes on with the next path."""
    try:
        yield
    except OSError as error:
        _log.warning("Failed to remove unused data", extra=kv(path=str(path), err=str(error)))


def _sync(folder: Path) -> None:
    """Sync a whole tree to the disk: one call instead of one for each file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)
