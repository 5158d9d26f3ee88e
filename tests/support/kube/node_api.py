"""An API server with one Node object in it, in this process: for tests of what changes nodes.

Versions grow with each change, patches count whole or not at all, and one of the status leaves the rest alone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

from interpose.kube.client.api import ApiError, Listed, Object, PatchKind, Resource, WatchEvent
from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.apiserver.patch.patches import merge
from tests.support.apiserver.problems import RefusedError


def plain_node(name: str = "n1", **meta: Any) -> dict[str, Any]:
    """A node as a kubelet registers it; `meta` goes to its metadata."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": "u1",
            "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            **meta,
        },
        "spec": {},
        "status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
    }


class NodeApi:
    """Implements Api for one node. What goes wrong is said by the test."""

    def __init__(self, node: dict[str, Any] | None = None) -> None:
        self.node = node or plain_node()
        self.calls: list[str] = []
        self.patches: list[tuple[str, Any]] = []  # subresource and what was sent, also what was refused
        self.errors: list[Exception] = []  # of the next calls, one each
        self.gate = asyncio.Event()  # calls stand while it is not set
        self.gate.set()
        self.standing = 0
        self.before_patch: Callable[[], None] = lambda: None

    def change(self, act: Callable[[dict[str, Any]], object]) -> None:
        """Somebody else changes the node."""
        act(self.node)
        self._bump()

    def _bump(self) -> None:
        self.node["metadata"]["resourceVersion"] = str(int(self.node["metadata"]["resourceVersion"]) + 1)

    async def _call(self, verb: str, resource: Resource, name: str) -> None:
        self.calls.append(verb)
        self.standing += 1
        try:
            await self.gate.wait()
        finally:
            self.standing -= 1
        if self.errors:
            raise self.errors.pop(0)
        if resource.plural != "nodes" or name != self.node["metadata"]["name"]:
            raise ApiError(404, "NotFound", f'{resource.plural} "{name}" not found')

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        """The node."""
        await self._call("get", resource, name)
        return deepcopy(self.node)

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Change it, all or nothing."""
        self.patches.append((subresource, deepcopy(patch)))
        await self._call(f"patch {subresource}".strip(), resource, name)
        self.before_patch()
        assert kind in (PatchKind.JSON, PatchKind.MERGE)
        try:
            after = apply_json_patch(self.node, patch) if kind is PatchKind.JSON else merge(self.node, patch)
        except RefusedError as refusal:
            raise ApiError(refusal.code, refusal.reason, refusal.message) from None
        kept = ("spec",) if subresource == "status" else ("status",)
        after.update({part: self.node[part] for part in kept})
        if after != self.node:
            self.node = after
            self._bump()
        return deepcopy(self.node)

    async def list(self, resource: Resource, *, namespace: str = "", name: str = "") -> Listed:
        """Not needed here."""
        raise NotImplementedError

    def watch(
        self, resource: Resource, *, version: str, namespace: str = "", name: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Not needed here."""
        raise NotImplementedError

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """Not needed here."""
        raise NotImplementedError

    async def replace(self, resource: Resource, name: str, body: Object, *, namespace: str = "") -> Object:
        """Not needed here."""
        raise NotImplementedError
