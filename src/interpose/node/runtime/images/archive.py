"""Images in files: what `docker save` writes, OCI archives, and OCI layouts in folders.

An archive is read where it lies; a compressed one is unpacked into a file first. Nothing is ever written by the names
of its entries. Blocking: callers use threads.
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

from interpose.node.runtime.images.archive_names import annotated_names, given_names, read_docker_manifest, with_digest
from interpose.node.runtime.images.layers.tar_reader import (
    BROKEN,
    Readable,
    StoppedError,
    TarBytes,
    decompressed,
    entries,
)
from interpose.node.runtime.images.manifests import (
    MOST_BYTES,
    Descriptor,
    ImageManifest,
    ManifestIndex,
    Platform,
    choose,
    digest_of,
    is_for,
    read_manifest,
)
from interpose.node.runtime.images.registry.reference import encoded, parse_reference

_MOST_ENTRIES: Final = 100_000
_MOST_SIZE: Final = 1 << 42
_MOST_LINKS: Final = 8
_STEP: Final = 1 << 20
_INDEX: Final = "index.json"
_MANIFEST: Final = "manifest.json"


class ArchiveFiles(Protocol):
    """Files by name, of an archive or of a folder."""

    def open(self, name: str) -> IO[bytes]:
        """Open one; FileNotFoundError if there is none."""

    def close(self) -> None:
        """Let go of everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFile:
    """A layer in an archive. `digest` is that of the file as it is, empty if nothing tells it."""

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
        """A file of it; pipes and devices are none."""
        file = open(self._path / name, "rb", opener=_open_at_once)  # noqa: SIM115 - the caller closes it
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise FileNotFoundError(name)
        return file

    def close(self) -> None:
        """Nothing is open."""


class TarArchive:
    """A tar file: where its files are in it."""

    def __init__(self, file: IO[bytes], where: Mapping[str, tuple[int, int]], links: Mapping[str, str]) -> None:
        self._file = file
        self._where = where
        self._links = links

    def open(self, name: str) -> IO[bytes]:
        """A file of it; `docker save` of old has links where two layers are the same."""
        for _ in range(_MOST_LINKS):
            if name in self._where:
                return io.BufferedReader(_Part(self._file, *self._where[name]), _STEP)
            if name not in self._links:
                break
            name = self._links[name]
        raise FileNotFoundError(name)

    def close(self) -> None:
        """Close the tar file."""
        self._file.close()


class _Part(io.RawIOBase):
    """Some of the bytes of a file, for any number of readers at once."""

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
    """The files of an archive or a layout. `spare` is a place for a file. ValueError says what is wrong."""
    if path.is_dir():
        if not (path / _INDEX).is_file():
            raise ValueError(f"it is a folder without {_INDEX}, so it is not an OCI layout")
        return ArchiveFolder(path)
    try:
        file: IO[bytes] = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - the archive closes it
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a regular file")
            source = decompressed(file)
            if source is not file:
                file = _spooled(file, source, spare, stopped)
            return _scan(file, stopped)
        except BaseException:
            file.close()
            raise
    except BROKEN as error:
        raise ValueError(f"it is not a whole tar file: {str(error) or type(error).__name__}") from None


def _spooled(file: IO[bytes], source: Readable, spare: Path, stopped: Callable[[], bool]) -> IO[bytes]:
    """What was compressed, as a file without a name."""
    target = open(spare, "x+b")  # noqa: SIM115, PTH123 - the archive closes it
    try:
        spare.unlink()
        size = 0
        while data := source.read(_STEP):
            size += len(data)
            if stopped():
                raise StoppedError
            if size > _MOST_SIZE:
                raise ValueError(f"it is larger than {_MOST_SIZE} bytes when unpacked")
            target.write(data)
        target.flush()
    except BaseException:
        target.close()
        raise
    file.close()
    return target


def _scan(file: IO[bytes], stopped: Callable[[], bool]) -> TarArchive:
    """Go over the entries once, and remember where files are."""
    file.seek(0)
    where: dict[str, tuple[int, int]] = {}
    links: dict[str, str] = {}
    for member in entries(_Skipping(file, stopped), most=_MOST_ENTRIES):
        name = _plain(member.name)
        if member.isreg() and member.sparse is None:
            where[name] = (member.offset_data, member.size)
        elif member.issym():
            links[name] = _plain(f"{name.rpartition('/')[0]}/{member.linkname}")
        elif member.islnk():
            links[name] = _plain(member.linkname)
    return TarArchive(file, where, links)


class _Skipping(TarBytes):
    """The bytes of a file in which one can go forwards without reading."""

    def __init__(self, file: IO[bytes], stopped: Callable[[], bool]) -> None:
        super().__init__(file, limit=_MOST_SIZE, stopped=stopped)
        self._file = file

    def seek(self, position: int, whence: int = 0, /) -> int:
        at = super().tell()
        if whence != 0 or position < at:
            return super().seek(position, whence)
        end = self._file.seek(0, os.SEEK_END)
        return self.moved(self._file.seek(min(position, end)))

    def drain(self) -> None:
        """Nobody asks for the digest of the whole."""


def _plain(name: str) -> str:
    """A name without what leads nowhere; one that leads out of the archive finds nothing in it."""
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


def named(images: Sequence[FoundImage], given: str) -> list[FoundImage]:
    """The images with the names that somebody gives them, and those that they have."""
    repository = parse_reference(given).repository
    names = given_names([image.tags for image in images], given)
    digests = [tuple(f"{repository}@{one.partition('@')[2]}" for one in image.digests[:1]) for image in images]
    return [
        _merged(image, replace(image, tags=more, digests=of_more))
        for image, more, of_more in zip(images, names, digests, strict=True)
    ]


def _oci_images(files: ArchiveFiles, platform: Platform, base: str) -> list[FoundImage]:
    try:
        index = read_manifest(_read(files, _INDEX), _INDEX)
    except FileNotFoundError:
        return []
    if not isinstance(index, ManifestIndex):
        raise ValueError(f"{_INDEX}: it is not an index")
    by_digest: dict[str, FoundImage] = {}
    ours = [one for one in index.manifests if one.platform is None or is_for(one.platform, platform)]
    if index.manifests and not ours:
        choose(index, platform, _INDEX)  # says which there are
    for one in ours:
        names = annotated_names(one.annotations, base)
        image = _oci_image(files, one, platform, names)
        known = by_digest.get(one.digest)
        by_digest[one.digest] = image if known is None else _merged(known, image)
    return list(by_digest.values())


def _merged(one: FoundImage, other: FoundImage) -> FoundImage:
    return replace(
        one,
        tags=tuple(dict.fromkeys((*one.tags, *other.tags))),
        digests=tuple(dict.fromkeys((*one.digests, *other.digests))),
    )


def _oci_image(files: ArchiveFiles, named: Descriptor, platform: Platform, names: tuple[str, ...]) -> FoundImage:
    """One image; an index stands for the one of its manifests that is for us."""
    at = named
    for _ in range(_MOST_LINKS):
        what = f"manifest {at.digest}"
        found = read_manifest(_blob(files, at, what), what)
        if isinstance(found, ImageManifest):
            break
        at = choose(found, platform, what)
    else:
        raise ValueError(f"manifest {named.digest}: there are indexes in indexes, and no end")
    config = _blob(files, found.config, f"config {found.config.digest}")
    tags = tuple(name for name in names if "@" not in name)
    layers = tuple(LayerFile(name=_place(one), digest=one.digest, size=one.size) for one in found.layers)
    return FoundImage(
        config=config,
        layers=layers,
        tags=tags,
        digests=with_digest(names, named.digest),
        size=at.size + len(config) + sum(one.size for one in layers),
    )


def _docker_images(files: ArchiveFiles) -> list[FoundImage]:
    images = []
    for entry in read_docker_manifest(_read(files, _MANIFEST)):
        config = _needed(files, _plain(entry.config))
        layers = []
        for name in map(_plain, entry.layers):
            try:
                with files.open(name) as file:
                    layers.append(LayerFile(name=name, size=file.seek(0, os.SEEK_END)))
            except FileNotFoundError:
                raise ValueError(f"file {name!a} is named in {_MANIFEST} and not there") from None
        size = len(config) + sum(layer.size for layer in layers)
        images.append(FoundImage(config=config, layers=tuple(layers), tags=entry.tags, size=size))
    return images


def _place(descriptor: Descriptor) -> str:
    return f"blobs/sha256/{encoded(descriptor.digest)}"


def _needed(files: ArchiveFiles, name: str) -> bytes:
    try:
        return _read(files, name)
    except FileNotFoundError:
        raise ValueError(f"file {name!a} is named and not there") from None


def _blob(files: ArchiveFiles, descriptor: Descriptor, what: str) -> bytes:
    data = _needed(files, _place(descriptor))
    if digest_of(data) != descriptor.digest:
        raise ValueError(f"{what}: its content has another digest: it was damaged")
    return data


def _read(files: ArchiveFiles, name: str) -> bytes:
    with files.open(name) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"file {name!a}: it is larger than {MOST_BYTES} bytes")
    return data


def check_layer(files: ArchiveFiles, layer: LayerFile, stopped: Callable[[], bool]) -> None:
    """Whether a layer is there and has its digest; ValueError otherwise."""
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


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
