"""Documents about the node become typed values: the co-location policy, labels and annotations.

A document is a NodeSLO object, only its spec, or a NodeState that has everything in one file. Tables say which keys
there are and what they hold. What runtime hooks read is checked strictly, with every problem named at once; parts that
belong to others are known but not looked into.

Pure. Invariant: the outcome is a NodeDocument or a ConfigError; a document with a problem is not used in part.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.config.documents.fields import (
    Choice,
    FieldGroup,
    FieldReader,
    FlagField,
    Items,
    Number,
    Report,
    Text,
    Texts,
    Unread,
)
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.qos import QosClass
from interpose.core.model.resources import empty_map
from interpose.core.model.text import quoted
from interpose.hooks.server.node.nodeslo import NEUTRAL_CPU, CpuPolicy, CpuQos, HostApplication, NodeSLO, SuppressPolicy

SLO_VERSION: Final = "slo.koordinator.sh/v1alpha1"
SLO_KIND: Final = "NodeSLO"
STATE_VERSION: Final = "interpose/v1"
STATE_KIND: Final = "NodeState"

_MAX_DIRECTORY_NAME: Final = 255  # of the kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDocument:
    """What a document says. `slo` is None if it has no NodeSLO; topology means the NodeResourceTopology of the node."""

    slo: NodeSLO | None = None
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    topology_annotations: Mapping[str, str] = field(default_factory=empty_map)


def parse_node_document(root: DocumentNode, path: str) -> NodeDocument:
    """The document's values with defaults filled in; ConfigError with every problem, each with file, line and key."""
    report = Report(f"file {path}")
    found: NodeDocument = _form(root).read(root, "", report)
    report.settle()  # or there is nothing to return
    return found


def node_form() -> dict[str, Any]:
    """The JSON Schema of these documents."""
    return {"anyOf": [_SLO_DOCUMENT.form(), _STATE.form(), _SPEC_DOCUMENT.form()]}


def is_node_document(root: DocumentNode) -> bool:
    """Whether it wants to be one, by its kind or by the keys of a spec."""
    header = {name: node.text for name, node in root.entries}
    return header.get("kind") in (SLO_KIND, STATE_KIND) or bool(header.keys() & _SPEC_KEYS.keys())


def _form(root: DocumentNode) -> FieldGroup:
    """Which of the three a document wants to be."""
    header = {name: node.text for name, node in root.entries}
    if header.get("apiVersion") == STATE_VERSION or header.get("kind") == STATE_KIND:
        return _STATE
    return _SLO_DOCUMENT if header.keys() & _SLO_KEYS.keys() else _SPEC_DOCUMENT


# -- what the values become


def _class_of(enabled: CpuQos) -> FieldGroup:
    """A class with these values when it is switched on and says nothing else."""

    def make(values: dict[str, Any]) -> CpuQos:
        if not values.get("enable", False):
            return NEUTRAL_CPU
        return CpuQos(
            enable=True,
            group_identity=values.get("groupIdentity", enabled.group_identity),
            sched_idle=values.get("schedIdle", enabled.sched_idle),
            core_expeller=values.get("coreExpeller", enabled.core_expeller),
        )

    return FieldGroup(
        {"cpuQOS": FieldGroup(_CPU_QOS, make), **_OF_OTHERS}, lambda values: values.get("cpuQOS", NEUTRAL_CPU)
    )


# Directories of host applications that do not name one.
_FOLDERS: Final[Mapping[QosClass | None, str]] = {
    QosClass.LSE: "host-latency-sensitive",
    QosClass.LSR: "host-latency-sensitive",
    QosClass.LS: "host-latency-sensitive",
    QosClass.BE: "host-best-effort",
}
_ROOT_BASE: Final = "CgroupRoot"
_BASES: Final = (_ROOT_BASE, "Kubepods", "KubepodsBurstable", "KubepodsBesteffort")


def _host_application(values: dict[str, Any]) -> HostApplication:
    name: str = values["name"]
    qos: QosClass | None = values.get("qos")
    cgroup_path = values.get("cgroupPath")
    if not name:
        raise ValueError("name is empty")
    if cgroup_path is None:
        base, directory = _ROOT_BASE, _directory(name)
        if folder := _FOLDERS.get(qos):
            directory = f"{folder}/{directory}"
    else:
        base = cgroup_path.get("base", _ROOT_BASE)
        directory = _directory(f"{cgroup_path.get('parentDir', '')}/{cgroup_path.get('relativePath', '')}")
    return HostApplication(name=name, qos=qos, base=base, directory=directory)


def _directory(path: str) -> str:
    """A directory below another one, without a slash at either end."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if not names:
        raise ValueError(f"{quoted(path)} is not a directory of its own, values would be set on all that is there")
    for name in names:
        if name == ".." or not name.isprintable() or len(name.encode("utf-8")) > _MAX_DIRECTORY_NAME:
            raise ValueError(f"{quoted(name)} in its directory {quoted(path)} is not allowed")
    return "/".join(names)


def _distinct(found: tuple[HostApplication, ...]) -> tuple[HostApplication, ...]:
    names: dict[tuple[str, str], str] = {}
    for application in found:
        key = application.base, application.directory
        if key in names:
            both = f"{quoted(names[key])} and {quoted(application.name)}"
            raise ValueError(f"{both} have one directory, {quoted(application.directory)}")
        names[key] = application.name
    return found


def _policy(values: dict[str, Any]) -> NodeSLO:
    strategy, threshold = values.get("resourceQOSStrategy", {}), values.get("resourceUsedThresholdWithBE", {})
    return NodeSLO(
        cpu_policy=strategy.get("policies", {}).get("cpuPolicy", CpuPolicy.GROUP_IDENTITY),
        lsr=strategy.get("lsrClass", NEUTRAL_CPU),
        ls=strategy.get("lsClass", NEUTRAL_CPU),
        be=strategy.get("beClass", NEUTRAL_CPU),
        suppress_enabled=threshold.get("enable", False),
        suppress_policy=threshold.get("cpuSuppressPolicy", SuppressPolicy.CPUSET),
        host_applications=values.get("hostApplications", ()),
    )


def _state(values: dict[str, Any]) -> NodeDocument:
    node, topology = values.get("node", {}), values.get("nodeResourceTopology", {})
    return NodeDocument(
        slo=values.get("nodeSLO"),
        name=node.get("name", ""),
        labels=node.get("labels", empty_map()),
        annotations=node.get("annotations", empty_map()),
        topology_annotations=topology.get("annotations", empty_map()),
    )


def _words(words: type[CpuPolicy | SuppressPolicy | QosClass]) -> Choice:
    return Choice({"": None} | {word.value: word for word in words})


def _only(word: str) -> Choice:
    return Choice({word: word})


# -- which keys there are

_CPU_QOS: Final[Mapping[str, FieldReader]] = {
    "enable": FlagField(),
    "groupIdentity": Number(-1, 2),
    "schedIdle": Number(0, 1),
    "coreExpeller": FlagField(),
}
_OF_OTHERS: Final[Mapping[str, FieldReader]] = {
    "memoryQOS": Unread(),
    "blkioQOS": Unread(),
    "resctrlQOS": Unread(),
    "networkQOS": Unread(),
}
_HOST_APPLICATION: Final = FieldGroup(
    {
        "name": Text(),
        "qos": _words(QosClass),
        "cgroupPath": FieldGroup(
            {"base": Choice({"": None} | {base: base for base in _BASES}), "parentDir": Text(), "relativePath": Text()}
        ),
        "priority": Unread(),
        "strategy": Unread(),
    },
    _host_application,
    ("name",),
)
_SPEC_KEYS: Final[Mapping[str, FieldReader]] = {
    "resourceQOSStrategy": FieldGroup(
        {
            "policies": FieldGroup({"cpuPolicy": _words(CpuPolicy), "netQOSPolicy": Unread()}),
            "lsrClass": _class_of(CpuQos(group_identity=2, core_expeller=True)),
            "lsClass": _class_of(CpuQos(group_identity=2, core_expeller=True)),
            "beClass": _class_of(CpuQos(group_identity=-1)),
            "systemClass": _class_of(CpuQos()),
            "cgroupRoot": Unread(),
        }
    ),
    "resourceUsedThresholdWithBE": FieldGroup(
        {"enable": FlagField(), "cpuSuppressPolicy": _words(SuppressPolicy)}, loose=True
    ),
    "hostApplications": Items(_HOST_APPLICATION, _distinct),
    "cpuBurstStrategy": Unread(),
    "systemStrategy": Unread(),
    "extensions": Unread(),
}
_SLO_KEYS: Final[Mapping[str, FieldReader]] = {
    "apiVersion": _only(SLO_VERSION),
    "kind": _only(SLO_KIND),
    "metadata": Unread(),
    "spec": FieldGroup(_SPEC_KEYS, _policy),
    "status": Unread(),
}
_HEADER: Final = ("apiVersion", "kind")


def _slo_object(make: Callable[[NodeSLO], Any]) -> FieldGroup:
    return FieldGroup(_SLO_KEYS, lambda values: make(values.get("spec", NodeSLO())), _HEADER)


_SPEC_DOCUMENT: Final = FieldGroup(_SPEC_KEYS, lambda values: NodeDocument(slo=_policy(values)))
_SLO_DOCUMENT: Final = _slo_object(lambda slo: NodeDocument(slo=slo))
_STATE: Final = FieldGroup(
    {
        "apiVersion": _only(STATE_VERSION),
        "kind": _only(STATE_KIND),
        "nodeSLO": _slo_object(lambda slo: slo),
        "node": FieldGroup({"name": Text(), "labels": Texts(), "annotations": Texts()}),
        "nodeResourceTopology": FieldGroup({"annotations": Texts()}),
    },
    _state,
    _HEADER,
)
