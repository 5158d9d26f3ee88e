"""Which devices and mounts of a create request say where a container should be."""

import re

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.policy.request import Key, Request
from interpose.resmgr.hints.rules import HintKind, HintPath, HintRules, PathRules, find_paths, read_rules

FAMILY = "resource-policy.nri.io"
KUBELET = "/var/lib/kubelet/pods/1c-2d/volumes"


def request(**annotations: str) -> Request:
    names = {f"{name.replace('_', '.')}.{FAMILY}": text for name, text in annotations.items()}
    return Request(key=Key("pod-1", "app"), pod_annotations=names)


def config(*mounts: tuple[str, str, bool], devices: dict[str, str] | None = None) -> cri.ContainerConfig:
    return cri.ContainerConfig(
        mounts=[cri.Mount(host_path=host, container_path=path, readonly=ro) for host, path, ro in mounts],
        devices=[cri.Device(host_path=path, permissions=may) for path, may in (devices or {}).items()],
    )


def paths(found: tuple[HintPath, ...]) -> list[str]:
    return [path.path for path in found]


def test_writable_devices_and_mounts_count() -> None:
    """Devices first: these answer at once."""
    made = config(("/data", "/data", False), ("/ro", "/ro", True), devices={"/dev/sda": "rwm", "/dev/sdb": "r"})
    assert find_paths(made, HintRules()) == (
        HintPath("/dev/sda", HintKind.DEVICES),
        HintPath("/data", HintKind.MOUNTS),
    )


@pytest.mark.parametrize(
    ("host", "container"),
    [
        ("/var/lib/kubelet/pods/1c-2d/etc-hosts", "/etc/hosts"),
        ("/var/lib/kubelet/pods/1c-2d/containers/app/0a", "/dev/termination-log"),
        ("/etc/localtime", "/tz"),
        ("/usr/lib64/modules", "/modules"),
        ("/x", "/lib/firmware"),
        (f"{KUBELET}/kubernetes.io~configmap/conf", "/conf"),
        (f"{KUBELET}/kubernetes.io~secret/key", "/key"),
        (f"{KUBELET}/kubernetes.io~projected/token", "/token"),
        (f"{KUBELET}/kubernetes.io~empty-dir/tmp", "/tmp"),
        (f"/data/k8s{KUBELET}/kubernetes.io~downward-api/x", "/x"),
        ("", "/image"),
        ("relative", "/relative"),
        ("/nul\0", "/nul"),
    ],
)
def test_files_of_the_kubelet_and_of_the_system_do_not_count(host: str, container: str) -> None:
    """They are on the disk of the system, whose place is no wish of a pod."""
    assert find_paths(config((host, container, False)), HintRules()) == ()


def test_volumes_with_a_disk_of_their_own_count() -> None:
    """Those that the kubelet mounts for a pod too; one that is mounted twice counts once."""
    path = f"{KUBELET}/kubernetes.io~local-volume/fast"
    assert paths(find_paths(config((path, "/a", False), (path, "/b", False)), HintRules())) == [path]


def test_only_so_many_paths_are_looked_at() -> None:
    """Every one of them takes time of a create."""
    many = config(*((f"/m{number}", f"/m{number}", False) for number in range(100)))
    assert len(find_paths(many, HintRules())) == 64


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("true", set(HintKind)),
        ("false", set()),
        ("all", set(HintKind)),
        ("none", set()),
        ("mounts", {HintKind.MOUNTS}),
        ("Devices, pod-resources", {HintKind.DEVICES, HintKind.POD_RESOURCES}),
        ("none,mounts", {HintKind.MOUNTS}),
    ],
)
def test_an_annotation_says_what_counts(text: str, kinds: set[HintKind]) -> None:
    """A truth value, or a list of kinds."""
    assert read_rules(request(topologyhints=text)).kinds == kinds


def test_kinds_that_do_not_count_are_not_looked_for() -> None:
    """Nothing is looked at for a container that wants no hints."""
    made = config(("/data", "/data", False), devices={"/dev/sda": "rwm"})
    assert paths(find_paths(made, HintRules(kinds=frozenset({HintKind.MOUNTS})))) == ["/data"]
    assert paths(find_paths(made, HintRules(kinds=frozenset({HintKind.DEVICES})))) == ["/dev/sda"]
    assert find_paths(made, HintRules(kinds=frozenset())) == ()


def test_paths_can_be_denied_and_allowed() -> None:
    """By the path on the host or by the device of sysfs; what is allowed may not be denied."""
    rules = read_rules(
        request(
            deny_topologyhints="{type: prefix, paths: [/data, /sys/devices/pci0000]}",
            allow_topologyhints='type: glob\npaths: ["/data/fast*"]',
        )
    )
    assert rules == HintRules(
        deny=PathRules(paths=("/data", "/sys/devices/pci0000")), allow=PathRules(globs=True, paths=("/data/fast*",))
    )
    assert not rules.counts("/data/slow", "/sys/devices/x")
    assert not rules.counts("/other", "/sys/devices/pci0000/a")
    assert rules.counts("/data/fast1", "/sys/devices/pci0000/a")
    assert rules.counts("/other", "/sys/devices/x")


def test_what_is_denied_for_certain_is_not_looked_at() -> None:
    """Its file system may not answer, which is a reason to deny it; where something is allowed the device decides."""
    made = config(("/nfs/a", "/a", False), ("/data", "/data", False))
    deny = PathRules(paths=("/nfs",))
    assert paths(find_paths(made, HintRules(deny=deny))) == ["/data"]
    assert paths(find_paths(made, HintRules(deny=deny, allow=PathRules(paths=("/sys/devices/x",))))) == [
        "/nfs/a",
        "/data",
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("topologyhints", "maybe", "has 'maybe', which is none of all, none, mounts, devices, pod-resources"),
        ("topologyhints", "", "has '', which is none of"),
        ("deny_topologyhints", "", "annotation deny.topologyhints.resource-policy.nri.io: is empty"),
        ("deny_topologyhints", "[a]", "is no map such as {type: prefix, paths: [/dev/sda]}"),
        ("deny_topologyhints", "{type: glob, type: prefix, paths: []}", "type"),
        ("deny_topologyhints", "{paths: [/a]}", "has type '', which is neither prefix nor glob"),
        ("deny_topologyhints", "{type: prefx, paths: [/a]}", "which is neither prefix nor glob, did you mean prefix?"),
        ("deny_topologyhints", "{type: prefix}", "has no list of paths"),
        ("deny_topologyhints", "{type: prefix, paths: /a}", "has no list of paths"),
        ("deny_topologyhints", "{type: prefix, paths: [[]]}", "has no list of paths"),
        ("deny_topologyhints", "{type: prefix, path: [/a]}", "has 'path', which is none of type, paths"),
        ("allow_topologyhints", "{type: glob, paths: ['[']}", "has a pattern '[': a class of characters has no end"),
        ("allow_topologyhints", "{", "annotation allow.topologyhints.resource-policy.nri.io"),
        ("allow_topologyhints", "x" * 20_000, "has 20000 characters, more than 16384"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_named(name: str, text: str, problem: str) -> None:
    """With its key: it is never as good as absent."""
    with pytest.raises(ValueError, match=re.escape(problem)) as raised:
        read_rules(request(**{name: text}))
    assert str(raised.value).startswith(f"annotation {name.replace('_', '.')}.{FAMILY}")
