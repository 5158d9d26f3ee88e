"""Share pools: which CPUs of each NUMA node pods may share, after everybody who has CPUs alone got theirs.

The pool of latency-sensitive pods is without the CPUs of every pod that the scheduler bound; that of best-effort pods
only without those of LSE pods, since the others lend what they do not use. Both are without reserved CPUs, those of
system services, and those the kubelet gave to pods that are none of ours. Annotations of the NodeResourceTopology,
where somebody writes them, say which CPUs these are taken from; without them it is all CPUs of the machine.

Pure. Invariant: always an answer. What cannot be used is left out and named among the problems. If it is the node's own
word or state, the pools say so too, for they may then have CPUs that are not to be shared. A single pod's words are
that pod's problem: nobody may stop the pools of a node by writing nonsense into a pod.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from interpose.core.model.cpuset import EMPTY, MAX_CPUS, CpuSet, KubeletCpus, NumaCpus
from interpose.core.model.pod import Pod
from interpose.core.model.qos import QosClass, qos_of
from interpose.core.model.text import quoted
from interpose.hooks.server.plugin import CpuPool, CpuPools
from interpose.hooks.server.pods.pod_annotations import resource_status

RESERVATION: Final = "node.koordinator.sh/reservation"
SYSTEM_QOS: Final = "node.koordinator.sh/system-qos-resource"
LS_POOLS: Final = "node.koordinator.sh/cpu-shared-pools"
BE_POOLS: Final = "node.koordinator.sh/be-cpu-shared-pools"
CPU_MANAGER: Final = "kubelet.koordinator.sh/cpu-manager-policy"

T = TypeVar("T")

_UNKNOWN_KUBELET: Final = KubeletCpus()
_NOTHING: Final = (NumaCpus(socket=0, node=0, cpus=EMPTY),)
# The kubelet gives these CPUs too, but we put them elsewhere: its assignment takes nothing from anybody.
_OURS: Final = frozenset((QosClass.LS, QosClass.BE))


class ComputedPools(NamedTuple):
    """The pools, and what could not be used to make them."""

    pools: CpuPools
    problems: tuple[str, ...]


def compute_pools(
    cpus: Sequence[NumaCpus],
    pods: Iterable[Pod],
    annotations: Mapping[str, str],
    kubelet: KubeletCpus = _UNKNOWN_KUBELET,
    unread: Sequence[str] = (),
) -> ComputedPools:
    """Pools by (socket, node). `annotations` are those of the node and of its NodeResourceTopology.

    `unread` is what could not be found out about CPUs and kubelet. A pool of which nothing is left stays, empty.
    Without known CPUs there are no pools.
    """
    of_node, of_pods = list(unread), list[str]()
    policy = _read(_policy, annotations, CPU_MANAGER, kubelet.policy, of_node)
    bound, lse, ours = _assigned_cpus(pods, of_pods)
    excluded_for_all = _read(_reserved, annotations, RESERVATION, EMPTY, of_node)
    excluded_for_all |= _read(_exclusive, annotations, SYSTEM_QOS, EMPTY, of_node)
    if policy == "static":
        excluded_for_all |= _union(
            assigned
            for uid, containers in kubelet.assigned.items()
            if uid not in ours
            for assigned in containers.values()
        )
    ls = _read(_pools, annotations, LS_POOLS, cpus, of_node)
    be = _read(_pools, annotations, BE_POOLS, cpus, of_node)
    return ComputedPools(
        CpuPools(
            ls=_subtract(ls, excluded_for_all | bound),
            be=_subtract(be, excluded_for_all | lse),
            cpu_manager_policy=policy,
            problem="; ".join(of_node),
        ),
        (*of_node, *of_pods),
    )


def _assigned_cpus(pods: Iterable[Pod], problems: list[str]) -> tuple[CpuSet, CpuSet, set[str]]:
    """CPUs of all pods that are bound, those of LSE pods among them, and the uids of pods whose CPUs we look after."""
    bound, lse = EMPTY, EMPTY
    ours: set[str] = set()
    for pod in pods:
        qos = qos_of(pod.labels)
        try:
            cpuset = CpuSet.parse(resource_status(pod.annotations).cpuset)
        except ValueError as error:
            problems.append(f"pod {pod.namespace}/{pod.name}: {error}")
            cpuset = EMPTY
        if pod.uid and (cpuset or qos in _OURS):
            ours.add(pod.uid)
        if pod.ready:  # one that ended has left its CPUs
            bound |= cpuset
            lse |= cpuset if qos is QosClass.LSE else EMPTY
    return bound, lse, ours


def _subtract(cpus: Sequence[NumaCpus], excluded: CpuSet) -> tuple[CpuPool, ...]:
    ordered = sorted(cpus, key=lambda part: (part.socket, part.node))
    return tuple(CpuPool(socket=part.socket, node=part.node, cpus=str(part.cpus - excluded)) for part in ordered)


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet.union(sets)


# -- annotations, read as Go reads them: names of fields without regard to case, unknown ones ignored, null is absent


def _read(reader: Callable[[Any], T], annotations: Mapping[str, str], name: str, default: T, problems: list[str]) -> T:
    """What an annotation says; the default if there is none, or one that cannot be used."""
    text = annotations.get(name, "")
    if not text.strip():
        return default
    try:
        return reader(_document(text))
    except ValueError as error:
        problems.append(f"annotation {name}: {error}")
        return default


def _document(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: {key.lower(): value for key, value in pairs})
    except (ValueError, RecursionError):
        raise ValueError(f"is not valid JSON: {quoted(text)}") from None


def _policy(value: Any) -> str:
    return _field(value, "policy", str, "text", "")


def _reserved(value: Any) -> CpuSet:
    return _cpus(value, "reservedCPUs")


def _exclusive(value: Any) -> CpuSet:
    cpus = _cpus(value, "cpuset")
    return cpus if _field(value, "cpusetExclusive", bool, "true or false", default=True) else EMPTY


def _pools(value: Any) -> Sequence[NumaCpus]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, found {_describe(value)}")
    # Not one pool is one without CPUs: it was said that there is nothing to share, which is not the same as silence.
    return [
        NumaCpus(socket=_number(part, "socket"), node=_number(part, "node"), cpus=_cpus(part, "cpuset"))
        for part in value
    ] or _NOTHING


def _number(value: Any, name: str) -> int:
    number = _field(value, name, int, "a number", 0)
    if isinstance(number, bool) or not 0 <= number < MAX_CPUS:
        raise ValueError(f"{name}: expected a number from 0 to {MAX_CPUS - 1}, found {_describe(number)}")
    return number


def _cpus(value: Any, name: str) -> CpuSet:
    text = _field(value, name, str, "text", "")
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _field(value: Any, name: str, kind: type[T], expected: str, default: T) -> T:
    if not isinstance(value, dict):
        raise ValueError(f"expected a group of keys, found {_describe(value)}")
    found = value.get(name.lower())
    if found is None:
        return default
    if not isinstance(found, kind):
        raise ValueError(f"{name}: expected {expected}, found {_describe(found)}")
    return found


def _describe(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "a group of keys"
    return quoted(json.dumps(value))
