"""The folders of pods: made, shown to containers, removed; killed at any step and repaired."""

import os
import signal
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.pods.cri_config.container import ContainerConfigError
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import (
    ContainerSpec,
    EmptyDir,
    EnvVar,
    FieldRef,
    FileItem,
    HostAlias,
    HostPath,
    PodSpec,
    ProjectedFiles,
    Volume,
    VolumeMount,
)
from interpose.node.pods.volumes.mounts import SystemMounter
from interpose.node.pods.volumes.pod_dirs import PodDirs
from interpose.node.pods.volumes.volumes import VolumeError

NODE = NodeFacts(name="n", memory=1000, hosts="127.0.0.1 localhost\n", cluster_domain="d")
IPS = ("10.1.0.1",)


class Mounts:
    """Remembers what is mounted where, and can refuse to let go."""

    def __init__(self, *, possible: bool = True) -> None:
        self.possible = possible
        self.made: list[tuple[str, str]] = []
        self.stuck = False

    def tmpfs(self, target: str, options: str) -> None:
        """Mount memory."""
        self.made.append((target, options))

    def hugetlbfs(self, target: str, options: str) -> None:
        """Mount huge pages."""
        raise AssertionError

    def bind(self, source: int, target: str) -> None:
        """Bind what the descriptor stands for."""
        assert Path(target).is_dir() is Path(f"/proc/self/fd/{source}").is_dir()
        self.made.append((target, str(Path(f"/proc/self/fd/{source}").readlink())))

    def unmount(self, target: str) -> None:
        """Take the last one away."""
        if not self.stuck:
            self.made.remove(next(one for one in reversed(self.made) if one[0] == target))

    def below(self, folder: str) -> list[str]:
        """The last one first."""
        return [path for path, _ in reversed(self.made) if path == folder or path.startswith(f"{folder}/")]


@pytest.fixture
def mounts() -> Mounts:
    """A kernel that mounts."""
    return Mounts()


@pytest.fixture
def dirs(tmp_path: Path, mounts: Mounts) -> PodDirs:
    """Folders below a root that is not there yet."""
    return PodDirs(str(tmp_path / "root"), log_root=str(tmp_path / "logs"), mounting=mounts)


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(one.name for one in folder.iterdir())


def pod(*volumes: Volume, mounted: tuple[VolumeMount, ...] = (), **more: Any) -> PodSpec:
    """A pod with one container."""
    container = ContainerSpec(
        name="c",
        image="i",
        volume_mounts=mounted,
        env=(EnvVar(name="NAME", source=FieldRef(path="metadata.name")),),
        termination_message_path=more.pop("message", ""),
    )
    return PodSpec(**{"name": "p", "uid": "u-1", "containers": (container,), "volumes": volumes, **more})


def shown(
    dirs: PodDirs, of: PodSpec, node: NodeFacts = NODE, ips: tuple[str, ...] = (), count: int = 0
) -> list[cri.Mount]:
    """What the container of a prepared pod sees."""
    dirs.prepare(of, node, ips)
    return dirs.mounts(of, of.containers[0], node, ips, count)


# -- preparing


def test_folders_for_every_container(dirs: PodDirs, tmp_path: Path) -> None:
    """For last words and for logs, of all three kinds."""
    more: dict[str, Any] = {
        kind: (ContainerSpec(name=kind[0], image="i"),) for kind in ("init_containers", "ephemeral_containers")
    }
    dirs.prepare(pod(**more), NODE, ())
    assert names(tmp_path / "root/pods/u-1/containers") == ["c", "e", "i"]
    assert names(tmp_path / "logs/default_p_u-1") == ["c", "e", "i"]
    assert (tmp_path / "root/pods/u-1").stat().st_mode & 0o007 == 0


@pytest.mark.parametrize(
    ("more", "ips", "expected"),
    [
        ({}, IPS, "10.1.0.1\tp\n"),
        ({}, (), None),
        ({"host_network": True}, IPS, None),
        ({"host_network": True, "host_aliases": (HostAlias(ip="1.2.3.4", hostnames=("a",)),)}, (), "1.2.3.4\ta\n"),
        ({"host_aliases": (HostAlias(ip="1.2.3.4", hostnames=("a",)),)}, (), "1.2.3.4\ta\n"),
    ],
)
def test_the_hosts_file(dirs: PodDirs, more: dict[str, Any], ips: tuple[str, ...], expected: str | None) -> None:
    """Written and mounted where the node's own will not do."""
    found = shown(dirs, pod(**more), ips=ips)
    if expected is None:
        assert found == []
        return
    [mount] = found
    assert mount.container_path == "/etc/hosts"
    assert Path(mount.host_path).read_text().endswith(expected)
    assert Path(mount.host_path).stat().st_mode & 0o777 == 0o644


def test_the_hosts_file_follows_the_address(dirs: PodDirs, tmp_path: Path) -> None:
    """And is left alone while it is right."""
    path = tmp_path / "root/pods/u-1/etc-hosts"
    dirs.prepare(pod(), NODE, IPS)
    before = path.stat()
    dirs.prepare(pod(), NODE, IPS)
    assert path.stat().st_ino == before.st_ino
    dirs.prepare(pod(), NODE, ("10.1.0.2",))
    assert path.read_text().endswith("10.1.0.2\tp\n")


def test_a_hosts_file_that_a_container_has_blown_up_is_written_anew(dirs: PodDirs, tmp_path: Path) -> None:
    """It is not read as a whole."""
    path = tmp_path / "root/pods/u-1/etc-hosts"
    dirs.prepare(pod(), NODE, IPS)
    os.truncate(path, 64 << 20)
    tracemalloc.start()
    try:
        dirs.prepare(pod(), NODE, IPS)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20
    assert path.read_text().endswith("10.1.0.1\tp\n")


def test_volumes_are_made_ready(dirs: PodDirs, mounts: Mounts, tmp_path: Path) -> None:
    """Those of the node where they are, the others in the pod's folder; twice is as once."""
    of = pod(
        Volume(name="a", source=EmptyDir()),
        Volume(name="m", source=EmptyDir(medium="Memory")),
        Volume(name="f", source=ProjectedFiles(items=(FileItem(path="x", content=b"1"),))),
        Volume(name="h", source=HostPath(path=str(tmp_path / "host"), type="DirectoryOrCreate")),
    )
    for _ in range(2):
        dirs.prepare(of, NODE, ())
    folder = tmp_path / "root/pods/u-1/volumes"
    assert names(folder) == ["a", "f", "m"]
    assert mounts.made == [(str(folder / "m"), "mode=777")]
    assert (tmp_path / "host").is_dir()


def test_what_cannot_be_made_is_said(dirs: PodDirs, tmp_path: Path) -> None:
    """With the volume's name, or the path of the folder."""
    with pytest.raises(VolumeError, match="volume h: "):
        dirs.prepare(pod(Volume(name="h", source=HostPath(path=str(tmp_path / "none"), type="File"))), NODE, ())
    (tmp_path / "file").touch()
    with pytest.raises(VolumeError, match=r"folder of the pod: .*Not a directory"):
        PodDirs(str(tmp_path / "file")).prepare(pod(), NODE, ())


@pytest.mark.parametrize("uid", ["", ".", "..", "a/b", "a\0"])
def test_a_uid_that_is_no_name(dirs: PodDirs, uid: str) -> None:
    """It would lead elsewhere."""
    with pytest.raises(VolumeError, match="is not a uid of a pod"):
        dirs.prepare(pod(uid=uid), NODE, ())
    with pytest.raises(ValueError, match="is not a uid of a pod"):
        dirs.remove(uid)


# -- mounts


def test_mounts_of_volumes(dirs: PodDirs, tmp_path: Path) -> None:
    """Where the manifest says, read-only if it says so or it is a volume of files."""
    of = pod(
        Volume(name="a", source=EmptyDir()),
        Volume(name="f", source=ProjectedFiles()),
        Volume(name="h", source=HostPath(path="/some/path")),
        mounted=(
            VolumeMount(name="a", mount_path="/a"),
            VolumeMount(name="f", mount_path="relative"),
            VolumeMount(name="h", mount_path="/h", read_only=True, propagation="HostToContainer"),
            VolumeMount(name="h", mount_path="/h2", propagation="Bidirectional", recursive_read_only="IfPossible"),
        ),
    )
    volumes = tmp_path / "root/pods/u-1/volumes"
    assert shown(dirs, of) == [
        cri.Mount(container_path="/a", host_path=str(volumes / "a")),
        cri.Mount(container_path="/relative", host_path=str(volumes / "f"), readonly=True),
        cri.Mount(
            container_path="/h",
            host_path="/some/path",
            readonly=True,
            propagation=cri.PROPAGATION_HOST_TO_CONTAINER,
        ),
        cri.Mount(container_path="/h2", host_path="/some/path", propagation=cri.PROPAGATION_BIDIRECTIONAL),
    ]


@pytest.mark.parametrize(
    ("wanted", "possible", "expected"),
    [
        ("Disabled", True, False),
        ("IfPossible", False, False),
        ("IfPossible", True, True),
        ("Enabled", True, True),
        ("Enabled", False, None),
    ],
)
def test_read_only_to_the_leaves(dirs: PodDirs, wanted: str, possible: bool, expected: bool | None) -> None:
    """As far as the runtime can; refused if it must and cannot."""
    node = NodeFacts(name="n", memory=1, recursive_read_only=possible)
    mounted = VolumeMount(name="a", mount_path="/a", read_only=True, recursive_read_only=wanted)
    of = pod(Volume(name="a", source=EmptyDir()), mounted=(mounted,))
    if expected is None:
        with pytest.raises(ContainerConfigError, match=r"container c: volumeMount 'a': recursiveReadOnly is Enabled"):
            shown(dirs, of, node)
    else:
        assert shown(dirs, of, node)[0].recursive_read_only is expected


@pytest.mark.parametrize("selinux", [True, False])
def test_labels_for_what_is_the_pods_own(dirs: PodDirs, tmp_path: Path, selinux: bool) -> None:
    """Not for what is the node's, nor on a node without labels."""
    of = pod(
        Volume(name="a", source=EmptyDir()),
        Volume(name="f", source=ProjectedFiles()),
        Volume(name="h", source=HostPath(path=str(tmp_path))),
        mounted=(
            VolumeMount(name="a", mount_path="/a"),
            VolumeMount(name="a", mount_path="/part", sub_path="x"),
            VolumeMount(name="f", mount_path="/f"),
            VolumeMount(name="h", mount_path="/h"),
            VolumeMount(name="h", mount_path="/h/part", sub_path="y"),
        ),
        message="/m",
    )
    found = shown(dirs, of, NodeFacts(name="n", memory=1, selinux=selinux), IPS)
    labelled = [one.container_path for one in found if one.selinux_relabel]
    assert labelled == (["/a", "/part", "/f", "/etc/hosts", "/m"] if selinux else [])


def test_a_hosts_file_of_its_own(dirs: PodDirs) -> None:
    """A volume mounted there wins over ours."""
    mounted = VolumeMount(name="a", mount_path="/etc/hosts")
    found = shown(dirs, pod(Volume(name="a", source=EmptyDir()), mounted=(mounted,)), ips=IPS)
    assert [one.container_path for one in found] == ["/etc/hosts"]


@pytest.mark.parametrize(
    ("mounted", "words"),
    [
        (VolumeMount(name="x", mount_path="/x"), "volumeMount 'x': the pod has no such volume"),
        (VolumeMount(name="a", mount_path="/x", sub_path="../x"), "volumeMount 'a': subPath '../x' must be"),
        (VolumeMount(name="a", mount_path="/x", sub_path_expr="$(NONE)"), "there is no variable 'NONE'"),
        (VolumeMount(name="f", mount_path="/x", sub_path="none"), "No such file or directory"),
    ],
)
def test_mounts_that_cannot_be_had(dirs: PodDirs, mounted: VolumeMount, words: str) -> None:
    """The error names container and volume."""
    of = pod(Volume(name="a", source=EmptyDir()), Volume(name="f", source=ProjectedFiles()), mounted=(mounted,))
    with pytest.raises(ContainerConfigError, match=f"container c: .*{words}"):
        shown(dirs, of)


# -- parts of volumes


def part(sub_path: str, expression: str = "") -> PodSpec:
    """A pod that mounts a part of its volumes."""
    volumes = (
        Volume(name="a", source=EmptyDir()),
        Volume(name="f", source=ProjectedFiles(items=(FileItem(path="x", content=b"1"),))),
    )
    mounted = (
        VolumeMount(name="a", mount_path="/a", sub_path=sub_path, sub_path_expr=expression),
        VolumeMount(name="f", mount_path="/f", sub_path="x"),
    )
    return pod(*volumes, mounted=mounted)


def test_a_part_is_bound_to_a_place_of_ours(dirs: PodDirs, mounts: Mounts, tmp_path: Path) -> None:
    """The runtime never walks through what a container can change; again with each container."""
    folder = tmp_path / "root/pods/u-1"
    for count in range(2):
        found = shown(dirs, part("x/y"), count=count)
        places = [str(folder / f"volume-subpaths/{place}") for place in ("a/c/0", "f/c/1")]
        assert [one.host_path for one in found] == places
        [(_, first), (_, second)] = mounts.made
        assert first == str(folder / "volumes/a/x/y")
        assert Path(second).read_bytes() == b"1"
        assert Path(second).name == "x"


def test_a_part_named_by_the_pod(dirs: PodDirs, mounts: Mounts) -> None:
    """With its variables."""
    shown(dirs, part("", "logs/$(NAME)"))
    assert mounts.made[0][1].endswith("/volumes/a/logs/p")


def test_a_file_where_a_folder_was(dirs: PodDirs, mounts: Mounts, tmp_path: Path) -> None:
    """The place is made anew, whatever is left there."""
    shown(dirs, part("x"))
    inner = tmp_path / "root/pods/u-1/volumes/a/x"
    inner.rmdir()
    inner.touch()
    shown(dirs, part("x"))
    inner.unlink()
    shown(dirs, part("x"))
    place = tmp_path / "root/pods/u-1/volume-subpaths/a/c/0"
    place.rmdir()
    place.symlink_to("/etc")
    shown(dirs, part("x"))
    assert place.is_dir()
    assert not place.is_symlink()
    assert len(mounts.made) == 2


def test_without_the_right_to_mount_the_real_path_is_given(tmp_path: Path) -> None:
    """As good as it gets."""
    dirs = PodDirs(str(tmp_path), log_root=str(tmp_path / "logs"), mounting=Mounts(possible=False))
    assert shown(dirs, part("x"))[0].host_path == str(tmp_path / "pods/u-1/volumes/a/x")


# -- last words


def test_a_file_for_last_words(dirs: PodDirs) -> None:
    """Empty, for everybody to write, one for each start; the last two before it are kept."""
    of = pod(message="/dev/termination-log")
    for count in range(5):
        [mount] = shown(dirs, of, count=count)
        assert mount.container_path == "/dev/termination-log"
        path = Path(mount.host_path)
        assert path.read_bytes() == b""
        assert path.stat().st_mode & 0o777 == 0o666
        path.write_text("words")
    assert names(path.parent) == ["00000002", "00000003", "00000004"]
    [mount] = dirs.mounts(of, of.containers[0], NODE, (), 4)
    assert Path(mount.host_path).read_bytes() == b""


# -- the mark of a stop


def test_a_stop_by_hand_is_remembered(dirs: PodDirs) -> None:
    """Until it is taken back, or the folder goes."""
    assert not dirs.is_stopped("u-1")
    dirs.clear_stopped("u-1")
    dirs.mark_stopped("u-1")
    dirs.mark_stopped("u-1")
    assert dirs.is_stopped("u-1")
    dirs.clear_stopped("u-1")
    assert not dirs.is_stopped("u-1")
    dirs.mark_stopped("u-1")
    dirs.remove("u-1")
    assert not dirs.is_stopped("u-1")


# -- removing


def test_everything_goes(dirs: PodDirs, mounts: Mounts, tmp_path: Path) -> None:
    """Mounts first; other pods, the node's paths and what links show stay."""
    host = tmp_path / "host"
    host.mkdir()
    (host / "precious").touch()
    memory = Volume(name="m", source=EmptyDir(medium="Memory"))
    node = Volume(name="h", source=HostPath(path=str(host)))
    mounted = (VolumeMount(name="h", mount_path="/h", sub_path="."), VolumeMount(name="m", mount_path="/m"))
    shown(dirs, pod(memory, node, mounted=mounted), ips=IPS)
    (tmp_path / "root/pods/u-1/volumes/out").symlink_to(host)
    dirs.prepare(pod(uid="u-2"), NODE, ())
    assert dirs.uids() == ["u-1", "u-2"]
    assert len(mounts.made) == 2
    dirs.remove("u-1")
    dirs.remove("u-1")
    assert dirs.uids() == ["u-2"]
    assert mounts.made == []
    assert (host / "precious").exists()


def test_what_stays_mounted_is_not_removed(dirs: PodDirs, mounts: Mounts, tmp_path: Path) -> None:
    """Nothing at all is, and it can be tried again."""
    dirs.prepare(pod(Volume(name="m", source=EmptyDir(medium="Memory"))), NODE, ())
    inner = tmp_path / "root/pods/u-1/volumes/m/data"
    inner.touch()
    mounts.stuck = True
    with pytest.raises(OSError, match=r"is still mounted: .*/volumes/m"):
        dirs.remove("u-1")
    assert inner.exists()
    mounts.stuck = False
    dirs.remove("u-1")
    assert dirs.uids() == []


def test_there_are_no_pods_yet(dirs: PodDirs, tmp_path: Path) -> None:
    """And files beside the folders are none."""
    assert dirs.uids() == []
    (tmp_path / "root/pods").mkdir(parents=True)
    (tmp_path / "root/pods/file").touch()
    (tmp_path / "root/pods/link").symlink_to("/")
    assert dirs.uids() == []


# -- killed


def killed_at(step: int, work: Any) -> bool:
    """Do something in a process of its own that is killed at its Nth touch of the disk; whether it was."""
    pid = os.fork()
    if pid == 0:
        left = step

        def watch(event: str, _args: object) -> None:
            nonlocal left
            if event == "open" or (event.startswith("os.") and event != "os.kill"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def rich() -> PodSpec:
    """A pod with everything that needs the disk only."""
    volumes = (
        Volume(name="a", source=EmptyDir()),
        Volume(
            name="f",
            source=ProjectedFiles(items=(FileItem(path="x", content=b"1"), FileItem(path="d/y", content=b"2"))),
        ),
    )
    mounted = (
        VolumeMount(name="a", mount_path="/a", sub_path="s/t"),
        VolumeMount(name="f", mount_path="/f"),
    )
    return pod(*volumes, mounted=mounted, message="/m")


def test_killed_at_any_step_of_preparing(tmp_path: Path) -> None:
    """The next one completes it, and everything can be removed."""
    for step in range(1000):
        dirs = PodDirs(str(tmp_path / f"r{step}"), log_root=str(tmp_path / "logs"), mounting=Mounts(possible=False))
        of = rich()
        killed = killed_at(step, lambda dirs=dirs, of=of: shown(dirs, of, ips=IPS))
        found = shown(dirs, of, ips=IPS)
        folder = tmp_path / f"r{step}/pods/u-1"
        assert [one.container_path for one in found] == ["/a", "/f", "/etc/hosts", "/m"]
        assert (folder / "volumes/a").stat().st_mode & 0o777 == 0o777
        assert ((folder / "volumes/f/x").read_bytes(), (folder / "volumes/f/d/y").read_bytes()) == (b"1", b"2")
        dirs.remove("u-1")
        assert dirs.uids() == []
        if not killed:
            break
    assert 20 < step < 999


def test_killed_at_any_step_of_removing(tmp_path: Path) -> None:
    """What is left can be removed, or used again."""
    for step in range(1000):
        dirs = PodDirs(str(tmp_path / f"r{step}"), log_root=str(tmp_path / "logs"), mounting=Mounts(possible=False))
        of = rich()
        shown(dirs, of, ips=IPS)
        killed = killed_at(step, lambda dirs=dirs: dirs.remove("u-1"))
        if step % 2:
            assert len(shown(dirs, of, ips=IPS)) == 4
        dirs.remove("u-1")
        assert dirs.uids() == []
        if not killed:
            break
    assert 10 < step < 999


def test_with_the_kernel_itself(tmp_path: Path) -> None:
    """Real mounts, and the folder of a killed manager."""
    probe = tmp_path / "probe"
    probe.mkdir()
    try:
        SystemMounter().tmpfs(str(probe), "")
    except OSError as error:
        pytest.skip(f"mounting needs root: {error}")
    SystemMounter().unmount(str(probe))
    host = tmp_path / "host"
    (host / "deep").mkdir(parents=True)
    (host / "deep/precious").write_text("kept")
    of = pod(
        Volume(name="m", source=EmptyDir(medium="Memory", size_limit=65536)),
        Volume(name="h", source=HostPath(path=str(host))),
        mounted=(
            VolumeMount(name="m", mount_path="/m", sub_path="made"),
            VolumeMount(name="h", mount_path="/h", sub_path="deep"),
            VolumeMount(name="h", mount_path="/p", sub_path="deep/precious"),
        ),
    )
    root = str(tmp_path / "root")
    found = shown(PodDirs(root, log_root=str(tmp_path / "logs")), of)
    assert Path(found[1].host_path, "precious").read_text() == "kept"
    assert Path(found[2].host_path).read_text() == "kept"
    Path(found[0].host_path, "data").touch()
    again = PodDirs(root, log_root=str(tmp_path / "logs"))
    assert [one.host_path for one in shown(again, of)] == [one.host_path for one in found]
    assert Path(found[0].host_path, "data").exists()
    assert len(SystemMounter().below(root)) == 4
    again.remove("u-1")
    assert SystemMounter().below(root) == []
    assert (host / "deep/precious").read_text() == "kept"
    assert again.uids() == []


def test_secrets_in_memory_with_the_kernel_itself(tmp_path: Path) -> None:
    """They are gone from the node with the pod; on the disk there never was anything."""
    item = FileItem(path="key", content=b"secret", secret=True)
    of = pod(Volume(name="s", source=ProjectedFiles(items=(item,))), mounted=(VolumeMount(name="s", mount_path="/s"),))
    dirs, mounting = PodDirs(str(tmp_path / "root"), log_root=str(tmp_path / "logs")), SystemMounter()
    (found,) = (one.host_path for one in shown(dirs, of) if one.container_path == "/s")
    assert Path(found, "key").read_bytes() == b"secret"
    if not mounting.below(found):
        pytest.skip("mounting needs root")
    shown(dirs, of)
    assert mounting.below(found) == [found]
    mounting.unmount(found)
    assert list(Path(found).iterdir()) == []
    shown(dirs, of)  # as after the node was started again
    assert Path(found, "key").read_bytes() == b"secret"
    dirs.remove("u-1")
    assert mounting.below(str(tmp_path)) == []
    assert dirs.uids() == []
