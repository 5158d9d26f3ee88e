"""The folder of each pod on the node: volumes, hosts file, last words of containers.

    ROOT/pods/UID/volumes/NAME                        emptyDir and volumes of files
    ROOT/pods/UID/volume-subpaths/NAME/CONTAINER/N    where a subPath is shown to the runtime
    ROOT/pods/UID/containers/CONTAINER/XXXXXXXX       termination messages, by restart count
    ROOT/pods/UID/etc-hosts

Blocking: call from a thread. Everything may be repeated; whatever moment a process is killed at, `prepare` completes
and `remove` clears away what it left.
"""

import errno
import os
from pathlib import Path
from typing import Final

from interpose.core.model.text import quoted
from interpose.cri.messages import cri
from interpose.host.atomic_file import replace_file
from interpose.host.rmtree import remove_tree
from interpose.node.pods.cri_config.container import ContainerConfigError
from interpose.node.pods.cri_config.dns import hosts_file, node_hosts_file
from interpose.node.pods.cri_config.env import environment, expand_strictly
from interpose.node.pods.labels import LOG_ROOT, log_directory
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, HostPath, PodSpec, ProjectedFiles, Volume, VolumeMount
from interpose.node.pods.volumes.mounts import Mounter, SystemMounter, remove_empty
from interpose.node.pods.volumes.pod_folders import PodFolders
from interpose.node.pods.volumes.subpath import open_inside
from interpose.node.pods.volumes.volumes import VolumeError, prepare_volume

_ETC_HOSTS: Final = "/etc/hosts"
_SUB_PATHS: Final = "volume-subpaths"
_KEPT_MESSAGES: Final = 2  # of the container before, and the one before that
_PROPAGATION: Final = {
    "None": cri.PROPAGATION_PRIVATE,
    "HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL,
}


class PodDirs(PodFolders):
    """The folders of all pods below one root, with all that is in them."""

    def __init__(self, root: str, *, log_root: str = LOG_ROOT, mounting: Mounter | None = None) -> None:
        super().__init__(root)
        self._log_root = log_root
        self._mounting = SystemMounter() if mounting is None else mounting

    # -- preparing

    def prepare(self, pod: PodSpec, node: NodeFacts, ips: tuple[str, ...]) -> None:
        """Make folders, volumes and hosts file; VolumeError if that cannot be done."""
        try:
            folder = self.folder(pod.uid)
            Path(folder).mkdir(mode=0o750, parents=True, exist_ok=True)
            for container in (*pod.init_containers, *pod.containers, *pod.ephemeral_containers):
                Path(folder, "containers", container.name).mkdir(parents=True, exist_ok=True)
                Path(log_directory(pod, self._log_root), container.name).mkdir(parents=True, exist_ok=True)
            self._write_hosts(pod, node, ips)
        except (OSError, ValueError) as error:
            raise VolumeError(f"folder of the pod: {error}") from error
        for volume in pod.volumes:
            prepare_volume(pod, volume, self._volume(pod, volume), node.around(ips), self._mounting)

    def _write_hosts(self, pod: PodSpec, node: NodeFacts, ips: tuple[str, ...]) -> None:
        if not _has_hosts(pod, ips):
            return
        text = node_hosts_file(pod, node.hosts) if pod.host_network else hosts_file(pod, ips, node.cluster_domain)
        path = self._hosts(pod.uid)
        if not _holds(path, text.encode()):
            replace_file(path, text.encode(), mode=0o644)

    # -- mounts of a container

    def mounts(
        self, pod: PodSpec, container: ContainerSpec, node: NodeFacts, ips: tuple[str, ...], restart_count: int
    ) -> list[cri.Mount]:
        """What a container that is about to be created sees of the node; ContainerConfigError if that cannot be had.

        `prepare` was called before.
        """
        try:
            env = environment(pod, container, node.around(ips))
            found = [self._mount(pod, container, index, node, env) for index in range(len(container.volume_mounts))]
            if _has_hosts(pod, ips) and not any(mount.container_path == _ETC_HOSTS for mount in found):
                found.append(_own_mount(_ETC_HOSTS, self._hosts(pod.uid), node))
            if container.termination_message_path:
                path = self._message_file(pod.uid, container.name, restart_count)
                found.append(_own_mount(container.termination_message_path, path, node))
        except (OSError, ValueError) as error:
            raise ContainerConfigError(f"container {container.name}: {error}") from error
        return found

    def _mount(
        self, pod: PodSpec, container: ContainerSpec, index: int, node: NodeFacts, env: dict[str, str]
    ) -> cri.Mount:
        wanted = container.volume_mounts[index]
        volume = next((volume for volume in pod.volumes if volume.name == wanted.name), None)
        if volume is None:
            raise ValueError(f"volumeMount {quoted(wanted.name)}: the pod has no such volume")
        try:
            sub_path = expand_strictly(wanted.sub_path_expr, env) if wanted.sub_path_expr else wanted.sub_path
            host_path = self._volume(pod, volume)
            if sub_path:
                host_path = self._sub_path(pod.uid, container.name, index, volume, host_path, sub_path)
            read_only = wanted.read_only or isinstance(volume.source, ProjectedFiles)
            return cri.Mount(
                container_path=wanted.mount_path if wanted.mount_path.startswith("/") else f"/{wanted.mount_path}",
                host_path=host_path,
                readonly=read_only,
                recursive_read_only=_recursive(wanted, node),
                # What is of the node keeps its label: others may live by it.
                selinux_relabel=node.selinux and not isinstance(volume.source, HostPath),
                propagation=_PROPAGATION[wanted.propagation],
            )
        except (OSError, ValueError) as error:
            raise ValueError(f"volumeMount {quoted(wanted.name)}: {error}") from error

    def _sub_path(self, uid: str, container: str, index: int, volume: Volume, path: str, sub_path: str) -> str:
        """Where the runtime finds a part of a volume. As root it is bound to a place that only we can change."""
        fd, real = open_inside(path, sub_path, create=not isinstance(volume.source, ProjectedFiles))
        try:
            if not self._mounting.possible:
                return real
            target = Path(self.folder(uid), _SUB_PATHS, volume.name, container, str(index))
            for mounted in self._mounting.below(str(target)):
                self._mounting.unmount(mounted)  # of the container before; what is there may have changed
            _make_like(fd, target)
            self._mounting.bind(fd, str(target))
            return str(target)
        finally:
            os.close(fd)

    def _message_file(self, uid: str, name: str, restart_count: int) -> str:
        """An empty file that everybody can write to."""
        folder = Path(self.folder(uid), "containers", name)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{restart_count:08x}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            os.fchmod(fd, 0o666)
        finally:
            os.close(fd)
        for old in folder.iterdir():
            if old.name < f"{restart_count - _KEPT_MESSAGES:08x}" and restart_count >= _KEPT_MESSAGES:
                old.unlink(missing_ok=True)
        return str(path)

    # -- removing

    def remove(self, uid: str) -> None:
        """Remove the folder of a pod; none is fine. OSError if something in it cannot be unmounted or removed."""
        folder = self.folder(uid)
        for mounted in self._mounting.below(folder):
            self._mounting.unmount(mounted)
        if left := self._mounting.below(folder):
            raise OSError(errno.EBUSY, "is still mounted", left[0])
        remove_empty(f"{folder}/{_SUB_PATHS}")
        remove_tree(folder)

    # -- places

    def _hosts(self, uid: str) -> str:
        return f"{self.folder(uid)}/etc-hosts"

    def _volume(self, pod: PodSpec, volume: Volume) -> str:
        if isinstance(volume.source, HostPath):
            return volume.source.path
        return f"{self.folder(pod.uid)}/volumes/{volume.name}"


def _own_mount(container_path: str, host_path: str, node: NodeFacts) -> cri.Mount:
    """A file of ours, in a container."""
    return cri.Mount(container_path=container_path, host_path=host_path, selinux_relabel=node.selinux)


def _has_hosts(pod: PodSpec, ips: tuple[str, ...]) -> bool:
    """Whether the hosts file is ours: the node's will do in its network, and without an address there is no line."""
    return bool(pod.host_aliases) or (bool(ips) and not pod.host_network)


def _holds(path: str, data: bytes) -> bool:
    """Whether a file has this content. Containers can write to it: it may be larger than memory."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(data) + 1) == data
    except OSError:
        return False


def _recursive(wanted: VolumeMount, node: NodeFacts) -> bool:
    if wanted.recursive_read_only == "Enabled" and not node.recursive_read_only:
        raise ValueError("recursiveReadOnly is Enabled, and the runtime cannot do that")
    return wanted.recursive_read_only != "Disabled" and wanted.read_only and node.recursive_read_only


def _make_like(fd: int, target: Path) -> None:
    """A place to mount on: an empty folder or file, as the source is one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.exists():
        if target.is_dir() and not target.is_symlink():
            target.rmdir()
        else:
            target.unlink()
    if os.path.isdir(f"/proc/self/fd/{fd}"):  # noqa: PTH112
        target.mkdir()
    else:
        target.touch()
