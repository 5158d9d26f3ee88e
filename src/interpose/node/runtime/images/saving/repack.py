"""The folder of a layer as a tar file, for layers without a tar-split file. Blocking.

The same folder always gives the same bytes; they differ from the original tar file, so the layer has another digest.
"""

import os
import stat
import tarfile
from collections.abc import Iterator
from typing import Final

from interpose.node.runtime.images.layers.attributes import Attributes, of_file
from interpose.node.runtime.images.layers.tar_names import OPAQUE, WHITEOUT
from interpose.node.runtime.images.layers.whiteouts import WhiteoutFormat

_STEP: Final = 1 << 20
_SECOND: Final = 1_000_000_000
_END: Final = bytes(2 * tarfile.BLOCKSIZE)
_PAX: Final = "SCHILY.xattr."
_TYPES: Final = {
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}


def repack(folder: str, form: WhiteoutFormat, *, owner: int | None = None) -> Iterator[bytes]:
    """The bytes of the tar file. Files of the user `owner` become root's: an unprivileged store cannot chown."""
    yield from _Packer(form, owner).folder(folder, "")
    yield _END


class _Packer:
    def __init__(self, form: WhiteoutFormat, owner: int | None) -> None:
        self._form = form
        self._owner = owner
        self._linked: dict[tuple[int, int], str] = {}  # names of files with several names, by device and inode

    def folder(self, path: str, name: str) -> Iterator[bytes]:
        """The entries of a folder; whiteouts come first."""
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        if name and self._form.is_opaque(path):
            yield _mark(f"{name}{OPAQUE}")
        rest = []
        for entry in entries:
            if not self._form.is_mark(entry):
                rest.append(entry)
            elif hidden := self._form.hidden_name(entry):
                yield _mark(f"{name}{WHITEOUT}{hidden}")
        for entry in rest:
            yield from self._entry(entry, f"{name}{entry.name}")

    def _entry(self, entry: "os.DirEntry[str]", name: str) -> Iterator[bytes]:
        found = entry.stat(follow_symlinks=False)
        kind = _TYPES.get(stat.S_IFMT(found.st_mode))
        if kind is None:
            return  # a socket: no tar file has them
        info = self._info(name, kind, of_file(entry.path, found))
        known = self._linked.setdefault((found.st_dev, found.st_ino), name) if found.st_nlink > 1 else name
        if kind == tarfile.DIRTYPE:
            yield _header(info)
            yield from self.folder(entry.path, f"{name}/")
        elif known != name:
            info.type, info.linkname = tarfile.LNKTYPE, known
            yield _header(info)
        elif kind == tarfile.REGTYPE:
            info.size = found.st_size
            yield _header(info)
            yield from _content(entry.path, found.st_size)
        else:
            if kind == tarfile.SYMTYPE:
                info.linkname = os.readlink(entry.path)  # noqa: PTH115 - as it is, not tidied
            info.devmajor, info.devminor = os.major(found.st_rdev), os.minor(found.st_rdev)
            yield _header(info)

    def _info(self, name: str, kind: bytes, attributes: Attributes) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.mode = kind, attributes.mode
        info.uid = 0 if attributes.uid == self._owner else attributes.uid
        info.gid = 0 if attributes.uid == self._owner else attributes.gid
        seconds, rest = divmod(attributes.mtime_ns, _SECOND)
        info.mtime = seconds
        headers = {f"{_PAX}{key}": value.decode("utf-8", "surrogateescape") for key, value in attributes.extended}
        info.pax_headers = headers | ({"mtime": f"{seconds}.{rest:09d}"} if rest else {})
        return info


def _mark(name: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.mode = 0o600
    return _header(info)


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _content(path: str, size: int) -> Iterator[bytes]:
    left = size
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - one call for each of many files
        while left and (data := file.read(min(left, _STEP))):
            left -= len(data)
            yield data
    if left:
        raise EOFError
    yield bytes(-size % tarfile.BLOCKSIZE)
