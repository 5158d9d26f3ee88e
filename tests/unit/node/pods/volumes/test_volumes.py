"""Volumes are made ready as Kubernetes says."""

import errno
import os
import socket
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from interpose.node.pods.cri_config.env import DownwardApiContext
from interpose.node.pods.spec import (
    ContainerSpec,
    EmptyDir,
    FieldRef,
    FileItem,
    HostPath,
    PodSecurityContext,
    PodSpec,
    ProjectedFiles,
    ResourceFieldRef,
    ResourceRequirements,
    Volume,
)
from interpose.node.pods.volumes.volumes import VolumeError, memory_size, prepare_volume

AROUND = DownwardApiContext(ips=("10.1.0.1",))


class Mounts:
    """Remembers what is mounted."""

    def __init__(self, *, possible: bool = True) -> None:
        self.possible = possible
        self.made: dict[str, str] = {}

    def tmpfs(self, target: str, options: str) -> None:
        """Mount."""
        assert target not in self.made
        self.made[target] = options

    def hugetlbfs(self, target: str, options: str) -> None:
        """Mount, of another kind."""
        self.tmpfs(target, f"huge,{options}")

    def bind(self, source: int, target: str) -> None:
        """Not for whole volumes."""
        raise AssertionError

    def unmount(self, target: str) -> None:
        """Take away."""
        del self.made[target]

    def below(self, folder: str) -> list[str]:
        """What is there."""
        return [path for path in self.made if path == folder or path.startswith(f"{folder}/")]


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(one.name for one in folder.iterdir())


def pod(group: int | None = None, memory: int | None = None) -> PodSpec:
    """A pod."""
    limits = {} if memory is None else {"memory": Fraction(memory)}
    container = ContainerSpec(name="c", image="i", resources=ResourceRequirements(limits=limits))
    return PodSpec(name="p", uid="u", containers=(container,), security=PodSecurityContext(fs_group=group))


def prepare(
    source: HostPath | EmptyDir | ProjectedFiles, path: Path, of: PodSpec | None = None, mounts: Mounts | None = None
) -> None:
    """Make a volume ready."""
    prepare_volume(of or pod(), Volume(name="v", source=source), str(path), AROUND, mounts or Mounts())


# -- paths of the node


@pytest.fixture
def things(tmp_path: Path) -> Path:
    """One of each kind."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("dir")
    (tmp_path / "char").symlink_to("/dev/null")
    (tmp_path / "dangling").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        ("", ("dir", "file", "sock", "char", "none")),
        ("Directory", ("dir", "link")),
        ("DirectoryOrCreate", ("dir", "link", "none", "none/deeper")),
        ("File", ("file",)),
        ("FileOrCreate", ("file", "none")),
        ("Socket", ("sock",)),
        ("CharDevice", ("char",)),
        ("BlockDevice", ()),
    ],
)
def test_kinds_of_paths(things: Path, kind: str, fits: tuple[str, ...]) -> None:
    """What fits is taken, everything else is refused; only two kinds make what is missing."""
    for name in ("dir", "file", "link", "sock", "char", "dangling", "none", "none/deeper"):
        source = HostPath(path=str(things / name), type=kind)
        if not kind or name in fits:
            prepare(source, things)
            assert not kind or (things / name).exists()
        else:
            with pytest.raises(VolumeError, match="volume v: "):
                prepare(source, things)


def test_what_is_made_has_the_usual_modes(tmp_path: Path) -> None:
    """For everybody to read."""
    before = os.umask(0o022)
    try:
        prepare(HostPath(path=str(tmp_path / "d"), type="DirectoryOrCreate"), tmp_path)
        prepare(HostPath(path=str(tmp_path / "f"), type="FileOrCreate"), tmp_path)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "df"] == [0o755, 0o644]


def test_a_kind_that_is_none(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(VolumeError, match="volume v: hostPath type 'Fifo' is not known"):
        prepare(HostPath(path=str(tmp_path), type="Fifo"), tmp_path)


def test_the_wrong_kind_is_said(things: Path) -> None:
    """In plain words."""
    with pytest.raises(VolumeError, match=r"volume v: hostPath '.*/file' is not a directory"):
        prepare(HostPath(path=str(things / "file"), type="Directory"), things)


# -- empty folders


def test_an_empty_folder_for_everybody(tmp_path: Path) -> None:
    """Once; what is in it stays."""
    path = tmp_path / "volumes/v"
    prepare(EmptyDir(), path)
    assert path.stat().st_mode & 0o7777 == 0o777
    (path / "data").touch()
    prepare(EmptyDir(), path)
    assert names(path) == ["data"]
    assert names(path.parent) == ["v"]


def test_an_empty_folder_of_a_group(tmp_path: Path) -> None:
    """What is made in it belongs to the group too."""
    path = tmp_path / "v"
    prepare(EmptyDir(), path, pod(group=os.getgid()))
    assert path.stat().st_mode & 0o7777 == 0o2777
    assert path.stat().st_gid == os.getgid()


@pytest.mark.parametrize(
    ("source", "of", "options"),
    [
        (EmptyDir(medium="Memory"), pod(), "mode=777"),
        (EmptyDir(medium="Memory", size_limit=4096), pod(), "mode=777,size=4096"),
        (EmptyDir(medium="Memory", size_limit=4096), pod(5), "mode=2777,gid=5,size=4096"),
    ],
)
def test_a_folder_in_memory(tmp_path: Path, source: EmptyDir, of: PodSpec, options: str) -> None:
    """Mounted once."""
    mounts = Mounts()
    for _ in range(2):
        prepare(source, tmp_path / "v", of, mounts)
    assert mounts.made == {str(tmp_path / "v"): options}


@pytest.mark.parametrize(
    ("limit", "of_pod", "size"), [(None, None, 0), (5, None, 5), (None, 7, 7), (5, 7, 5), (9, 7, 7), (0, 7, 7)]
)
def test_the_size_of_memory(limit: int | None, of_pod: int | None, size: int) -> None:
    """Its own limit, but not more than the pod may have."""
    assert memory_size(pod(memory=of_pod), EmptyDir(medium="Memory", size_limit=limit)) == size


@pytest.mark.parametrize(("limit", "size"), [(None, 0), (5, 5), (9, 9)])
def test_the_size_of_memory_where_one_container_has_no_limit(limit: int | None, size: int) -> None:
    """Then the pod as a whole has none, whatever the limits of the others are."""
    of = pod(memory=7)
    of = replace(of, containers=(*of.containers, ContainerSpec(name="free", image="i")))
    assert memory_size(of, EmptyDir(medium="Memory", size_limit=limit)) == size


@pytest.mark.parametrize("medium", ["Memory", "HugePages"])
def test_memory_without_the_right_to_mount(tmp_path: Path, medium: str) -> None:
    """Refused: on a disk it would be something else."""
    with pytest.raises(VolumeError, match=f"volume v: emptyDir medium {medium} needs root"):
        prepare(EmptyDir(medium=medium), tmp_path / "v", mounts=Mounts(possible=False))


def _paged(*names: str, group: int | None = None) -> PodSpec:
    """A container for each limit of huge pages, and one without."""
    of = pod(group)
    some = (ContainerSpec(name=f"c{at}", image="i", resources=_pages(name)) for at, name in enumerate(names))
    return replace(of, containers=(*of.containers, *some))


def _pages(name: str) -> ResourceRequirements:
    return ResourceRequirements(limits={name: Fraction(1 << 30)})


@pytest.mark.parametrize(
    ("medium", "of", "options"),
    [
        ("HugePages", _paged("hugepages-2Mi"), "huge,mode=777,pagesize=2097152"),
        ("HugePages", _paged("hugepages-1Gi", "hugepages-1Gi", group=5), "huge,mode=2777,gid=5,pagesize=1073741824"),
        ("HugePages-1Gi", _paged("hugepages-2Mi", "hugepages-1Gi"), "huge,mode=777,pagesize=1073741824"),
        ("HugePages-2Mi", _paged("hugepages-2048Ki"), "huge,mode=777,pagesize=2097152"),
    ],
)
def test_a_folder_of_huge_pages(tmp_path: Path, medium: str, of: PodSpec, options: str) -> None:
    """Of the size that is named, or the only one that is asked for; mounted once."""
    mounts = Mounts()
    for _ in range(2):
        prepare(EmptyDir(medium=medium), tmp_path / "v", of, mounts)
    assert mounts.made == {str(tmp_path / "v"): options}
    assert f"mode={(tmp_path / 'v').stat().st_mode & 0o7777:o}" in options


@pytest.mark.parametrize(
    ("medium", "of", "found"),
    [
        ("HugePages", _paged(), "none"),
        ("HugePages", _paged("hugepages-2Mi", "hugepages-1Gi"), "hugepages-1Gi, hugepages-2Mi"),
        ("HugePages-2Mi", _paged("hugepages-1Gi"), "hugepages-1Gi"),
    ],
)
def test_huge_pages_of_a_size_that_nobody_asks_for(tmp_path: Path, medium: str, of: PodSpec, found: str) -> None:
    """They could not be used."""
    with pytest.raises(VolumeError, match=f"volume v: emptyDir medium {medium}: .* found {found}$"):
        prepare(EmptyDir(medium=medium), tmp_path / "v", of)


# -- files


def test_files_of_values_and_fields(tmp_path: Path) -> None:
    """Bytes as they are, fields as they are now."""
    source = ProjectedFiles(
        items=(
            FileItem(path="bytes", content=b"\xff\x00", mode=0o400),
            FileItem(path="sub/ip", field=FieldRef(path="status.podIP")),
            FileItem(path="limit", field=ResourceFieldRef(resource="limits.memory", container="c")),
        ),
        default_mode=0o640,
    )
    prepare(source, tmp_path / "v", pod(memory=99))
    read = {name: (tmp_path / "v" / name).read_bytes() for name in ("bytes", "sub/ip", "limit")}
    assert read == {"bytes": b"\xff\x00", "sub/ip": b"10.1.0.1", "limit": b"99"}
    assert (tmp_path / "v/bytes").stat().st_mode & 0o777 == 0o400
    assert (tmp_path / "v/limit").stat().st_mode & 0o777 == 0o640


SECRET = ProjectedFiles(items=(FileItem(path="key", content=b"k", secret=True), FileItem(path="plain", content=b"p")))


def test_secrets_are_kept_in_memory(tmp_path: Path) -> None:
    """The volume of a file of a Secret is, and no other; once."""
    mounts = Mounts()
    prepare(SECRET, tmp_path / "v", mounts=mounts)
    prepare(SECRET, tmp_path / "v", mounts=mounts)
    prepare(ProjectedFiles(items=(FileItem(path="plain", content=b"p"),)), tmp_path / "w", mounts=mounts)
    assert mounts.made == {str(tmp_path / "v"): "mode=0755"}
    assert (tmp_path / "v/key").read_bytes() == b"k"


class Refused(Mounts):
    """Root in a container: the kernel says no."""

    def tmpfs(self, target: str, options: str) -> None:
        """No."""
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), target)


@pytest.mark.parametrize("mounts", [Mounts(possible=False), Refused()])
def test_secrets_where_nobody_may_mount(tmp_path: Path, mounts: Mounts) -> None:
    """In a plain folder, and there they stay."""
    prepare(SECRET, tmp_path / "v", mounts=mounts)
    assert (tmp_path / "v/key").read_bytes() == b"k"
    later = Mounts()
    prepare(SECRET, tmp_path / "v", mounts=later)
    assert later.made == {}


def test_a_field_that_is_none(tmp_path: Path) -> None:
    """The error names volume and field."""
    source = ProjectedFiles(items=(FileItem(path="x", field=FieldRef(path="spec.other")),))
    with pytest.raises(VolumeError, match=r"volume v: fieldRef 'spec.other' is not known"):
        prepare(source, tmp_path / "v")
