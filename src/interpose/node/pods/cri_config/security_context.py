"""What a container may do: users, capabilities, profiles, namespaces. CRI messages out; no IO.

What a container does not say is what its pod says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from interpose.core.model.text import quoted
from interpose.cri.messages import cri
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, PodSpec, Profile, SeLinux

# Kept in step with what kubelets send.
MASKED_PATHS: Final = (
    *(
        f"/proc/{name}"
        for name in (
            "asound",
            "acpi",
            "interrupts",
            "kcore",
            "keys",
            "latency_stats",
            "timer_list",
            "timer_stats",
            "sched_debug",
            "scsi",
        )
    ),
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READONLY_PATHS: Final = tuple(f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger"))
_UNMASKED: Final = "Unmasked"
_DEPRECATED: Final[Mapping[str, str]] = MappingProxyType(
    {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined", "Localhost": "localhost/"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUser:
    """Whom an image runs as: a number, or a name that only the image's own /etc/passwd explains."""

    uid: int | None = None
    username: str = ""


def check_non_root(pod: PodSpec, container: ContainerSpec, image_user: ImageUser) -> None:
    """ValueError if the container must not run as root and would, or might."""
    wanted = _first(container.security.run_as_non_root, pod.security.run_as_non_root)
    if not wanted:
        return
    user = _first(container.security.run_as_user, pod.security.run_as_user)
    if user == 0:
        raise ValueError("runAsNonRoot is set, and runAsUser is 0")
    if user is not None:
        return
    if image_user.username and image_user.uid is None:
        raise ValueError(
            f"runAsNonRoot is set, and the image runs as {quoted(image_user.username)}: whether that is root is not "
            "known, set runAsUser to a number"
        )
    if not image_user.uid:
        raise ValueError("runAsNonRoot is set, and the image runs as root")


def container_security(
    pod: PodSpec, container: ContainerSpec, node: NodeFacts, image_user: ImageUser, target_id: str = ""
) -> cri.LinuxContainerSecurityContext:
    """The security context of a container."""
    own, of_pod = container.security, pod.security
    profile = _first(own.seccomp, of_pod.seccomp)
    if profile is None:
        profile = Profile(type="RuntimeDefault" if node.seccomp_default else "Unconfined")
    apparmor = _first(own.apparmor, of_pod.apparmor)
    user = _first(own.run_as_user, of_pod.run_as_user)
    unmasked = own.proc_mount == _UNMASKED
    message = cri.LinuxContainerSecurityContext(
        privileged=own.privileged,
        namespace_options=namespace_options(pod, target_id),
        selinux_options=_selinux(_first(own.selinux, of_pod.selinux)),
        run_as_user=_number(image_user.uid if user is None else user),
        run_as_username="" if user is not None else image_user.username,
        run_as_group=_number(_first(own.run_as_group, of_pod.run_as_group)),
        readonly_rootfs=own.read_only_root,
        supplemental_groups=supplemental_groups(pod),
        supplemental_groups_policy=_groups_policy(pod),
        no_new_privs=own.allow_privilege_escalation is False,
        masked_paths=() if unmasked else (*MASKED_PATHS, *node.masked_thermal),
        readonly_paths=() if unmasked else READONLY_PATHS,
        seccomp=_profile(profile, node.seccomp_root),
    )
    if own.add_capabilities or own.drop_capabilities:
        message.capabilities.add_capabilities.extend(own.add_capabilities)
        message.capabilities.drop_capabilities.extend(own.drop_capabilities)
    if apparmor is not None:
        message.apparmor.CopyFrom(_profile(apparmor, ""))
        message.apparmor_profile = _DEPRECATED[apparmor.type] + apparmor.localhost
    return message


def sandbox_security(pod: PodSpec) -> cri.LinuxSandboxSecurityContext:
    """The security context of a sandbox. Its own process is always confined: it needs next to nothing."""
    everyone = (*pod.init_containers, *pod.containers, *pod.ephemeral_containers)
    return cri.LinuxSandboxSecurityContext(
        privileged=any(container.security.privileged for container in everyone),
        namespace_options=namespace_options(pod),
        selinux_options=_selinux(pod.security.selinux),
        run_as_user=_number(pod.security.run_as_user),
        run_as_group=_number(pod.security.run_as_group),
        supplemental_groups=supplemental_groups(pod),
        supplemental_groups_policy=_groups_policy(pod),
        seccomp=_profile(Profile(type="RuntimeDefault"), ""),
    )


def namespace_options(pod: PodSpec, target_id: str = "") -> cri.NamespaceOption:
    """Which namespaces are shared with whom; with a target, its processes are seen."""
    if pod.host_pid:
        pid, target_id = cri.NODE, ""  # where all are seen, the target's are
    elif pod.share_process_namespace:
        pid, target_id = cri.POD, ""
    else:
        pid = cri.TARGET if target_id else cri.CONTAINER
    return cri.NamespaceOption(
        network=cri.NODE if pod.host_network else cri.POD,
        ipc=cri.NODE if pod.host_ipc else cri.POD,
        pid=pid,
        target_id=target_id,
    )


def supplemental_groups(pod: PodSpec) -> tuple[int, ...]:
    """Groups that every process of the pod is in besides its own."""
    fs_group = () if pod.security.fs_group is None else (pod.security.fs_group,)
    return (*fs_group, *pod.security.supplemental_groups)


def _groups_policy(pod: PodSpec) -> cri.SupplementalGroupsPolicy:
    return cri.Strict if pod.security.supplemental_groups_policy == "Strict" else cri.Merge


def _first(own: Any, of_pod: Any) -> Any:
    return of_pod if own is None else own


def _number(value: int | None) -> cri.Int64Value | None:
    return None if value is None else cri.Int64Value(value=value)


def _selinux(options: SeLinux | None) -> cri.SELinuxOption | None:
    if options is None:
        return None
    return cri.SELinuxOption(user=options.user, role=options.role, type=options.type, level=options.level)


def _profile(profile: Profile, folder: str) -> cri.SecurityProfile:
    ref = profile.localhost if profile.type == "Localhost" else ""
    return cri.SecurityProfile(profile_type=profile.type, localhost_ref=f"{folder}/{ref}" if ref and folder else ref)
