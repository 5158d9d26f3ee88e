"""The CRI methods: one table that says for each what it concerns and what its messages carry.

Everything that treats methods differently (subscriptions, metric labels, the store, dumps, the reference page) reads
this table instead of comparing names. It is data: message classes are named, never imported, so a pass-through relay
pays nothing for it. A method missing here still passes; it just has no row, and `method_of_path` says None.

Invariant: the table equals the wire table of the interface (tests/unit/cri/test_methods.py), method by method.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum
from types import MappingProxyType

# v1alpha2 has the same messages. It lacks the younger methods, but a row for a path that is not called does no harm.
API_VERSIONS = ("runtime.v1", "runtime.v1alpha2")


class Concern(StrEnum):
    """What a call is about, seen from someone who keeps track of pods and containers."""

    POD_CREATE = "pod-create"
    POD_STOP = "pod-stop"
    POD_REMOVE = "pod-remove"
    POD_UPDATE = "pod-update"
    POD_STATUS = "pod-status"
    CONTAINER_CREATE = "container-create"
    CONTAINER_START = "container-start"
    CONTAINER_STOP = "container-stop"
    CONTAINER_REMOVE = "container-remove"
    CONTAINER_UPDATE = "container-update"
    CONTAINER_STATUS = "container-status"
    CONTAINER_LOG = "container-log"
    # Creates a pod and containers in one call: subscribers of POD_CREATE or CONTAINER_CREATE need this, too.
    RESTORE_POD = "restore-pod"
    CHECKPOINT = "checkpoint"
    LIST_PODS = "list-pods"
    LIST_CONTAINERS = "list-containers"
    EVENTS = "events"
    EXEC = "exec"
    # The answer is a URL that works once: such a call is never repeated and its reply never kept.
    STREAMING_URL = "streaming-url"
    STATS = "stats"
    METRICS = "metrics"
    IMAGE = "image"
    NODE = "node"


class Carries(Flag):
    """What a request holds besides plain scalars; a request may hold several."""

    NOTHING = 0
    ID = 1  # the id of a pod or container, or the name of an image
    CFG = 2  # a whole configuration
    RES = 4  # a patch of resources
    FLT = 8  # a filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row of the table.

    `secrets` is true when request or reply may hold what must not reach a log or dump unredacted: registry credentials,
    environment values, command lines and their output, one-shot URLs, verbose `info`.
    """

    service: str
    name: str
    concern: Concern
    carries: Carries
    request: str
    response: str
    server_streaming: bool = False
    secrets: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The `:path` of the call in each API version, v1 first."""
        return tuple(f"/{version}.{self.service}/{self.name}" for version in API_VERSIONS)


def _rows(service: str, *rows: tuple[str, Concern, Carries, str]) -> tuple[Method, ...]:
    """Fill in what follows from the name. Marks: `s` server streaming, `!` secrets."""
    return tuple(
        Method(
            service=service,
            name=name,
            concern=concern,
            carries=carries,
            request=f"{name}Request",
            response=f"{name}Response",
            server_streaming="s" in marks,
            secrets="!" in marks,
        )
        for name, concern, carries, marks in rows
    )


_ID, _CFG, _RES, _FLT, _NOTHING = Carries.ID, Carries.CFG, Carries.RES, Carries.FLT, Carries.NOTHING

# Order is that of the wire table.
_TABLE: tuple[Method, ...] = (
    *_rows(
        "RuntimeService",
        ("Version", Concern.NODE, _NOTHING, ""),
        ("RunPodSandbox", Concern.POD_CREATE, _CFG, ""),
        ("StopPodSandbox", Concern.POD_STOP, _ID, ""),
        ("RemovePodSandbox", Concern.POD_REMOVE, _ID, ""),
        ("PodSandboxStatus", Concern.POD_STATUS, _ID, "!"),
        ("ListPodSandbox", Concern.LIST_PODS, _FLT, ""),
        ("StreamPodSandboxes", Concern.LIST_PODS, _FLT, "s"),
        ("CreateContainer", Concern.CONTAINER_CREATE, _ID | _CFG, "!"),
        ("StartContainer", Concern.CONTAINER_START, _ID, ""),
        ("StopContainer", Concern.CONTAINER_STOP, _ID, ""),
        ("RemoveContainer", Concern.CONTAINER_REMOVE, _ID, ""),
        ("ListContainers", Concern.LIST_CONTAINERS, _FLT, ""),
        ("StreamContainers", Concern.LIST_CONTAINERS, _FLT, "s"),
        ("ContainerStatus", Concern.CONTAINER_STATUS, _ID, "!"),
        ("UpdateContainerResources", Concern.CONTAINER_UPDATE, _ID | _RES, ""),
        ("ReopenContainerLog", Concern.CONTAINER_LOG, _ID, ""),
        ("ExecSync", Concern.EXEC, _ID, "!"),
        ("Exec", Concern.STREAMING_URL, _ID, "!"),
        ("Attach", Concern.STREAMING_URL, _ID, "!"),
        ("PortForward", Concern.STREAMING_URL, _ID, "!"),
        ("ContainerStats", Concern.STATS, _ID, ""),
        ("ListContainerStats", Concern.STATS, _FLT, ""),
        ("StreamContainerStats", Concern.STATS, _FLT, "s"),
        ("PodSandboxStats", Concern.STATS, _ID, ""),
        ("ListPodSandboxStats", Concern.STATS, _FLT, ""),
        ("StreamPodSandboxStats", Concern.STATS, _FLT, "s"),
        ("UpdateRuntimeConfig", Concern.NODE, _CFG, ""),
        ("Status", Concern.NODE, _NOTHING, "!"),
        ("CheckpointContainer", Concern.CHECKPOINT, _ID, ""),
        ("CheckpointPod", Concern.CHECKPOINT, _ID, ""),
        ("RestorePod", Concern.RESTORE_POD, _CFG, "!"),
    ),
    # The one method whose messages are not called after it.
    Method(
        service="RuntimeService",
        name="GetContainerEvents",
        concern=Concern.EVENTS,
        carries=Carries.NOTHING,
        request="GetEventsRequest",
        response="ContainerEventResponse",
        server_streaming=True,
    ),
    *_rows(
        "RuntimeService",
        ("ListMetricDescriptors", Concern.METRICS, _NOTHING, ""),
        ("ListPodSandboxMetrics", Concern.METRICS, _NOTHING, ""),
        ("StreamPodSandboxMetrics", Concern.METRICS, _NOTHING, "s"),
        ("RuntimeConfig", Concern.NODE, _NOTHING, ""),
        ("UpdatePodSandboxResources", Concern.POD_UPDATE, _ID | _RES, ""),
    ),
    *_rows(
        "ImageService",
        ("ListImages", Concern.IMAGE, _FLT, ""),
        ("StreamImages", Concern.IMAGE, _FLT, "s"),
        ("ImageStatus", Concern.IMAGE, _ID, "!"),
        ("PullImage", Concern.IMAGE, _ID | _CFG, "!"),
        ("RemoveImage", Concern.IMAGE, _ID, ""),
        ("ImageFsInfo", Concern.IMAGE, _NOTHING, ""),
    ),
)

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _TABLE})

_BY_PATH: Mapping[bytes, Method] = MappingProxyType(
    {path.encode(): method for method in _TABLE for path in method.paths}
)


def method_of_path(path: bytes) -> Method | None:
    """The row of a `:path` in either API version; None for anything that is not a known CRI method."""
    return _BY_PATH.get(path)
