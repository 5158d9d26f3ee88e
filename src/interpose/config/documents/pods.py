"""Pod manifests as a user writes them, read for what a policy wants to know.

Only what bears on CPUs and memory is read; everything else of a pod may be there. What the API server would fill in is
filled in: a request that is missing is the limit, a namespace that is missing is `default`. All problems of all
documents are reported at once. Pure but for `read_manifest_file`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from interpose.config.documents.fields import Choice, FieldGroup, Items, Report, Text, Texts, Unread
from interpose.config.documents.objects import Quantities, amount, find_objects
from interpose.config.documents.yaml import MAX_FILE_BYTES, DocumentNode, parse_document, read_text, split_documents
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.qos import kube_qos
from interpose.core.model.quantity import milli, whole
from interpose.core.model.text import quoted
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.core.policy.simulate import Member, PlannedPod, Role
from interpose.errors import ConfigError


def read_manifest_file(path: str) -> tuple[PlannedPod, ...]:
    """The pods of a file."""
    return read_manifests(read_text(path, MAX_FILE_BYTES), f"file {path}")


def read_manifests(text: str, where: str) -> tuple[PlannedPod, ...]:
    """The pods of a text: documents of kind Pod, or lists of them. ConfigError with everything that is wrong."""
    problems: list[str] = []
    pods: list[PlannedPod] = []
    for title, document in split_documents(text, where):
        report = Report(title)
        try:
            pods += _pods(parse_document(document, title), report)
            report.settle()
        except ConfigError as error:
            problems += error.problems
    if not pods and not problems:
        problems.append(f"{where}: holds no pods")
    problems += (f"{where}: pod {title} is given twice" for title in repeated(pods))
    if problems:
        raise ConfigError(problems)
    return tuple(pods)


def repeated(pods: Iterable[PlannedPod]) -> Iterator[str]:
    """Names that more than one pod has."""
    seen: set[str] = set()
    for pod in pods:
        if pod.title in seen:
            yield pod.title
        seen.add(pod.title)


def _pods(document: DocumentNode, report: Report) -> Iterator[PlannedPod]:
    for _, node, key in find_objects(document, "", report, ("Pod",)):
        if (pod := _POD.read(node, key, report)) is not None:
            yield pod


# -- the tables


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resources:
    """Requests and limits, requests filled in."""

    requests: Mapping[str, Fraction]
    limits: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Container:
    name: str
    resources: _Resources = _Resources(requests={}, limits={})
    envs: Mapping[str, str]
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    stays: bool = False  # of an init container: it is a sidecar


def _resources(values: dict[str, Any]) -> _Resources:
    requests, limits = values.get("requests", {}), values.get("limits", {})
    for name, limit in limits.items():
        if requests.get(name, limit) > limit:
            raise ValueError(f"the request of {amount(requests[name])} {name} is more than the limit, {amount(limit)}")
    return _Resources(requests={**limits, **requests}, limits=limits)


def _env(values: dict[str, Any]) -> tuple[str, str] | None:
    # One with valueFrom is not known here.
    return (values["name"], values["value"]) if "value" in values else None


def _container(values: dict[str, Any]) -> _Container:
    return _Container(
        name=values["name"],
        resources=values.get("resources", _Resources(requests={}, limits={})),
        envs=dict(filter(None, values.get("env", ()))),
        command=values.get("command", ()),
        args=values.get("args", ()),
        stays=values.get("restartPolicy", False),
    )


def _named(containers: tuple[_Container, ...]) -> tuple[_Container, ...]:
    names = [container.name for container in containers]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two containers have the name {quoted(name)}")
    return containers


def _spec(values: dict[str, Any]) -> dict[str, Any]:
    _named(values.get("initContainers", ()) + values["containers"])
    return values


_RESOURCES: Final = FieldGroup(
    {"requests": Quantities(), "limits": Quantities(), "claims": Unread()}, make=_resources, loose=True
)
_CONTAINER: Final = FieldGroup(
    {
        "name": Text(),
        "resources": _RESOURCES,
        "env": Items(
            FieldGroup({"name": Text(), "value": Text()}, make=_env, required=("name",), loose=True), make=tuple
        ),
        "envFrom": Unread(),
        "command": Items(Text(), make=tuple),
        "args": Items(Text(), make=tuple),
        "restartPolicy": Choice({"Always": True, "OnFailure": False, "Never": False}),
        "restartPolicyRules": Unread(),
        "resizePolicy": Unread(),
    },
    make=_container,
    required=("name",),
    loose=True,
)
_CONTAINERS: Final = Items(_CONTAINER, make=_named)
_SPEC: Final = FieldGroup(
    {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": Unread(),
        "resources": _RESOURCES,
        "resourceClaims": Unread(),
    },
    make=_spec,
    required=("containers",),
    loose=True,
)
_METADATA: Final = FieldGroup(
    {"name": Text(), "namespace": Text(), "labels": Texts(), "annotations": Texts()}, required=("name",), loose=True
)


def _pod(values: dict[str, Any]) -> PlannedPod:
    metadata, spec = values["metadata"], values["spec"]
    namespace, name = metadata.get("namespace", "default"), metadata["name"]
    early, main = spec.get("initContainers", ()), spec["containers"]
    shared = {
        "namespace": namespace,
        "pod": name,
        "qos": _qos(spec.get("resources"), early + main),
        "pod_labels": metadata.get("labels", {}),
        "pod_annotations": metadata.get("annotations", {}),
    }
    members = (
        *((one, Role.SIDECAR if one.stays else Role.INIT) for one in early),
        *((one, Role.MAIN) for one in main),
    )
    return PlannedPod(
        namespace=namespace,
        name=name,
        members=tuple(Member(request=_request(one, shared), role=role) for one, role in members),
    )


_POD: Final = FieldGroup(
    {"apiVersion": Unread(), "kind": Text(), "metadata": _METADATA, "spec": _SPEC, "status": Unread()},
    make=_pod,
    required=("metadata", "spec"),
    loose=True,
)


def _request(container: _Container, shared: Mapping[str, Any]) -> Request:
    requests, limits = container.resources.requests, container.resources.limits
    return Request(
        key=Key(f"{shared['namespace']}/{shared['pod']}", container.name),
        amounts=Amounts(
            milli=milli(requests.get("cpu", Fraction())),
            limit_milli=milli(limits["cpu"]) if "cpu" in limits else None,
            memory=whole(requests["memory"]) if "memory" in requests else None,
            memory_limit=whole(limits["memory"]) if "memory" in limits else None,
            extended={name: whole(value) for name, value in requests.items() if "/" in name},
            source=RequestSource.MANIFEST,
        ),
        envs=container.envs,
        command=container.command,
        args=container.args,
        **shared,
    )


def _qos(of_pod: _Resources | None, containers: Iterable[_Container]) -> KubeQos:
    """The kubelet's rule, with the amounts of the pod itself if it has some."""
    each = [of_pod] if of_pod is not None and of_pod.requests else [one.resources for one in containers]
    return kube_qos((one.requests, one.limits) for one in each)
