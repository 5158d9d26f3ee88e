"""Looking after the books: what nobody told us is found out now and then.

Every change of a container is followed when it happens. Should one of these steps fail, nothing else would ever bring
the books and the node together again, so they are compared: who is gone is released, who is there is adopted, and
everybody has what is wanted. Updates whose outcome is not known, or that did not come through us, are decided again by
what the runtime shows.
"""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from interpose.core.model.pod import Container
from interpose.core.model.resources import NO_RESOURCES
from interpose.core.policy.request import Amounts, Key
from interpose.resmgr.allocations import Held
from interpose.resmgr.container_request import resized
from interpose.resmgr.pending_updates import RESIZED

if TYPE_CHECKING:
    from interpose.resmgr.tracker import Books

_log = logging.getLogger(__name__)

_SWEEP: Final = 10  # ticks from one comparison to the next


class Upkeep:
    """Of these books."""

    def __init__(self, books: "Books") -> None:
        self._books = books
        self._ticks = 0
        self._missed: frozenset[str] = frozenset()  # containers in the books without a record, at the last comparison

    def tick(self) -> None:
        """A second has passed."""
        books = self._books
        for key in books.updates.due():
            books.tasks.spawn(self._look(key), name="look what became of an update")
        self._ticks += 1
        if self._ticks % _SWEEP == 0 and books.at_rest:
            self.sweep()

    # -- updates in doubt

    async def _look(self, key: Key) -> None:
        books = self._books
        held = books.ledger.held.get(key)
        if held is None:
            return
        mark = books.store.mark()
        await books.sync.refresh(held.id)
        container = books.store.containers.get(held.id)
        if container is not None and not books.store.unchanged_since(container.id, mark):
            books.updates.looked(key)
            self.settle(container)

    def settle(self, container: Container) -> None:
        """Decide again about a container if its record shows that an update did not do what the books believe."""
        books, key = self._books, self._books.key_of(container)
        if key not in books.updates:
            return
        held, writer = books.ledger.held.get(key), books.writers.all.get(key)
        if held is None or writer is None or writer.lock.locked() or writer.written is None:
            return  # the runtime may be at work on it: what we send after the update has to arrive as well
        amounts = books.updates.amounts(key, container.resources)
        if amounts is not None:
            self._decide_again(held, amounts)

    def follow(self, old: Container, new: Container) -> None:
        """Decide again about a container that was resized around us: behind the relay, or while there was no policy."""
        books, key = self._books, self._books.key_of(new)
        held = books.ledger.held.get(key)
        if held is None or held.id != new.id or key in books.updates or books.updates.is_under_way(key):
            return
        both = set(old.requested.differing(new.requested)) & set(old.resources.differing(new.resources))
        told = {name: getattr(new.requested, name) for name in RESIZED if name in both}
        if told:
            self._decide_again(held, resized(held.latest, replace(NO_RESOURCES, **told), old.requested))

    def catch_up(self, container: Container) -> None:
        """A container turned out to be there; it may have been resized before anybody here knew it."""
        held, asked = self._books.ledger.held[self._books.key_of(container)], container.requested
        self._decide_again(held, resized(held.latest, asked, asked))

    def _decide_again(self, held: Held, amounts: Amounts) -> None:
        books, request = self._books, held.request
        decision = books.ledger.accept(replace(request, amounts=amounts))
        if decision is None:
            return
        kv = {"container": request.title, "cpu_milli": amounts.milli}
        if decision.refusal is not None:
            _log.warning("Container resized outside the relay and the policy cannot place it", extra={"kv": kv})
            return
        _log.info("Container resized outside the relay", extra={"kv": kv})
        books.carry_out_soon((request.key, *decision.changed))
        books.on_change()

    # -- everything

    def sweep(self) -> None:
        """Compare the books with the store."""
        books = self._books
        alive = {one.id: one for one in books.alive()}
        records = books.store.containers
        absent = frozenset(one for one in books.ledger.by_id if one not in alive)
        # One without a record may not have been looked up yet. It is gone if it cannot be found for a while.
        missing = frozenset(one for one in absent if one not in records)
        gone = [one for one in absent if one in records or (one in self._missed and books.sync.in_step)]
        self._missed = missing.difference(gone)
        books.sync.learn(containers=self._missed)
        new = [one for one in alive.values() if books.key_of(one) not in books.ledger.held]
        if gone or new:
            kv = {"gone": len(gone), "new": len(new)}
            _log.warning("The policy's containers differed from the runtime's and were corrected", extra={"kv": kv})
        changed = books.release([books.ledger.by_id[one] for one in gone]) if gone else []
        if new:
            books.adopt(new)
        books.carry_out_soon(dict.fromkeys((*changed, *books.writers.resting())))
