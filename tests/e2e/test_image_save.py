"""Archives that `interpose image save` writes, read by docker and by containerd."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.images import IMAGE, made_images
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.containerd import Containerd
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.processes import missing_programs
from tests.support.lab.relay import program
from tests.support.node.image_files import docker_archive, entry, make_image, tar

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

NAME, ODD = "docker.io/library/shell:1", "odd.example/odd:1"
OWNED: dict[str, Any] = {"uid": 5, "gid": 6, "mode": 0o4750, "mtime": 1234.5}
# What is in these layers besides plain files: whiteouts, links, attributes, times.
LOW = tar(
    [
        entry("d", tarfile.DIRTYPE),
        entry("d/gone", data=b"1"),
        entry("d/file", data=b"f" * 5000, **OWNED),
        entry("d/same", tarfile.LNKTYPE, linkname="d/file", **OWNED),
        entry("link", tarfile.SYMTYPE, linkname="d/file"),
    ]
)
HIGH = tar([entry("d/.wh.gone"), entry("f", data=b"2", pax_headers={"SCHILY.xattr.user.note": "x"})])
IMAGES = {ODD: make_image([LOW, HIGH], user="1000")}


def interpose(*arguments: object) -> str:
    """What the command says on standard output."""
    argv = [str(program()), "image", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=True).stdout


@pytest.fixture
def root(scratch: Path) -> Path:
    """A store with both images."""
    if reason := missing_programs("busybox", root=True):
        pytest.skip(reason)
    IMAGES[NAME] = made_images()[IMAGE]
    (scratch / "in.tar").write_bytes(docker_archive(IMAGES))
    interpose("import", scratch / "in.tar", "--root", scratch / "r")
    return scratch / "r"


@pytest.fixture(params=["as they came", "packed anew"])
def archive(request: pytest.FixtureRequest, root: Path, scratch: Path) -> Path:
    """Both images, with layers as they came, or as an older store has them."""
    if request.param == "packed anew":
        for split in (root / "images/layers").glob("*/tar-split"):
            split.unlink()
    interpose("save", NAME, ODD, "-o", scratch / "out.tar", "--root", root)
    return scratch / "out.tar"


def ids(archive: Path) -> dict[str, str]:
    """Ids of the images in an archive by name, as docker's manifest has them."""
    with tarfile.open(archive) as found:
        manifest = found.extractfile("manifest.json")
        assert manifest is not None
        entries = json.load(io.BytesIO(manifest.read()))
    return {one["RepoTags"][0]: f"sha256:{one['Config'].rpartition('/')[2]}" for one in entries}


def test_docker_loads_it(request: pytest.FixtureRequest, archive: Path, scratch: Path, root: Path) -> None:
    """With the same ids, and gives back what our store takes for the same image again."""
    if reason := Dockerd.missing():
        pytest.skip(f"no docker: {reason}")
    expected = ids(archive)
    if "came" in request.node.callspec.id:
        assert expected == {name: image.id for name, image in IMAGES.items()}
    with Dockerd(scratch / "d") as dockerd:
        dockerd.docker("load", "-i", str(archive))
        assert {name: dockerd.docker("inspect", "-f", "{{.Id}}", name).strip() for name in IMAGES} == expected
        said = dockerd.docker("run", "--rm", "--network", "host", NAME, "/bin/sh", "-c", "echo it runs")
        assert said == "it runs\n"
        dockerd.docker("save", "-o", str(scratch / "back.tar"), *IMAGES)
    found = json.loads(interpose("import", scratch / "back.tar", "--root", scratch / "again", "-o", "json"))
    assert {one["tags"][0]: one["id"] for one in found} == expected


def test_containerd_imports_it(archive: Path, scratch: Path) -> None:
    """All layers are unpacked, and containers can be made of them."""
    if reason := Containerd.missing():
        pytest.skip(f"no containerd: {reason}")
    with Containerd(scratch / "c") as containerd:
        containerd.ctr("images", "import", "--snapshotter", "native", str(archive))
        names = containerd.ctr("images", "ls", "-q").split()
        assert set(IMAGES) <= set(names)
        assert set(ids(archive).values()) <= set(names)  # as CRI knows them
        mounted = scratch / "mounted"
        mounted.mkdir()
        containerd.ctr("images", "mount", "--snapshotter", "native", ODD, str(mounted))
        try:
            kept = (mounted / "d/file").stat()
            assert (kept.st_uid, kept.st_gid, kept.st_mode & 0o7777, kept.st_nlink) == (5, 6, 0o4750, 2)
            assert (mounted / "link").readlink().as_posix() == "d/file"
            assert sorted(path.name for path in (mounted / "d").iterdir()) == ["file", "same"]
        finally:
            containerd.ctr("images", "unmount", "--rm", "--snapshotter", "native", str(mounted))
