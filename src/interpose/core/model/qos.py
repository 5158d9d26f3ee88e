"""The QoS classes of co-location: who wins when a node is short of something."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

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
