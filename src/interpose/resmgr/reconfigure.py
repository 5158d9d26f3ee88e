"""Another configuration, or another machine: everything changes at once, or nothing does.

Making books takes a while on a full node, so new ones are made beside the old, in slices; what happened meanwhile is
caught up on, and then the new books are the books. Running containers are moved after that: first everybody loses what
they must not have any more, then everybody gets what is theirs. If the runtime does not let them, all of it is undone.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Key
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.rebuild import Breath, rebuilt, refusals
from interpose.resmgr.restore import concerns_us

if TYPE_CHECKING:
    from interpose.resmgr.tracker import Books

_log = logging.getLogger(__name__)

_MOVING: Final = 10.0  # seconds that moving running containers may take before a change counts as carried out

Make = Callable[[Configuration, Topology], Policy]


class Changing:
    """Of these books, one change at a time. `clock` is the loop's, `now` the time of day."""

    def __init__(self, books: "Books", make: Make, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self._books = books
        self._make = make
        self._clock = clock
        self._now = now
        self._lock = asyncio.Lock()

    @property
    def under_way(self) -> bool:
        """Whether everything is changing."""
        return self._lock.locked()

    async def to(self, configuration: Configuration, topology: Topology | None = None, *, forced: bool = False) -> None:
        """Another configuration, as a whole or not at all: ConfigError, and everything is as it was.

        `forced`: the machine itself changed, and there is no way back; who finds no place does without.
        """
        books = self._books
        async with self._lock:
            before = (books.configuration, books.topology)
            grants, notes = dict(books.ledger.policy.book.grants), books.ledger.policy.notes
            failing = {key for key, writer in books.writers.all.items() if writer.permanent}
            asleep = self._awake(configuration.policy)
            await self._become(configuration, topology or books.topology, forced=forced, earlier=asleep)
            failed = await self._move(failing)
            if failed and not forced:
                kv = {"containers": len(failed)}
                _log.error("Failed to apply configuration, rolled back to the previous one", extra={"kv": kv})
                await self._become(*before, forced=True, earlier=grants)
                await self._move(failing)
                books.on_change()
                raise ConfigError(failed)
            if not books.idle:
                books.asleep = {}
            books.tell([one for one in books.ledger.policy.notes if one not in notes])
        books.on_change()

    def _awake(self, policy: str) -> dict[Key, Grant]:
        """What containers held before something stood in, for a policy: another one's pools mean nothing to it."""
        books = self._books
        if policy == books.beginning.last:
            return dict(books.asleep)
        return {key: Grant(exclusive=grant.exclusive) for key, grant in books.asleep.items()}

    async def _become(
        self,
        configuration: Configuration,
        topology: Topology,
        *,
        forced: bool,
        earlier: Mapping[Key, Grant] = MappingProxyType({}),
    ) -> None:
        """`earlier`: what containers held under this very configuration; it counts more than what they hold now."""
        books = self._books
        policy = self._make(configuration, topology)
        breath = Breath(self._clock)
        ledger = await rebuilt(policy, self._now, lambda: books.ledger, earlier=earlier, breath=breath)
        if not forced and (refused := refusals(ledger, books.ledger)):
            raise ConfigError(refused)
        books.ledger, books.configuration, books.topology = ledger, configuration, topology
        books.on_configured()

    async def _move(self, failing: Set[Key]) -> list[str]:
        """Bring everybody to the new books; returns what the runtime refused outright, but to those it did before."""
        books = self._books
        keys = tuple(books.ledger.held)
        await books.writers.shrink(keys, _MOVING)
        await books.writers.reach(keys, _MOVING)
        # One that ended meanwhile cannot be updated, and need not be.
        await books.sync.refresh(*(writer.id for writer in books.writers.all.values() if writer.permanent))
        titles = books.ledger.titles()
        return [
            f"container {titles[key]} could not be updated: {writer.error}"
            for key, writer in books.writers.all.items()
            if writer.permanent and key in titles and key not in failing and self._still_there(writer.id)
        ]

    def _still_there(self, container_id: str) -> bool:
        store = self._books.store
        container = store.containers.get(container_id)
        return container is not None and concerns_us(container, store.pods.get(container.pod_id))
