"""Archives of images. With docker and containerd: tests/e2e/test_image_save.py."""

import io
import json
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.tar_reader import StoppedError
from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.layers.whiteouts import MARKED
from interpose.node.runtime.images.saving import archive
from interpose.node.runtime.images.saving.archive import ImageToSave, LayerFolder, merge_by_id, save_images
from interpose.node.runtime.images.saving.tar_split import TarSplitWriter
from tests.support.node.image_files import MadeImage, digest, layer, make_image

LOW, HIGH = layer({"etc/": 0o755, "etc/a": "1"}), layer({"b": "2"})
IMAGE = make_image([LOW, HIGH], user="1000")
OTHER = make_image([LOW], user="2000")


def never() -> bool:
    """Nobody wants it to stop."""
    return False


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, LayerFolder]:
    """Layers of a store by their digests."""
    found: dict[str, LayerFolder] = {}
    for data in (LOW, HIGH):
        place = tmp_path / digest(data)[7:17]
        place.mkdir()
        with TarSplitWriter(place / "split") as split:
            unpack(io.BytesIO(data), place / "fs", [], MARKED, split=split)
        found[digest(data)] = LayerFolder(files=place / "fs", split=place / "split", diff_id=digest(data))
    return found


def to_save(image: MadeImage, folders: dict[str, LayerFolder], *tags: str) -> ImageToSave:
    """An image of these layers."""
    layers = tuple(folders[one] for one in json.loads(image.config)["rootfs"]["diff_ids"])
    return ImageToSave(id=image.id, config=image.config, tags=tags, layers=layers)


def files(data: bytes) -> dict[str, bytes]:
    """What is in an archive, each name once."""
    with tarfile.open(fileobj=io.BytesIO(data)) as found:
        members = found.getmembers()
        assert len({one.name for one in members}) == len(members)
        return {one.name: content.read() for one in members if (content := found.extractfile(one)) is not None}


def test_docker_and_oci_find_the_same_blobs(folders: dict[str, LayerFolder]) -> None:
    """Layers and configs as they came, so that ids are the same; what two images have is there once."""
    target = io.BytesIO()
    images = [to_save(IMAGE, folders, "docker.io/library/x:1", "host/y:2"), to_save(OTHER, folders)]
    saved = save_images(images, target, MARKED, never)
    assert [(one.id, one.was, one.size) for one in saved] == [
        (IMAGE.id, IMAGE.id, len(LOW) + len(HIGH)),
        (OTHER.id, OTHER.id, len(LOW)),
    ]
    found = files(target.getvalue())
    blobs = {name.rpartition("/")[2]: data for name, data in found.items() if name.startswith("blobs/")}
    assert all(digest(data)[7:] == name for name, data in blobs.items())
    first, second = json.loads(found["manifest.json"])
    assert (first["RepoTags"], second["RepoTags"]) == (["docker.io/library/x:1", "host/y:2"], None)
    assert [found[name] for name in first["Layers"]] == [LOW, HIGH]
    assert found[first["Config"]] == IMAGE.config
    index = json.loads(found["index.json"])["manifests"]
    assert [one.get("annotations") for one in index] == [
        {"io.containerd.image.name": "docker.io/library/x:1", "org.opencontainers.image.ref.name": "1"},
        {"io.containerd.image.name": "host/y:2", "org.opencontainers.image.ref.name": "2"},
        None,
    ]
    manifest = json.loads(blobs[index[0]["digest"][7:]])
    assert [one["digest"] for one in manifest["layers"]] == [digest(LOW), digest(HIGH)]
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


@pytest.mark.parametrize("damage", ["gone", "broken", "another"])
def test_a_layer_that_cannot_be_made_again_is_packed_anew(folders: dict[str, LayerFolder], damage: str) -> None:
    """The image has another id then, and the config says the digests that its layers have now."""
    split = folders[digest(HIGH)].split
    if damage == "gone":
        split.unlink()
    elif damage == "broken":
        split.write_bytes(b"no gzip")
    else:
        (folders[digest(HIGH)].files / "b").write_text("3")
    target = io.BytesIO()
    (saved,) = save_images([to_save(IMAGE, folders)], target, MARKED, never)
    assert saved.was == IMAGE.id != saved.id
    found = files(target.getvalue())
    (entry,) = json.loads(found["manifest.json"])
    config = json.loads(found[entry["Config"]])
    assert config["rootfs"]["diff_ids"] == [digest(found[name]) for name in entry["Layers"]]
    assert config["rootfs"]["diff_ids"][0] == digest(LOW)
    assert config["config"] == {"User": "1000"}


def test_it_ends_when_it_is_told_to(folders: dict[str, LayerFolder]) -> None:
    """While it measures, and while it writes."""
    for steps in range(2, 30):
        stopped = partial(next, iter([False] * steps), True)
        try:
            save_images([to_save(IMAGE, folders)], io.BytesIO(), MARKED, stopped)
        except StoppedError:
            continue
        break
    else:
        raise AssertionError("it never came to an end")
    assert steps > 4


def test_files_that_change_meanwhile_are_noticed(
    folders: dict[str, LayerFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive would be wrong without anybody knowing."""
    again = iter([[LOW], [LOW[:-5]]])

    def changing(_split: Path, _files: Path) -> Iterator[bytes]:
        yield from next(again)

    monkeypatch.setattr(archive, "tar_bytes", changing)
    with pytest.raises(ValueError, match=r"layer blobs/sha256/.*: its files have changed meanwhile"):
        save_images([to_save(OTHER, folders)], io.BytesIO(), MARKED, never)


def test_an_image_that_is_asked_for_twice_is_there_once(folders: dict[str, LayerFolder]) -> None:
    """With both names."""
    asked = [to_save(IMAGE, folders, "x:1"), to_save(OTHER, folders), to_save(IMAGE, folders, "y:1", "x:1")]
    assert [(one.id, one.tags) for one in merge_by_id(asked)] == [(IMAGE.id, ("x:1", "y:1")), (OTHER.id, ())]
