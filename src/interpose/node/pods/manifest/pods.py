"""A pod's manifest as a whole: what its parts must agree on, and what the API server would fill in. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FlagField, Items, Number, Report, Text
from interpose.config.documents.objects import Found
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.text import quoted
from interpose.node.pods.manifest.containers import (
    RESOURCES,
    ContainerReferences,
    ephemeral_table,
    init_table,
    main_table,
)
from interpose.node.pods.manifest.kinds import (
    IGNORED,
    LABEL,
    NEEDS_CLUSTER,
    SUBDOMAIN,
    UID,
    WORD,
    Address,
    Labels,
    ResourceAmounts,
    TrueOnlyFlag,
    choice,
    or_unset,
    plain,
    renamed,
    words,
)
from interpose.node.pods.manifest.objects import ConfigObject, ConfigObjects
from interpose.node.pods.manifest.pull_secrets import PullSecrets
from interpose.node.pods.manifest.security import POD_SECURITY, PodAnnotations, annotated
from interpose.node.pods.manifest.volumes import is_access, volumes_table
from interpose.node.pods.spec import ContainerSpec, DnsConfig, HostAlias, PodSpec, RestartPolicy, pod_uid
from interpose.node.pods.sync.restart_policy import RESTART_CONTAINER

_SECONDS: Final = Number(0, 2**31 - 1)
# Where a pod may run and how it got there: decided, since it is here.
_SCHEDULING: Final = (
    *("affinity", "automountServiceAccountToken", "enableServiceLinks", "evictionResponders", "nodeSelector"),
    *("preemptionPolicy", "schedulerName", "schedulingGroup", "tolerations", "topologySpreadConstraints"),
)
# What a cluster notes about an object. It says nothing about the pod, so it is not a part of its uid either.
_NOTED: Final = (
    *("creationTimestamp", "finalizers", "generateName", "generation", "managedFields", "ownerReferences"),
    *("resourceVersion", "selfLink"),
)

_DNS_OPTION: Final = FieldGroup(
    {"name": WORD, "value": Text()}, lambda option: (option["name"], option.get("value")), required=("name",)
)
_DNS_CONFIG: Final = FieldGroup(
    {
        "nameservers": Items(Address(), make=tuple),
        "searches": Items(WORD, make=tuple),
        "options": Items(_DNS_OPTION, make=tuple),
    },
    lambda values: DnsConfig(**values),
)
_HOST_ALIAS: Final = FieldGroup(
    {"ip": Address(), "hostnames": Items(SUBDOMAIN, make=tuple)},
    lambda values: HostAlias(ip=values["ip"], hostnames=values.get("hostnames", ())),
    required=("ip",),
)
# A runtime would have to be told which ids of the node they are, and there is nobody who gives them out.
_HOST_USERS: Final = TrueOnlyFlag("false is not supported, a pod has the users of the node")
_OS: Final = FieldGroup({"name": choice("linux")}, required=("name",))

_CONTAINERS: Final = ("init_containers", "containers", "ephemeral_containers")
_NAMES: Final = {
    "containers": "containers",
    "initContainers": "init_containers",
    "ephemeralContainers": "ephemeral_containers",
    "restartPolicy": "restart_policy",
    "terminationGracePeriodSeconds": "termination_grace_period",
    "activeDeadlineSeconds": "active_deadline",
    "hostNetwork": "host_network",
    "hostPID": "host_pid",
    "hostIPC": "host_ipc",
    "shareProcessNamespace": "share_process_namespace",
    "hostname": "hostname",
    "subdomain": "subdomain",
    "setHostnameAsFQDN": "hostname_as_fqdn",
    "dnsPolicy": "dns_policy",
    "dnsConfig": "dns_config",
    "hostAliases": "host_aliases",
    "volumes": "volumes",
    "securityContext": "security",
    "resources": "resources",
    "overhead": "overhead",
    "runtimeClassName": "runtime_handler",
    "priority": "priority",
    "priorityClassName": "priority_class",
    "nodeName": "node_name",
}


def read_pod(found: Found, holders: Iterable[ConfigObject], report: Report, source: str = "") -> PodSpec | None:
    """The pod of an object, with what it takes out of ConfigMaps and Secrets; None with problems in the report."""
    metadata, spec = _child(found.node, "metadata"), _child(found.node, "spec")
    beside = ConfigObjects(holders, _text(metadata, "namespace") or "default")
    table = FieldGroup(
        {
            "apiVersion": choice("v1"),
            "kind": IGNORED,
            "metadata": _metadata_table(spec),
            "spec": _spec_table(spec, beside),
            "status": IGNORED,
        },
        required=("metadata", "spec"),
    )
    values: dict[str, Any] | None = table.read(found.node, found.key, report)
    if values is None:
        return None
    document: dict[str, Any] = plain(found.node)
    head, body = values["metadata"], values["spec"]
    name, namespace = head["name"], head.get("namespace", "default")
    kinds = {key: annotated(body[key], head.get("annotations", {})) for key in _CONTAINERS if key in body}
    return PodSpec(
        name=name,
        namespace=namespace,
        uid=head.get("uid") or pod_uid(namespace, name, _content(document, beside)),
        **{key: head[key] for key in ("labels", "annotations") if key in head},
        deleted="deletionTimestamp" in head,
        deletion_grace_period=head.get("deletionGracePeriodSeconds"),
        **{**body, **kinds},
        source=source,
        document=document,
    )


def _content(document: Mapping[str, Any], beside: ConfigObjects) -> dict[str, Any]:
    """What makes the pod the one it is. That it is being deleted does not make it another."""
    noted = {*_NOTED, "deletionTimestamp", "deletionGracePeriodSeconds"}
    metadata = {key: value for key, value in document["metadata"].items() if key not in noted}
    return {"metadata": metadata, "spec": document["spec"], "beside": beside.used}


def _metadata_table(spec: DocumentNode | None) -> FieldGroup:
    kinds = ("containers", "initContainers", "ephemeralContainers")
    containers = frozenset[str]().union(*(_names(spec, key) for key in kinds))
    return FieldGroup(
        {
            "name": SUBDOMAIN,
            "namespace": LABEL,
            "uid": UID,
            "labels": Labels(),
            "annotations": PodAnnotations(containers),
            "deletionTimestamp": Text(),
            "deletionGracePeriodSeconds": _SECONDS,
            **dict.fromkeys(_NOTED, IGNORED),
        },
        required=("name",),
    )


def _spec_table(spec: DocumentNode | None, beside: ConfigObjects) -> FieldGroup:
    containers = _names(spec, "containers") | _names(spec, "initContainers")
    around = ContainerReferences(holders=beside, volumes=_names(spec, "volumes"), containers=containers)
    return FieldGroup(
        {
            "containers": main_table(around),
            "initContainers": init_table(around),
            "ephemeralContainers": ephemeral_table(around),
            "volumes": volumes_table(beside, around.containers),
            "restartPolicy": or_unset(words(RestartPolicy)),
            "terminationGracePeriodSeconds": _SECONDS,
            "activeDeadlineSeconds": Number(1, 2**31 - 1),
            **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC"), FlagField()),
            "hostUsers": _HOST_USERS,
            **dict.fromkeys(("shareProcessNamespace", "setHostnameAsFQDN"), FlagField()),
            "hostname": LABEL,
            "hostnameOverride": SUBDOMAIN,
            "subdomain": LABEL,
            "dnsPolicy": or_unset(choice("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")),
            "dnsConfig": _DNS_CONFIG,
            "hostAliases": Items(_HOST_ALIAS, make=tuple),
            "securityContext": POD_SECURITY,
            "resources": RESOURCES,
            "overhead": ResourceAmounts(),
            "runtimeClassName": SUBDOMAIN,
            "priority": Number(-(2**31), 2**31 - 1),
            "priorityClassName": Text(),
            "nodeName": Text(),
            "serviceAccountName": Text(),
            "serviceAccount": Text(),
            "imagePullSecrets": PullSecrets(beside),
            "os": _OS,
            **dict.fromkeys(("readinessGates", "schedulingGates", "resourceClaims"), NEEDS_CLUSTER),
            **dict.fromkeys(_SCHEDULING, IGNORED),
        },
        _spec,
        required=("containers",),
    )


def _spec(values: dict[str, Any]) -> dict[str, Any]:
    found = renamed(values, _NAMES)
    found["service_account"] = values.get("serviceAccountName") or values.get("serviceAccount", "")
    found["pull_auths"] = values.get("imagePullSecrets", ())
    if override := values.get("hostnameOverride"):
        found |= {"hostname": override, "subdomain": "", "hostname_as_fqdn": False}  # a whole name, without a domain
    if found.get("host_network"):
        found["containers"] = tuple(map(_on_host_ports, found["containers"]))
    for check in _CHECKS:
        check(found)
    return found


def _on_host_ports(container: ContainerSpec) -> ContainerSpec:
    """In the node's network a port is a port of the node."""
    for port in container.ports:
        if port.host_port not in (0, port.container_port):
            ports = f"hostPort {port.host_port} and containerPort {port.container_port}"
            raise ValueError(f"with hostNetwork {ports} of container {container.name} must be the same")
    return replace(container, ports=tuple(replace(port, host_port=port.container_port) for port in container.ports))


# -- what the parts must agree on


def _check_names(found: Mapping[str, Any]) -> None:
    if not found["containers"]:
        raise ValueError("containers is empty")
    seen: set[str] = set()
    for kind in _CONTAINERS:
        for container in found.get(kind, ()):
            if container.name in seen:
                raise ValueError(f"two containers have the name {quoted(container.name)}")
            seen.add(container.name)


def _check_host_ports(found: Mapping[str, Any]) -> None:
    seen: set[tuple[int, str, str]] = set()
    for container in found["containers"]:
        for port in container.ports:
            key = (port.host_port, port.protocol, port.host_ip)
            if port.host_port and key in seen:
                raise ValueError(f"two containers want port {port.host_port}/{port.protocol} of the node")
            seen.add(key)


def _check_namespaces(found: Mapping[str, Any]) -> None:
    if found.get("host_pid") and found.get("share_process_namespace"):
        raise ValueError("hostPID and shareProcessNamespace cannot both be true")


def _check_dns(found: Mapping[str, Any]) -> None:
    if found.get("dns_policy") == "None" and not found.get("dns_config", DnsConfig()).nameservers:
        raise ValueError("dnsPolicy None needs nameservers in dnsConfig")


def _check_resizing(found: Mapping[str, Any]) -> None:
    pod_policy = found.get("restart_policy", RestartPolicy.ALWAYS)
    for container in (*found.get("init_containers", ()), *found["containers"]):
        ends = (container.restart_policy or pod_policy) is RestartPolicy.NEVER
        if ends and RESTART_CONTAINER in container.resize_policy.values():
            raise ValueError(
                f"resizePolicy of container {container.name} cannot be RestartContainer where it never restarts"
            )


_CHECKS: Final = (_check_names, _check_host_ports, _check_namespaces, _check_dns, _check_resizing)


# -- looking ahead, for what parts refer to


def _child(node: DocumentNode | None, name: str) -> DocumentNode | None:
    return None if node is None else next((child for key, child in node.entries if key == name), None)


def _text(node: DocumentNode | None, name: str) -> str:
    found = _child(node, name)
    return "" if found is None else found.text


def _names(spec: DocumentNode | None, key: str) -> frozenset[str]:
    found = _child(spec, key)
    return (
        frozenset() if found is None else frozenset(_text(item, "name") for item in found.items if not is_access(item))
    )
