"""The mounts of a container: the kernel's file systems, the sandbox's files, the mounts of the configuration. Pure.

A mount of the configuration replaces one of ours at the same path. Deeper paths come later.
"""

from collections.abc import Iterable, Mapping, Sequence
from posixpath import isabs, normpath
from typing import Any, Final

from interpose.node.runtime.oci.spec_types import (
    MODE_NODE,
    PROPAGATION_BIDIRECTIONAL,
    PROPAGATION_HOST_TO_CONTAINER,
    SandboxFacts,
    SpecError,
)

Document = dict[str, Any]

_HOST_SHM: Final = "/dev/shm"  # noqa: S108 - the place of shared memory, not a temporary file
_MODES: Final = {
    0: ("rprivate", ""),
    PROPAGATION_HOST_TO_CONTAINER: ("rslave", "rslave"),
    PROPAGATION_BIDIRECTIONAL: ("rshared", "rshared"),
}
# Destination, type, source, options.
_KERNEL: Final = (
    ("/proc", "proc", "proc", ("nosuid", "noexec", "nodev")),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/pts", "devpts", "devpts", ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")),
    ("/dev/mqueue", "mqueue", "mqueue", ("nosuid", "noexec", "nodev")),
)
_SYS: Final = (
    ("/sys", "sysfs", "sysfs", ("nosuid", "noexec", "nodev")),
    ("/sys/fs/cgroup", "cgroup", "cgroup", ("nosuid", "noexec", "nodev", "relatime")),
)


def mounts(
    config: Any,
    sandbox: SandboxFacts,
    *,
    volumes: Mapping[str, str],
    sources: Mapping[str, str],
    image_mounts: Mapping[str, str],
) -> list[Document]:
    """`mounts` of the specification.

    `volumes` are the image's: path to folder. `sources` are host paths with links followed; one that is missing is used
    as it is. `image_mounts` are the folders of images that the configuration mounts, by path.
    """
    privileged = config.linux.security_context.privileged
    configured = [_configured(number, mount, sources, image_mounts) for number, mount in enumerate(config.mounts)]
    taken = {mount["destination"] for mount in configured}
    ours = [*_kernel(privileged), *_shared(config, sandbox), *_files(config, sandbox)]
    ours += [
        _bind(place, folder, ("rbind", "rprivate", "rw"))
        for place, folder in volumes.items()
        if normpath(place) not in taken
    ]
    defaults = [mount for mount in ours if not _is_hidden(mount["destination"], taken)]
    return sorted([*defaults, *configured], key=lambda mount: _depth(mount["destination"]))


def rootfs_propagation(config: Any) -> str:
    """The mount propagation of the root file system that the mounts need; empty if none needs any."""
    needs = {_MODES.get(mount.propagation, ("", ""))[1] for mount in config.mounts}
    return next((mode for mode in ("rshared", "rslave") if mode in needs), "")


def _kernel(privileged: bool) -> Iterable[Document]:
    for destination, kind, source, options in _KERNEL:
        yield {"destination": destination, "type": kind, "source": source, "options": list(options)}
    access = "rw" if privileged else "ro"
    for destination, kind, source, options in _SYS:
        yield {"destination": destination, "type": kind, "source": source, "options": [*options, access]}


def _shared(config: Any, sandbox: SandboxFacts) -> Iterable[Document]:
    of_host = config.linux.security_context.namespace_options.ipc == MODE_NODE
    if source := _HOST_SHM if of_host else sandbox.shm:
        yield _bind("/dev/shm", source, ("rbind", "rprivate", "rw"))  # noqa: S108


def _files(config: Any, sandbox: SandboxFacts) -> Iterable[Document]:
    access = "ro" if config.linux.security_context.readonly_rootfs else "rw"
    places = (
        ("/etc/hostname", sandbox.hostname_file),
        ("/etc/hosts", sandbox.hosts),
        ("/etc/resolv.conf", sandbox.resolv_conf),
    )
    return [_bind(place, source, ("rbind", "rprivate", access)) for place, source in places if source]


def _configured(number: int, mount: Any, sources: Mapping[str, str], image_mounts: Mapping[str, str]) -> Document:
    where = f"mounts[{number}]"
    if not mount.container_path:
        raise SpecError(f"{where}.container_path", "is empty")
    if "\0" in mount.container_path or "\0" in mount.host_path:
        raise SpecError(where, "a path has a zero byte in it")
    place = normpath(mount.container_path if isabs(mount.container_path) else f"/{mount.container_path}")
    if place.startswith("//"):
        place = place[1:]
    if place == "/":
        raise SpecError(f"{where}.container_path", "the root cannot be mounted over")
    mode = _MODES.get(mount.propagation)
    if mode is None:
        raise SpecError(f"{where}.propagation", f"{mount.propagation} is not known")
    if mount.uidMappings or mount.gidMappings:
        raise SpecError(f"{where}.uidMappings", "id mapped mounts are not supported")
    access = _access(where, mount)
    if mount.HasField("image") and mount.image.image:
        return _bind(place, _image_source(where, place, mount, image_mounts), ("rbind", "rprivate", "ro"))
    if not mount.host_path:
        raise SpecError(f"{where}.host_path", "is empty")
    source = sources.get(mount.host_path, mount.host_path)
    return _bind(place, source, ("rbind", mode[0], access, *mount.mount_options))


def _access(where: str, mount: Any) -> str:
    if not mount.recursive_read_only:
        return "ro" if mount.readonly else "rw"
    if not mount.readonly:
        raise SpecError(f"{where}.recursive_read_only", "needs readonly")
    if mount.propagation:
        raise SpecError(f"{where}.recursive_read_only", "cannot be had with a propagation other than private")
    return "rro"


def _image_source(where: str, place: str, mount: Any, image_mounts: Mapping[str, str]) -> str:
    if mount.host_path:
        raise SpecError(f"{where}.host_path", "cannot be set together with image")
    source = image_mounts.get(place) or image_mounts.get(mount.container_path)
    if source is None:
        raise SpecError(f"{where}.image", f"{mount.image.image!r} is not mounted")
    return source


def _bind(place: str, source: str, options: Sequence[str]) -> Document:
    return {"destination": place, "type": "bind", "source": source, "options": list(options)}


def _is_hidden(place: str, taken: set[str]) -> bool:
    """Whether the configuration replaces a mount of ours; its own /dev hides all of ours below it."""
    return place in taken or ("/dev" in taken and place.startswith("/dev/"))


def _depth(place: str) -> int:
    return place.count("/")
