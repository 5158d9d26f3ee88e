"""Lists: which objects, in which portions, at which version. Pure.

A list that comes in portions is that of the moment of the first one: later portions are kept until they are asked for,
or the history is lost.
"""

from collections.abc import Callable, Mapping
from typing import Any

from interpose.kube.client.api import Object
from tests.support.apiserver.paths import Target, number
from tests.support.apiserver.problems import bad_request, expired, too_new
from tests.support.apiserver.selectors import field_test, label_test
from tests.support.apiserver.store import Store


def selection(target: Target, query: Mapping[str, str]) -> Callable[[Object], bool]:
    """What the selectors of a request let through."""
    by_field = field_test(target.kind, query.get("fieldSelector", ""))
    by_label = label_test(query.get("labelSelector", ""))
    return lambda candidate: by_field(candidate) and by_label(candidate)


class Lists:
    """Lists of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, tuple[int, list[Object]]] = {}
        self._count = 0

    def answer(self, target: Target, query: Mapping[str, str]) -> dict[str, Any]:
        """A List object."""
        version, items = self._items(target, query)
        limit = number(query, "limit")
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            self._count += 1
            token = f"c{self._count}"
            self._kept[token] = (version, items[limit:])
            metadata |= {"continue": token, "remainingItemCount": len(items) - limit}
            items = items[:limit]
        kind = target.kind.resource
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": list(items)}

    def _items(self, target: Target, query: Mapping[str, str]) -> tuple[int, list[Object]]:
        if token := query.get("continue"):
            if token not in self._kept:
                raise bad_request("continue key is not valid")
            version, items = self._kept.pop(token)
            if version < self._store.compacted:
                raise expired("The provided continue parameter is too old to display a consistent list result.")
            return version, items
        if (asked := number(query, "resourceVersion")) > self._store.version:
            raise too_new(asked, self._store.version)
        chosen = selection(target, query)
        found = self._store.list(target.kind.resource, namespace=target.namespace)
        return self._store.version, [item for item in found if chosen(item)]
