"""An archive of images, as `docker save` writes it: docker's manifest.json and an OCI layout over the same blobs, so
that docker, containerd and other tools can read it. Blocking: callers use threads.

Each layer is packed twice, once for its digest and once into the archive: that takes no space on a disk.
"""

import hashlib
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from interpose.node.runtime.images.archive_names import tag_annotations
from interpose.node.runtime.images.layers.tar_reader import BROKEN, StoppedError
from interpose.node.runtime.images.layers.whiteouts import WhiteoutFormat
from interpose.node.runtime.images.manifests import digest_of
from interpose.node.runtime.images.registry.reference import encoded
from interpose.node.runtime.images.saving.repack import repack
from interpose.node.runtime.images.saving.tar_split import tar_bytes

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_LAYOUT: Final = {"imageLayoutVersion": "1.0.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFolder:
    """A layer of the store: its files, its tar-split file, and the digest of its original tar file."""

    files: Path
    split: Path
    diff_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageToSave:
    """An image of the store, to be saved under these names."""

    id: str
    config: bytes
    tags: tuple[str, ...]
    layers: tuple[LayerFolder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedImage:
    """An image in the archive. `id` differs from `was` if layers had to be repacked."""

    id: str
    was: str
    tags: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _PackedLayer:
    digest: str
    size: int
    make: Callable[[], Iterator[bytes]]

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": _LAYER, "digest": self.digest, "size": self.size}


def save_images(
    images: Sequence[ImageToSave], target: IO[bytes], form: WhiteoutFormat, stopped: Callable[[], bool]
) -> list[SavedImage]:
    """Write an archive of images. OSError or ValueError if a layer cannot be read."""
    archive = _Archive(target, stopped)
    saved, docker, manifests = [], [], []
    for image in images:
        layers = [_pack(layer, form, stopped) for layer in image.layers]
        config = _config(image.config, [layer.digest for layer in layers])
        manifest = _document(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _descriptor(config, _CONFIG),
                "layers": [layer.descriptor for layer in layers],
            }
        )
        for layer in layers:
            archive.blob(layer.digest, layer.size, layer.make())
        for data in (config, manifest):
            archive.blob(digest_of(data), len(data), iter((data,)))
        docker.append(
            {
                "Config": _blob_path(digest_of(config)),
                "RepoTags": list(image.tags) or None,
                "Layers": [_blob_path(layer.digest) for layer in layers],
            }
        )
        annotations = [{"annotations": tag_annotations(tag)} for tag in image.tags] or [{}]
        manifests += [_descriptor(manifest, _MANIFEST) | annotation for annotation in annotations]
        size = sum(layer.size for layer in layers)
        saved.append(SavedImage(id=digest_of(config), was=image.id, tags=image.tags, size=size))
    archive.file("index.json", _document({"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests}))
    archive.file("manifest.json", _document(docker))
    archive.file("oci-layout", _document(_LAYOUT))
    archive.close()
    return saved


def _pack(layer: LayerFolder, form: WhiteoutFormat, stopped: Callable[[], bool]) -> _PackedLayer:
    """The original tar file of a layer if it can be rebuilt, else a new one from its files."""

    def original() -> Iterator[bytes]:
        return tar_bytes(layer.split, layer.files)

    def repack_layer() -> Iterator[bytes]:
        return repack(str(layer.files), form, owner=os.geteuid() or None)

    try:
        found = _measure(original, stopped)
    except (OSError, ValueError, *BROKEN):
        found = None
    return found if found is not None and found.digest == layer.diff_id else _measure(repack_layer, stopped)


def _measure(make: Callable[[], Iterator[bytes]], stopped: Callable[[], bool]) -> _PackedLayer:
    digest, size = hashlib.sha256(), 0
    for data in make():
        if stopped():
            raise StoppedError
        digest.update(data)
        size += len(data)
    return _PackedLayer(digest=f"sha256:{digest.hexdigest()}", size=size, make=make)


def _config(data: bytes, diff_ids: Sequence[str]) -> bytes:
    """The config, with the new digests if layers were repacked."""
    document = json.loads(data)
    if document["rootfs"]["diff_ids"] == list(diff_ids):
        return data
    document["rootfs"] = document["rootfs"] | {"diff_ids": list(diff_ids)}
    return _document(document)


class _Archive:
    """A tar file that is written from front to back, each blob once."""

    def __init__(self, target: IO[bytes], stopped: Callable[[], bool]) -> None:
        self._target = target
        self._stopped = stopped
        self._blobs: set[str] = set()

    def blob(self, digest: str, size: int, content: Iterable[bytes]) -> None:
        if digest not in self._blobs:
            self._blobs.add(digest)
            self._add(_blob_path(digest), size, content)

    def file(self, name: str, data: bytes) -> None:
        self._add(name, len(data), (data,))

    def close(self) -> None:
        self._target.write(bytes(2 * tarfile.BLOCKSIZE))

    def _add(self, name: str, size: int, content: Iterable[bytes]) -> None:
        info = tarfile.TarInfo(name)
        info.size = size
        self._target.write(info.tobuf(tarfile.PAX_FORMAT))
        left = size
        for data in content:
            if self._stopped():
                raise StoppedError
            left -= len(data)
            self._target.write(data)
        if left:
            raise ValueError(f"layer {name}: its files have changed meanwhile")
        self._target.write(bytes(-size % tarfile.BLOCKSIZE))


def _descriptor(data: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


def _blob_path(digest: str) -> str:
    return f"blobs/sha256/{encoded(digest)}"


def _document(document: object) -> bytes:
    return json.dumps(document).encode()


def merge_by_id(images: Iterable[ImageToSave]) -> list[ImageToSave]:
    """Each image once, with all names it was requested by."""
    found: dict[str, ImageToSave] = {}
    for image in images:
        known = found.get(image.id)
        tags = () if known is None else known.tags
        found[image.id] = replace(known or image, tags=tuple(dict.fromkeys((*tags, *image.tags))))
    return list(found.values())
