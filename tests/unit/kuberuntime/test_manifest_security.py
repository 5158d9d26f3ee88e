"""Security contexts in manifests."""

import pytest

from interpose.errors import ConfigError
from interpose.kuberuntime.manifest import read_pods
from interpose.kuberuntime.pod import Pod, PodSecurityContext, Profile, SecurityContext, SeLinux


def text(of_pod: str, of_container: str) -> str:
    """A pod with both."""
    container = f"{{name: c, image: x, securityContext: {of_container}}}"
    return f"kind: Pod\nmetadata: {{name: p}}\nspec: {{securityContext: {of_pod}, containers: [{container}]}}\n"


def read(of_pod: str = "{}", of_container: str = "{}") -> Pod:
    """The pod."""
    return read_pods(text(of_pod, of_container), "x")[0]


def problems(of_pod: str = "{}", of_container: str = "{}") -> list[str]:
    """What is wrong."""
    with pytest.raises(ConfigError) as caught:
        read_pods(text(of_pod, of_container), "x")
    return [one.partition("securityContext")[2] for one in caught.value.problems]


def test_the_context_of_a_container() -> None:
    """Field by field; the prefix of capabilities is not needed."""
    found = read(
        of_container="{privileged: true, runAsUser: 1, runAsGroup: 2, runAsNonRoot: true, "
        "readOnlyRootFilesystem: true, allowPrivilegeEscalation: true, "
        "capabilities: {add: [NET_ADMIN, CAP_SYS_TIME], drop: [ALL]}, "
        "seccompProfile: {type: Localhost, localhostProfile: a.json}, appArmorProfile: {type: Unconfined}, "
        "seLinuxOptions: {user: u, role: r, type: t, level: l}, procMount: Unmasked}"
    ).containers[0]
    assert found.security == SecurityContext(
        privileged=True,
        run_as_user=1,
        run_as_group=2,
        run_as_non_root=True,
        read_only_root=True,
        allow_privilege_escalation=True,
        add_capabilities=("NET_ADMIN", "SYS_TIME"),
        drop_capabilities=("ALL",),
        seccomp=Profile(type="Localhost", localhost="a.json"),
        apparmor=Profile(type="Unconfined"),
        selinux=SeLinux(user="u", role="r", type="t", level="l"),
        proc_mount="Unmasked",
    )


def test_the_context_of_a_pod() -> None:
    """Field by field."""
    found = read(
        "{runAsUser: 0, supplementalGroups: [5, 6], supplementalGroupsPolicy: Strict, fsGroup: 7, "
        "fsGroupChangePolicy: OnRootMismatch, sysctls: [{name: net.core.somaxconn, value: '5'}], "
        "seccompProfile: {type: RuntimeDefault}}"
    )
    assert found.security == PodSecurityContext(
        run_as_user=0,
        supplemental_groups=(5, 6),
        supplemental_groups_policy="Strict",
        fs_group=7,
        sysctls=(("net.core.somaxconn", "5"),),
        seccomp=Profile(type="RuntimeDefault"),
    )


def test_nobody_gains_what_is_not_there_to_gain() -> None:
    """Without the contradictions it may be forbidden."""
    found = read(of_container="{allowPrivilegeEscalation: false}").containers[0].security
    assert found.allow_privilege_escalation is False


LOCAL = "localhostProfile goes with type Localhost, and only with it"


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        (
            "{privileged: true, allowPrivilegeEscalation: false}",
            ": allowPrivilegeEscalation cannot be false where privileged is true",
        ),
        (
            "{capabilities: {add: [CAP_SYS_ADMIN]}, allowPrivilegeEscalation: false}",
            ": allowPrivilegeEscalation cannot be false where SYS_ADMIN is added",
        ),
        ("{runAsUser: -1}", ".runAsUser: expected a number from 0 to 2147483647, found '-1'"),
        ("{runAsUser: root}", ".runAsUser: expected a number from 0 to 2147483647, found text ('root')"),
        ("{seccompProfile: {type: Localhost}}", f".seccompProfile: {LOCAL}"),
        ("{seccompProfile: {type: Unconfined, localhostProfile: a}}", f".seccompProfile: {LOCAL}"),
        ("{seccompProfile: {}}", ".seccompProfile.type: is missing"),
        (
            "{capabilities: {add: [net_admin]}}",
            ".capabilities.add[0]: expected the name of a capability such as NET_ADMIN, found 'net_admin'",
        ),
        ("{procMount: All}", ".procMount: expected Default or Unmasked, found 'All'"),
        ("{windowsOptions: {hostProcess: true}}", ".windowsOptions: is of Windows, which is not supported"),
    ],
)
def test_contexts_that_contradict_themselves(context: str, problem: str) -> None:
    """Each with its place."""
    assert problems(of_container=context) == [problem]


def test_a_sysctl_is_given_once() -> None:
    """Nobody would know which one counts."""
    twice = "{sysctls: [{name: a.b, value: '1'}, {name: a.b, value: '2'}]}"
    assert problems(twice) == [".sysctls: two sysctls are 'a.b'"]
