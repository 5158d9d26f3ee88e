"""Updates of callers whose outcome is unknown: the record of the container shows it, once the runtime was asked. Pure.

A field is evidence if the update was to change it and went to the runtime as its caller wanted it. Without evidence the
update is believed: it made no difference to the runtime. An update may still arrive long after its caller has gone, so
a record counts whenever there is a newer one, for as long as that can happen.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.model.pod import Container
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.container_request import resize_amounts

# Ticks after which the runtime is asked; after the last of them an update is as settled as it gets.
_REFRESHES: Final = (1, 3, 12, 30, 60, 120)
# What an update that resizes a container says.
RESIZED: Final = ("cpu_shares", "cpu_quota", "cpu_period", "memory_limit_in_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingUpdate:
    """One or more updates of a container in a row: what was before, and what was asked for."""

    before: Request
    requested_before: LinuxResources
    resources_before: LinuxResources
    update: LinuxResources
    evidence: frozenset[str]

    def merge(self, later: "PendingUpdate") -> "PendingUpdate":
        """This update and a later one as one."""
        return replace(self, update=self.update.overlay(later.update), evidence=self.evidence | later.evidence)

    def amounts(self, has: LinuxResources) -> Amounts:
        """What the container asks for, seeing what it has."""
        arrived = {name for name in self.evidence if getattr(has, name) != getattr(self.resources_before, name)}
        if not arrived:
            return self.before.amounts
        # What is no evidence came with the rest; a value that runtimes do not show is what was asked for.
        missing = {name: getattr(NO_RESOURCES, name) for name in self.evidence - arrived}
        shown = {name: getattr(has, name) or getattr(self.update, name) for name in arrived}
        return resize_amounts(self.before, replace(self.update, **missing, **shown), self.requested_before)


def evidence_fields(
    update: LinuxResources, sent: LinuxResources, resources_before: LinuxResources, ours: Iterable[str] = ()
) -> frozenset[str]:
    """Fields that show whether an update arrived. `ours` are written by others than its caller as well."""
    changing = (
        name for name in RESIZED if getattr(update, name) and getattr(update, name) != getattr(resources_before, name)
    )
    return frozenset(name for name in changing if name not in ours and getattr(sent, name) == getattr(update, name))


def observed_resize(runtime_request: Request, old: Container, new: Container) -> Amounts | None:
    """What a container asks for after an update outside the relay; None if its records show no such update."""
    both = set(old.requested.differing(new.requested)) & set(old.resources.differing(new.resources))
    changed = {name: getattr(new.requested, name) for name in RESIZED if name in both}
    return resize_amounts(runtime_request, replace(NO_RESOURCES, **changed), old.requested) if changed else None


class _Entry:
    """A pending update, how long it has been there, and whether its container was refreshed since."""

    __slots__ = ("refreshed", "ticks", "update")

    def __init__(self, update: PendingUpdate) -> None:
        self.update = update
        self.ticks = 0
        self.refreshed = False


class PendingUpdates:
    """The pending updates of all containers."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._in_flight: Counter[Key] = Counter()

    @contextmanager
    def track(self, key: Key) -> Iterator[None]:
        """An update of this container is being carried out: what its record says may be of before or after it."""
        self._in_flight[key] += 1
        try:
            yield
        finally:
            self._in_flight[key] -= 1
            if not self._in_flight[key]:
                del self._in_flight[key]

    def is_in_flight(self, key: Key) -> bool:
        """Whether an update of this container is being carried out."""
        return key in self._in_flight

    def add(self, update: PendingUpdate) -> None:
        """The outcome of an update is unknown."""
        if not update.evidence:
            return
        key = update.before.key
        known = self._entries.get(key)
        self._entries[key] = _Entry(update if known is None else known.update.merge(update))

    def drop(self, key: Key) -> None:
        """The outcome is known, or the container is gone."""
        self._entries.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def tick(self) -> list[Key]:
        """Count a second; returns containers whose records should be refreshed."""
        found = []
        for key, entry in tuple(self._entries.items()):
            entry.ticks += 1
            if entry.ticks > _REFRESHES[-1]:
                del self._entries[key]
            elif entry.ticks in _REFRESHES:
                found.append(key)
        return found

    def mark_refreshed(self, key: Key) -> None:
        """The record of the container is newer than the update."""
        if (entry := self._entries.get(key)) is not None:
            entry.refreshed = True

    def amounts(self, key: Key, has: LinuxResources) -> Amounts | None:
        """What a container asks for, seeing what it has; None if nothing is pending, or its record cannot tell yet."""
        entry = self._entries.get(key)
        return None if entry is None or not entry.refreshed or self.is_in_flight(key) else entry.update.amounts(has)
