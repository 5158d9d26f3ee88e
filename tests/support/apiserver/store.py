"""All objects of the test API server, and what happened to them lately. Pure: clock and ids are given.

One counter numbers all changes, as etcd does. What is stored is never changed afterwards, only replaced: it may be
handed out as it is. A write that changes nothing is no change: no new version, nothing for watches.
"""

from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from interpose.kube.client.api import Object, Resource, WatchChange
from tests.support.apiserver.patch.strategy import newcomer, successor
from tests.support.apiserver.problems import already_exists, conflict, expired, not_found
from tests.support.apiserver.resources import BY_RESOURCE, NAMESPACES


class Happening(NamedTuple):
    """One change. `object` is how it is after it (of a deletion: how it was), `previous` how it was before."""

    version: int
    change: WatchChange
    resource: Resource
    object: Object
    previous: Object | None


class Key(NamedTuple):
    """Where an object is; sorts as lists are sorted."""

    resource: Resource
    namespace: str
    name: str


class Store:
    """Objects by key. `listeners` are told of each change, in order."""

    def __init__(
        self, *, now: Callable[[], str], new_uid: Callable[[], str], remember: int = 1000, version: int = 100
    ) -> None:
        self.version = version
        self.compacted = version  # watches may begin here or later
        self.listeners: list[Callable[[Happening], None]] = []
        self._now = now
        self._new_uid = new_uid
        self._remember = remember
        self._objects: dict[Key, Object] = {}
        self._history: deque[Happening] = deque()

    # -- reading

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        """One object; RefusedError 404 if there is none."""
        try:
            return self._objects[Key(resource, namespace, name)]
        except KeyError:
            raise not_found(BY_RESOURCE[resource], name) from None

    def since(self, resource: Resource, version: int) -> list[Happening]:
        """What happened to a kind after a version; RefusedError 410 if that is too long ago."""
        if version < self.compacted:
            raise expired(f"too old resource version: {version} ({self.version})")
        return [entry for entry in self._history if entry.version > version and entry.resource == resource]

    def list(self, resource: Resource, *, namespace: str = "") -> list[Object]:
        """All of a kind, or those of one namespace, sorted."""
        keys = [key for key in self._objects if key.resource == resource and namespace in ("", key.namespace)]
        return [self._objects[key] for key in sorted(keys, key=lambda key: key[1:])]

    # -- writing

    def create(self, resource: Resource, body: Object, *, namespace: str = "", dry_run: bool = False) -> Object:
        """A new object."""
        kind = BY_RESOURCE[resource]
        if resource.namespaced and Key(NAMESPACES, "", namespace) not in self._objects:
            raise not_found(BY_RESOURCE[NAMESPACES], namespace)
        made = newcomer(kind, body, namespace=namespace, uid=self._new_uid(), now=self._now())
        key = _key(resource, made)
        if key in self._objects:
            raise already_exists(kind, key.name)
        return self._write(WatchChange.ADDED, key, made, dry_run=dry_run)

    def replace(
        self,
        resource: Resource,
        name: str,
        body: Object,
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Another content for an object, or for its status."""
        old = self.get(resource, name, namespace=namespace)
        new = successor(BY_RESOURCE[resource], old, body, subresource=subresource)
        key = _key(resource, old)
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self._write(WatchChange.DELETED, key, new, dry_run=dry_run)
        if new == old:
            return old
        return self._write(WatchChange.MODIFIED, key, new, dry_run=dry_run)

    def remove(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        preconditions: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Delete an object, or mark it as long as it has finalizers. What is in a namespace goes with it."""
        old = self.get(resource, name, namespace=namespace)
        for field, wanted in (preconditions or {}).items():
            if old["metadata"].get(field) != wanted:
                why = f"Precondition failed: {field} in precondition: {wanted}, in object: {old['metadata'].get(field)}"
                raise conflict(BY_RESOURCE[resource], name, why)
        key = _key(resource, old)
        if old["metadata"].get("finalizers"):
            if old["metadata"].get("deletionTimestamp"):
                return old
            marked = {**old, "metadata": {**old["metadata"], "deletionTimestamp": self._now()}}
            return self._write(WatchChange.MODIFIED, key, marked, dry_run=dry_run)
        if resource == NAMESPACES and not dry_run:
            for inside in [other for other in self._objects if other.namespace == name]:
                self._write(WatchChange.DELETED, inside, self._objects[inside])
        return self._write(WatchChange.DELETED, key, old, dry_run=dry_run)

    def put(self, resource: Resource, body: Object) -> Object:
        """The object as a test says it is, status and all; nothing is checked."""
        kind = BY_RESOURCE[resource]
        namespace = (body["metadata"].get("namespace") or "default") if resource.namespaced else ""
        old = self._objects.get(Key(resource, namespace, body["metadata"]["name"]))
        said = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        if old is None:
            named = {**said, "metadata": {**body["metadata"], "resourceVersion": ""}}
            made = newcomer(kind, named, namespace=namespace, uid=self._new_uid(), now=self._now())
        else:
            metadata = {**body["metadata"], "resourceVersion": old["metadata"]["resourceVersion"], "uid": ""}
            made = successor(kind, old, {**said, "metadata": metadata})
        if "status" in body:
            made["status"] = deepcopy(body["status"])
        if made == old:
            return old
        change = WatchChange.ADDED if old is None else WatchChange.MODIFIED
        return self._write(change, _key(resource, made), made)

    def _write(self, change: WatchChange, key: Key, candidate: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        if dry_run:
            return candidate
        self.version += 1
        previous = self._objects.get(key)
        stored = {**candidate, "metadata": {**candidate["metadata"], "resourceVersion": str(self.version)}}
        if change is WatchChange.DELETED:
            del self._objects[key]
        else:
            self._objects[key] = stored
        happening = Happening(self.version, change, key.resource, stored, previous)
        self._history.append(happening)
        while len(self._history) > self._remember:
            self.compacted = self._history.popleft().version
        for listener in list(self.listeners):
            listener(happening)
        return stored

    # -- forgetting

    def forget(self) -> None:
        """Lose the history: whoever goes on from any version known so far is too late."""
        self.version += 1  # something else of the cluster changed
        self._history.clear()
        self.compacted = self.version


def _key(resource: Resource, candidate: Object) -> Key:
    metadata = candidate["metadata"]
    return Key(resource, metadata.get("namespace", "") if resource.namespaced else "", metadata["name"])
