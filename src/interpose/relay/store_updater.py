"""The interceptor that keeps the store up to date with the calls that pass.

`StoreUpdater` is the last interceptor of the chain, so it sees each call as the runtime gets it. What a call means for
the store is in `relay.store_updates`.

Nothing here delays a call or changes its outcome. Records are written when the reply is out, and before anything else
is read. An interceptor above that continues with work of its own (a hook after a stop may take its time) does not hold
them up: then they are written in the next iteration of the loop.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import ClassVar

from interpose.cri.errors import UnreadableMessageError
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.relay.api import Call, Proceed, Reply
from interpose.relay.store_updates import STORE_UPDATES, StoreUpdate, apply_outcome

_log = logging.getLogger(__name__)


class StoreUpdater:
    """The interceptor. It has to be the last in the chain, or its records are not what the runtime has."""

    name = "bookkeeper"
    methods: ClassVar[tuple[str, ...]] = tuple(STORE_UPDATES)
    tidy = True  # all it writes is one annotation, in one go

    def __init__(self, store: Store, sync: Synchronizer) -> None:
        self._store = store
        self._sync = sync

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        try:
            update = STORE_UPDATES[call.method.name](self._store, self._sync, call)
        except UnreadableMessageError:
            return await proceed()
        try:
            reply = await proceed()
        except BaseException:
            # The caller cancelled, or we are shutting down: the request was sent.
            _finish(update, update.on_unknown_outcome)
            raise
        # The store is read by later calls only, and the caller need not wait for it.
        settlement = _Settlement(update, reply)
        call.afterwards(settlement.settle)
        if not settlement.settled:
            asyncio.get_running_loop().call_soon(settlement.settle)
        return reply


class _Settlement:
    """Applies the outcome of a call to the store, once."""

    __slots__ = ("_reply", "_update", "settled")

    def __init__(self, update: StoreUpdate, reply: Reply) -> None:
        self._update = update
        self._reply = reply
        self.settled = False

    def settle(self) -> None:
        if not self.settled:
            self.settled = True
            _finish(self._update, lambda: apply_outcome(self._update, self._reply))


def _finish(update: StoreUpdate, act: Callable[[], None]) -> None:
    _safely(act)
    if update.dropped is not None:
        kv = {"key": list(update.dropped.key)}
        _log.warning("Too many creates with unknown outcome, dropping the oldest", extra={"kv": kv})
    _safely(update.close)


def _safely(act: Callable[[], None]) -> None:
    """Log our own error instead of failing the call."""
    try:
        act()
    except Exception:
        _log.exception("Failed to update the store")
