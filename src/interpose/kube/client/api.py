"""What can be asked of an API server, and what comes back. Values and protocols; the client is elsewhere. Pure."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

# An object as its JSON is. Nobody changes one that was handed out.
Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind of objects and where they are."""

    version: str
    plural: str
    kind: str
    group: str = ""
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Of all objects, or of one of them. A name is quoted, so that it cannot lead elsewhere."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced:
            if not namespace:
                raise ValueError(f"{self.plural} are in namespaces, and none is named")
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(quote(part, safe="") for part in parts)


NODES: Final = Resource(version="v1", plural="nodes", kind="Node", namespaced=False)
CONFIG_MAPS: Final = Resource(version="v1", plural="configmaps", kind="ConfigMap")
EVENTS: Final = Resource(version="v1", plural="events", kind="Event")
SECRETS: Final = Resource(version="v1", plural="secrets", kind="Secret")
NODE_SLOS: Final = Resource(
    group="slo.koordinator.sh", version="v1alpha1", plural="nodeslos", kind="NodeSLO", namespaced=False
)
TOPOLOGY_AWARE_POLICIES: Final = Resource(
    group="config.nri", version="v1alpha1", plural="topologyawarepolicies", kind="TopologyAwarePolicy"
)
BALLOONS_POLICIES: Final = Resource(
    group="config.nri", version="v1alpha1", plural="balloonspolicies", kind="BalloonsPolicy"
)
MUTATING_WEBHOOKS: Final = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration",
    namespaced=False,
)


class PatchKind(StrEnum):
    """How a patch is to be read; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class WatchChange(StrEnum):
    """What a watch tells about an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"  # nothing changed up to the version that it has


class WatchEvent(NamedTuple):
    """One line of a watch."""

    change: WatchChange
    object: Object


class Listed(NamedTuple):
    """Objects and the version at which they were so."""

    items: tuple[Object, ...]
    version: str


class ApiError(Exception):
    """The API server said no. `code` is that of HTTP, `reason` Kubernetes' word for it: NotFound, Expired, Conflict."""

    def __init__(
        self, code: int, reason: str, message: str, *, retry_after: float | None = None, name: str = ""
    ) -> None:
        super().__init__(f"{message} ({code} {reason})" if reason else f"{message} ({code})")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after  # seconds the server asks us to wait
        self.name = name  # of the object that it is about, if it is about one

    @property
    def expired(self) -> bool:
        """The version we go on from is too old: everything has to be listed again."""
        return self.code == 410 or self.reason in ("Expired", "Gone")


class Api(Protocol):
    """The API server. Each call raises ApiError or UnreachableError; nothing is sent a second time by itself."""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        """One object; ApiError 404 with its name if there is none, without a name if there is no such kind."""

    async def list(self, resource: Resource, *, namespace: str = "", name: str = "") -> Listed:
        """All objects, or the one of this name if it is there: by field selector, which RBAC by name allows.

        ApiError 404 says that the server has no such kind.
        """

    def watch(
        self, resource: Resource, *, version: str, namespace: str = "", name: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """What happens after a version, until the server ends it, which is everyday. BOOKMARKs are asked for.

        Without a version ("") it begins with an ADDED for each object that is there.
        """

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """A new object; ApiError 409 AlreadyExists if there is one."""

    async def replace(self, resource: Resource, name: str, body: Object, *, namespace: str = "") -> Object:
        """Another content for an object; ApiError 409 Conflict if the body has an older resourceVersion."""

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Change parts of an object."""
