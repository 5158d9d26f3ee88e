"""The kinds of objects the test API server knows, one row each. Pure.

A row says where objects are (a `Resource`) and in what they differ from the others. Adding a kind is adding a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interpose.kube.client.api import (
    BALLOONS_POLICIES,
    CONFIG_MAPS,
    EVENTS,
    MUTATING_WEBHOOKS,
    NODE_SLOS,
    NODES,
    SECRETS,
    TOPOLOGY_AWARE_POLICIES,
    Resource,
)


class NameRule(StrEnum):
    """What a name may be."""

    SUBDOMAIN = "subdomain"  # RFC 1123, dots allowed
    LABEL = "label"  # RFC 1123, no dots
    SEGMENT = "segment"  # whatever can be one part of a path: roles have colons


class StatusOnWrite(StrEnum):
    """What `status` of a body that is sent to the object itself means, for kinds that have a status of its own path."""

    PLAIN = "plain"  # there is no such path: it is a field like others
    NODE = "node"  # a new node may bring one; updates keep what is there
    DROPPED = "dropped"  # never counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A row of the table."""

    resource: Resource
    status: StatusOnWrite = StatusOnWrite.PLAIN
    names: NameRule = NameRule.SUBDOMAIN
    custom: bool = False  # by a CustomResourceDefinition: no strategic merge, updates need a resourceVersion
    generation: bool = False  # metadata.generation counts changes of what is neither metadata nor status
    short: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()  # fields that a field selector may use, beside name and namespace
    fields: tuple[str, ...] = ()  # top level of an object beside apiVersion, kind, metadata; empty: spec and status

    @property
    def singular(self) -> str:
        """As people type it."""
        return self.resource.kind.lower()

    @property
    def known_fields(self) -> frozenset[str]:
        """Everything an object may have at its top."""
        return frozenset(("apiVersion", "kind", "metadata", *(self.fields or ("spec", "status"))))

    @property
    def qualified(self) -> str:
        """As messages of the server spell it: nodeslos.slo.koordinator.sh."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(version="v1", plural=plural, kind=kind, namespaced=namespaced)


def _grouped(group: str, plural: str, kind: str, *, namespaced: bool = True, version: str = "v1") -> Resource:
    return Resource(group=group, version=version, plural=plural, kind=kind, namespaced=namespaced)


_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
PODS: Final = _core("pods", "Pod")
SERVICES: Final = _core("services", "Service")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
DEPLOYMENTS: Final = _grouped("apps", "deployments", "Deployment")
DAEMON_SETS: Final = _grouped("apps", "daemonsets", "DaemonSet")
CRDS: Final = _grouped(
    "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
LEASES: Final = _grouped("coordination.k8s.io", "leases", "Lease")

_DROPPED = StatusOnWrite.DROPPED
_EVENT_FIELDS = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"),
    *("eventTime", "series", "action", "related", "reportingComponent", "reportingInstance"),
)
_INVOLVED = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")

KINDS: Final[tuple[Kind, ...]] = (
    Kind(resource=NODES, status=StatusOnWrite.NODE, short=("no",), selectable=("spec.unschedulable",)),
    Kind(resource=CONFIG_MAPS, short=("cm",), fields=("data", "binaryData", "immutable")),
    Kind(resource=SECRETS, fields=("data", "stringData", "immutable", "type"), selectable=("type",)),
    Kind(
        resource=EVENTS,
        short=("ev",),
        selectable=(
            *(f"involvedObject.{name}" for name in _INVOLVED),
            "reason",
            "reportingComponent",
            "source",
            "type",
        ),
        fields=_EVENT_FIELDS,
    ),
    Kind(resource=NAMESPACES, status=_DROPPED, names=NameRule.LABEL, short=("ns",), selectable=("status.phase",)),
    Kind(
        resource=PODS,
        status=_DROPPED,
        short=("po",),
        selectable=("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase", "status.podIP"),
    ),
    Kind(resource=SERVICES, status=_DROPPED, names=NameRule.LABEL, short=("svc",)),
    Kind(
        resource=SERVICE_ACCOUNTS, short=("sa",), fields=("secrets", "imagePullSecrets", "automountServiceAccountToken")
    ),
    Kind(resource=DEPLOYMENTS, status=_DROPPED, generation=True, short=("deploy",)),
    Kind(resource=DAEMON_SETS, status=_DROPPED, generation=True, short=("ds",)),
    Kind(resource=LEASES),
    Kind(
        resource=_grouped(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
        names=NameRule.SEGMENT,
        fields=("rules", "aggregationRule"),
    ),
    Kind(
        resource=_grouped(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        names=NameRule.SEGMENT,
        fields=("subjects", "roleRef"),
    ),
    Kind(resource=_grouped(_RBAC, "roles", "Role"), names=NameRule.SEGMENT, fields=("rules",)),
    Kind(
        resource=_grouped(_RBAC, "rolebindings", "RoleBinding"), names=NameRule.SEGMENT, fields=("subjects", "roleRef")
    ),
    Kind(resource=CRDS, status=_DROPPED, generation=True, short=("crd", "crds")),
    Kind(resource=MUTATING_WEBHOOKS, generation=True, fields=("webhooks",)),
    Kind(
        resource=_grouped(_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
        generation=True,
    ),
    Kind(
        resource=_grouped(
            _ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
        ),
        generation=True,
    ),
    Kind(resource=_grouped("batch", "jobs", "Job"), status=_DROPPED, generation=True),
    Kind(resource=_grouped("batch", "cronjobs", "CronJob"), status=_DROPPED, generation=True, short=("cj",)),
    Kind(
        resource=_grouped("cert-manager.io", "certificates", "Certificate"),
        status=_DROPPED,
        custom=True,
        generation=True,
    ),
    Kind(resource=_grouped("cert-manager.io", "issuers", "Issuer"), status=_DROPPED, custom=True, generation=True),
    Kind(
        resource=_grouped("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
        status=_DROPPED,
        generation=True,
        short=("pdb",),
    ),
    Kind(
        resource=_grouped("networking.k8s.io", "networkpolicies", "NetworkPolicy"), generation=True, short=("netpol",)
    ),
    Kind(
        resource=_grouped("scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False),
        short=("pc",),
        fields=("value", "globalDefault", "description", "preemptionPolicy"),
    ),
    Kind(
        resource=_grouped("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
        custom=True,
        generation=True,
        short=("smon",),
    ),
    Kind(
        resource=_grouped("monitoring.coreos.com", "podmonitors", "PodMonitor"),
        custom=True,
        generation=True,
        short=("pmon",),
    ),
    Kind(
        resource=_grouped("monitoring.coreos.com", "prometheusrules", "PrometheusRule"),
        custom=True,
        generation=True,
        short=("promrule",),
    ),
    Kind(resource=NODE_SLOS, status=_DROPPED, custom=True, generation=True),
    Kind(resource=TOPOLOGY_AWARE_POLICIES, status=_DROPPED, custom=True, generation=True),
    Kind(resource=BALLOONS_POLICIES, status=_DROPPED, custom=True, generation=True),
)

BY_RESOURCE: Final[Mapping[Resource, Kind]] = {kind.resource: kind for kind in KINDS}
# By what a path names: group, version, plural.
BY_PATH: Final[Mapping[tuple[str, str, str], Kind]] = {
    (kind.resource.group, kind.resource.version, kind.resource.plural): kind for kind in KINDS
}
