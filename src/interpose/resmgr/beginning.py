"""The beginning of the books: everything that runs already is taken over, once the store shows it.

What an earlier run wrote down, what containers carry with them and what the runtime has decide who holds what; see
`takeover`. It is done in slices, so what happens meanwhile is looked at again at the end.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from interpose.core.policy.request import Key, Request
from interpose.resmgr.allocations import Coming
from interpose.resmgr.rebuild import Breath, in_turn
from interpose.resmgr.restore import actual, coming, key_of
from interpose.resmgr.state.state import Entry

if TYPE_CHECKING:
    from interpose.resmgr.tracker import Books

_log = logging.getLogger(__name__)

_SOME: Final = 20  # containers whose records are read without a look at the clock
_TRIES: Final = 4  # incomplete lists, about two seconds, after which what is known is taken over


class Beginning:
    """Of these books. `clock` is the loop's."""

    def __init__(self, books: "Books", clock: Callable[[], float]) -> None:
        self.last = ""  # policy of an earlier run; empty: nobody knows
        self.entries: Mapping[Key, tuple[str, Entry]] = {}  # what it wrote down, until everything is taken over
        self._books = books
        self._clock = clock
        self._anew = False
        self._expected: tuple[Request, ...] = ()
        self._incomplete = 0  # lists that did not tell about everything
        self._taking: asyncio.Task[None] | None = None

    def remember(self, policy: str, entries: Iterable[Entry], *, anew: bool = False) -> None:
        """What an earlier run wrote down; `anew`: what containers hold does not count, all is decided again."""
        self.last = policy
        self.entries = {entry.key: (policy, entry) for entry in entries}
        self._anew = anew

    def expect(self, pending: Iterable[Request]) -> None:
        """Creates that somebody else has in flight: their containers may come, and hold what was remembered."""
        self._expected = tuple(pending)

    def listed(self, failed: int) -> None:
        """The store shows what runs: the first time, all of it is taken over.

        `failed` records could not be looked up. They are waited for a little; a container that is broken for good must
        not keep the policy from all others, and is adopted if it ever gets known.
        """
        if self._books.ready.is_set() or (self._taking is not None and not self._taking.done()):
            return
        self._incomplete += 1 if failed else 0
        if not failed or self._incomplete >= _TRIES:
            self._taking = self._books.tasks.spawn(self._take_over(), name="take over what runs")

    async def _take_over(self) -> None:
        books = self._books
        policy, capacity = books.configuration.policy, books.capacity
        places = {key: place for place, key in enumerate(self.entries)}
        alive = sorted(books.alive(), key=lambda one: (places.get(key_of(one), len(places)), str(key_of(one))))
        pairs = [(one, books.store.pods[one.pod_id]) for one in alive]
        found: list[Coming] = []
        breath = Breath(self._clock)
        for start in range(0, len(pairs), _SOME):
            found += coming(pairs[start : start + _SOME], self.entries, policy, capacity)
            await breath.take()
        found += self._awaited({one.request.key for one in found})
        if self._anew:
            found = [replace(one, held=None) for one in found]
        elif books.idle:
            held = coming(pairs, self.entries, self.last, capacity)
            books.asleep = {one.request.key: one.held for one in held if one.held is not None}
        await in_turn(found, books.kept, books.taken, books.enter, breath)
        books.ready.set()
        # What came, went or changed while we were at it.
        there = {one.id: one for one in books.alive()}
        books.adopt([one for one in there.values() if books.key_of(one) not in books.ledger.held])
        self.entries = {}
        books.release([key for key, held in books.ledger.held.items() if held.id and held.id not in there])
        for before in alive:
            if (now := there.get(before.id)) is not None and now.resources != before.resources:
                books.writers.found(books.key_of(now), actual(now.resources))
        counts = {"containers": len(books.ledger.held), "without_place": len(books.ledger.without_place)}
        _log.info("Adopted running containers", extra={"kv": {"policy": policy, **counts}})
        books.carry_out_soon(tuple(books.ledger.held))

    def _awaited(self, known: Set[Key]) -> list[Coming]:
        """Creates of somebody else that are in flight and not among the known containers yet."""
        found = []
        for request in self._expected:
            entry = self.entries.get(request.key)
            if request.key not in known and entry is not None:
                made = replace(request, amounts=entry[1].amounts, recalled=entry[1].grant.details)
                found.append(Coming(request=made, id="", held=entry[1].grant))
        self._expected = ()
        return found
