"""A container of CRI as an OCI runtime's `config.json`. Pure: all inputs are values.

Same inputs, same document. The request is not trusted to be valid: a SpecError names a bad field.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from interpose.node.runtime.oci import capabilities, seccomp
from interpose.node.runtime.oci.mounts import mounts, rootfs_propagation
from interpose.node.runtime.oci.process import process
from interpose.node.runtime.oci.resources import SYSTEMD, cgroup_path, oci_resources
from interpose.node.runtime.oci.spec_types import (
    MODE_CONTAINER,
    MODE_NODE,
    MODE_POD,
    MODE_TARGET,
    HostFacts,
    ImageDefaults,
    OciDevice,
    SandboxFacts,
    SpecError,
)
from interpose.node.runtime.oci.users import ResolvedUser

__all__ = ["HostFacts", "SandboxFacts", "SpecError", "container_spec", "exec_process"]

VERSION: Final = "1.0.2"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_KIND: Final = "io.kubernetes.cri.container-type"
_TTY: Final = "TERM=xterm"
# crun would put the processes into one more cgroup in the scope, where cgroup readers do not look.
_SUBGROUP: Final = "run.oci.systemd.subgroup"


def container_spec(
    config: Any,
    sandbox: SandboxFacts,
    image: ImageDefaults,
    user: ResolvedUser,
    *,
    host: HostFacts,
    container_id: str,
    rootfs: str,
    devices: Sequence[OciDevice] = (),
    volumes: Mapping[str, str] = _NOTHING,
    sources: Mapping[str, str] = _NOTHING,
    image_mounts: Mapping[str, str] = _NOTHING,
    seccomp_profile: Mapping[str, Any] | None = None,
    target_pid: int | None = None,
) -> dict[str, Any]:
    """The specification of a container.

    `devices` are all devices of the container, `seccomp_profile` is the parsed profile, `target_pid` a process whose
    PID namespace it joins; for the folders see `oci.mounts.mounts`.
    """
    context = config.linux.security_context
    _refuse(config, context)
    capability_sets = capabilities.sets(context.capabilities, privileged=context.privileged, ours=host.capabilities)
    linux: dict[str, Any] = {
        "namespaces": _namespaces(context, sandbox, host, target_pid),
        "resources": {
            **oci_resources(config.linux.resources, host),
            "devices": _device_rules(context.privileged, devices),
        },
        "cgroupsPath": cgroup_path(sandbox.config.linux.cgroup_parent, container_id, host.cgroup_driver),
        "devices": [_node(device) for device in devices],
        "maskedPaths": [] if context.privileged else list(context.masked_paths),
        "readonlyPaths": [] if context.privileged else list(context.readonly_paths),
    }
    if propagation := rootfs_propagation(config):
        linux["rootfsPropagation"] = propagation
    profile = (
        None
        if context.privileged
        else seccomp.choose_profile(context, host, capability_sets["bounding"], seccomp_profile)
    )
    if profile is not None:
        linux["seccomp"] = profile
    return {
        "ociVersion": VERSION,
        "process": process(config, sandbox, image, user, host=host, capabilities=capability_sets),
        "root": {"path": rootfs, "readonly": context.readonly_rootfs},
        "mounts": mounts(config, sandbox, volumes=volumes, sources=sources, image_mounts=image_mounts),
        "annotations": _annotations(config, sandbox, host),
        "linux": linux,
    }


def exec_process(spec: Mapping[str, Any], command: Sequence[str], *, tty: bool) -> dict[str, Any]:
    """The process of an exec in a container, with the user and folder of its first process."""
    if not command:
        raise SpecError("cmd", "is empty")
    document = {**spec["process"], "args": list(command), "terminal": tty}
    if tty and not any(variable.startswith("TERM=") for variable in document["env"]):
        document["env"] = [*document["env"], _TTY]
    return document


def _refuse(config: Any, context: Any) -> None:
    options = context.namespace_options
    if options.HasField("userns_options") and options.userns_options.mode != MODE_NODE:
        raise SpecError("linux.security_context.namespace_options.userns_options", "user namespaces are not supported")
    if len(config.CDI_devices):
        raise SpecError("CDI_devices", "container device interface is not supported")


def _namespaces(context: Any, sandbox: SandboxFacts, host: HostFacts, target: int | None) -> list[dict[str, str]]:
    found: list[dict[str, str]] = [{"type": "mount"}]
    found += [
        {"type": kind, "path": f"/proc/{sandbox.pause_pid}/ns/{file}"}
        for kind, file in (("network", "net"), ("ipc", "ipc"), ("uts", "uts"))
        if kind in sandbox.namespaces
    ]
    found += _process_namespace(context.namespace_options.pid, sandbox, target)
    if host.cgroup_version == 2 and not context.privileged:
        found.append({"type": "cgroup"})
    return found


def _process_namespace(mode: int, sandbox: SandboxFacts, target: int | None) -> list[dict[str, str]]:
    where = "linux.security_context.namespace_options.pid"
    if mode == MODE_CONTAINER:
        return [{"type": "pid"}]
    if mode == MODE_NODE:
        return []
    if mode == MODE_POD:
        if "pid" not in sandbox.namespaces:
            raise SpecError(where, "POD, but the sandbox was not made with processes that are shared")
        return [{"type": "pid", "path": f"/proc/{sandbox.pause_pid}/ns/pid"}]
    if mode != MODE_TARGET:
        raise SpecError(where, f"{mode} is not known")
    if target is None:
        raise SpecError(where, "TARGET, but there is no such container that runs")
    return [{"type": "pid", "path": f"/proc/{target}/ns/pid"}]


def _device_rules(privileged: bool, devices: Sequence[OciDevice]) -> list[dict[str, Any]]:
    """Deny all, then allow the devices. The OCI runtime adds the default ones (null, zero, ptmx ...)."""
    if privileged:
        return [{"allow": True, "access": "rwm"}]
    rules: list[dict[str, Any]] = [{"allow": False, "access": "rwm"}]
    rules += [
        {"allow": True, "type": device.kind, "major": device.major, "minor": device.minor, "access": device.access}
        for device in devices
    ]
    return rules


def _node(device: OciDevice) -> dict[str, Any]:
    return {
        "path": device.path,
        "type": device.kind,
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode,
        "uid": device.uid,
        "gid": device.gid,
    }


def _annotations(config: Any, sandbox: SandboxFacts, host: HostFacts) -> dict[str, str]:
    """The annotations that other tools look for, with containerd's names."""
    pod = sandbox.config.metadata
    prefix = "io.kubernetes.cri."
    return {
        _KIND: "container",
        f"{prefix}container-name": config.metadata.name,
        f"{prefix}image-name": config.image.user_specified_image or config.image.image,
        f"{prefix}sandbox-id": sandbox.id,
        f"{prefix}sandbox-name": pod.name,
        f"{prefix}sandbox-namespace": pod.namespace,
        f"{prefix}sandbox-uid": pod.uid,
        **({_SUBGROUP: ""} if host.cgroup_driver == SYSTEMD else {}),
    }
