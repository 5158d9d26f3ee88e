"""Pods and containers that have just come: their cgroups are followed until the runtime tells what they are.

A cgroup is made before the runtime lists what it is for, and an update that reaches the runtime while a container is
being started may change nothing. So a directory that nobody is known for leads to another look soon, and so does a
round that changed something. Pauses grow, and a directory that stays unknown is left alone after a while.

Invariant: what is made in a directory that was followed when it was listed is told by the kernel; so each directory is
followed first and listed then.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from interpose.core.model.cgroup import KubeQos
from interpose.hooks.server.reconcile.desired_state import Subject
from interpose.host.cgroup.paths import Layout
from interpose.host.cgroup.tree import CgroupTree

SHORTEST: Final = 0.05
LONGEST: Final = 2.0
# For this long the runtime may take to tell what a cgroup is for. Others are left over, or somebody else's.
PATIENCE: Final = 10.0


class Follows(Protocol):
    """A watch over directories."""

    def follow(self, directories: Iterable[str]) -> None:
        """These and no others."""


class Pauses:
    """When to look again. Pure but for the clock it is given."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: frozenset[str] = frozenset()
        self._since: dict[str, float] = {}
        self._changes = 0  # rounds in a row

    def after(self, there: Collection[str], known: Collection[str], *, changed: bool) -> float | None:
        """The pause after a round; None if nothing is open. What was known once is not new when it ends."""
        now = self._now()
        self._known = (self._known | frozenset(known)) & frozenset(there)
        self._since = {one: self._since.get(one, now) for one in there if one not in self._known}
        self._changes = self._changes + 1 if changed else 0
        pauses = [max(now - since, SHORTEST) for since in self._since.values() if now - since < PATIENCE]
        if changed:
            pauses.append(SHORTEST * 2 ** min(self._changes - 1, 10))
        return min(min(pauses), LONGEST) if pauses else None


class Newcomers:
    """Told of every round. Belongs to one loop."""

    def __init__(self, tree: CgroupTree, watch: Follows, *, now: Callable[[], float]) -> None:
        self._tree = tree
        self._watch = watch
        self._pauses = Pauses(now)
        self._followed: Sequence[str] = ()

    async def after(self, subjects: Sequence[Subject], layout: Layout | None, *, changed: bool) -> float | None:
        """Follow where pods and containers appear; how long to wait for the next look, None if there need be none."""
        pods = [one.target.directory for one in subjects if one.target is not None]
        above = {"" if layout is None else layout.qos_directory(qos) for qos in KubeQos}
        above |= {place.rpartition("/")[0] for place in pods}
        self._follow([*above, *self._followed])
        # Right below the root is all the node has: who comes there is told, but not waited for.
        places = {*pods, *await asyncio.to_thread(self._below, above - {""})}
        self._follow([*above, *places])
        there = places | await asyncio.to_thread(self._below, places)
        known = {target.directory for subject in subjects for target in subject.targets}
        return self._pauses.after(there, known, changed=changed)

    def _follow(self, directories: Collection[str]) -> None:
        self._followed = sorted(set(directories))
        self._watch.follow(self._followed)

    def _below(self, directories: Collection[str]) -> set[str]:
        """What is in them, but for themselves."""
        found: set[str] = set()
        for directory in directories:
            with suppress(OSError):
                found |= {f"{directory}/{name}" for name in self._tree.children(directory)}
        return found - set(directories)
