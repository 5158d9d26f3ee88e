"""What a container asks for: made of what the store and the pod's annotation say, and made anew when it is resized.

The annotation is exact but anybody's; what the kubelet asked the runtime for is rounded but true. So the annotation
counts where the two agree, and where they do not it is the kubelet that counts: nobody gets CPU or memory for text.
Extended resources are the exception: the kubelet does not tell runtimes of them, so what the annotation says of them
cannot be checked and is believed. Where they decide about CPUs, admission in the cluster must keep authors of pods from
writing the annotation themselves. What hook servers made of the kubelet's wishes on the way plays no part. Nothing here
fails; what could not be used is told in words. Pure.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from interpose.core.model.cgroup import MAX_SHARES, PERIOD, KubeQos, kube_place_of, quota_of, shares_of
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.request import Amounts, Key, Request, Source
from interpose.resmgr.annotated import Annotated, annotated
from interpose.resmgr.estimate import estimate, estimated_qos, limit_of, milli_of


class Made(NamedTuple):
    """A request, and what was not believed or could not be read."""

    request: Request
    problems: tuple[str, ...] = ()


def make_request(
    container: Container,
    pod: Pod,
    *,
    asked: LinuxResources | None = None,
    command: Iterable[str] = (),
    args: Iterable[str] = (),
    capacity: int = 0,
) -> Made:
    """The request of a container.

    `asked` is what the kubelet itself asked for, by default what the record of the container says about it; that may
    be nothing at all. `capacity` is the machine's memory in bytes, 0 if it is not known.
    """
    if asked is None:
        asked = container.requested
    problems: list[str] = []
    said = _said(pod.annotations, container.name, problems)
    qos = kube_place_of(pod.requested_cgroup_parent or pod.cgroup_parent)
    cpu = memory = False
    if said is not None:
        cpu, memory = _believed(said, asked, problems)
    if qos is None and said is not None and cpu:
        qos = _annotated_qos(said.document, problems)
    if qos is None:
        qos = estimated_qos(asked)
    amounts = estimate(asked, qos, capacity)
    if said is not None:
        amounts = _merged(said.amounts, amounts, cpu=cpu, memory=memory)
    request = Request(
        key=Key(container.pod_id or pod.id, container.name, container.attempt),
        namespace=pod.namespace,
        pod=pod.name,
        qos=qos,
        amounts=amounts,
        pod_labels=pod.labels,
        pod_annotations=pod.annotations,
        envs=_texts(container.envs),
        command=tuple(command),
        args=tuple(args),
    )
    return Made(request, tuple(problems))


def resized(request: Request, update: LinuxResources, before: LinuxResources) -> Amounts:
    """The amounts of a request after an update of its container, which had `before`.

    What the update does not set stays. The very same amounts if nothing changes.
    """
    old = request.amounts
    after = before.overlay(update)
    guaranteed = request.qos is KubeQos.GUARANTEED
    milli, limit, memory, memory_limit = old.milli, old.limit_milli, old.memory, old.memory_limit
    # What was known better than CRI can say it stays as long as it comes to the same in CRI.
    if update.cpu_shares > 0 and shares_of(milli) != update.cpu_shares:
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
    amounts = replace(old, milli=milli, limit_milli=limit, memory=memory, memory_limit=memory_limit)
    return old if amounts == old else replace(amounts, source=Source.RESIZE)


# -- what the annotation says, and what of it is believed


class _Said(NamedTuple):
    """What the annotation says about a container."""

    document: Annotated
    amounts: Amounts
    where: str


def _said(annotations: Mapping[str, str], container: str, problems: list[str]) -> _Said | None:
    try:
        document = annotated(annotations)
        if document is None:
            return None
        found = document.container(container)
        return _Said(document, found.amounts(), found.where)
    except ValueError as error:
        problems.append(str(error))
        return None


def _believed(said: _Said, asked: LinuxResources, problems: list[str]) -> tuple[bool, bool]:
    """Whether the annotation is believed about CPU, and about memory: unless the kubelet asked for something else."""
    amounts, cpu, memory = said.amounts, True, True
    if asked.cpu_shares > 0 and shares_of(amounts.milli) != asked.cpu_shares:
        cpu = False
        problems.append(
            f"{said.where}: {amounts.milli}m CPU are not believed, the kubelet asked for {asked.cpu_shares} CPU shares,"
            f" which are {milli_of(asked.cpu_shares)}m"
        )
    elif amounts.limit_milli is not None and asked.cpu_quota > 0 and not same_limit(amounts.limit_milli, asked):
        cpu = False
        problems.append(
            f"{said.where}: a limit of {amounts.limit_milli}m CPU is not believed, the kubelet asked for a quota of"
            f" {asked.cpu_quota}, which is {limit_of(asked.cpu_quota, asked.cpu_period)}m"
        )
    if amounts.memory_limit is not None and 0 < asked.memory_limit_in_bytes != amounts.memory_limit:
        memory = False
        problems.append(
            f"{said.where}: a memory limit of {amounts.memory_limit} is not believed, the kubelet asked for"
            f" {asked.memory_limit_in_bytes}"
        )
    return cpu, memory


def same_limit(limit: int | None, resources: LinuxResources) -> bool:
    """Whether a limit comes to the quota that is there."""
    return limit is not None and quota_of(limit, resources.cpu_period or PERIOD) == resources.cpu_quota


def _merged(said: Amounts, guessed: Amounts, *, cpu: bool, memory: bool) -> Amounts:
    """The annotation where it is believed. Extended resources are told by nobody else, so they cannot be checked."""
    if not cpu:
        said = replace(said, milli=guessed.milli, limit_milli=guessed.limit_milli, source=guessed.source)
    if not memory:
        said = replace(said, memory=guessed.memory, memory_limit=guessed.memory_limit)
    return said


def _annotated_qos(document: Annotated, problems: list[str]) -> KubeQos | None:
    try:
        return document.qos()
    except ValueError as error:
        problems.append(str(error))
        return None


def _texts(envs: Iterable[tuple[str, bytes]]) -> Mapping[str, str]:
    """Variables that are text; of one that is given twice the last counts, as in a process."""
    found = {}
    for name, value in envs:
        with suppress(UnicodeDecodeError):
            found[name] = value.decode()
    return MappingProxyType(found)
