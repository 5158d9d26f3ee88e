"""The store on disk, for several processes."""

import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.host.atomic_file import replace_file
from interpose.node.runtime.images import disk as disk_module
from interpose.node.runtime.images.disk import ImageDisk
from interpose.node.runtime.images.index import ImageIndex, IndexEntry
from interpose.node.runtime.images.manifests import chain_ids, digest_of
from interpose.node.runtime.images.staging import StagingDir
from interpose.node.runtime.images.types import UnpackResult

DIFF = digest_of(b"layer")
CONFIG = json.dumps({"rootfs": {"diff_ids": [DIFF]}}).encode()
IMAGE = IndexEntry(id=digest_of(CONFIG), tags=("docker.io/library/x:1",), size=5)
CHAIN = chain_ids([DIFF])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ImageDisk]:
    """An open store."""
    disk = ImageDisk(tmp_path / "store", durable=False)
    disk.open()
    yield disk
    disk.close()


def import_image(disk: ImageDisk) -> None:
    """A layer and an image of it."""
    put_layer(disk)
    with disk.locked():
        disk.put_config(IMAGE.id, CONFIG)
        disk.change(lambda index: index.with_image(IMAGE))


def put_layer(disk: ImageDisk) -> None:
    """A layer that is whole."""
    made = disk.new_path("layer")
    (made / "fs").mkdir(parents=True)
    disk.put_layer(CHAIN[0], made, UnpackResult(diff_id=DIFF, size=100, inodes=3))


def test_another_process_sees_what_changed(disk: ImageDisk) -> None:
    """Without being told."""
    other = ImageDisk(disk.root, durable=False)
    other.open()
    assert other.index().entries == ()
    import_image(disk)
    assert other.index().entries == (IMAGE,)
    assert other.config(IMAGE.id).diff_ids == (DIFF,)
    assert other.form is disk.form
    other.close()


def test_layers_that_nobody_names_are_collected(disk: ImageDisk) -> None:
    """Those of an image are not, until the image is gone."""
    import_image(disk)
    assert disk.collect() == []
    assert disk.usage() == (100 + len(CONFIG), 4)
    with disk.locked():
        disk.change(lambda index: index.without_image(IMAGE.id))
    assert disk.collect() == [CHAIN[0].removeprefix("sha256:")]
    assert not disk.has_layer(CHAIN[0])
    assert disk.usage() == (0, 0)


def test_layers_that_somebody_brings_are_not_collected(disk: ImageDisk) -> None:
    """In this process or in another; what nobody brings is."""
    other = ImageDisk(disk.root, durable=False)
    other.open()
    with disk.claim_layers(chain_ids([digest_of(b"another")])):
        put_layer(disk)
        assert len(other.collect()) == 1
    with disk.claim_layers(CHAIN):
        put_layer(disk)
        assert other.collect() == []
        assert disk.collect() == []
    assert len(other.collect()) == 1
    other.close()


def test_all_that_a_container_holds_is_let_go_of(disk: ImageDisk) -> None:
    """Not what another one holds whose id begins alike."""
    import_image(disk)
    for name in ("c1", "c1.0", "c1.1", "c10", "c10.0"):
        disk.hold(name, IMAGE.id, CHAIN)
    assert disk.release("c1")
    assert sorted(disk.holds()) == ["c10", "c10.0"]
    assert not disk.release("c1")


def test_what_cannot_be_removed_keeps_nobody_from_opening(
    disk: ImageDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, stays where it does not count, and goes when it can."""
    left = disk.root / "work/1-dead"
    left.mkdir()
    put_layer(disk)

    def tired(path: Path) -> None:
        raise OSError(5, "the disk is tired", str(path))

    with monkeypatch.context() as broken:
        broken.setattr("interpose.node.runtime.images.staging.remove_tree", tired)
        other = ImageDisk(disk.root, durable=False)
        assert other.open() == []
        assert len(other.collect()) == 1
    assert left.is_dir()
    assert "the disk is tired" in str([record.__dict__.get("kv") for record in caplog.records])
    assert other.open() == ["1-dead"]
    other.close()


def test_one_layer_that_cannot_be_taken_away_keeps_no_other(disk: ImageDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next collection tries again."""
    put_layer(disk)
    (disk.root / "layers/stuck").mkdir()
    rename = Path.rename

    def stuck(path: Path, target: Path) -> Path:
        if path.name == "stuck":
            raise PermissionError(1, "not permitted")
        return rename(path, target)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", stuck)
        assert disk.collect() == [CHAIN[0].removeprefix("sha256:")]
    assert disk.collect() == ["stuck"]


def test_held_layers_stay(disk: ImageDisk) -> None:
    """Until the container lets go."""
    import_image(disk)
    disk.hold("c1", IMAGE.id, CHAIN)
    with disk.locked():
        disk.change(lambda index: index.without_image(IMAGE.id))
    disk.collect()
    assert disk.has_layer(CHAIN[0])
    assert disk.holds() == {"c1": {"image": IMAGE.id, "chain": list(CHAIN)}}
    assert disk.release("c1")
    assert not disk.release("c1")
    disk.collect()
    assert not disk.has_layer(CHAIN[0])


def test_layers_that_are_gone_cannot_be_held(disk: ImageDisk) -> None:
    """Nor can a name that is no file's."""
    with pytest.raises(ValueError, match="it was removed"):
        disk.hold("c1", IMAGE.id, CHAIN)
    with pytest.raises(ValueError, match=r"container id '\.\./x'"):
        disk.hold("../x", IMAGE.id, ())
    assert not disk.release("../x")
    assert disk.holds() == {}


def test_who_comes_second_with_a_layer_is_content(disk: ImageDisk) -> None:
    """The first one is as good; nothing is left of the second."""
    put_layer(disk)
    put_layer(disk)
    assert disk.has_layer(CHAIN[0])
    assert not list((disk.root / "work").rglob("fs"))


def test_the_form_of_a_store_stays(tmp_path: Path) -> None:
    """Layers that are there have it."""
    (tmp_path / "store.json").write_text('{"version": 1, "form": "marked"}')
    disk = ImageDisk(tmp_path)
    disk.open()
    assert disk.form.name == "marked"
    disk.close()


@pytest.mark.parametrize(
    ("name", "text"), [("store.json", "{}"), ("store.json", "x"), ("index.json", "{}"), ("index.json", "x")]
)
def test_what_is_no_store_of_ours_is_refused(name: str, text: str, tmp_path: Path) -> None:
    """With the file, and without changing it."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=f"file {tmp_path}/{name}: "):
        ImageDisk(tmp_path).open()
    assert (tmp_path / name).read_text() == text


def test_a_damaged_index_counts_as_it_was(disk: ImageDisk, caplog: pytest.LogCaptureFixture) -> None:
    """For whoever looks. Nothing is changed or removed until it can be read; one line says so."""
    import_image(disk)
    assert disk.cached_index().entries == (IMAGE,)
    good = (disk.root / "index.json").read_bytes()
    (disk.root / "index.json").write_text("x")
    assert [disk.cached_index().entries for _ in range(3)] == [(IMAGE,)] * 3
    assert [record.message for record in caplog.records] == ["Failed to read image index; keeping the one in memory"]
    with pytest.raises(ConfigError, match="it is not JSON"):
        disk.shrink(without_image)
    with pytest.raises(ConfigError, match="it is not JSON"):
        disk.collect()
    assert (disk.root / "index.json").read_text() == "x"
    (disk.root / "index.json").write_bytes(good)
    assert disk.shrink(without_image)


def test_an_index_that_was_never_good_is_an_error(disk: ImageDisk) -> None:
    """There is nothing to go by."""
    (disk.root / "index.json").write_text("x")
    with pytest.raises(ConfigError, match="it is not JSON"):
        disk.cached_index()


def test_damaged_records_of_layers_count_for_nothing(disk: ImageDisk) -> None:
    """Somebody else wrote there."""
    put_layer(disk)
    (disk.layer(CHAIN[0]).parent / "layer.json").write_text("x")
    assert disk.usage() == (0, 0)


@pytest.mark.parametrize("text", ["[]", "{", "{}", '{"chain": 1}', '{"chain": [1]}'])
def test_no_layer_is_removed_while_nobody_knows_what_a_container_needs(disk: ImageDisk, text: str) -> None:
    """It may be any of them. Whoever looks for containers that are gone finds it, too."""
    put_layer(disk)
    (disk.root / "holds/c1").write_text(text)
    with pytest.raises(OSError, match=r"it does not say which layers .*holds/c1"):
        disk.collect()
    assert disk.has_layer(CHAIN[0])
    assert disk.holds() == {"c1": {}}
    disk.release("c1")
    assert disk.collect() == [CHAIN[0].removeprefix("sha256:")]


def test_what_a_killed_process_began_to_write_holds_nothing(disk: ImageDisk) -> None:
    """And is let go of with the container."""
    put_layer(disk)
    (disk.root / "holds/c1.0.123.tmp").write_text('{"cha')
    assert disk.holds() == {"c1.0.123.tmp": {"chain": []}}
    assert disk.collect() == [CHAIN[0].removeprefix("sha256:")]
    assert disk.release("c1")


def test_layers_of_an_image_whose_config_cannot_be_read_just_now_stay(
    disk: ImageDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may have too many files open, or a disk be tired."""
    import_image(disk)

    def refuse(_self: ImageDisk, _image_id: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr(ImageDisk, "config", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            disk.collect()
    assert disk.has_layer(CHAIN[0])


def without_image(index: ImageIndex) -> ImageIndex:
    """The index when the image is removed."""
    return index.without_image(IMAGE.id)


class Full:
    """A disk without room for a new file until a layer is gone."""

    def __init__(self, disk: ImageDisk, monkeypatch: pytest.MonkeyPatch) -> None:
        self._disk = disk
        self._replace = replace_file
        self._new_path = partial(StagingDir.new_path, StagingDir(disk.root / "work"))
        monkeypatch.setattr(disk_module, "replace_file", self.replace_file)
        monkeypatch.setattr(StagingDir, "new_path", self.new_path)

    def _check(self) -> None:
        if self._disk.has_layer(CHAIN[0]):
            raise OSError(errno.ENOSPC, "No space left on device")

    def replace_file(self, path: str, data: bytes) -> None:
        """Write a file."""
        self._check()
        self._replace(path, data)

    def new_path(self, kind: str) -> Path:
        """A place in a new folder."""
        self._check()
        return self._new_path(kind)


def test_images_can_be_removed_from_a_full_disk(disk: ImageDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What else would make room?"""
    import_image(disk)
    Full(disk, monkeypatch)
    assert disk.shrink(without_image)
    assert disk.index().entries == ()
    assert [list((disk.root / name).iterdir()) for name in ("configs", "layers")] == [[], []]


def test_a_full_disk_is_said_where_nothing_can_be_removed(disk: ImageDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is as it was."""
    import_image(disk)
    Full(disk, monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        disk.shrink(lambda index: index.with_image(replace(IMAGE, tags=("docker.io/library/y:1",))))
    assert disk.index().entries == (IMAGE,)
    assert disk.config(IMAGE.id).diff_ids == (DIFF,)


def test_what_goes_wrong_otherwise_removes_nothing(disk: ImageDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is read-only, say."""
    import_image(disk)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(disk_module, "replace_file", refuse)
    with pytest.raises(OSError, match="Read-only"):
        disk.shrink(without_image)
    assert disk.config(IMAGE.id).diff_ids == (DIFF,)


def test_a_durable_layer_counts_as_well(tmp_path: Path) -> None:
    """It takes longer."""
    disk = ImageDisk(tmp_path, durable=True)
    disk.open()
    put_layer(disk)
    assert disk.has_layer(CHAIN[0])
    disk.close()
