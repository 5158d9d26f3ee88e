"""The folder of a layer as a tar file."""

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.layers.whiteouts import MARKED, OVERLAY, WhiteoutFormat, detect_format
from interpose.node.runtime.images.saving.repack import repack
from tests.support.node.image_files import entry, tar

BASE = tar([entry("d", tarfile.DIRTYPE), entry("d/x", data=b"x"), entry("o", tarfile.DIRTYPE), entry("o/1", data=b"1")])
LAYER = tar(
    [
        entry("d", tarfile.DIRTYPE, mode=0o750),
        entry("d/.wh.x"),
        entry("d/file", data=b"f" * 600, mode=0o4755, mtime=1234.5),
        entry("d/same", tarfile.LNKTYPE, linkname="d/file"),
        entry("o", tarfile.DIRTYPE),
        entry("o/.wh..wh..opq"),
        entry("link", tarfile.SYMTYPE, linkname="../d//file"),
        entry("pipe", tarfile.FIFOTYPE),
    ]
)


@pytest.fixture(params=["marked", "overlay"])
def form(request: pytest.FixtureRequest, tmp_path: Path) -> WhiteoutFormat:
    """Both forms of layers, as far as they can be written here."""
    if request.param == "overlay" and detect_format(tmp_path) is not OVERLAY:
        pytest.skip("needs root, and a file system with trusted attributes")
    return OVERLAY if request.param == "overlay" else MARKED


def unpacked(folder: Path, data: bytes, below: list[Path], form: WhiteoutFormat) -> Path:
    """A layer."""
    unpack(io.BytesIO(data), folder, below, form)
    return folder


def packed(folder: Path, form: WhiteoutFormat, owner: int | None = None) -> bytes:
    """Its tar file."""
    return b"".join(repack(str(folder), form, owner=owner))


def test_all_that_a_layer_says_is_there(tmp_path: Path, form: WhiteoutFormat) -> None:
    """Also what it hides of the layers below; a second name is one."""
    base = unpacked(tmp_path / "base", BASE, [], form)
    layer = unpacked(tmp_path / "layer", LAYER, [base], form)
    data = packed(layer, form)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {one.name: one for one in archive}
        assert list(members) == [
            *("d", "d/.wh.x", "d/file", "d/same"),
            *("link", "o", "o/.wh..wh..opq", "pipe"),
        ]
        assert (members["d"].mode, members["d/file"].mode, members["d/file"].mtime) == (0o750, 0o4755, 1234.5)
        assert (members["d/same"].islnk(), members["d/same"].linkname) == (True, "d/file")
        assert members["link"].linkname == "../d//file"
        assert members["pipe"].isfifo()
        content = archive.extractfile("d/file")
        assert content is not None
        assert content.read() == b"f" * 600
    assert packed(unpacked(tmp_path / "again", data, [base], form), form) == data


def test_attributes_come_along(tmp_path: Path) -> None:
    """Those that layers may have."""
    (tmp_path / "f").touch()
    try:
        os.setxattr(tmp_path / "f", "user.note", b"\xff\0x")
    except OSError:
        pytest.skip("needs a file system with attributes")
    layer = unpacked(tmp_path / "layer", packed(tmp_path, MARKED), [], MARKED)
    assert os.getxattr(layer / "f", "user.note") == b"\xff\0x"


def test_files_of_who_is_not_root_are_roots(tmp_path: Path) -> None:
    """In a container they are; sockets are in no tar file."""
    (tmp_path / "f").touch()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        with tarfile.open(fileobj=io.BytesIO(packed(tmp_path, MARKED, owner=os.geteuid()))) as archive:
            assert [(one.name, one.uid, one.gid) for one in archive] == [("f", 0, 0)]


def test_a_file_that_becomes_shorter_is_noticed(tmp_path: Path) -> None:
    """Its length was said before."""
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    pieces = repack(str(tmp_path), MARKED)
    next(pieces)
    path.write_bytes(b"1")
    with pytest.raises(EOFError):
        list(pieces)
