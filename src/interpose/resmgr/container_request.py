"""What a container asks for: from its record in the store and the pod's annotation, and again when it is resized. Pure.

The annotation is exact but may be forged; what the kubelet asked the runtime for is rounded but true. So the annotation
counts where the two agree, and where they do not it is the kubelet that counts: no container gets CPU or memory for
text. Extended resources are the exception: the kubelet does not pass them to runtimes, so what the annotation says of
them cannot be checked and is trusted. Where they decide about CPUs, admission in the cluster must keep authors of pods
from writing the annotation themselves. What hook servers changed in the request plays no part. Nothing here fails; what
could not be used is reported as text.

The annotation, written by an admission webhook, has the requests and limits of the pod's containers:

    {"initContainers": {NAME: {"requests": {...}, "limits": {...}}}, "containers": {NAME: ...}, "resources": {...}}

`resources` is what the pod asks for as a whole, if it does. Without an annotation such a pod shows by its containers:
the kubelet gives each the limits of the pod, so together they ask for more than the sandbox says.
It is read as Kubernetes reads it: unknown keys are ignored, null is as good as absent, of a key given twice the last
counts. Authors of pods can write this text, so its size is bounded, and whatever it is, the outcome is a value
or a ValueError that names the annotation, the place in it and what was found there.

Without an annotation amounts are estimated from what CRI carries: CPU shares, quota, memory limit, OOM score. Each
formula undoes one of the kubelet's. Shares give back every CPU request from three thousandths of a CPU up exactly, as
far as they go: all requests of 256 CPUs and more have the same, and only the limit of a Guaranteed container says more.
A memory request is known to a thousandth of the machine's memory, and of Burstable containers only.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.config.strict_json import Object, about_annotation, describe, expect, read_object
from interpose.core.model.cgroup import MAX_SHARES, MIN_SHARES, PERIOD, KubeQos, find_kube_qos, quota_of, shares_of
from interpose.core.model.cpuset import MAX_CPUS
from interpose.core.model.pod import Container, Pod
from interpose.core.model.quantity import milli, parse_quantity, whole
from interpose.core.model.resources import LinuxResources
from interpose.core.model.text import quoted
from interpose.core.policy.names import VARIABLE_PREFIXES
from interpose.core.policy.pod_amounts import have_pod_amounts, limited_by_pod, own_amounts, sent_requests
from interpose.core.policy.request import Amounts, Key, Request, RequestSource

# The webhook's own, and that of its successor; the first that a pod has counts.
ANNOTATIONS: Final = ("intel.com/resources", "noderesource.dev/resources")
MAX_TEXT: Final = 32 * 1024  # characters; a hundred containers need a third
_MAX_COMMAS: Final = 1024  # each is between two values; reading them all takes some milliseconds
_GROUPS: Final = ("initContainers", "containers")
_POD: Final = "resources"
_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_NONE: Final = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What one container asks for and may have at most, by resource."""

    requests: Mapping[str, Fraction]
    limits: Mapping[str, Fraction]
    where: str  # the place in the annotation, for messages

    def request(self, resource: str) -> Fraction:
        """What it asks for: what it may have at most, if it does not say; zero without either."""
        return self.requests.get(resource, self.limits.get(resource, _NONE))

    def amounts(self) -> Amounts:
        """The amounts for policies; ValueError if there cannot be so much, or a part of something that has none."""
        if max(self.request(_CPU), self.limits.get(_CPU, _NONE)) > MAX_CPUS:
            raise ValueError(f"{self.where}: asks for more than {MAX_CPUS} CPUs")
        return Amounts(
            milli=milli(self.request(_CPU)),
            limit_milli=milli(self.limits[_CPU]) if self.limits.get(_CPU) else None,
            memory=whole(self.request(_MEMORY)),
            memory_limit=whole(self.limits[_MEMORY]) if self.limits.get(_MEMORY) else None,
            extended=MappingProxyType(dict(self._extended())),
            source=RequestSource.ANNOTATION,
        )

    def _extended(self) -> Iterator[tuple[str, int]]:
        """Extended resources: they have a domain in their names."""
        for name in sorted({*self.requests, *self.limits}):
            amount = self.request(name)
            if "/" not in name or not amount:
                continue
            if amount.denominator != 1:
                raise ValueError(f"{self.where}: {quoted(name)} comes in whole numbers, found {float(amount):g}")
            yield name, amount.numerator


class ResourceAnnotation:
    """The annotation of a pod. Containers are read when they are asked for."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        with about_annotation():
            root = _root(text, name)
            self._groups = {group: _fields(root.get(group), f"{name}: {group}") for group in _GROUPS}
            self._pod = root.get(_POD)

    def container(self, name: str) -> Requirements:
        """What a container asks for; an init container first. ValueError if it is not in the annotation."""
        for group, containers in self._groups.items():
            if name in containers:
                return self._read(group, name, containers[name])
        raise ValueError(f"annotation {self.name}: says nothing about container {quoted(name)}")

    def pod(self) -> Requirements | None:
        """What the pod asks for as a whole; None if it does not say."""
        found = self._parse(self._pod, f"{self.name}: {_POD}")
        return found if found.requests or found.limits else None

    def qos(self) -> KubeQos:
        """The class of the pod, by the kubelet's rule."""
        read = [
            self._read(group, name, value)
            for group, containers in self._groups.items()
            for name, value in containers.items()
        ]
        if (pod := self.pod()) is not None:
            read = [pod]
        pairs = [(found.request(kind), found.limits.get(kind, _NONE)) for found in read for kind in (_CPU, _MEMORY)]
        if not any(requested or limit for requested, limit in pairs):
            return KubeQos.BEST_EFFORT
        return KubeQos.GUARANTEED if all(requested == limit > 0 for requested, limit in pairs) else KubeQos.BURSTABLE

    def _read(self, group: str, name: str, value: Any) -> Requirements:
        return self._parse(value, f"{self.name}: {group}[{quoted(name)}]")

    def _parse(self, value: Any, where: str) -> Requirements:
        with about_annotation():
            fields = _fields(value, where)
            return Requirements(
                requests=_quantities(fields.get("requests"), f"{where}.requests"),
                limits=_quantities(fields.get("limits"), f"{where}.limits"),
                where=f"annotation {where}",
            )


def read_annotation(annotations: Mapping[str, str]) -> ResourceAnnotation | None:
    """The annotation of a webhook on a pod; None if there is none. ValueError if it cannot be read."""
    for name in ANNOTATIONS:
        if (text := annotations.get(name)) is not None:
            return ResourceAnnotation(name, text)
    return None


def _root(text: str, where: str) -> dict[str, Any]:
    if len(text) > MAX_TEXT:
        raise ValueError(f"{where}: has {len(text)} characters, more than {MAX_TEXT}")
    if (commas := text.count(",")) > _MAX_COMMAS:
        raise ValueError(f"{where}: has {commas} commas, more than {_MAX_COMMAS}")
    return _fields(read_object(text, where), where)


def _fields(value: Any, where: str) -> dict[str, Any]:
    return {} if value is None else dict(expect(value, where, Object).pairs)


def _quantities(value: Any, where: str) -> Mapping[str, Fraction]:
    return MappingProxyType(
        {
            name: _quantity(raw, f"{where}[{quoted(name)}]")
            for name, raw in _fields(value, where).items()
            if raw is not None
        }
    )


def _quantity(value: Any, where: str) -> Fraction:
    if not isinstance(value, str):  # numbers are text here
        raise ValueError(f"{where}: expected a quantity, found {describe(value)}")
    try:
        return parse_quantity(str(value), negative=False)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


# OOM scores that depend on the memory request. Everything below is given by class or priority, 1000 is BestEffort.
_LOWEST_SCORE: Final = 3
_HIGHEST_SCORE: Final = 999
# The lowest that was ever given to a Burstable container, by kubelets before 1.22.
_LOWEST_BURSTABLE: Final = 2


def milli_of(shares: int) -> int:
    """Thousandths of a CPU behind CPU shares. The least there can be, and none at all, are no request.

    Rounded up: the kubelet has rounded down, and no two requests above the least have the same shares.
    """
    return 0 if shares <= MIN_SHARES else -(-shares * 1000 // 1024)


def limit_of(quota: int, period: int) -> int | None:
    """Thousandths of a CPU behind a CFS quota; None without one. A period that is not given is the kernel's own."""
    return None if quota <= 0 else -(-quota * 1000 // (period if period > 0 else PERIOD))


def memory_of(score: int, capacity: int) -> int | None:
    """The least memory request that gives this OOM score on a machine with so much memory; None: unknown."""
    if capacity <= 0 or not _LOWEST_SCORE <= score <= _HIGHEST_SCORE:
        return None
    return -(-capacity * (1000 - score) // 1000)


def estimate(requested: LinuxResources, qos: KubeQos, capacity: int = 0) -> Amounts:
    """What a container of this class asked for; `capacity` is the machine's memory in bytes, 0 if it is not known."""
    milli = milli_of(requested.cpu_shares)
    limit = limit_of(requested.cpu_quota, requested.cpu_period)
    memory_limit = requested.memory_limit_in_bytes if requested.memory_limit_in_bytes > 0 else None
    memory = None
    if qos is KubeQos.GUARANTEED:
        if limit is not None and _beyond_shares(requested, limit):
            milli = limit
        # The quota of a container with CPUs of its own is taken away by newer kubelets; its limit is still there.
        limit = milli or None if limit is None else limit
        memory = memory_limit
    elif qos is KubeQos.BURSTABLE:
        memory = memory_of(requested.oom_score_adj, capacity)
        if memory is not None and memory_limit is not None and memory >= memory_limit:
            memory = None
    return Amounts(
        milli=milli,
        limit_milli=limit,
        memory=memory,
        memory_limit=memory_limit,
        quota=requested.cpu_quota > 0,
        source=RequestSource.ESTIMATE,
    )


def estimate_qos(requested: LinuxResources) -> KubeQos:
    """The class of a container that is in no directory of a class, by what it asked for.

    Its memory request is not known; only the OOM score of a Burstable container tells that it is below the limit.
    """
    milli, limit = milli_of(requested.cpu_shares), limit_of(requested.cpu_quota, requested.cpu_period)
    burstable = _LOWEST_BURSTABLE <= requested.oom_score_adj <= _HIGHEST_SCORE
    same = limit is not None and (milli == limit or _beyond_shares(requested, limit))
    if not burstable and milli and same and requested.memory_limit_in_bytes > 0:
        return KubeQos.GUARANTEED
    something = burstable or milli or limit is not None or requested.memory_limit_in_bytes > 0
    return KubeQos.BURSTABLE if something else KubeQos.BEST_EFFORT


def _beyond_shares(requested: LinuxResources, limit: int) -> bool:
    """Whether a limit is so large that shares of a request that equals it say no more than that."""
    return requested.cpu_shares == shares_of(limit) == MAX_SHARES


class RequestResult(NamedTuple):
    """A request, and the problems with the annotation of its pod."""

    request: Request
    problems: tuple[str, ...] = ()


def make_request(
    container: Container,
    pod: Pod,
    *,
    requested: LinuxResources | None = None,
    command: Iterable[str] = (),
    args: Iterable[str] = (),
    capacity: int = 0,
    siblings: Iterable[Request] = (),
) -> RequestResult:
    """The request of a container.

    `requested` is what the kubelet itself asked for, by default what the record of the container says about it; that
    may be nothing at all. `capacity` is the machine's memory in bytes, 0 if it is not known; `siblings` are the other
    containers of the pod that run.
    """
    if requested is None:
        requested = container.requested
    problems: list[str] = []
    annotation = _read_amounts(pod.annotations, container.name, problems)
    qos = find_kube_qos(pod.requested_cgroup_parent or pod.cgroup_parent)
    of_pod = None if annotation is None else _read_pod_amounts(annotation, pod, qos, capacity, problems)
    cpu = memory = False
    if annotation is not None:
        annotation = annotation._replace(amounts=limited_by_pod(annotation.amounts, of_pod))
        cpu, memory = _check_annotation(annotation, requested, of_pod, problems)
    if qos is None and annotation is not None and cpu:
        qos = _annotated_qos(annotation.document, problems)
    if qos is None:
        qos = estimate_qos(requested)
    amounts = estimate(requested, qos, capacity)
    if of_pod is None and not cpu:
        of_pod = _find_pod_amounts(amounts, pod, qos, capacity, siblings)
    if of_pod is not None:
        amounts = own_amounts(amounts, of_pod)
    if annotation is not None:
        amounts = _merge_amounts(annotation.amounts, amounts, cpu=cpu, memory=memory)
    request = Request(
        key=Key(container.pod_id or pod.id, container.name, container.attempt),
        namespace=pod.namespace,
        pod=pod.name,
        qos=qos,
        amounts=amounts,
        pod_amounts=of_pod,
        pod_labels=pod.labels,
        pod_annotations=pod.annotations,
        envs=_policy_variables(container.envs),
        command=tuple(command),
        args=tuple(args),
    )
    return RequestResult(request, tuple(problems))


def resize_amounts(request: Request, update: LinuxResources, before: LinuxResources) -> Amounts:
    """The amounts of a request after an update of its container, which had `before`.

    What the update does not set stays. The very same amounts if nothing changes.
    """
    old = request.amounts
    after = before.overlay(update)
    of_pod = request.pod_amounts is not None
    guaranteed = request.qos is KubeQos.GUARANTEED and not of_pod
    milli, limit, memory, memory_limit = old.milli, old.limit_milli, old.memory, old.memory_limit
    # What was known better than CRI can say it stays as long as it comes to the same in CRI.
    # One that asks for nothing itself has shares of what its pod may have in all.
    if update.cpu_shares > 0 and shares_of(milli) != update.cpu_shares and (milli or not of_pod):
        milli = milli_of(update.cpu_shares)
    if (update.cpu_quota or update.cpu_period) and not same_limit(limit, after):
        limit = limit_of(after.cpu_quota, after.cpu_period)
    if guaranteed and (limit is None or (after.cpu_quota <= 0 and milli != old.milli)):
        limit = milli or None  # it is the request, whether there is a quota or not
    elif guaranteed and limit is not None and shares_of(milli) == shares_of(limit) == MAX_SHARES:
        milli = limit  # shares do not tell amounts that large
    if update.memory_limit_in_bytes:
        memory_limit = update.memory_limit_in_bytes if update.memory_limit_in_bytes > 0 else None
        if guaranteed:
            memory = memory_limit
        elif memory is not None and memory_limit is not None and memory > memory_limit:
            memory = None  # it asks for something else now, and CRI does not say for what
    quota = update.cpu_quota > 0 if update.cpu_quota else old.quota
    amounts = replace(old, milli=milli, limit_milli=limit, memory=memory, memory_limit=memory_limit, quota=quota)
    return old if amounts == old else replace(amounts, source=RequestSource.RESIZE)


# -- what the annotation says, and what of it is trusted


class _AnnotatedAmounts(NamedTuple):
    """The amounts of a container by the annotation."""

    document: ResourceAnnotation
    amounts: Amounts
    where: str


def _read_amounts(annotations: Mapping[str, str], container: str, problems: list[str]) -> _AnnotatedAmounts | None:
    try:
        document = read_annotation(annotations)
        if document is None:
            return None
        found = document.container(container)
        return _AnnotatedAmounts(document, found.amounts(), found.where)
    except ValueError as error:
        problems.append(str(error))
        return None


def _read_pod_amounts(
    annotation: _AnnotatedAmounts, pod: Pod, qos: KubeQos | None, capacity: int, problems: list[str]
) -> Amounts | None:
    """What the pod asks for as a whole by the annotation; about CPU the sandbox counts where they differ."""
    try:
        found = annotation.document.pod()
        amounts = None if found is None else found.amounts()
    except ValueError as error:
        problems.append(str(error))
        return None
    if found is None or amounts is None or pod.resources.cpu_shares <= 0:
        return amounts
    asked = estimate(pod.resources, qos or KubeQos.BURSTABLE, capacity)
    same = shares_of(amounts.milli) == pod.resources.cpu_shares
    if same and (pod.resources.cpu_quota <= 0 or same_limit(amounts.limit_milli, pod.resources)):
        return amounts
    if _CPU in found.requests or _CPU in found.limits:
        problems.append(
            f"{found.where}: {amounts.milli}m CPU of the pod are not believed, the kubelet asked for {asked.milli}m"
        )
    return replace(amounts, milli=asked.milli, limit_milli=asked.limit_milli, source=asked.source)


def _find_pod_amounts(
    amounts: Amounts, pod: Pod, qos: KubeQos, capacity: int, siblings: Iterable[Request]
) -> Amounts | None:
    """What the pod asks for as a whole by its sandbox, if its containers cannot ask for that by themselves."""
    if pod.resources.cpu_shares <= 0:
        return None
    found = estimate(pod.resources, qos, capacity)
    if pod.resources.cpu_shares == MAX_SHARES and found.milli <= milli_of(MAX_SHARES):
        return None  # it may ask for more than that
    request = Request(key=Key(pod.id, ""), amounts=amounts)
    return found if have_pod_amounts((request, *siblings), found) else None


def _check_annotation(
    annotation: _AnnotatedAmounts, requested: LinuxResources, of_pod: Amounts | None, problems: list[str]
) -> tuple[bool, bool]:
    """Whether the annotation is trusted about CPU, and about memory: unless the kubelet asked for something else."""
    amounts, cpu, memory = annotation.amounts, True, True
    possible = map(shares_of, sent_requests(amounts, of_pod))
    if requested.cpu_shares > 0 and requested.cpu_shares not in possible:
        cpu = False
        problems.append(
            f"{annotation.where}: {amounts.milli}m CPU are not believed, the kubelet asked for"
            f" {requested.cpu_shares} CPU shares, which are {milli_of(requested.cpu_shares)}m"
        )
    elif amounts.limit_milli is not None and requested.cpu_quota > 0 and not same_limit(amounts.limit_milli, requested):
        cpu = False
        problems.append(
            f"{annotation.where}: a limit of {amounts.limit_milli}m CPU is not believed, the kubelet asked for a quota"
            f" of {requested.cpu_quota}, which is {limit_of(requested.cpu_quota, requested.cpu_period)}m"
        )
    if amounts.memory_limit is not None and 0 < requested.memory_limit_in_bytes != amounts.memory_limit:
        memory = False
        problems.append(
            f"{annotation.where}: a memory limit of {amounts.memory_limit} is not believed, the kubelet asked for"
            f" {requested.memory_limit_in_bytes}"
        )
    return cpu, memory


def same_limit(limit: int | None, resources: LinuxResources) -> bool:
    """Whether a limit comes to the quota that is there."""
    return limit is not None and quota_of(limit, resources.cpu_period or PERIOD) == resources.cpu_quota


def _merge_amounts(annotation: Amounts, guessed: Amounts, *, cpu: bool, memory: bool) -> Amounts:
    """The amounts of the annotation where it is trusted. Extended resources cannot be checked."""
    if not cpu:
        annotation = replace(annotation, milli=guessed.milli, limit_milli=guessed.limit_milli, source=guessed.source)
    if not memory:
        annotation = replace(annotation, memory=guessed.memory, memory_limit=guessed.memory_limit)
    return replace(annotation, quota=guessed.quota)


def _annotated_qos(document: ResourceAnnotation, problems: list[str]) -> KubeQos | None:
    try:
        return document.qos()
    except ValueError as error:
        problems.append(str(error))
        return None


def _policy_variables(envs: Iterable[tuple[str, bytes]]) -> Mapping[str, str]:
    """Those that policies read and that are text; of one that is given twice the last counts, as in a process."""
    found = {}
    for name, value in envs:
        if name.startswith(VARIABLE_PREFIXES):
            with suppress(UnicodeDecodeError):
                found[name] = value.decode()
    return MappingProxyType(found)
