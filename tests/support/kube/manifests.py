"""A set of objects for a cluster, looked at as a whole: whether what they name is there. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.support.kube.plain_documents import Document

# Kinds that have no namespace, of those that we use.
CLUSTER_WIDE: Final = frozenset(
    (
        "Namespace",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    )
)
_WORKLOADS: Final = ("DaemonSet", "Deployment", "Job", "CronJob")


class Identity(NamedTuple):
    """Which object it is."""

    kind: str
    namespace: str
    name: str


def identity(document: Document) -> Identity:
    """What tells an object from all others."""
    metadata = document["metadata"]
    return Identity(document["kind"], metadata.get("namespace", ""), metadata["name"])


def by_identity(documents: Iterable[Document]) -> dict[Identity, Document]:
    """All objects; a KeyError names one that appears twice."""
    found: dict[Identity, Document] = {}
    for document in documents:
        if identity(document) in found:
            raise KeyError(f"{identity(document)} is given twice")
        found[identity(document)] = document
    return found


def pod_template(document: Document) -> Document | None:
    """The pods of a workload."""
    if document["kind"] not in _WORKLOADS:
        return None
    spec = document["spec"]
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    template: Document = spec["template"]
    return template


def problems(documents: Sequence[Document], elsewhere: Iterable[Identity] = ()) -> list[str]:
    """What is twice, or named and not there; `elsewhere` is what somebody else makes."""
    counted = Counter(map(identity, documents))
    found = [f"{' '.join(one)}: is there {count} times" for one, count in counted.items() if count > 1]
    known = {*counted, *elsewhere}
    for document in documents:
        what = identity(document)
        if bool(what.namespace) == (what.kind in CLUSTER_WIDE):
            found.append(f"{' '.join(what)}: {'has no' if what.namespace else 'needs a'} namespace")
        found += (f"{' '.join(what)}: {text}" for text in _dangling(document, documents, known))
    return found


def _dangling(document: Document, documents: Sequence[Document], known: set[Identity]) -> Iterator[str]:
    kind, namespace = document["kind"], document["metadata"].get("namespace", "")
    if kind in ("RoleBinding", "ClusterRoleBinding"):
        yield from _binding(document, namespace, known)
    if kind == "Service":
        yield from _service(document, documents)
    if kind == "PodDisruptionBudget" and not list(_selected(_wanted(document), namespace, documents)):
        yield "selects no pods"
    if kind == "MutatingWebhookConfiguration":
        yield from _webhooks(document, documents)
    template = pod_template(document)
    if template is not None:
        yield from _pods(document, template, namespace, known)


def _binding(document: Document, namespace: str, known: set[Identity]) -> Iterator[str]:
    role = document["roleRef"]
    where = namespace if role["kind"] == "Role" else ""
    if Identity(role["kind"], where, role["name"]) not in known:
        yield f"there is no {role['kind']} {role['name']}"
    for subject in document["subjects"]:
        if Identity(subject["kind"], subject["namespace"], subject["name"]) not in known:
            yield f"there is no {subject['kind']} {subject['namespace']}/{subject['name']}"


def _selected(labels: Mapping[str, str], namespace: str, documents: Sequence[Document]) -> Iterator[Document]:
    """Templates of pods that have these labels."""
    for document in documents:
        template = pod_template(document)
        if template is None or document["metadata"]["namespace"] != namespace:
            continue
        if labels.items() <= template["metadata"]["labels"].items():
            yield template


def _wanted(document: Document) -> Mapping[str, str]:
    labels: Mapping[str, str] = document["spec"].get("selector", {}).get("matchLabels", {})
    return labels


def _service(document: Document, documents: Sequence[Document]) -> Iterator[str]:
    spec = document["spec"]
    templates = list(_selected(spec["selector"], document["metadata"]["namespace"], documents))
    if len(templates) != 1:
        yield f"selects pods of {len(templates)} workloads"
    for template in templates:
        yield from (
            f"its pods have no port {port['targetPort']}"
            for port in spec["ports"]
            if port["targetPort"] not in _port_names(template)
        )


def _port_names(template: Document) -> set[str]:
    return {port["name"] for one in template["spec"]["containers"] for port in one.get("ports", ())}


def _webhooks(document: Document, documents: Sequence[Document]) -> Iterator[str]:
    services = {identity(one)[1:]: one["spec"]["ports"] for one in documents if one["kind"] == "Service"}
    for webhook in document["webhooks"]:
        service = webhook["clientConfig"]["service"]
        ports = services.get((service["namespace"], service["name"]))
        if ports is None or service["port"] not in [port["port"] for port in ports]:
            yield f"there is no Service {service['namespace']}/{service['name']}:{service['port']}"


def _pods(document: Document, template: Document, namespace: str, known: set[Identity]) -> Iterator[str]:
    labels, spec = template["metadata"]["labels"], template["spec"]
    if not _wanted(document).items() <= labels.items():
        yield "its selector does not select its own pods"
    if Identity("ServiceAccount", namespace, spec["serviceAccountName"]) not in known:
        yield f"there is no ServiceAccount {spec['serviceAccountName']}"
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for volume in volumes.values():
        for kind, key, name in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name")):
            source = volume.get(key)
            if source and Identity(kind, namespace, source[name]) not in known:
                yield f"there is no {kind} {source[name]}"
    for container in spec["containers"]:
        yield from _container(container, volumes)


def _container(container: Mapping[str, Any], volumes: Mapping[str, Any]) -> Iterator[str]:
    names = {port["name"] for port in container.get("ports", ())}
    for mount in container.get("volumeMounts", ()):
        if mount["name"] not in volumes:
            yield f"there is no volume {mount['name']}"
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        port = container.get(probe, {}).get("httpGet", {}).get("port")
        if isinstance(port, str) and port not in names:
            yield f"{probe}: there is no port {port}"
