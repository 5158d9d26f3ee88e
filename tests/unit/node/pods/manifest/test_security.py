"""Security contexts in manifests."""

import json
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.cri_config.security_context import ImageUser, container_security
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import PodSecurityContext, PodSpec, Profile, SecurityContext, SeLinux


def text(of_pod: str, of_container: str) -> str:
    """A pod with both."""
    container = f"{{name: c, image: x, securityContext: {of_container}}}"
    return f"kind: Pod\nmetadata: {{name: p}}\nspec: {{securityContext: {of_pod}, containers: [{container}]}}\n"


def read(of_pod: str = "{}", of_container: str = "{}") -> PodSpec:
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


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("net/core/somaxconn", "net.core.somaxconn"),
        ("net/ipv4/conf/eth0.1/mtu", "net.ipv4.conf.eth0/1.mtu"),
        ("net.ipv4.conf.eth0/1.mtu", "net.ipv4.conf.eth0/1.mtu"),
        ("sysctl", "sysctl"),
    ],
)
def test_a_sysctl_has_dots_between_its_parts(written: str, meant: str) -> None:
    """However it is written; then what was a dot inside of a part is a slash."""
    assert read(f"{{sysctls: [{{name: {written}, value: '1'}}]}}").security.sysctls == ((meant, "1"),)


def test_a_sysctl_in_two_forms_is_given_twice() -> None:
    """It is one and the same."""
    twice = "{sysctls: [{name: a.b, value: '1'}, {name: a/b, value: '2'}]}"
    assert problems(twice) == [".sysctls: two sysctls are 'a.b'"]


# -- AppArmor, as it was said before it had a field

NOTE = "container.apparmor.security.beta.kubernetes.io/"


def noted(annotations: dict[str, str], of_container: str = "", of_pod: str = "") -> str:
    """A pod with a container of each kind and annotations, and with profiles that are fields."""
    fields = {key: {"appArmorProfile": {"type": key}} for key in (of_container, of_pod) if key}
    one: dict[str, Any] = {"image": "x", "securityContext": fields.get(of_container, {})}
    spec = {
        "securityContext": fields.get(of_pod, {}),
        "containers": [{**one, "name": "c"}],
        "initContainers": [{**one, "name": "i"}],
        "ephemeralContainers": [{**one, "name": "e"}],
    }
    return json.dumps({"kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": spec})


@pytest.mark.parametrize(
    ("value", "profile"),
    [
        ("runtime/default", Profile(type="RuntimeDefault")),
        ("unconfined", Profile(type="Unconfined")),
        ("localhost/a/b", Profile(type="Localhost", localhost="a/b")),
        ("", None),
    ],
)
@pytest.mark.parametrize("name", ["c", "i", "e"])
def test_a_profile_in_an_annotation(name: str, value: str, profile: Profile | None) -> None:
    """Of that container, and of no other."""
    [pod] = read_pods(noted({f"{NOTE}{name}": value, "other": "any text!"}), "x")
    every = (*pod.containers, *pod.init_containers, *pod.ephemeral_containers)
    assert {one.name: one.security.apparmor for one in every} == {"c": None, "i": None, "e": None, name: profile}
    assert pod.annotations == {f"{NOTE}{name}": value, "other": "any text!"}


def test_the_field_of_a_container_comes_before_the_annotation() -> None:
    """And the annotation before the field of the pod, which is for those that say nothing."""
    unconfined = {f"{NOTE}c": "unconfined"}
    [pod] = read_pods(noted(unconfined, of_container="RuntimeDefault"), "x")
    assert pod.containers[0].security.apparmor == Profile(type="RuntimeDefault")
    [pod] = read_pods(noted(unconfined, of_pod="RuntimeDefault"), "x")
    sent = [
        container_security(pod, one, NodeFacts(name="n", memory=1), ImageUser(uid=0)).apparmor_profile
        for one in (*pod.containers, *pod.init_containers)
    ]
    assert sent == ["unconfined", "runtime/default"]


PROFILES = "expected runtime/default or unconfined or localhost/PROFILE"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("c", "RuntimeDefault", [f"{PROFILES}, found 'RuntimeDefault'"]),
        ("c", "localhost/", [f"{PROFILES}, found 'localhost/'"]),
        ("z", "unconfined", ["'z' is the name of no container of the pod"]),
        ("z", "a", ["'z' is the name of no container of the pod", f"{PROFILES}, found 'a'"]),
    ],
)
def test_annotations_that_kubernetes_would_refuse(name: str, value: str, expected: list[str]) -> None:
    """Each with its place; a container that would run without its profile is not started at all."""
    with pytest.raises(ConfigError) as caught:
        read_pods(noted({f"{NOTE}{name}": value}), "x")
    assert caught.value.problems == [f"x line 1: metadata.annotations['{NOTE}{name}']: {one}" for one in expected]


def test_annotations_that_are_none() -> None:
    """As everywhere."""
    text_of = noted({}).replace('"annotations": {}', '"annotations": []')
    with pytest.raises(ConfigError) as caught:
        read_pods(text_of, "x")
    assert caught.value.problems == ["x line 1: metadata.annotations: expected a group of keys, found a list"]


def test_a_sysctl_that_the_kernel_would_not_take_is_refused() -> None:
    """It reads a page at most; the message is short."""
    assert read(f"{{sysctls: [{{name: a.b, value: '{'1' * 4095}'}}]}}").security.sysctls[0][1] == "1" * 4095
    [problem] = problems(f"{{sysctls: [{{name: a.b, value: '{'1' * 70_000}'}}]}}")
    assert problem.startswith(".sysctls[0].value: expected a value of at most 4095 characters")
    assert len(problem) < 300
