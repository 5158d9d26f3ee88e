"""Images come from files, are looked up, held and removed."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.node.runtime.images.disk import ImageDisk
from interpose.node.runtime.images.manifests import linux_platform
from interpose.node.runtime.images.store import LocalImageStore
from interpose.node.runtime.images.types import PullPhase, PullProgress, StoredImage, UnpackLimits
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.node.image_files import docker_archive, entry, layer, make_image, oci_files, tar, write_files

BASE = layer({"etc/passwd": "root"})
IMAGE = make_image([BASE, layer({"b": "2"})], user="1000")
OTHER = make_image([BASE], user="2000")


def new_store(folder: Path, limits: UnpackLimits | None = None) -> LocalImageStore:
    """A store that is not loaded."""
    return LocalImageStore(folder / "images", platform=linux_platform("x86_64"), durable=False, limits=limits)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalImageStore]:
    """A store that is empty."""
    store = new_store(tmp_path)
    store.load()
    yield store
    await store.close()


@pytest.fixture
async def image(store: LocalImageStore, tmp_path: Path) -> StoredImage:
    """One image in it."""
    (tmp_path / "x.tar").write_bytes(docker_archive({"x:1": IMAGE}))
    (image,) = await store.import_file(tmp_path / "x.tar")
    return image


async def test_an_imported_image_is_found_by_all_it_is_called(store: LocalImageStore, image: StoredImage) -> None:
    """Name, id, beginning of the id; and in the list."""
    assert (image.id, image.repo_tags, image.config.user) == (IMAGE.id, ("docker.io/library/x:1",), "1000")
    for text in ("x:1", image.id, image.id[7:17]):
        assert await store.get(text) == image
    assert await store.get("x:2") is None
    assert await store.list() == [image]
    with pytest.raises(ValueError, match="image reference 'A B'"):
        await store.get("A B")


async def test_layers_are_folders_lowest_first(store: LocalImageStore, image: StoredImage) -> None:
    """They are whole."""
    low, high = store.layers(image)
    assert (low / "etc/passwd").read_text() == "root"
    assert (high / "b").read_text() == "2"
    size, inodes = store.usage()
    assert size > 0
    assert inodes > 4


async def test_progress_is_told_by_layer(store: LocalImageStore, tmp_path: Path) -> None:
    """From waiting to done."""
    news: list[PullProgress] = []
    write_files(tmp_path / "oci", oci_files({"x:1": OTHER}))
    await store.import_file(tmp_path / "oci", progress=news.append)
    assert [one.phase for one in news] == [PullPhase.WAITING, PullPhase.UNPACKING, PullPhase.DONE]


async def test_an_image_without_a_name_takes_the_one_that_is_given(store: LocalImageStore, tmp_path: Path) -> None:
    """Without one it has only its id."""
    (tmp_path / "x.tar").write_bytes(docker_archive({"": IMAGE}))
    assert (await store.import_file(tmp_path / "x.tar"))[0].repo_tags == ()
    assert (await store.import_file(str(tmp_path / "x.tar"), "y:2"))[0].repo_tags == ("docker.io/library/y:2",)


async def test_another_process_sees_what_was_imported(
    store: LocalImageStore, image: StoredImage, tmp_path: Path
) -> None:
    """And what was removed."""
    other = new_store(tmp_path)
    other.load()
    assert await other.list() == [image]
    assert await other.remove("x:1")
    assert await store.list() == []
    await other.close()


async def test_removal_takes_all_names_and_what_nobody_else_needs(
    store: LocalImageStore, image: StoredImage, tmp_path: Path
) -> None:
    """Layers of another image stay."""
    (tmp_path / "o.tar").write_bytes(docker_archive({"o:1": OTHER}))
    await store.import_file(tmp_path / "o.tar")
    low, high = store.layers(image)
    assert await store.remove(image.id)
    assert (low.exists(), high.exists()) == (True, False)
    assert not await store.remove("x:1")


async def test_a_name_can_go_alone(store: LocalImageStore, image: StoredImage, tmp_path: Path) -> None:
    """The image goes with its last one, or by its id."""
    await store.import_file(tmp_path / "x.tar")
    (tmp_path / "y.tar").write_bytes(docker_archive({"y:1": IMAGE}))
    await store.import_file(tmp_path / "y.tar")
    assert await store.untag("x:1")
    assert (await store.list())[0].repo_tags == ("docker.io/library/y:1",)
    assert not await store.untag("x:1")
    assert await store.untag(image.id[7:20])
    assert await store.list() == []


async def test_a_held_image_keeps_its_layers_when_it_is_removed(store: LocalImageStore, image: StoredImage) -> None:
    """Until the container is gone, however often that is said."""
    await store.hold("c1", image)
    assert store.holds() == {"c1": image.id}
    await store.remove("x:1")
    assert all(path.is_dir() for path in store.layers(image))
    await store.release("c1")
    await store.release("c1")
    await eventually(lambda: not any(path.is_dir() for path in store.layers(image)), "no layer")
    with pytest.raises(ValueError, match="it was removed"):
        await store.hold("c2", image)


async def test_what_is_removed_does_not_wait_for_unpacking(
    store: LocalImageStore, image: StoredImage, tmp_path: Path
) -> None:
    """Whatever is unpacked: containers and images go."""
    end = threading.Event()
    await store.hold("c1", image)
    held_up = tmp_path / "pipe.tar"
    held_up.touch()

    def slowly(*_: object) -> object:
        assert end.wait(WAIT_LIMIT)
        raise ValueError("no archive")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("interpose.node.runtime.images.archive.open_files", slowly)
        imports = [asyncio.create_task(store.import_file(held_up)) for _ in range(10)]
        async with asyncio.timeout(WAIT_LIMIT):
            await store.release("c1")
            assert await store.remove("x:1")
        assert not any(path.is_dir() for path in store.layers(image))
        end.set()
        assert all(isinstance(one, ValueError) for one in await asyncio.gather(*imports, return_exceptions=True))


async def test_a_collection_that_fails_keeps_no_store_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There will be another one."""

    def tired(_disk: object) -> object:
        raise OSError(5, "the disk is tired")

    monkeypatch.setattr("interpose.node.runtime.images.disk.ImageDisk._needed", tired)
    store = new_store(tmp_path)
    store.load()
    assert await store.list() == []
    await store.close()


async def test_a_bad_archive_leaves_nothing(store: LocalImageStore, tmp_path: Path) -> None:
    """The message names the file, the layer and the entry."""
    evil = make_image([BASE, tar([entry("../x", data=b"evil")])])
    (tmp_path / "evil.tar").write_bytes(docker_archive({"x:1": evil}))
    with pytest.raises(ValueError, match=r"evil\.tar: layer .*: entry '../x': it leads out of the layer"):
        await store.import_file(tmp_path / "evil.tar")
    assert await store.list() == []
    assert not [path for path in (tmp_path / "images/work").rglob("*") if path.is_file() and path.suffix != ".lock"]
    with pytest.raises(FileNotFoundError):
        await store.import_file(tmp_path / "none.tar")


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (make_image([BASE], os="windows"), "key os: 'windows'"),
        (make_image([BASE], env="x"), "key config.Env"),
    ],
)
async def test_an_image_that_cannot_be_used_is_refused(
    made: object, problem: str, store: LocalImageStore, tmp_path: Path
) -> None:
    """Before its layers are unpacked."""
    (tmp_path / "x.tar").write_bytes(docker_archive({"x:1": made}))  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=problem):
        await store.import_file(tmp_path / "x.tar")


async def test_limits_are_those_of_the_store(tmp_path: Path) -> None:
    """For each layer."""
    store = new_store(tmp_path, UnpackLimits(entries=1))
    store.load()
    (tmp_path / "x.tar").write_bytes(docker_archive({"x:1": make_image([layer({"a": "", "b": ""})])}))
    with pytest.raises(ValueError, match="more than 1 entries"):
        await store.import_file(tmp_path / "x.tar")
    await store.close()


async def test_the_same_file_twice_at_once_is_imported_once(store: LocalImageStore, tmp_path: Path) -> None:
    """Both get the image."""
    (tmp_path / "x.tar").write_bytes(docker_archive({"x:1": IMAGE}))
    first, second = await asyncio.gather(*(store.import_file(tmp_path / "x.tar") for _ in range(2)))
    assert first == second
    assert len(await store.list()) == 1


async def test_what_was_left_behind_is_removed_at_the_next_start(
    store: LocalImageStore, image: StoredImage, tmp_path: Path
) -> None:
    """A layer without an image, a config, a folder of a dead process. What is whole stays."""
    await store.close()
    root = tmp_path / "images"
    (root / "layers/abc/fs").mkdir(parents=True)
    (root / "configs/abc").touch()
    (root / "work/1-x/layer-1").mkdir(parents=True)
    again = new_store(tmp_path)
    again.load()
    assert await again.list() == [image]
    assert not (root / "layers/abc").exists()
    assert not (root / "configs/abc").exists()
    assert list((root / "work").glob("1-*")) == []
    await again.close()


async def test_an_image_whose_config_is_gone_is_not_shown(
    store: LocalImageStore, image: StoredImage, tmp_path: Path
) -> None:
    """It is logged, and the others are there."""
    await store.close()
    next((tmp_path / "images/configs").iterdir()).unlink()
    again = new_store(tmp_path)
    again.load()
    assert await again.list() == []
    assert await again.get("x:1") is None
    await again.close()


async def test_layers_can_be_mounted_or_copied(store: LocalImageStore) -> None:
    """Whoever makes a root of them asks which."""
    assert store.overlay_form in (True, False)


async def test_a_name_that_is_given_comes_beside_those_of_the_archive(store: LocalImageStore, tmp_path: Path) -> None:
    """Digests of an OCI archive are of both repositories."""
    write_files(tmp_path / "oci", oci_files({"docker.io/library/x:1": IMAGE}))
    (found,) = await store.import_file(tmp_path / "oci", "host/y:2")
    assert found.repo_tags == ("docker.io/library/x:1", "docker.io/host/y:2")
    assert found.repo_digests == (f"docker.io/library/x@{IMAGE.digest}", f"docker.io/host/y@{IMAGE.digest}")
    write_files(tmp_path / "two", oci_files({"x:1": IMAGE, "x:2": OTHER}))
    with pytest.raises(ValueError, match=r"two: name 'y:2': there are 2 images"):
        await store.import_file(tmp_path / "two", "y:2")


async def test_an_image_gets_more_names(store: LocalImageStore, image: StoredImage, tmp_path: Path) -> None:
    """They are taken from other images; a digest is no name that can be given."""
    (tmp_path / "o.tar").write_bytes(docker_archive({"o:1": OTHER}))
    await store.import_file(tmp_path / "o.tar")
    tagged = await store.tag(image.id[7:20], ["o:1", "mine"])
    assert tagged is not None
    assert tagged.repo_tags == ("docker.io/library/x:1", "docker.io/library/o:1", "docker.io/library/mine:latest")
    other = await store.get(OTHER.id)
    assert other is not None
    assert other.repo_tags == ()
    assert await store.tag("none:1", ["y:1"]) is None
    with pytest.raises(ValueError, match="a digest cannot be given as a name"):
        await store.tag("x:1", [f"x@{IMAGE.digest}"])


async def test_an_image_that_has_no_room_is_refused_before_it_comes(
    store: LocalImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is not there yet needs room."""
    monkeypatch.setattr(ImageDisk, "free", lambda _self: len(IMAGE.layers[0]))
    (tmp_path / "x.tar").write_bytes(docker_archive({"x:1": IMAGE}))
    needed = sum(map(len, IMAGE.layers))
    with pytest.raises(OSError, match=f"{needed} bytes are needed and {len(IMAGE.layers[0])} are free") as caught:
        await store.import_file(tmp_path / "x.tar")
    assert caught.value.filename == str(tmp_path / "images")
    assert await store.list() == []
    (tmp_path / "o.tar").write_bytes(docker_archive({"o:1": OTHER}))
    await store.import_file(tmp_path / "o.tar")  # the lower layer of both
    monkeypatch.setattr(ImageDisk, "free", lambda _self: len(IMAGE.layers[1]))
    assert len(await store.import_file(tmp_path / "x.tar")) == 1
