"""Root file systems for real: overlay mounts as root, copies as anybody."""

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.node.runtime.fs import mount_table, mounts
from interpose.node.runtime.fs.disk_usage import count_below
from interpose.node.runtime.fs.rootfs import Rootfs, can_mount_overlay
from interpose.node.runtime.images.layers.whiteouts import OVERLAY
from interpose.testing.eventually import WAIT_LIMIT

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
WAYS = [pytest.param(True, marks=AS_ROOT, id="overlay"), pytest.param(False, id="copy")]


def _layers(scratch: Path, count: int = 3) -> list[Path]:
    """Each layer has a file of its own and replaces `shared`."""
    made = []
    for number in range(count):
        layer = scratch / f"layers/{number}"
        layer.mkdir(parents=True)
        (layer / f"only{number}").write_text(str(number))
        (layer / "shared").write_text(str(number))
        made.append(layer)
    return made


def _content(folder: str) -> dict[str, str]:
    return {entry.name: entry.read_text() for entry in Path(folder).iterdir()}


@pytest.fixture
async def cleaned(scratch: Path) -> AsyncIterator[Path]:
    """A folder for root file systems, with nothing mounted in it afterwards."""
    folder = scratch / "rootfs"
    yield folder
    mounts.unmount_below(str(folder))


@pytest.mark.parametrize("overlay", WAYS)
async def test_layers_lie_on_top_of_each_other(scratch: Path, cleaned: Path, overlay: bool) -> None:
    """The highest layer's file is seen, the layers stay as they are, and all is gone after the removal."""
    rootfs, layers = Rootfs(cleaned, overlay=overlay), _layers(scratch)
    merged = await rootfs.prepare("one", layers)
    assert (merged / "shared").read_text() == "2"
    assert {entry.name for entry in merged.iterdir()} == {"only0", "only1", "only2", "shared"}
    (merged / "shared").write_text("mine")
    assert (layers[2] / "shared").read_text() == "2"
    await rootfs.remove("one")
    await rootfs.remove("one")
    assert not (cleaned / "one").exists()
    assert mount_table.below(mounts.mounts(), str(cleaned)) == []


@pytest.mark.parametrize("overlay", WAYS)
async def test_preparing_again_gives_the_same(scratch: Path, cleaned: Path, overlay: bool) -> None:
    """A second call finds what the first has made."""
    rootfs, layers = Rootfs(cleaned, overlay=overlay), _layers(scratch)
    merged = await rootfs.prepare("one", layers)
    (merged / "mine").touch()
    assert await rootfs.prepare("one", layers) == merged
    assert (merged / "mine").exists()
    assert len(mount_table.below(mounts.mounts(), str(merged))) == int(overlay)


@AS_ROOT
async def test_more_layers_than_options_have_room_for(scratch: Path, cleaned: Path) -> None:
    """A hundred layers with long names are mounted, in the right order."""
    long = scratch / ("x" * 100)
    merged = await Rootfs(cleaned, overlay=True).prepare("one", _layers(long, 100))
    assert (merged / "shared").read_text() == "99"
    assert (merged / "only0").read_text() == "0"


@AS_ROOT
async def test_more_layers_than_the_kernel_takes(scratch: Path, cleaned: Path) -> None:
    """All of them count, for a container and for an image that is mounted; what a high layer hides stays hidden."""
    layers = _layers(scratch, 510)
    top = os.open(layers[-1], os.O_RDONLY)
    OVERLAY.hide(top, "only0")
    os.close(top)
    rootfs = Rootfs(cleaned, overlay=True)
    for merged in (await rootfs.prepare("one", layers), await rootfs.mount_image("one", "0", layers)):
        assert {entry.name for entry in merged.iterdir()} == {"shared"} | {f"only{n}" for n in range(1, 510)}
        assert (merged / "shared").read_text() == "509"
    await rootfs.remove("one")
    assert not (cleaned / "one").exists()


@AS_ROOT
async def test_names_with_the_options_own_characters(scratch: Path, cleaned: Path) -> None:
    """A colon and a comma in a path are part of the path."""
    merged = await Rootfs(cleaned / "a:b,c", overlay=True).prepare("one", _layers(scratch / "d:e,f"))
    assert (merged / "shared").read_text() == "2"


@AS_ROOT
async def test_the_root_folder_looks_as_in_the_image(scratch: Path, cleaned: Path) -> None:
    """Mode and owner of the highest layer."""
    layers = _layers(scratch)
    layers[-1].chmod(0o1777)
    os.chown(layers[-1], 7, 8)
    found = (await Rootfs(cleaned, overlay=True).prepare("one", layers)).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o1777, 7, 8)


@pytest.mark.parametrize("overlay", WAYS)
async def test_volumes_have_what_the_image_has_there(scratch: Path, cleaned: Path, overlay: bool) -> None:
    """Content is copied; a place the image does not have is an empty folder; a link does not lead out."""
    (secret := scratch / "secret").mkdir()
    (secret / "key").touch()
    (layer := _layers(scratch)[0]).joinpath("data").mkdir()
    (layer / "data/file").write_text("kept")
    (layer / "escape").symlink_to(secret)
    rootfs = Rootfs(cleaned, overlay=overlay)
    await rootfs.prepare("one", [layer])
    found = await rootfs.volumes("one", ["/data", "/new", "/escape"])
    assert _content(found["/data"]) == {"file": "kept"}
    assert _content(found["/new"]) == _content(found["/escape"]) == {}
    assert await rootfs.volumes("one", ["/data", "/new", "/escape"]) == found


@pytest.mark.parametrize("overlay", WAYS)
async def test_an_image_as_a_mount(scratch: Path, cleaned: Path, overlay: bool) -> None:
    """One layer or several, as a whole or a folder of it; a folder that is not there is an error."""
    layers = _layers(scratch)
    (layers[0] / "sub").mkdir()
    rootfs = Rootfs(cleaned, overlay=overlay)
    assert ((await rootfs.mount_image("one", "0", layers)) / "shared").read_text() == "2"
    single = await rootfs.mount_image("one", "1", layers[:1], "sub")
    assert single.name == "sub"
    with pytest.raises(FileNotFoundError):
        await rootfs.mount_image("one", "1", layers[:1], "nope")
    await rootfs.remove("one")
    assert not (cleaned / "one").exists()


@pytest.mark.parametrize("overlay", WAYS)
async def test_an_image_without_layers_is_empty(cleaned: Path, overlay: bool) -> None:
    """Something to write on is all there is."""
    merged = await Rootfs(cleaned, overlay=overlay).prepare("one", [])
    assert list(merged.iterdir()) == []


@pytest.mark.parametrize("overlay", WAYS)
async def test_leftovers_are_what_nobody_knows(scratch: Path, cleaned: Path, overlay: bool) -> None:
    """Also of a runtime that was killed: another one finds them."""
    layers = _layers(scratch)
    assert await Rootfs(cleaned, overlay=overlay).find_orphans([]) == []
    for name in ("a", "b"):
        await Rootfs(cleaned, overlay=overlay).prepare(name, layers)
    (cleaned / ".try-left").mkdir()
    after = Rootfs(cleaned, overlay=overlay)
    assert await after.find_orphans(["a"]) == ["b"]
    assert not (cleaned / ".try-left").exists()


@pytest.mark.parametrize("overlay", WAYS)
async def test_what_is_written_can_be_counted(scratch: Path, cleaned: Path, overlay: bool) -> None:
    """In one folder: bytes on the disk, a file with two names once."""
    rootfs, never = Rootfs(cleaned, overlay=overlay), threading.Event()
    merged = await rootfs.prepare("one", _layers(scratch))
    before = count_below(rootfs.writable("one"), never)
    (merged / "big").write_bytes(b"x" * 100_000)
    os.link(merged / "big", merged / "same")
    after = count_below(rootfs.writable("one"), never)
    assert 100_000 <= after[0] - before[0] < 200_000
    assert after[1] - before[1] == 1


async def test_ids_cannot_lead_out(cleaned: Path) -> None:
    """A name with a slash is no id."""
    with pytest.raises(ValueError, match="is not an id"):
        await Rootfs(cleaned, overlay=False).remove("../x")


async def test_closed_folders_are_removed_by_their_owner(scratch: Path, cleaned: Path) -> None:
    """A folder that not even its owner may read is no obstacle."""
    rootfs = Rootfs(cleaned, overlay=False)
    (layer := _layers(scratch)[0]).joinpath("closed/deep").mkdir(parents=True)
    merged = await rootfs.prepare("one", [layer])
    (merged / "closed").chmod(0)
    await rootfs.remove("one")
    assert not (cleaned / "one").exists()


@pytest.mark.parametrize("overlay", [pytest.param(True, marks=AS_ROOT), False])
async def test_a_container_cannot_make_its_root_impossible_to_remove(
    scratch: Path, cleaned: Path, overlay: bool
) -> None:
    """However deep the folders are that it makes."""
    rootfs = Rootfs(cleaned, overlay=overlay)
    here = os.open(await rootfs.prepare("one", _layers(scratch)), os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("dd", dir_fd=here)
        inner = os.open("dd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    await rootfs.remove("one")
    assert not (cleaned / "one").exists()


@AS_ROOT
def test_whether_overlay_works_is_found_out(cleaned: Path) -> None:
    """By mounting one, of which nothing is left."""
    assert can_mount_overlay(cleaned)
    assert Rootfs(cleaned).overlay
    assert list(cleaned.iterdir()) == []


@AS_ROOT
def test_shared_memory_is_mounted_once(scratch: Path) -> None:
    """Asked for twice it is one mount, and gone after one removal."""
    place = str(scratch / "shm")
    mounts.mount_shm(place, 1 << 20)
    mounts.mount_shm(place, 1 << 20)
    found = [one for one in mounts.mounts() if one.path == place]
    assert [one.kind for one in found] == ["tmpfs"]
    assert mounts.unmount(place)
    assert not mounts.unmount(place)


@AS_ROOT
def test_a_folder_shown_elsewhere_read_only(scratch: Path) -> None:
    """Files are seen and cannot be made."""
    for name in ("from", "to"):
        (scratch / name).mkdir()
    mounts.bind(str(scratch / "from"), str(scratch / "to"), readonly=True)
    try:
        (scratch / "from/x").touch()
        assert (scratch / "to/x").exists()
        with pytest.raises(OSError, match="Read-only"):
            (scratch / "to/y").touch()
    finally:
        mounts.unmount(str(scratch / "to"))


@AS_ROOT
def test_a_mount_that_fails_names_the_place(scratch: Path) -> None:
    """The kernel's error with our path."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mounts.mount("none", str(scratch / "nowhere"), "tmpfs")


async def test_large_trees_hold_nobody_up(scratch: Path, cleaned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many removals that take long: others still get threads, and root file systems."""
    going_on, removed = threading.Event(), []

    def slowly(folder: Path) -> None:
        going_on.wait(WAIT_LIMIT)
        removed.append(folder.name)

    monkeypatch.setattr("interpose.node.runtime.fs.rootfs.remove_tree", slowly)
    rootfs, names = Rootfs(cleaned, overlay=False), [f"old{number}" for number in range(50)]
    for name in names:
        (cleaned / name).mkdir(parents=True)
    removals = [asyncio.ensure_future(rootfs.remove(name)) for name in names]
    try:
        async with asyncio.timeout(WAIT_LIMIT):
            await asyncio.to_thread(lambda: None)
            await rootfs.prepare("new", _layers(scratch))
        assert removed == []
    finally:
        going_on.set()
        await asyncio.gather(*removals)
        await rootfs.close()
    assert sorted(removed) == sorted(names)
