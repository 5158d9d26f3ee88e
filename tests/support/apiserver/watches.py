"""Watches: what happens to objects, line by line, until somebody ends it.

A watch is told of changes by the store and keeps its lines in a queue; the connection takes them from there. What a
selector does not let through is not seen; what leaves a selection is DELETED for the one who watches.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from interpose.kube.client.api import Object, WatchChange
from tests.support.apiserver.listing import selection
from tests.support.apiserver.paths import Target, is_set, number
from tests.support.apiserver.problems import Cause, RefusedError, invalid
from tests.support.apiserver.store import Happening, Store


class End(Enum):
    """How a watch ends."""

    CLEAN = "clean"  # as when timeoutSeconds are over
    CUT = "cut"  # the connection breaks between two lines
    MID_LINE = "mid line"  # the connection breaks in the middle of one


class Watch:
    """One watch. Belongs to one event loop."""

    def __init__(self, store: Store, target: Target, query: Mapping[str, str]) -> None:
        """Begins at once; RefusedError if it cannot."""
        if is_set(query, "sendInitialEvents"):
            cause = Cause(
                "sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for watch", "FieldValueForbidden"
            )
            raise invalid(target.kind, "", [cause])
        self.target = target
        self.bookmarks = is_set(query, "allowWatchBookmarks")
        self.lines: asyncio.Queue[bytes | End] = asyncio.Queue()
        self._store = store
        self._chosen: Callable[[Object], bool] = selection(target, query)
        store.listeners.append(self._happened)
        try:
            self._begin(number(query, "resourceVersion"))
        except RefusedError:
            self.close()
            raise

    def _begin(self, version: int) -> None:
        self._seen = version
        resource = self.target.kind.resource
        if version == 0:  # also if none is said: what is there first, then what changes
            self._seen = self._store.version
            for item in self._store.list(resource, namespace=self.target.namespace):
                if self._chosen(item):
                    self._say(WatchChange.ADDED, item)
            return
        try:
            past = self._store.since(resource, version)
        except RefusedError as refusal:
            # As a real server does: the watch begins well, its one event says that it is too late.
            self.lines.put_nowait(_line("ERROR", refusal.body()))
            self.end(End.CLEAN)
            return
        for happening in past:
            self._happened(happening)

    def _happened(self, happening: Happening) -> None:
        # A version that is not reached yet is waited for: until then nothing is new.
        if happening.version <= self._seen or happening.resource != self.target.kind.resource:
            return
        if self.target.namespace not in ("", happening.object["metadata"].get("namespace", "")):
            return
        was = happening.previous is not None and self._chosen(happening.previous)
        is_now = happening.change is not WatchChange.DELETED and self._chosen(happening.object)
        if is_now:
            self._say(WatchChange.MODIFIED if was else WatchChange.ADDED, happening.object)
        elif was:
            self._say(WatchChange.DELETED, happening.object)

    def _say(self, change: WatchChange, item: Object) -> None:
        self.lines.put_nowait(_line(change, item))

    def bookmark(self) -> None:
        """Tell how far we are, if that was asked for."""
        if self.bookmarks:
            kind = self.target.kind.resource
            metadata = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
            self._say(WatchChange.BOOKMARK, {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})

    def end(self, how: End) -> None:
        """Nothing comes after this."""
        self.lines.put_nowait(how)
        self.close()

    def close(self) -> None:
        """Hear no more of the store."""
        if self._happened in self._store.listeners:
            self._store.listeners.remove(self._happened)


def _line(change: str, item: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": change, "object": item}).encode() + b"\n"
