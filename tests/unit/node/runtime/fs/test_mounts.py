"""Sources of mounts. Mounting itself is tested in tests/integration/test_rootfs.py."""

from pathlib import Path

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.fs.mount_table import MountPoint
from interpose.node.runtime.fs.mounts import mounts, mounts_below, prepare_sources
from interpose.node.runtime.oci.spec_types import SpecError


def _mount(path: Path | str, propagation: int = 0) -> cri.Mount:
    return cri.Mount(host_path=str(path), container_path="/c", propagation=propagation)  # type: ignore[arg-type]


def test_links_are_followed_and_folders_made(tmp_path: Path) -> None:
    """A mount of an image has no source."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    new = tmp_path / "a/b"
    found = prepare_sources([_mount(tmp_path / "link"), _mount(new), cri.Mount(container_path="/i")])
    assert found == {str(tmp_path / "link"): str(tmp_path / "real"), str(new): str(new)}
    assert new.is_dir()
    assert (tmp_path / "real").is_dir()


def test_a_file_is_a_source(tmp_path: Path) -> None:
    """It stays one."""
    (tmp_path / "file").write_text("x")
    prepare_sources([_mount(tmp_path / "file")])
    assert (tmp_path / "file").read_text() == "x"


def test_sources_that_cannot_be(tmp_path: Path) -> None:
    """The mount is named by its number."""
    (tmp_path / "file").touch()
    with pytest.raises(SpecError, match=r"mounts\[1\].host_path: .*cannot be made"):
        prepare_sources([_mount(tmp_path), _mount(tmp_path / "file/below")])
    with pytest.raises(SpecError, match="not an absolute path"):
        prepare_sources([_mount("relative")])


@pytest.mark.parametrize(
    ("asked", "kind", "fits"),
    [(1, "shared", True), (1, "slave", True), (1, "private", False), (2, "shared", True), (2, "slave", False)],
)
def test_propagation_needs_a_source_that_takes_part(tmp_path: Path, asked: int, kind: str, fits: bool) -> None:
    """As the kernel would quietly not do it."""
    table = [MountPoint(path="/", kind="ext4", source="x", propagation=kind)]
    if fits:
        assert prepare_sources([_mount(tmp_path, asked)], table)
        return
    with pytest.raises(SpecError, match=f"on a {kind} mount"):
        prepare_sources([_mount(tmp_path, asked)], table)


def test_what_is_below_a_folder(tmp_path: Path) -> None:
    """Only lines with its name are looked at; a name that the table may write otherwise is looked for in all."""
    table = tmp_path / "table"
    table.write_text("".join(f"1 1 0:1 / {place} rw - tmpfs x rw\n" for place in ("/a/b", "/a/b/c", "/x\\040y", "/bb")))
    assert mounts_below("/a/b/", str(table)) == ["/a/b/c", "/a/b"]
    assert mounts_below("/a/b", str(table)) == ["/a/b/c", "/a/b"]
    assert mounts_below("/x y", str(table)) == ["/x y"]


def test_the_table_of_this_machine_is_read(tmp_path: Path) -> None:
    """The root is in it; it is what is looked at unless told otherwise."""
    assert any(one.path == "/" for one in mounts())
    with pytest.raises(SpecError, match="on a private mount"):
        prepare_sources([_mount(tmp_path, 2)], ())
