"""Which kind of work a call is: what the colours of the page stand for. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from interpose.cri.methods import METHODS, Concern

# Of a method without a row here: `other`.
FAMILIES: Final[Mapping[Concern, str]] = MappingProxyType(
    {
        Concern.POD_CREATE: "pod",
        Concern.POD_STOP: "pod",
        Concern.POD_REMOVE: "pod",
        Concern.RESTORE_POD: "pod",
        Concern.CHECKPOINT: "pod",
        Concern.CONTAINER_CREATE: "container",
        Concern.CONTAINER_START: "container",
        Concern.CONTAINER_STOP: "container",
        Concern.CONTAINER_REMOVE: "container",
        Concern.CONTAINER_LOG: "container",
        Concern.POD_UPDATE: "update",
        Concern.CONTAINER_UPDATE: "update",
        Concern.EXEC: "exec",
        Concern.STREAMING_URL: "exec",
        Concern.IMAGE: "image",
        Concern.POD_STATUS: "status",
        Concern.CONTAINER_STATUS: "status",
        Concern.LIST_PODS: "status",
        Concern.LIST_CONTAINERS: "status",
        Concern.EVENTS: "status",
        Concern.STATS: "stats",
        Concern.METRICS: "stats",
        Concern.NODE: "node",
    }
)


def families() -> dict[str, str]:
    """Method to family."""
    return {name: FAMILIES[method.concern] for name, method in METHODS.items()}
