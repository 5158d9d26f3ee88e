"""What a container asks for, as a policy sees it. Made from CRI messages, from a manifest, or by a test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.resources import empty_map
from interpose.core.topology.hints import TopologyHint


class Key(NamedTuple):
    """The identity of a container: known before the runtime gives it an id, and unique as long as its pod exists.

    CRI keeps name and attempt unique in a pod. Docker does not: `duplicate` counts later containers of the same name.
    """

    pod_id: str
    name: str
    attempt: int = 0
    duplicate: int = 0

    @property
    def next(self) -> "Key":
        """The key of the next duplicate of this container."""
        return self._replace(duplicate=self.duplicate + 1)

    def __str__(self) -> str:
        duplicate = f"+{self.duplicate}" if self.duplicate else ""
        return f"{self.pod_id}/{self.name}/{self.attempt}{duplicate}"


class RequestSource(StrEnum):
    """How the amounts of a request became known."""

    ANNOTATION = "annotation"  # written by the webhook: exact
    ESTIMATE = "estimate"  # from CPU shares, quota and OOM score
    RESIZE = "resize"  # from the last UpdateContainerResources
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Amounts of resources. CPU in thousandths, memory in bytes."""

    milli: int = 0  # CPU request
    limit_milli: int | None = None  # CPU limit; None: none
    memory: int | None = None  # memory request; None: not known
    memory_limit: int | None = None
    extended: Mapping[str, int] = field(default_factory=dict)  # extended resources by name, if known
    quota: bool = False  # whether a CFS quota enforces the CPU limit
    source: RequestSource = RequestSource.ESTIMATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A container and the amounts that it asks for."""

    key: Key
    namespace: str = ""
    pod: str = ""  # its name
    qos: KubeQos = KubeQos.BEST_EFFORT
    amounts: Amounts = Amounts()
    # What its pod asks for as a whole, if it has such amounts: see `core.policy.pod_amounts`.
    pod_amounts: Amounts | None = None
    pod_labels: Mapping[str, str] = field(default_factory=empty_map)
    pod_annotations: Mapping[str, str] = field(default_factory=empty_map)
    envs: Mapping[str, str] = field(default_factory=empty_map)
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    # Of a container that runs already, whose command the runtime does not report: the details of its earlier grants.
    recalled: Mapping[str, str] = field(default_factory=empty_map)
    # What its devices and mounts are near to. Of containers that run already it is not known: what they hold counts.
    hints: tuple[TopologyHint, ...] = ()

    @property
    def milli(self) -> int:
        """The CPU request in thousandths of a CPU."""
        return self.amounts.milli

    @property
    def title(self) -> str:
        """The display name of the container: namespace/pod/container."""
        return f"{self.namespace}/{self.pod}/{self.key.name}"

    def annotation(self, key: str) -> str | None:
        """The annotation that holds for this container: `key/container.NAME`, else `key/pod`, else `key`."""
        for name in (f"{key}/container.{self.key.name}", f"{key}/pod", key):
            if (value := self.pod_annotations.get(name)) is not None:
                return value
        return None
