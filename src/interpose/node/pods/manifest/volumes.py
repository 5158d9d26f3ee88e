"""Volumes in manifests and where containers have them. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FieldReader, FlagField, Items, Report
from interpose.config.documents.yaml import DocumentNode
from interpose.node.pods.manifest.env import FILE_FIELDS, field_ref, one_of, resource_ref
from interpose.node.pods.manifest.kinds import (
    ABSOLUTE,
    LABEL,
    MOUNT_PATH,
    NEEDS_CLUSTER,
    NOT_SUPPORTED,
    RELATIVE,
    ByteAmount,
    FileMode,
    KnownName,
    UnsupportedField,
    choice,
    renamed,
    unique,
)
from interpose.node.pods.manifest.objects import CONFIG_MAP, SECRET, ConfigObjectFiles, ConfigObjects
from interpose.node.pods.spec import EmptyDir, FileItem, HostPath, ProjectedFiles, Volume, VolumeMount

# What the API server gives to every pod, and an exported one has: access to it. There is none here.
_ACCESS: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")
_ACCESS_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"

_CLOUD: Final = UnsupportedField("is not supported, mount it on the node and use hostPath")
_REMOTE: Final = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte"),
    *("rbd", "scaleIO", "storageos", "vsphereVolume"),
)


def _empty_dir(values: dict[str, Any]) -> EmptyDir:
    return EmptyDir(**renamed(values, {"medium": "medium", "sizeLimit": "size_limit"}))


_EMPTY_DIR: Final = FieldGroup(
    {
        "medium": choice("", "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi"),
        "sizeLimit": ByteAmount(),
        "mode": NOT_SUPPORTED,
    },
    _empty_dir,
)
_HOST_PATH: Final = FieldGroup(
    {
        "path": ABSOLUTE,
        "type": choice(
            "", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"
        ),
    },
    lambda values: HostPath(**values),
    required=("path",),
)


def _file(values: dict[str, Any]) -> FileItem:
    sources = {name: value for name, value in values.items() if name.endswith("Ref")}
    return FileItem(path=values["path"], field=one_of(sources), mode=values.get("mode"))


def _downward(containers: frozenset[str]) -> FieldGroup:
    item = FieldGroup(
        {
            "path": RELATIVE,
            "mode": FileMode(),
            "fieldRef": field_ref(FILE_FIELDS),
            "resourceFieldRef": resource_ref(containers, required=True),
            "user": NOT_SUPPORTED,
        },
        _file,
        required=("path",),
    )
    keys: dict[str, FieldReader] = {
        "items": Items(item, make=tuple),
        "defaultMode": FileMode(),
        "defaultUser": NOT_SUPPORTED,
    }
    return FieldGroup(keys, lambda values: renamed(values, {"items": "items", "defaultMode": "default_mode"}))


def _files(values: dict[str, Any]) -> ProjectedFiles:
    unique("files", lambda item: item.path)(values.get("items", ()))
    return ProjectedFiles(**values)


@dataclass(frozen=True, slots=True)
class _Made:
    """What another kind reads, made into something else."""

    kind: Any
    make: Callable[[Any], Any]

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        found = self.kind.read(node, key, report)
        try:
            return None if found is None else self.make(found)
        except ValueError as error:
            report.say(node, key, str(error))
            return None


def _projected(holders: ConfigObjects, containers: frozenset[str]) -> FieldGroup:
    source = FieldGroup(
        {
            "configMap": ConfigObjectFiles(holders, CONFIG_MAP),
            "secret": ConfigObjectFiles(holders, SECRET),
            "downwardAPI": _downward(containers),
            "serviceAccountToken": NEEDS_CLUSTER,
            "clusterTrustBundle": NEEDS_CLUSTER,
            "podCertificate": NEEDS_CLUSTER,
        },
        lambda values: one_of(values).get("items", ()),
    )

    def make(values: dict[str, Any]) -> ProjectedFiles:
        items = tuple(item for part in values.get("sources", ()) for item in part)
        modes = {"default_mode": values["defaultMode"]} if "defaultMode" in values else {}
        return _files({"items": items, **modes})

    keys: dict[str, FieldReader] = {
        "sources": Items(source, make=tuple),
        "defaultMode": FileMode(),
        "defaultUser": NOT_SUPPORTED,
    }
    return FieldGroup(keys, make)


def _volume(values: dict[str, Any]) -> Volume:
    name = values.pop("name")
    return Volume(name=name, source=one_of(values) if values else EmptyDir())


@dataclass(frozen=True, slots=True)
class _ButAccess:
    """A volume or mount; those that every exported pod has for the API server are left out."""

    kind: Any

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        return () if is_access(node) else self.kind.read(node, key, report)


def is_access(node: DocumentNode) -> bool:
    """Whether a volume, or the place where it is mounted, is only there for the API server."""
    texts = {name: child.text for name, child in node.entries}
    return bool(_ACCESS.fullmatch(texts.get("name", ""))) and texts.get("mountPath", _ACCESS_PATH) == _ACCESS_PATH


def volumes_table(holders: ConfigObjects, containers: frozenset[str]) -> Items:
    """`volumes` of a pod."""
    volume = FieldGroup(
        {
            "name": LABEL,
            "emptyDir": _EMPTY_DIR,
            "hostPath": _HOST_PATH,
            "configMap": _Made(ConfigObjectFiles(holders, CONFIG_MAP), _files),
            "secret": _Made(ConfigObjectFiles(holders, SECRET, "secretName"), _files),
            "downwardAPI": _Made(_downward(containers), _files),
            "projected": _projected(holders, containers),
            "persistentVolumeClaim": NEEDS_CLUSTER,
            "ephemeral": NEEDS_CLUSTER,
            "csi": NEEDS_CLUSTER,
            "image": NOT_SUPPORTED,
            "gitRepo": NOT_SUPPORTED,
            **dict.fromkeys(_REMOTE, _CLOUD),
        },
        _volume,
        required=("name",),
    )
    return Items(_ButAccess(volume), make=lambda found: unique("volumes")(tuple(item for item in found if item)))


_MOUNT_NAMES: Final = {
    "name": "name",
    "mountPath": "mount_path",
    "subPath": "sub_path",
    "subPathExpr": "sub_path_expr",
    "readOnly": "read_only",
    "recursiveReadOnly": "recursive_read_only",
    "mountPropagation": "propagation",
}


def _mount(values: dict[str, Any]) -> VolumeMount:
    path = values["mountPath"]  # from the root of the container, also where that is not written
    found = VolumeMount(**{**renamed(values, _MOUNT_NAMES), "mount_path": f"/{path.lstrip('/')}"})
    if found.sub_path and found.sub_path_expr:
        raise ValueError("has both subPath and subPathExpr")
    if found.recursive_read_only != "Disabled":
        if not found.read_only:
            raise ValueError("recursiveReadOnly needs readOnly")
        if found.propagation != "None":
            raise ValueError("recursiveReadOnly cannot go with mountPropagation")
    return found


def mounts_table(volumes: frozenset[str], *, sub_paths: bool = True) -> Items:
    """`volumeMounts` of a container."""
    inside = RELATIVE if sub_paths else UnsupportedField("is not for ephemeral containers")
    mount = FieldGroup(
        {
            "name": KnownName(volumes, "the name of a volume of the pod"),
            "mountPath": MOUNT_PATH,
            "subPath": inside,
            "subPathExpr": inside,
            "readOnly": FlagField(),
            "recursiveReadOnly": choice("Disabled", "IfPossible", "Enabled"),
            "mountPropagation": choice("None", "HostToContainer", "Bidirectional"),
            "bindMountOptions": NOT_SUPPORTED,
        },
        _mount,
        required=("name", "mountPath"),
    )
    by_path = unique("mount paths", lambda item: item.mount_path)
    return Items(_ButAccess(mount), make=lambda found: by_path(tuple(item for item in found if item)))
