"""Images are found in what tools write."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.node.runtime.images.archive import (
    ArchiveFiles,
    ArchiveFolder,
    FoundImage,
    LayerFile,
    TarArchive,
    check_layer,
    find_images,
    open_files,
)
from interpose.node.runtime.images.layers.tar_reader import StoppedError
from interpose.node.runtime.images.manifests import Platform
from tests.support.node.image_files import (
    INDEX,
    describe,
    digest,
    docker_archive,
    entry,
    layer,
    make_image,
    make_index,
    oci_files,
    tar,
    write_files,
)

AMD = Platform(os="linux", architecture="amd64")
IMAGE = make_image([layer({"a": "1"}), layer({"b": "2"})])
NAME = "docker.io/library/x:1"


def never() -> bool:
    """Nobody stops it."""
    return False


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[bytes], ArchiveFiles]:
    """Opens an archive."""

    def run(data: bytes) -> ArchiveFiles:
        (tmp_path / "archive").write_bytes(data)
        return open_files(tmp_path / "archive", tmp_path / "spare", never)

    return run


Opened = Callable[[bytes], ArchiveFiles]


def found_in(files: ArchiveFiles, base: str = "") -> list[FoundImage]:
    """Its images; the files are closed."""
    try:
        return find_images(files, AMD, base=base)
    finally:
        files.close()


def oci(images: dict[str, bytes]) -> bytes:
    """Files as a tar file."""
    return tar(entry(name, data=data) for name, data in images.items())


@pytest.mark.parametrize("compress", [False, True])
def test_an_archive_of_docker_is_read(compress: bool, opened: Opened, tmp_path: Path) -> None:
    """Compressed or not; nothing stays beside it."""
    data = docker_archive({"x:1": IMAGE})
    (image,) = found_in(opened(gzip.compress(data) if compress else data))
    assert (image.config, image.tags, image.digests) == (IMAGE.config, (NAME,), ())
    assert [one.size for one in image.layers] == [len(one) for one in IMAGE.layers]
    assert image.size == len(IMAGE.config) + sum(map(len, IMAGE.layers))
    assert not (tmp_path / "spare").exists()


@pytest.mark.parametrize("packed", [False, True])
def test_an_oci_layout_is_read(packed: bool, opened: Opened, tmp_path: Path) -> None:
    """As a folder and as an archive; names get the digest, too."""
    files = oci_files({"x:1": IMAGE})
    if packed:
        source = opened(oci(files))
        assert isinstance(source, TarArchive)
    else:
        write_files(tmp_path / "layout", files)
        source = open_files(tmp_path / "layout", tmp_path / "spare", never)
        assert isinstance(source, ArchiveFolder)
    (image,) = found_in(source)
    assert (image.tags, image.digests) == ((NAME,), (f"docker.io/library/x@{IMAGE.digest}",))
    assert [one.digest for one in image.layers] == [digest(one) for one in IMAGE.layers]


def test_a_mere_tag_takes_the_name_that_is_given(opened: Opened) -> None:
    """Without one there is no name."""
    data = oci(oci_files({"v1": IMAGE}, annotation="org.opencontainers.image.ref.name"))
    assert found_in(opened(data))[0].tags == ()
    assert found_in(opened(data), "host.io/y")[0].tags == ("host.io/y:v1",)


def test_an_archive_that_is_both_is_read_for_its_names(opened: Opened) -> None:
    """Docker writes both; an index without names does not hide those of Docker."""
    both = oci_files({"": IMAGE})
    docker = docker_archive({"x:1": IMAGE})
    with tarfile.open(fileobj=io.BytesIO(docker)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            both[member.name] = file.read()
    assert found_in(opened(oci(both)))[0].tags == (NAME,)


def test_one_image_with_two_names_is_one(opened: Opened) -> None:
    """Both are its."""
    files = oci_files({"x:1": IMAGE, "x:2": IMAGE})
    (image,) = found_in(opened(oci(files)))
    assert image.tags == (NAME, "docker.io/library/x:2")


def test_an_index_in_the_index_gives_the_image_of_this_platform(opened: Opened) -> None:
    """With the name of the whole."""
    other = make_image([layer({"arm": ""})], architecture="arm64")
    index = make_index({"arm64": other, "amd64": IMAGE})
    files = oci_files({"": IMAGE}) | oci_files({"": other})
    files[f"blobs/sha256/{digest(index)[7:]}"] = index
    top = {"manifests": [describe(index, INDEX, annotations={"io.containerd.image.name": "x:1"})]}
    files["index.json"] = json.dumps(top).encode()
    (image,) = found_in(opened(oci(files)))
    assert (image.config, image.tags) == (IMAGE.config, (NAME,))
    assert image.digests == (f"docker.io/library/x@{digest(index)}",)


def test_manifests_for_other_platforms_are_left_out(opened: Opened) -> None:
    """If none is left, it says which there are."""
    other = make_image([layer({"arm": ""})], architecture="arm64")
    files = oci_files({"": IMAGE}) | oci_files({"": other})
    files["index.json"] = make_index({"arm64": other, "amd64": IMAGE})
    assert [image.config for image in found_in(opened(oci(files)))] == [IMAGE.config]
    files["index.json"] = make_index({"arm64": other})
    with pytest.raises(ValueError, match="only for linux/arm64"):
        found_in(opened(oci(files)))


def test_links_between_layers_are_followed_inside(opened: Opened) -> None:
    """Docker of old wrote one layer once. Links to outside find nothing, and circles end."""
    made = make_image([layer({"a": ""})], compress=False)
    manifest = json.dumps([{"Config": "c.json", "Layers": ["two/layer.tar"], "RepoTags": None}]).encode()

    def archive(target: str) -> bytes:
        return tar(
            [
                entry("c.json", data=made.config),
                entry("one/layer.tar", data=made.layers[0]),
                entry("two/layer.tar", tarfile.SYMTYPE, linkname=target),
                entry("manifest.json", data=manifest),
            ]
        )

    files = opened(archive("../one/layer.tar"))
    (image,) = find_images(files, AMD)
    with files.open(image.layers[0].name) as file:
        assert file.read() == made.layers[0]
        assert file.seek(-4, os.SEEK_END) == len(made.layers[0]) - 4
        assert file.seek(1) == 1
    files.close()
    for target in ("../../etc/passwd", "layer.tar", "/etc/passwd"):
        with pytest.raises(ValueError, match="not there"):
            found_in(opened(archive(target)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"index.json": b"{}"}, "key mediaType"),
        ({"index.json": b'{"layers": [], "config": {}}'}, "index.json: key config"),
        ({"index.json": b" " * (5 << 20)}, "larger than"),
        ({f"blobs/sha256/{IMAGE.digest[7:]}": b"x"}, "another digest"),
        ({f"blobs/sha256/{IMAGE.id[7:]}": b"x"}, f"config {IMAGE.id}: its content has another digest"),
        ({f"blobs/sha256/{IMAGE.digest[7:]}": None}, "is named and not there"),
        ({"index.json": None}, "it has no image in it"),
        ({"index.json": b'{"manifests": []}'}, "it has no image in it"),
    ],
)
def test_what_is_damaged_is_refused(change: dict[str, bytes | None], problem: str, opened: Opened) -> None:
    """With the file or the blob it is about."""
    files: dict[str, bytes | None] = {**oci_files({"x:1": IMAGE}), **change}
    with pytest.raises(ValueError, match=problem):
        found_in(opened(oci({name: data for name, data in files.items() if data is not None})))


def test_an_index_that_is_a_manifest_is_refused(opened: Opened) -> None:
    """It has no names in it."""
    files = oci_files({"x:1": IMAGE}) | {"index.json": IMAGE.manifest}
    with pytest.raises(ValueError, match=r"index\.json: it is not an index"):
        found_in(opened(oci(files)))


def test_layers_are_checked_before_they_are_used(opened: Opened) -> None:
    """Against the digest, if there is one; Docker's have none."""
    files = opened(oci(oci_files({"x:1": IMAGE})))
    image = find_images(files, AMD)[0]
    check_layer(files, image.layers[0], never)
    with pytest.raises(ValueError, match="another digest"):
        check_layer(files, LayerFile(name=image.layers[0].name, digest=IMAGE.id, size=1), never)
    with pytest.raises(ValueError, match="it is not there"):
        check_layer(files, LayerFile(name="none", size=1), never)
    with pytest.raises(StoppedError):
        check_layer(files, image.layers[0], lambda: True)
    files.close()


@pytest.mark.parametrize("data", [b"", b"hello", gzip.compress(b"hello"), gzip.compress(bytes(5000))[:-8]])
def test_what_is_no_archive_is_refused(data: bytes, opened: Opened) -> None:
    """A file of anything."""
    with pytest.raises(ValueError, match="it is not a whole tar file"):
        opened(data)


def test_folders_and_pipes_are_no_archives(tmp_path: Path) -> None:
    """A pipe would keep us waiting."""
    with pytest.raises(ValueError, match=r"without index\.json"):
        open_files(tmp_path, tmp_path / "spare", never)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        open_files(tmp_path / "pipe", tmp_path / "spare", never)
    (tmp_path / "index.json").touch()
    with pytest.raises(FileNotFoundError):
        ArchiveFolder(tmp_path).open("pipe")


def test_a_compressed_archive_can_be_given_up(tmp_path: Path) -> None:
    """Nothing stays beside it."""
    (tmp_path / "a").write_bytes(gzip.compress(docker_archive({"x:1": IMAGE})))
    with pytest.raises(StoppedError):
        open_files(tmp_path / "a", tmp_path / "spare", lambda: True)
    assert not (tmp_path / "spare").exists()
