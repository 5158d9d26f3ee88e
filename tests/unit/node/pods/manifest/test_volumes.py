"""Volumes in manifests, and where containers have them."""

from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.manifest.env import FILE_FIELDS
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import (
    EmptyDir,
    FieldRef,
    FileItem,
    HostPath,
    ProjectedFiles,
    ResourceFieldRef,
    VolumeMount,
)

BESIDE = (
    "kind: ConfigMap\nmetadata: {name: m}\ndata: {a: x}\n---\nkind: Secret\nmetadata: {name: s}\ndata: {b: eQ==}\n---\n"
)


def text(volumes: str, mounts: str) -> str:
    """A pod with volumes."""
    container = f"{{name: c, image: x, volumeMounts: {mounts}}}"
    return f"{BESIDE}kind: Pod\nmetadata: {{name: p}}\nspec: {{volumes: {volumes}, containers: [{container}]}}\n"


def source(volume: str) -> Any:
    """What a volume is."""
    [pod] = read_pods(text(f"[{{name: v, {volume}}}]", "[]"), "x")
    return pod.volumes[0].source


def problems(volumes: str = "[{name: v}]", mounts: str = "[]") -> list[str]:
    """What is wrong."""
    with pytest.raises(ConfigError) as caught:
        read_pods(text(volumes, mounts), "x")
    return [one.partition(": spec.")[2] for one in caught.value.problems]


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ("emptyDir: {}", EmptyDir()),
        ("emptyDir: null", EmptyDir()),
        ("emptyDir: {medium: Memory, sizeLimit: 1Mi}", EmptyDir(medium="Memory", size_limit=1 << 20)),
        ("hostPath: {path: /a}", HostPath(path="/a")),
        ("hostPath: {path: /a, type: DirectoryOrCreate}", HostPath(path="/a", type="DirectoryOrCreate")),
        ("hostPath: {path: /a, type: ''}", HostPath(path="/a")),
        ("configMap: {name: m}", ProjectedFiles(items=(FileItem(path="a", content=b"x"),))),
        (
            "secret: {secretName: s, defaultMode: 0400}",
            ProjectedFiles(items=(FileItem(path="b", content=b"y", secret=True),), default_mode=0o400),
        ),
        ("projected: {}", ProjectedFiles()),
        ("downwardAPI: {}", ProjectedFiles()),
        (
            "downwardAPI: {defaultMode: 0440, items: [{path: l, mode: 0400, fieldRef: {fieldPath: metadata.labels}}]}",
            ProjectedFiles(
                items=(FileItem(path="l", field=FieldRef(path="metadata.labels"), mode=0o400),), default_mode=0o440
            ),
        ),
        (
            "downwardAPI: {items: [{path: l, resourceFieldRef: {containerName: c, resource: limits.cpu}}]}",
            ProjectedFiles(items=(FileItem(path="l", field=ResourceFieldRef(resource="limits.cpu", container="c")),)),
        ),
        (
            "projected: {defaultMode: 0400, sources: [{configMap: {name: m}}, {secret: {name: s}}, {downwardAPI: {}}]}",
            ProjectedFiles(
                items=(FileItem(path="a", content=b"x"), FileItem(path="b", content=b"y", secret=True)),
                default_mode=0o400,
            ),
        ),
    ],
)
def test_what_a_volume_is(volume: str, expected: Any) -> None:
    """Of all kinds that a node can make."""
    assert source(volume) == expected


def test_a_volume_that_says_nothing_is_an_empty_folder() -> None:
    """As Kubernetes fills it in."""
    [pod] = read_pods(text("[{name: v}]", "[]"), "x")
    assert pod.volumes[0].source == EmptyDir()


NONE = "expected exactly one kind of it, found none"
CLUSTER = "needs a cluster, and there is none here"


@pytest.mark.parametrize(
    ("volumes", "problem"),
    [
        ("[{name: v}, {name: v}]", "volumes: two volumes are 'v'"),
        ("[{emptyDir: {}}]", "volumes[0].name: is missing"),
        (
            "[{name: v, emptyDir: {}, hostPath: {path: /}}]",
            "volumes[0]: expected exactly one kind of it, found emptyDir and hostPath",
        ),
        (
            "[{name: v, hostPath: {path: a}}]",
            "volumes[0].hostPath.path: expected an absolute path without '..', found 'a'",
        ),
        (
            "[{name: v, emptyDir: {medium: Disk}}]",
            "volumes[0].emptyDir.medium: expected Memory or HugePages or HugePages-2Mi or HugePages-1Gi, found 'Disk'",
        ),
        ("[{name: v, persistentVolumeClaim: {claimName: a}}]", f"volumes[0].persistentVolumeClaim: {CLUSTER}"),
        ("[{name: v, csi: {driver: a}}]", f"volumes[0].csi: {CLUSTER}"),
        (
            "[{name: v, nfs: {server: a, path: /}}]",
            "volumes[0].nfs: is not supported, mount it on the node and use hostPath",
        ),
        ("[{name: v, image: {reference: a}}]", "volumes[0].image: is not supported"),
        (
            "[{name: v, projected: {sources: [{serviceAccountToken: {path: a}}]}}]",
            f"volumes[0].projected.sources[0].serviceAccountToken: {CLUSTER}",
        ),
        ("[{name: v, projected: {sources: [{}]}}]", f"volumes[0].projected.sources[0]: {NONE}"),
        (
            "[{name: v, projected: {sources: [{configMap: {name: m}}, {configMap: {name: m}}]}}]",
            "volumes[0].projected: two files are 'a'",
        ),
        ("[{name: v, downwardAPI: {items: [{path: a}]}}]", f"volumes[0].downwardAPI.items[0]: {NONE}"),
        (
            "[{name: v, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: status.podIP}}]}}]",
            f"volumes[0].downwardAPI.items[0].fieldRef.fieldPath: expected {FILE_FIELDS.what}, found 'status.podIP'",
        ),
        (
            "[{name: v, downwardAPI: {items: [{path: a, resourceFieldRef: {resource: limits.cpu}}]}}]",
            "volumes[0].downwardAPI.items[0].resourceFieldRef.containerName: is missing",
        ),
    ],
)
def test_volumes_that_cannot_be_made(volumes: str, problem: str) -> None:
    """Each with its place."""
    assert problems(volumes) == [problem]


def test_where_a_container_has_a_volume() -> None:
    """Field by field."""
    mounts = (
        "[{name: v, mountPath: /a}, "
        "{name: v, mountPath: /b, subPath: x, readOnly: true, recursiveReadOnly: IfPossible}, "
        "{name: v, mountPath: c, subPathExpr: $(A), mountPropagation: HostToContainer}]"
    )
    [pod] = read_pods(text("[{name: v}]", mounts), "x")
    assert pod.containers[0].volume_mounts == (
        VolumeMount(name="v", mount_path="/a"),
        VolumeMount(name="v", mount_path="/b", sub_path="x", read_only=True, recursive_read_only="IfPossible"),
        VolumeMount(name="v", mount_path="/c", sub_path_expr="$(A)", propagation="HostToContainer"),
    )


@pytest.mark.parametrize(
    ("mount", "problem"),
    [
        ("name: w, mountPath: /a", "[0].name: expected the name of a volume of the pod, found 'w'"),
        ("name: v", "[0].mountPath: is missing"),
        ("name: v, mountPath: 'a:b'", "[0].mountPath: expected a path without ':', found 'a:b'"),
        (
            "name: v, mountPath: /a, subPath: ../b",
            "[0].subPath: expected a relative path without '..', found '../b'",
        ),
        ("name: v, mountPath: /a, subPath: a, subPathExpr: b", "[0]: has both subPath and subPathExpr"),
        ("name: v, mountPath: /a, recursiveReadOnly: Enabled", "[0]: recursiveReadOnly needs readOnly"),
        (
            "name: v, mountPath: /a, readOnly: true, recursiveReadOnly: Enabled, mountPropagation: HostToContainer",
            "[0]: recursiveReadOnly cannot go with mountPropagation",
        ),
        ("name: v, mountPath: /a}, {name: v, mountPath: /a", ": two mount paths are '/a'"),
        ("name: v, mountPath: /a, bindMountOptions: [noexec]", "[0].bindMountOptions: is not supported"),
    ],
)
def test_mounts_that_cannot_be_made(mount: str, problem: str) -> None:
    """Each with its place."""
    assert problems(mounts=f"[{{{mount}}}]") == [f"containers[0].volumeMounts{problem}"]


def test_access_to_the_api_server_is_only_left_out_where_it_always_is() -> None:
    """The same volume at another place is somebody's wish."""
    access = "kube-api-access-abcde"
    assert problems(f"[{{name: {access}}}]", f"[{{name: {access}, mountPath: /a}}]") == [
        f"containers[0].volumeMounts[0].name: expected the name of a volume of the pod, found '{access}'"
    ]
