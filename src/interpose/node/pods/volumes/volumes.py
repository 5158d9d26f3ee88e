"""Volumes of a pod, made ready on the node. Everything may be repeated, and repeated after being killed half-way."""

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from interpose.core.model.quantity import parse_quantity, whole
from interpose.core.model.text import quoted
from interpose.host.rmtree import remove_tree
from interpose.node.pods.cri_config.env import DownwardApiContext, source_value
from interpose.node.pods.cri_config.resources import HUGE_PAGES, pod_memory_limit
from interpose.node.pods.spec import EmptyDir, HostPath, PodSpec, ProjectedFiles, Volume
from interpose.node.pods.volumes.atomic_writer import VolumeFile, write_files
from interpose.node.pods.volumes.mounts import Mounter

_OPEN: Final = 0o777  # containers run as anybody
_SETGID: Final = 0o2000
_SECRETS: Final = "mode=0755"

# What must be at the path of the node, and in which words to say that it is not.
_KINDS: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = MappingProxyType(
    {
        "Directory": (stat.S_ISDIR, "a directory"),
        "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
        "File": (stat.S_ISREG, "a file"),
        "FileOrCreate": (stat.S_ISREG, "a file"),
        "Socket": (stat.S_ISSOCK, "a socket"),
        "CharDevice": (stat.S_ISCHR, "a character device"),
        "BlockDevice": (stat.S_ISBLK, "a block device"),
    }
)


class VolumeError(Exception):
    """A volume cannot be made ready: nothing of the pod is started, and it is tried again."""


def prepare_volume(pod: PodSpec, volume: Volume, path: str, around: DownwardApiContext, mounting: Mounter) -> None:
    """Make a volume ready. `path` is its place in the pod's folder; a hostPath has its own."""
    try:
        match volume.source:
            case HostPath():
                _host_path(volume.source)
            case EmptyDir():
                _empty_dir(pod, volume.source, path, mounting)
            case _:
                if any(item.secret for item in volume.source.items):
                    _keep_in_memory(path, mounting)
                write_files(path, _files(pod, volume.source, around), pod.security.fs_group)
    except (OSError, ValueError) as error:
        raise VolumeError(f"volume {volume.name}: {error}") from error


def _host_path(source: HostPath) -> None:
    if not source.type:
        return  # whatever is there, or what the runtime makes of it
    if source.type not in _KINDS:
        raise ValueError(f"hostPath type {quoted(source.type)} is not known")
    fits, words = _KINDS[source.type]
    if not os.path.lexists(source.path):
        _create(source)
    if not fits(os.stat(source.path).st_mode):  # noqa: PTH116
        raise ValueError(f"hostPath {quoted(source.path)} is not {words}")


def _create(source: HostPath) -> None:
    if source.type == "DirectoryOrCreate":
        Path(source.path).mkdir(mode=0o755, parents=True, exist_ok=True)
    elif source.type == "FileOrCreate":
        os.close(os.open(source.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def _empty_dir(pod: PodSpec, source: EmptyDir, path: str, mounting: Mounter) -> None:
    group = pod.security.fs_group
    mode = _OPEN if group is None else _OPEN | _SETGID
    if not source.medium:
        if not os.path.isdir(path):  # noqa: PTH112
            _make_folder(path, mode, group)
        return
    if not mounting.possible:
        raise ValueError(f"emptyDir medium {source.medium} needs root, to mount it")
    options = [f"mode={mode:o}", *([] if group is None else [f"gid={group}"])]
    Path(path).mkdir(parents=True, exist_ok=True)
    if source.medium == "Memory":
        size = memory_size(pod, source)
        mount, options = mounting.tmpfs, options + ([f"size={size}"] if size else [])
    else:
        mount, options = mounting.hugetlbfs, [*options, f"pagesize={page_size(pod, source.medium)}"]
    if path not in mounting.below(path):
        mount(path, ",".join(options))
        os.chmod(path, mode)  # noqa: PTH101 - huge pages leave the bit for the group out


def _keep_in_memory(path: str, mounting: Mounter) -> None:
    """Secrets are not written to the disk, if we may mount. What has been written there once stays where it is: there
    are containers that see it."""
    Path(path).mkdir(parents=True, exist_ok=True)
    if mounting.possible and not mounting.below(path) and not os.listdir(path):  # noqa: PTH208
        with suppress(PermissionError):  # root, but not on the node itself
            mounting.tmpfs(path, _SECRETS)


def _make_folder(path: str, mode: int, group: int | None) -> None:
    """Make a folder that has its mode and group as soon as it has its name."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    remove_tree(unfinished)
    os.makedirs(unfinished)  # noqa: PTH103
    if group is not None:
        os.chown(unfinished, -1, group)
    os.chmod(unfinished, mode)  # noqa: PTH101
    os.rename(unfinished, path)  # noqa: PTH104


def memory_size(pod: PodSpec, source: EmptyDir) -> int:
    """Bytes of a volume in memory: its limit, but not more than the pod may have; 0 for what the kernel gives."""
    bounds = [source.size_limit or 0, pod_memory_limit(pod)]
    return min(filter(None, bounds), default=0)


def page_size(pod: PodSpec, medium: str) -> int:
    """Bytes of a page of `HugePages-2Mi`, or of `HugePages`: then of the one size that containers of the pod ask for.
    ValueError if none, or not that one, is asked for."""
    limits = [container.resources.limits for container in (*pod.init_containers, *pod.containers)]
    names = sorted({name for of_one in limits for name in of_one if name.startswith(HUGE_PAGES)})
    asked = [whole(parse_quantity(name.removeprefix(HUGE_PAGES))) for name in names]
    _, _, named = medium.partition("-")
    wanted = [whole(parse_quantity(named))] if named else asked
    if len(set(wanted)) != 1 or wanted[0] not in asked:
        raise ValueError(
            f"emptyDir medium {medium}: containers of the pod must have limits of that one size of huge pages, found "
            f"{', '.join(names) or 'none'}"
        )
    return wanted[0]


def _files(pod: PodSpec, source: ProjectedFiles, around: DownwardApiContext) -> dict[str, VolumeFile]:
    return {
        item.path: VolumeFile(
            content=item.content if item.field is None else source_value(pod, None, item.field, around).encode(),
            mode=source.default_mode if item.mode is None else item.mode,
        )
        for item in source.items
    }
