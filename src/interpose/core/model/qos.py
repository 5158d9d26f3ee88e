"""The QoS classes of Kubernetes and of co-location: which pod wins when a node is short of a resource."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Final

from interpose.core.model.cgroup import KubeQos

QOS_LABEL: Final = "koordinator.sh/qosClass"


class QosClass(StrEnum):
    """Values of the label, from the most to the least demanding; SYSTEM is for the node's own daemons."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"


def qos_of(labels: Mapping[str, str]) -> QosClass | None:
    """The class a pod's label names; None if it has no such label, or one with another value."""
    value = labels.get(QOS_LABEL, "")
    return QosClass(value) if value in QosClass.__members__ else None


_COUNTED: Final = ("cpu", "memory")


def kube_qos(each: Iterable[tuple[Mapping[str, Fraction], Mapping[str, Fraction]]]) -> KubeQos:
    """The class of a pod by the requests and limits of each of its containers, or of the pod itself if it has some.

    Only CPU and memory count, and only amounts above zero. A request that is missing is the limit.
    """
    parts = [(_select_counted({**limits, **requests}), _select_counted(limits)) for requests, limits in each]
    if not any(requested or bounds for requested, bounds in parts):
        return KubeQos.BEST_EFFORT
    guaranteed = all(requested == bounds and len(bounds) == len(_COUNTED) for requested, bounds in parts)
    return KubeQos.GUARANTEED if guaranteed else KubeQos.BURSTABLE


def _select_counted(amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: amounts[name] for name in _COUNTED if amounts.get(name)}
