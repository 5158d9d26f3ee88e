"""Layers from anybody are unpacked, and nothing gets out of their folder."""

import errno
import gzip
import io
import os
import stat
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.tar_reader import StoppedError
from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.layers.whiteouts import MARKED, detect_format
from interpose.node.runtime.images.types import UnpackLimits, UnpackResult
from tests.support.node.image_files import digest, entry, layer, tar

Unpack = Callable[..., UnpackResult]
ROOT = os.geteuid() == 0


@pytest.fixture
def unpack_in(tmp_path: Path) -> Unpack:
    """Unpacks bytes into `layer`; beside it is a folder that nobody may touch."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("untouched")

    def run(
        data: bytes, *, name: str = "layer", below: Sequence[str] = (), limits: UnpackLimits | None = None
    ) -> UnpackResult:
        form = detect_format(tmp_path)
        return unpack(io.BytesIO(data), tmp_path / name, [tmp_path / one for one in below], form, limits=limits)

    return run


def outside(tmp_path: Path) -> dict[str, str]:
    """What is beside the layer."""
    return {path.name: path.read_text() for path in (tmp_path / "outside").iterdir()}


def test_files_have_what_the_entries_say(unpack_in: Unpack, tmp_path: Path) -> None:
    """Content, mode and time; owners too for root."""
    data = tar(
        [
            entry("bin", tarfile.DIRTYPE, mode=0o711, mtime=5),
            entry("bin/su", data=b"#!", mode=0o4755, mtime=7, uid=12, gid=34),
            entry("bin/link", tarfile.SYMTYPE, linkname="su", mtime=8),
            entry("bin/hard", tarfile.LNKTYPE, linkname="bin/su"),
            entry("pipe", tarfile.FIFOTYPE),
        ]
    )
    found = unpack_in(data)
    top = tmp_path / "layer"
    assert found.diff_id == digest(data)
    assert found.inodes == 5
    assert ((top / "bin").stat().st_mtime, stat.S_IMODE((top / "bin").stat().st_mode) & 0o077) == (5, 0o011)
    assert (stat.S_IMODE((top / "bin/su").stat().st_mode), (top / "bin/su").stat().st_mtime) == (0o4755, 7)
    assert (top / "bin/link").readlink() == Path("su")
    assert (top / "bin/link").lstat().st_mtime == 8
    assert (top / "bin/hard").samefile(top / "bin/su")
    assert stat.S_ISFIFO((top / "pipe").stat().st_mode)
    if ROOT:
        assert ((top / "bin/su").stat().st_uid, (top / "bin/su").stat().st_gid) == (12, 34)


def test_who_is_not_root_can_read_and_remove_what_it_made(tmp_path: Path) -> None:
    """Modes that would keep the owner out are widened, owners and capabilities left out."""
    info, _ = entry("dir/file", data=b"", mode=0o000, uid=12)
    info.pax_headers = {"SCHILY.xattr.security.capability": "x"}
    data = tar([entry("dir", tarfile.DIRTYPE, mode=0o000, uid=12), (info, b"")])
    unpack(io.BytesIO(data), tmp_path / "layer", [], MARKED, privileged=False)
    assert stat.S_IMODE((tmp_path / "layer/dir").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "layer/dir/file").stat().st_mode) == 0o600
    assert (tmp_path / "layer/dir/file").stat().st_uid == os.geteuid()


def test_attributes_of_users_are_kept_and_those_of_overlay_are_not(unpack_in: Unpack, tmp_path: Path) -> None:
    """A layer must not tell overlay what to do."""
    info, _ = entry("file")
    info.pax_headers = {"SCHILY.xattr.user.a": "b\udcff", "SCHILY.xattr.trusted.overlay.redirect": "/"}
    try:
        os.setxattr(tmp_path, "user.trial", b"")
    except OSError:
        pytest.skip("the file system has no attributes")
    unpack_in(tar([(info, b"")]))
    assert os.getxattr(tmp_path / "layer/file", "user.a") == b"b\xff"
    assert "trusted.overlay.redirect" not in os.listxattr(tmp_path / "layer/file")


def test_holes_take_no_room(unpack_in: Unpack, tmp_path: Path) -> None:
    """A sparse file is sparse."""
    info, data = entry("x", data=b"ab")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1,1000000,1"}
    info.pax_headers |= {"GNU.sparse.size": "2000000", "GNU.sparse.name": "hole"}
    unpack_in(tar([(info, data)]))
    found = tmp_path / "layer/hole"
    content = found.read_bytes()
    assert (len(content), content[:1], content[1_000_000:1_000_001]) == (2_000_000, b"a", b"b")
    assert found.stat().st_blocks * 512 < 1_000_000


def test_long_names_and_strange_ones_are_names(unpack_in: Unpack, tmp_path: Path) -> None:
    """Pax and GNU headers, and bytes that are not text."""
    name = "/".join(["d" * 200] * 3)
    unpack_in(tar([entry(name), entry("\udcff\n")]))
    assert (tmp_path / "layer" / name).exists()
    assert (tmp_path / "layer" / "\udcff\n").exists()


def test_an_empty_layer_is_one(unpack_in: Unpack) -> None:
    """Tools write them."""
    assert unpack_in(gzip.compress(bytes(1024))).inodes == 1


def test_a_place_behind_a_link_below_is_where_the_link_leads(unpack_in: Unpack, tmp_path: Path) -> None:
    """As if the layers below were there; folders on the way look as they do below."""
    unpack_in(layer({"usr/": 0o755, "usr/lib/": 0o711, "lib": "-> usr/lib"}), name="base")
    unpack_in(layer({"lib/x.so": "x"}), below=["base"])
    assert (tmp_path / "layer/usr/lib/x.so").read_text() == "x"
    assert not (tmp_path / "layer/lib").exists()
    assert stat.S_IMODE((tmp_path / "layer/usr/lib").stat().st_mode) & 0o077 == 0o011


def test_a_hard_link_to_a_layer_below_is_one_to_a_copy(unpack_in: Unpack, tmp_path: Path) -> None:
    """Both names are in this layer then."""
    unpack_in(layer({"a/file": "x"}), name="base")
    unpack_in(layer({"b": "= a/file"}), below=["base"])
    assert (tmp_path / "layer/b").samefile(tmp_path / "layer/a/file")
    assert not (tmp_path / "layer/b").samefile(tmp_path / "base/a/file")


# Each would write, read or remove something outside of the layer, if it were believed.
MALICIOUS = {
    "a name with ..": [entry("../outside/file", data=b"evil")],
    "a name with .. inside": [entry("a/../../outside/file", data=b"evil")],
    "a hard link with ..": [entry("x", tarfile.LNKTYPE, linkname="../outside/file")],
    "a hard link to the host": [entry("x", tarfile.LNKTYPE, linkname="/etc/passwd")],
    "a hard link to a folder": [entry("d", tarfile.DIRTYPE), entry("x", tarfile.LNKTYPE, linkname="d")],
    "a whiteout of the parent": [entry("a/.wh...", data=b"")],
    "a whiteout of the folder": [entry("a/.wh..", data=b"")],
    "a file below a file": [entry("a"), entry("a/b", data=b"evil")],
    "links in a circle": [
        entry("a", tarfile.SYMTYPE, linkname="b"),
        entry("b", tarfile.SYMTYPE, linkname="a"),
        entry("a/x", data=b"evil"),
    ],
    "a root that is a file": [entry(".", data=b"evil")],
    "a root that is a link": [entry("/", tarfile.SYMTYPE, linkname="../outside")],
    "an unknown type": [entry("x", b"Z")],
    "an owner that is none": [entry("x", uid=1 << 33)],
    "a time that is none": [entry("x", mtime=1e300)],
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_a_malicious_layer_is_refused(name: str, unpack_in: Unpack, tmp_path: Path) -> None:
    """With the entry it is about, and nothing outside was touched."""
    with pytest.raises(ValueError, match="entry "):
        unpack_in(tar(MALICIOUS[name]))
    assert outside(tmp_path) == {"file": "untouched"}


# Each is harmless, since its links lead nowhere but inside.
CONTAINED: dict[str, tuple[list[tuple[str, str | None]], str]] = {
    "a link to outside as parent": ([("up", "../outside"), ("up/file", None)], "outside/file"),
    "an absolute link as parent": ([("up", "/outside"), ("up/file", None)], "outside/file"),
    "links one after the other": ([("a", ".."), ("b", "a/../.."), ("b/outside/file", None)], "outside/file"),
    "a link in the middle": ([("d/up", "../.."), ("d/up/outside/file", None)], "outside/file"),
    "an absolute name": ([("/outside/file", None)], "outside/file"),
    "a link in the place of the file": ([("file", "../outside/file"), ("file", None)], "file"),
}


@pytest.mark.parametrize("name", CONTAINED)
def test_links_lead_nowhere_but_inside(name: str, unpack_in: Unpack, tmp_path: Path) -> None:
    """The file is in the layer, and the one outside is as it was."""
    entries, place = CONTAINED[name]
    unpack_in(
        tar(
            [
                entry(one, tarfile.SYMTYPE, linkname=target) if target else entry(one, data=b"evil")
                for one, target in entries
            ]
        )
    )
    assert (tmp_path / "layer" / place).read_bytes() == b"evil"
    assert outside(tmp_path) == {"file": "untouched"}


def test_a_whiteout_behind_a_link_removes_nothing_outside(unpack_in: Unpack, tmp_path: Path) -> None:
    """Nor does a folder that is sealed there."""
    unpack_in(layer({"up": "-> ../outside", "up/.wh.file": "", "up/.wh..wh..opq": ""}))
    assert outside(tmp_path) == {"file": "untouched"}


def test_a_link_cannot_be_put_in_the_place_of_a_folder_in_use(unpack_in: Unpack, tmp_path: Path) -> None:
    """The folder goes with what is in it; what comes next is where the link leads, inside."""
    unpack_in(layer({"a/x": "1", "a": "-> ../outside", "a/file": "evil"}))
    assert (tmp_path / "layer/outside/file").read_text() == "evil"
    assert outside(tmp_path) == {"file": "untouched"}


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (UnpackLimits(size=5000), "larger than 5000 bytes"),
        (UnpackLimits(entries=1), "more than 1 entries"),
        (UnpackLimits(file=10), "entry 'a': it is larger than 10 bytes"),
    ],
)
def test_what_a_layer_costs_is_bounded(limits: UnpackLimits, problem: str, unpack_in: Unpack) -> None:
    """A small file cannot unfold into anything."""
    with pytest.raises(ValueError, match=problem):
        unpack_in(gzip.compress(layer({"a": "x" * 20_000, "b": ""})), limits=limits)


@pytest.mark.parametrize("data", [b"", b"no tar file", b"\x1f\x8bno gzip", gzip.compress(layer({"a": "x"}))[:-9]])
def test_what_is_no_tar_file_is_refused(data: bytes, unpack_in: Unpack) -> None:
    """Also half of one."""
    with pytest.raises(ValueError, match="it is not a whole tar file"):
        unpack_in(data)


def test_a_device_0_0_is_a_whiteout(unpack_in: Unpack, tmp_path: Path) -> None:
    """That is what overlay takes it for."""
    unpack_in(layer({"x": "1"}), name="base")
    unpack_in(tar([entry("x", tarfile.CHRTYPE)]), below=["base"])
    assert not (tmp_path / "layer/x").is_file()
    assert detect_format(tmp_path).is_hidden(str(tmp_path / "layer"), "x")


def test_a_whole_layer_can_be_hidden(unpack_in: Unpack, tmp_path: Path) -> None:
    """Overlay does not read that of a root: each name is hidden."""
    unpack_in(layer({"a/x": "", "b": "", "c/y": ""}), name="base")
    unpack_in(layer({"a/": 0o755, ".wh..wh..opq": "", "d": ""}), below=["base"])
    form, top = detect_format(tmp_path), str(tmp_path / "layer")
    assert form.is_hidden(top, "b")
    assert form.is_hidden(top, "c")
    assert form.is_opaque(f"{top}/a")
    assert not form.is_hidden(top, "d")


def test_devices_that_may_not_be_made_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers get theirs elsewhere."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "mknod", refuse)
    data = tar([entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3)])
    assert unpack(io.BytesIO(data), tmp_path / "layer", [], MARKED).skipped == 1


def test_whoever_does_not_want_it_any_more_stops_it(tmp_path: Path) -> None:
    """In the middle."""
    with pytest.raises(StoppedError):
        unpack(io.BytesIO(layer({"a": "x"})), tmp_path / "layer", [], MARKED, stopped=lambda: True)


def test_the_root_has_what_its_entry_says(unpack_in: Unpack, tmp_path: Path) -> None:
    """Most tools begin with it; without one it looks as below."""
    unpack_in(tar([entry("./", tarfile.DIRTYPE, mode=0o711, mtime=9), entry("./x")]), name="base")
    unpack_in(layer({"y": ""}), below=["base"])
    for name in ("base", "layer"):
        found = (tmp_path / name).stat()
        assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o711, 9)


def test_what_an_old_file_system_kept_for_itself_is_left_out(unpack_in: Unpack, tmp_path: Path) -> None:
    """It is in images that were made long ago."""
    unpack_in(layer({".wh..wh.plnk/": 0o755, ".wh..wh.aufs": "x", "a": ""}))
    assert [path.name for path in (tmp_path / "layer").iterdir()] == ["a"]


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, OSError), (errno.EINVAL, ValueError)])
def test_a_full_disk_is_not_the_fault_of_the_layer(
    number: int, kind: type[Exception], unpack_in: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the layer is to blame for names its entry."""

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(kind, match=os.strerror(number)) as caught:
        unpack_in(layer({"a": "x"}))
    assert ("entry 'a'" in str(caught.value)) == (kind is ValueError)


def test_folders_come_again_where_something_else_was(unpack_in: Unpack, tmp_path: Path) -> None:
    """Nothing of the layers below shines through then."""
    unpack_in(layer({"a/old": "", "b/old": ""}), name="base")
    unpack_in(layer({"a": "file", "a/": 0o755, ".wh.b": "", "b/new": ""}), below=["base"])
    form, top = detect_format(tmp_path), tmp_path / "layer"
    assert form.is_opaque(str(top / "a"))
    assert form.is_opaque(str(top / "b"))
    assert (top / "b/new").exists()


def test_a_layer_that_is_too_deep_is_refused(unpack_in: Unpack) -> None:
    """As deep as may be is fine, with the same again below it."""
    unpack_in(tar([entry("d/" * 255 + "d", tarfile.DIRTYPE)]), name="low")
    unpack_in(tar([entry("d/" * 255 + "f")]), name="high", below=("low",))
    with pytest.raises(ValueError, match="inside of 256 folders"):
        unpack_in(tar([entry("d/" * 256 + "f")]))


def test_folders_that_are_only_implied_count(unpack_in: Unpack) -> None:
    """They cost as much as those that have an entry."""
    with pytest.raises(ValueError, match="more than 20 files and folders"):
        unpack_in(tar([entry("d/" * 20 + "f"), entry("g")]), limits=UnpackLimits(entries=20))


def test_who_does_not_want_it_any_more_is_asked_for_each_folder(tmp_path: Path) -> None:
    """There may be many for one entry, and their dates are written at the end."""

    def times_asked(name: str) -> int:
        asked = 0

        def stopped() -> bool:
            nonlocal asked
            asked += 1
            return False

        data = tar([entry(name, tarfile.DIRTYPE)])
        unpack(io.BytesIO(data), tmp_path / name[:9].replace("/", "-"), [], MARKED, stopped=stopped)
        return asked

    assert times_asked("/".join("d" * 40)) - times_asked("d") >= 39


def test_a_link_below_ends_when_something_comes_in_its_place(unpack_in: Unpack, tmp_path: Path) -> None:
    """Also if the way through it was gone before."""
    unpack_in(layer({"a": "-> b", "b/": 0o755}), name="base")
    unpack_in(layer({"b/": 0o755, "a/x": "1", "a/": 0o755, "a/y": "2"}), below=["base"])
    assert (tmp_path / "layer/b/x").read_text() == "1"
    assert (tmp_path / "layer/a/y").read_text() == "2"
    with pytest.raises(ValueError, match="'a' is not a folder"):
        unpack_in(layer({"b/": 0o755, "a/x": "1", "a": "2", "a/y": "3"}), name="other", below=["base"])
