"""Updates of callers whose outcome nobody knows: the record of the container tells it, once the runtime was asked.

A field tells if the update was to change it and went to the runtime as its caller wanted it. Where nothing tells, the
update is believed: it made no difference to the runtime. An update may still arrive long after its caller has gone, so
a record counts whenever there is a newer one, for as long as that can happen.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.container_request import resized

# Ticks after which the runtime is asked; after the last of them an update is as settled as it gets.
_LOOKS: Final = (1, 3, 12, 30, 60, 120)
# What an update that resizes a container says.
RESIZED: Final = ("cpu_shares", "cpu_quota", "cpu_period", "memory_limit_in_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """One or more updates of a container in a row: what was before, and what was asked for."""

    before: Request
    requested: LinuxResources  # before it
    had: LinuxResources  # before it
    asked: LinuxResources
    telling: frozenset[str]

    def then(self, later: "Unsettled") -> "Unsettled":
        """This, and then another one."""
        return replace(self, asked=self.asked.overlay(later.asked), telling=self.telling | later.telling)

    def amounts(self, has: LinuxResources) -> Amounts:
        """What the container asks for, seeing what it has."""
        arrived = {name for name in self.telling if getattr(has, name) != getattr(self.had, name)}
        if not arrived:
            return self.before.amounts
        # What is not telling came with the rest; a value that runtimes do not show is what was asked for.
        missing = {name: getattr(NO_RESOURCES, name) for name in self.telling - arrived}
        shown = {name: getattr(has, name) or getattr(self.asked, name) for name in arrived}
        return resized(self.before, replace(self.asked, **missing, **shown), self.requested)


def telling(
    asked: LinuxResources, sent: LinuxResources, had: LinuxResources, ours: Iterable[str] = ()
) -> frozenset[str]:
    """Fields that show whether an update arrived. `ours` are written by others than its caller as well."""
    changing = (name for name in RESIZED if getattr(asked, name) and getattr(asked, name) != getattr(had, name))
    return frozenset(name for name in changing if name not in ours and getattr(sent, name) == getattr(asked, name))


class _Open:
    """An entry: how long it has been there, and whether the runtime was asked since."""

    __slots__ = ("looked", "ticks", "update")

    def __init__(self, update: Unsettled) -> None:
        self.update = update
        self.ticks = 0
        self.looked = False


class Updates:
    """All of them, by container."""

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        self._under_way: Counter[Key] = Counter()

    @contextmanager
    def under_way(self, key: Key) -> Iterator[None]:
        """An update of this container is being carried out: what its record says may be of before or after it."""
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    def is_under_way(self, key: Key) -> bool:
        """Whether an update of this container is being carried out."""
        return key in self._under_way

    def add(self, update: Unsettled) -> None:
        """Nobody knows what became of an update."""
        if not update.telling:
            return
        key = update.before.key
        known = self._open.get(key)
        self._open[key] = _Open(update if known is None else known.update.then(update))

    def drop(self, key: Key) -> None:
        """It is known, or the container is gone."""
        self._open.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        return key in self._open

    def due(self) -> list[Key]:
        """A second has passed: whom the runtime should be asked about."""
        found = []
        for key, one in tuple(self._open.items()):
            one.ticks += 1
            if one.ticks > _LOOKS[-1]:
                del self._open[key]
            elif one.ticks in _LOOKS:
                found.append(key)
        return found

    def looked(self, key: Key) -> None:
        """The record is newer than the update."""
        if (one := self._open.get(key)) is not None:
            one.looked = True

    def amounts(self, key: Key, has: LinuxResources) -> Amounts | None:
        """What a container asks for, seeing what it has; None if there is no doubt, or its record cannot tell yet."""
        one = self._open.get(key)
        return None if one is None or not one.looked or self.is_under_way(key) else one.update.amounts(has)
