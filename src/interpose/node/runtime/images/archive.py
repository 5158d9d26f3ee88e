"""Images in files: archives of `docker save`, OCI archives, and OCI layouts in folders.

An archive is read in place; a compressed one is unpacked into a file first. No file is ever written under the name of
an entry. Blocking: callers use threads.
"""

import hashlib
import io
import os
import posixpath
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, Protocol

from interpose.node.runtime.images.archive_names import annotated_names, assign_names, read_docker_manifest, with_digest
from interpose.node.runtime.images.layers.tar_reader import (
    BROKEN,
    Readable,
    StoppedError,
    TarBytes,
    decompress,
    entries,
)
from interpose.node.runtime.images.manifests import (
    MAX_BYTES,
    Descriptor,
    ImageManifest,
    ManifestIndex,
    Platform,
    choose_manifest,
    digest_of,
    is_for,
    read_manifest,
)
from interpose.node.runtime.images.registry.reference import encoded, parse_reference

_MAX_ENTRIES: Final = 100_000
_MAX_SIZE: Final = 1 << 42
_MAX_LINKS: Final = 8
_STEP: Final = 1 << 20
_INDEX: Final = "index.json"
_MANIFEST: Final = "manifest.json"


class ArchiveFiles(Protocol):
    """Files by name, of an archive or of a folder."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading; FileNotFoundError if there is none."""

    def close(self) -> None:
        """Close the archive; open files stay open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFile:
    """A layer in an archive. `digest` is that of the file as it is, empty if the archive does not have it."""

    name: str
    digest: str = ""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundImage:
    """An image in an archive."""

    config: bytes
    layers: tuple[LayerFile, ...]
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int


class ArchiveFolder:
    """An OCI layout as a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, name: str) -> IO[bytes]:
        """Open a regular file of the layout; FileNotFoundError for pipes and devices, too."""
        file = open(self._path / name, "rb", opener=_open_nonblocking)  # noqa: SIM115 - the caller closes it
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise FileNotFoundError(name)
        return file

    def close(self) -> None:
        """Do nothing: a folder has nothing to close."""


class TarArchive:
    """A tar file with the positions of its files: (offset, size) by name."""

    def __init__(self, file: IO[bytes], positions: Mapping[str, tuple[int, int]], links: Mapping[str, str]) -> None:
        self._file = file
        self._positions = positions
        self._links = links

    def open(self, name: str) -> IO[bytes]:
        """Open a file; an old `docker save` has links where two layers are the same."""
        for _ in range(_MAX_LINKS):
            if name in self._positions:
                return io.BufferedReader(_FileRange(self._file, *self._positions[name]), _STEP)
            if name not in self._links:
                break
            name = self._links[name]
        raise FileNotFoundError(name)

    def close(self) -> None:
        """Close the tar file."""
        self._file.close()


class _FileRange(io.RawIOBase):
    """A range of the bytes of a file, for any number of readers at once."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        wanted = min(len(buffer), self._size - self._at)
        data = os.pread(self._file.fileno(), wanted, self._start + self._at) if wanted > 0 else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, min(base + offset, self._size))
        return self._at


def open_files(path: Path, spare: Path, stopped: Callable[[], bool]) -> ArchiveFiles:
    """Open an archive or a layout. `spare` is a path for a temporary file. ValueError for a bad archive."""
    if path.is_dir():
        if not (path / _INDEX).is_file():
            raise ValueError(f"it is a folder without {_INDEX}, so it is not an OCI layout")
        return ArchiveFolder(path)
    try:
        file: IO[bytes] = open(path, "rb", opener=_open_nonblocking)  # noqa: SIM115 - the archive closes it
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a regular file")
            source = decompress(file)
            if source is not file:
                file = _decompress_to_file(file, source, spare, stopped)
            return _scan(file, stopped)
        except BaseException:
            file.close()
            raise
    except BROKEN as error:
        raise ValueError(f"it is not a whole tar file: {str(error) or type(error).__name__}") from None


def _decompress_to_file(file: IO[bytes], source: Readable, spare: Path, stopped: Callable[[], bool]) -> IO[bytes]:
    """Write the decompressed bytes to an unlinked temporary file."""
    target = open(spare, "x+b")  # noqa: SIM115, PTH123 - the archive closes it
    try:
        spare.unlink()
        size = 0
        while data := source.read(_STEP):
            size += len(data)
            if stopped():
                raise StoppedError
            if size > _MAX_SIZE:
                raise ValueError(f"it is larger than {_MAX_SIZE} bytes when unpacked")
            target.write(data)
        target.flush()
    except BaseException:
        target.close()
        raise
    file.close()
    return target


def _scan(file: IO[bytes], stopped: Callable[[], bool]) -> TarArchive:
    """Read all entry headers once, for the positions of the files."""
    file.seek(0)
    positions: dict[str, tuple[int, int]] = {}
    links: dict[str, str] = {}
    for member in entries(_SeekableTarBytes(file, stopped), most=_MAX_ENTRIES):
        name = _normalize(member.name)
        if member.isreg() and member.sparse is None:
            positions[name] = (member.offset_data, member.size)
        elif member.issym():
            links[name] = _normalize(f"{name.rpartition('/')[0]}/{member.linkname}")
        elif member.islnk():
            links[name] = _normalize(member.linkname)
    return TarArchive(file, positions, links)


class _SeekableTarBytes(TarBytes):
    """The bytes of a seekable file: data of entries is skipped without reading."""

    def __init__(self, file: IO[bytes], stopped: Callable[[], bool]) -> None:
        super().__init__(file, limit=_MAX_SIZE, stopped=stopped)
        self._file = file

    def seek(self, position: int, whence: int = 0, /) -> int:
        at = super().tell()
        if whence != 0 or position < at:
            return super().seek(position, whence)
        end = self._file.seek(0, os.SEEK_END)
        return self.set_position(self._file.seek(min(position, end)))

    def drain(self) -> None:
        """Do nothing: the digest of an archive is not needed."""


def _normalize(name: str) -> str:
    """The name without `.` and `..`; one that leads out of the archive matches no entry."""
    return posixpath.normpath("/" + name).lstrip("/")


def find_images(files: ArchiveFiles, platform: Platform, *, base: str = "") -> list[FoundImage]:
    """The images of an archive or layout for a platform; `base` is the name of those that have only a tag."""
    found = _oci_images(files, platform, base)
    if not any(image.tags for image in found):
        with suppress(FileNotFoundError):
            found = _docker_images(files) or found
    if not found:
        raise ValueError(f"it has no image in it: neither {_MANIFEST} of Docker nor {_INDEX} of OCI")
    return found


def add_name(images: Sequence[FoundImage], name: str) -> list[FoundImage]:
    """The images with an additional name from the caller."""
    repository = parse_reference(name).repository
    tags = assign_names([image.tags for image in images], name)
    digests = [tuple(f"{repository}@{digest.partition('@')[2]}" for digest in image.digests[:1]) for image in images]
    return [
        _merge_names(image, replace(image, tags=new_tags, digests=new_digests))
        for image, new_tags, new_digests in zip(images, tags, digests, strict=True)
    ]


def _oci_images(files: ArchiveFiles, platform: Platform, base: str) -> list[FoundImage]:
    try:
        index = read_manifest(_read(files, _INDEX), _INDEX)
    except FileNotFoundError:
        return []
    if not isinstance(index, ManifestIndex):
        raise ValueError(f"{_INDEX}: it is not an index")
    by_digest: dict[str, FoundImage] = {}
    matching = [entry for entry in index.manifests if entry.platform is None or is_for(entry.platform, platform)]
    if index.manifests and not matching:
        choose_manifest(index, platform, _INDEX)  # raises with the platforms that there are
    for entry in matching:
        names = annotated_names(entry.annotations, base)
        image = _oci_image(files, entry, platform, names)
        known = by_digest.get(entry.digest)
        by_digest[entry.digest] = image if known is None else _merge_names(known, image)
    return list(by_digest.values())


def _merge_names(image: FoundImage, other: FoundImage) -> FoundImage:
    return replace(
        image,
        tags=tuple(dict.fromkeys((*image.tags, *other.tags))),
        digests=tuple(dict.fromkeys((*image.digests, *other.digests))),
    )


def _oci_image(files: ArchiveFiles, named: Descriptor, platform: Platform, names: tuple[str, ...]) -> FoundImage:
    """The image of a manifest, or of the manifest for our platform in an index."""
    at = named
    for _ in range(_MAX_LINKS):
        subject = f"manifest {at.digest}"
        found = read_manifest(_blob(files, at, subject), subject)
        if isinstance(found, ImageManifest):
            break
        at = choose_manifest(found, platform, subject)
    else:
        raise ValueError(f"manifest {named.digest}: there are indexes in indexes, and no end")
    config = _blob(files, found.config, f"config {found.config.digest}")
    tags = tuple(name for name in names if "@" not in name)
    layers = tuple(LayerFile(name=_blob_path(layer), digest=layer.digest, size=layer.size) for layer in found.layers)
    return FoundImage(
        config=config,
        layers=layers,
        tags=tags,
        digests=with_digest(names, named.digest),
        size=at.size + len(config) + sum(layer.size for layer in layers),
    )


def _docker_images(files: ArchiveFiles) -> list[FoundImage]:
    images = []
    for entry in read_docker_manifest(_read(files, _MANIFEST)):
        config = _read_named(files, _normalize(entry.config))
        layers = []
        for name in map(_normalize, entry.layers):
            try:
                with files.open(name) as file:
                    layers.append(LayerFile(name=name, size=file.seek(0, os.SEEK_END)))
            except FileNotFoundError:
                raise ValueError(f"file {name!a} is named in {_MANIFEST} and not there") from None
        size = len(config) + sum(layer.size for layer in layers)
        images.append(FoundImage(config=config, layers=tuple(layers), tags=entry.tags, size=size))
    return images


def _blob_path(descriptor: Descriptor) -> str:
    return f"blobs/sha256/{encoded(descriptor.digest)}"


def _read_named(files: ArchiveFiles, name: str) -> bytes:
    try:
        return _read(files, name)
    except FileNotFoundError:
        raise ValueError(f"file {name!a} is named and not there") from None


def _blob(files: ArchiveFiles, descriptor: Descriptor, subject: str) -> bytes:
    data = _read_named(files, _blob_path(descriptor))
    if digest_of(data) != descriptor.digest:
        raise ValueError(f"{subject}: its content has another digest: it was damaged")
    return data


def _read(files: ArchiveFiles, name: str) -> bytes:
    with files.open(name) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"file {name!a}: it is larger than {MAX_BYTES} bytes")
    return data


def check_layer(files: ArchiveFiles, layer: LayerFile, stopped: Callable[[], bool]) -> None:
    """ValueError if a layer is missing or its digest is wrong."""
    digest = hashlib.sha256()
    try:
        with files.open(layer.name) as file:
            while layer.digest and (data := file.read(_STEP)):
                if stopped():
                    raise StoppedError
                digest.update(data)
    except FileNotFoundError:
        raise ValueError(f"layer {layer.digest or layer.name!a}: it is not there") from None
    if layer.digest and f"sha256:{digest.hexdigest()}" != layer.digest:
        raise ValueError(f"layer {layer.digest}: its content has another digest: it was damaged")


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
