"""What a container may do, as a kubelet says it."""

from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.pods.cri_config.security_context import (
    MASKED_PATHS,
    READONLY_PATHS,
    ImageUser,
    check_non_root,
    container_security,
    namespace_options,
    sandbox_security,
)
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, PodSecurityContext, PodSpec, Profile, SecurityContext, SeLinux

NODE = NodeFacts(name="n", memory=1, masked_thermal=("/sys/t",), seccomp_root="/profiles")
ROOT = ImageUser(uid=0)
NOTHING = PodSecurityContext()


def made(
    own: SecurityContext,
    of_pod: PodSecurityContext = NOTHING,
    user: ImageUser = ROOT,
    **more: Any,
) -> cri.LinuxContainerSecurityContext:
    """The context of the one container of a pod."""
    one = ContainerSpec(name="c", image="i", security=own)
    pod = PodSpec(name="p", uid="u", containers=(one,), security=of_pod)
    return container_security(pod, one, more.pop("node", NODE), user, **more)


def test_a_container_that_says_nothing() -> None:
    """As a kubelet sends it: root, unconfined, the dangerous parts of /proc and /sys hidden."""
    assert made(SecurityContext()) == cri.LinuxContainerSecurityContext(
        namespace_options=cri.NamespaceOption(pid=cri.CONTAINER),
        run_as_user=cri.Int64Value(value=0),
        masked_paths=[*MASKED_PATHS, "/sys/t"],
        readonly_paths=READONLY_PATHS,
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.Unconfined),
    )


def test_the_paths() -> None:
    """Exactly the kubelet's."""
    assert [path for path in MASKED_PATHS if not path.startswith("/proc/")] == [
        "/sys/firmware",
        "/sys/devices/virtual/powercap",
    ]
    assert len(MASKED_PATHS) == 12
    assert READONLY_PATHS == ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def test_everything_of_its_own() -> None:
    """Wins over the pod's."""
    own = SecurityContext(
        privileged=True,
        run_as_user=5,
        run_as_group=6,
        read_only_root=True,
        allow_privilege_escalation=False,
        add_capabilities=("NET_ADMIN",),
        drop_capabilities=("ALL",),
        seccomp=Profile(type="Localhost", localhost="x/y.json"),
        apparmor=Profile(type="Localhost", localhost="prof"),
        selinux=SeLinux(user="u", role="r", type="t", level="l"),
        proc_mount="Unmasked",
    )
    of_pod = PodSecurityContext(
        run_as_user=1,
        run_as_group=1,
        supplemental_groups=(10, 11),
        supplemental_groups_policy="Strict",
        fs_group=9,
        seccomp=Profile(type="Unconfined"),
        apparmor=Profile(type="Unconfined"),
        selinux=SeLinux(user="other"),
    )
    assert made(own, of_pod, ImageUser(username="www")) == cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"]),
        privileged=True,
        namespace_options=cri.NamespaceOption(pid=cri.CONTAINER),
        selinux_options=cri.SELinuxOption(user="u", role="r", type="t", level="l"),
        run_as_user=cri.Int64Value(value=5),
        run_as_group=cri.Int64Value(value=6),
        readonly_rootfs=True,
        supplemental_groups=[9, 10, 11],
        supplemental_groups_policy=cri.Strict,
        no_new_privs=True,
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref="/profiles/x/y.json"),
        apparmor=cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref="prof"),
        apparmor_profile="localhost/prof",
    )


def test_the_pods_where_it_says_nothing() -> None:
    """Field by field."""
    of_pod = PodSecurityContext(
        run_as_user=1,
        run_as_group=2,
        seccomp=Profile(type="RuntimeDefault"),
        apparmor=Profile(type="RuntimeDefault"),
        selinux=SeLinux(level="s0"),
    )
    found = made(SecurityContext(allow_privilege_escalation=True), of_pod)
    assert (found.run_as_user.value, found.run_as_group.value, found.selinux_options.level) == (1, 2, "s0")
    assert found.seccomp == cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault)
    assert found.apparmor_profile == "runtime/default"
    assert found.HasField("apparmor")
    assert not found.no_new_privs


def test_a_user_of_the_image_with_a_name() -> None:
    """The runtime looks it up."""
    found = made(SecurityContext(), user=ImageUser(username="www"))
    assert (found.run_as_username, found.HasField("run_as_user")) == ("www", False)
    found = made(SecurityContext(run_as_user=0), user=ImageUser(username="www"))
    assert (found.run_as_username, found.HasField("run_as_user")) == ("", True)


def test_the_profile_of_the_node() -> None:
    """Where nobody says anything and the node wants it."""
    node = NodeFacts(name="n", memory=1, seccomp_default=True)
    assert made(SecurityContext(), node=node).seccomp.profile_type == cri.SecurityProfile.RuntimeDefault
    own = SecurityContext(seccomp=Profile(type="Unconfined"), apparmor=Profile(type="Unconfined"))
    found = made(own, node=node)
    assert found.seccomp.profile_type == cri.SecurityProfile.Unconfined
    assert found.apparmor_profile == "unconfined"


@pytest.mark.parametrize(
    ("more", "target", "network", "pid", "ipc"),
    [
        ({}, "", cri.POD, cri.CONTAINER, cri.POD),
        ({"host_network": True}, "", cri.NODE, cri.CONTAINER, cri.POD),
        ({"host_ipc": True}, "", cri.POD, cri.CONTAINER, cri.NODE),
        ({"host_pid": True}, "", cri.POD, cri.NODE, cri.POD),
        ({"share_process_namespace": True}, "", cri.POD, cri.POD, cri.POD),
        ({"host_network": True, "host_ipc": True}, "id", cri.NODE, cri.TARGET, cri.NODE),
    ],
)
def test_namespaces(more: dict[str, bool], target: str, network: int, pid: int, ipc: int) -> None:
    """Each alone, and with a target."""
    pod = PodSpec(name="p", uid="u", containers=(), **more)  # type: ignore[arg-type]
    found = namespace_options(pod, target)
    assert (found.network, found.pid, found.ipc, found.target_id) == (network, pid, ipc, target)
    assert not found.HasField("userns_options")


@pytest.mark.parametrize(
    ("more", "pid"), [({"host_pid": True}, cri.NODE), ({"share_process_namespace": True}, cri.POD)]
)
def test_who_sees_all_processes_needs_no_target(more: dict[str, bool], pid: int) -> None:
    """Those of the target are among them, and the others would be missed."""
    pod = PodSpec(name="p", uid="u", containers=(), **more)  # type: ignore[arg-type]
    found = namespace_options(pod, "id")
    assert (found.pid, found.target_id) == (pid, "")


YES = SecurityContext(run_as_non_root=True)
YES_POD = PodSecurityContext(run_as_non_root=True)


@pytest.mark.parametrize(
    ("own", "of_pod", "image", "words"),
    [
        (SecurityContext(), PodSecurityContext(), ROOT, ""),
        (SecurityContext(run_as_non_root=False), YES_POD, ROOT, ""),
        (YES, PodSecurityContext(), ROOT, "the image runs as root"),
        (SecurityContext(), YES_POD, ROOT, "the image runs as root"),
        (SecurityContext(), YES_POD, ImageUser(), "the image runs as root"),
        (YES, PodSecurityContext(), ImageUser(uid=7), ""),
        (YES, PodSecurityContext(), ImageUser(username="www"), "the image runs as 'www': .* set runAsUser"),
        (YES, PodSecurityContext(run_as_user=7), ROOT, ""),
        (
            SecurityContext(run_as_non_root=True, run_as_user=0),
            PodSecurityContext(run_as_user=7),
            ROOT,
            "runAsUser is 0",
        ),
        (SecurityContext(run_as_user=7), YES_POD, ImageUser(username="www"), ""),
    ],
)
def test_who_must_not_be_root(own: SecurityContext, of_pod: PodSecurityContext, image: ImageUser, words: str) -> None:
    """By manifest and image; a name of the image proves nothing."""
    one = ContainerSpec(name="c", image="i", security=own)
    pod = PodSpec(name="p", uid="u", containers=(one,), security=of_pod)
    if not words:
        check_non_root(pod, one, image)
        return
    with pytest.raises(ValueError, match=f"runAsNonRoot is set, and {words}"):
        check_non_root(pod, one, image)


def test_the_sandbox() -> None:
    """Confined in any case; privileged if one of its containers is."""
    plain = ContainerSpec(name="c", image="i")
    of_pod = PodSecurityContext(
        run_as_user=1, run_as_group=2, fs_group=3, supplemental_groups=(4,), seccomp=Profile(type="Unconfined")
    )
    pod = PodSpec(name="p", uid="u", containers=(plain,), security=of_pod)
    assert sandbox_security(pod) == cri.LinuxSandboxSecurityContext(
        namespace_options=cri.NamespaceOption(pid=cri.CONTAINER),
        run_as_user=cri.Int64Value(value=1),
        run_as_group=cri.Int64Value(value=2),
        supplemental_groups=[3, 4],
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault),
    )
    strong = ContainerSpec(name="s", image="i", security=SecurityContext(privileged=True))
    for kind in ("init_containers", "ephemeral_containers"):
        assert sandbox_security(PodSpec(name="p", uid="u", containers=(plain,), **{kind: (strong,)})).privileged  # type: ignore[arg-type]
