"""The tar file of a layer, made again from its files and what was written down."""

import gzip
import io
import os
import random
import tarfile
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.layers.whiteouts import MARKED
from interpose.node.runtime.images.saving import tar_split
from interpose.node.runtime.images.saving.tar_split import TarSplitWriter, tar_bytes
from tests.support.node.image_files import entry, tar


def unpacked(folder: Path, data: bytes) -> Path:
    """A layer made of a tar file; where it was written down."""
    with TarSplitWriter(folder / "split") as split:
        unpack(io.BytesIO(data), folder / "fs", [], MARKED, split=split)
    assert split.size == (folder / "split").stat().st_size
    return folder / "split"


def remade(folder: Path) -> bytes:
    """The tar file again."""
    return b"".join(tar_bytes(folder / "split", folder / "fs"))


NOISE = random.Random(1).randbytes(3 << 20)
TARS = {
    "nothing": tar([]),
    "files of all sizes": tar(
        [
            entry("a", tarfile.DIRTYPE),
            entry("a/empty"),
            entry("a/small", data=b"x" * 511),
            entry("a/block", data=b"x" * 512),
            entry("b/large", data=NOISE),
            entry("a/again", data=b"y", uid=5, gid=6, mtime=12.5),
        ]
    ),
    "what has no data": tar(
        [
            entry("f", data=b"1"),
            entry("l", tarfile.SYMTYPE, linkname="f"),
            entry("h", tarfile.LNKTYPE, linkname="f"),
            entry("p", tarfile.FIFOTYPE),
            entry(".wh.gone"),
            entry("long/" + "n" * 200, data=b"2"),
        ]
    ),
    "behind a link": tar(
        [entry("real", tarfile.DIRTYPE), entry("link", tarfile.SYMTYPE, linkname="real"), entry("link/f", data=b"3")]
    ),
    "bytes after the end": tar([entry("f", data=b"1")]) + NOISE[:70_000],
    "names that are no text": tar([entry(os.fsdecode(b"\xff\xfe"), data=b"1")]),
}


@pytest.mark.parametrize("name", TARS)
def test_the_same_to_the_last_byte(tmp_path: Path, name: str) -> None:
    """Whatever a tar file is like."""
    unpacked(tmp_path, TARS[name])
    assert remade(tmp_path) == TARS[name]


def test_holes_stay_what_they_are(tmp_path: Path) -> None:
    """A sparse file in GNU's form: the map is written down, the data comes from where it is in the file."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"a" * 4096)
        file.seek(1 << 20)
        file.write(b"b" * 4096)
    archive = tmp_path / "s.tar"
    assert os.system(f"tar --sparse --format=gnu -cf {archive} -C {tmp_path} sparse") == 0
    unpacked(tmp_path, archive.read_bytes())
    assert remade(tmp_path) == archive.read_bytes()


def test_what_many_records_are_kept_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes do not gather in memory."""
    monkeypatch.setattr(tar_split, "_STEP", 64)
    unpacked(tmp_path, TARS["files of all sizes"])
    assert remade(tmp_path) == TARS["files of all sizes"]


def test_a_file_that_came_twice_cannot_be_made_again(tmp_path: Path) -> None:
    """The first one is gone: it is another tar file then, or none."""
    data = tar([entry("f", data=b"first and longer"), entry("f", data=b"second")])
    unpacked(tmp_path, data)
    with pytest.raises(EOFError):
        remade(tmp_path)


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Neither in the place of a file nor on the way to it."""
    unpacked(tmp_path, tar([entry("d", tarfile.DIRTYPE), entry("d/f", data=b"1")]))
    secret = tmp_path / "secret"
    (secret / "d").mkdir(parents=True)
    (secret / "f").write_text("s")
    (tmp_path / "fs/d/f").unlink()
    (tmp_path / "fs/d/f").symlink_to(secret / "f")
    with pytest.raises(OSError, match="symbolic links"):
        remade(tmp_path)
    (tmp_path / "fs/d/f").unlink()
    (tmp_path / "fs/d").rmdir()
    (tmp_path / "fs/d").symlink_to(secret)
    with pytest.raises(OSError, match="Not a directory"):
        remade(tmp_path)


@pytest.mark.parametrize(
    "records",
    [b"R\0", b"R\0\0\0\x05abc", b"F\0\0\0\x10" + bytes(16), b"F\0\0\0\x12" + bytes(15) + b"\x01f\0"],
    ids=["half a head", "half a record", "no file", "a name with a zero"],
)
def test_what_was_damaged_is_found_out(tmp_path: Path, records: bytes) -> None:
    """Before anybody takes it for a layer."""
    (tmp_path / "fs").mkdir()
    (tmp_path / "split").write_bytes(gzip.compress(records))
    with pytest.raises((EOFError, ValueError)):
        remade(tmp_path)
