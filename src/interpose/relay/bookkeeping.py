"""Records of what passes: the last interceptor of the chain, which sees each call as the runtime gets it.

Nothing here delays a call or changes its outcome: records are written when the reply is out, and before anything else
is read. An interceptor above that goes on with something of its own (a hook after a stop may take its time) does not
hold them up: then they are written at the next turn of the loop. The one thing it writes is the annotation that keeps
what was requested (see `cri.store.requested`). What a call means for the records is said in `bookings`.
"""

import asyncio
import logging
from collections.abc import Callable

from interpose.cri.errors import Unreadable
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.status import Code
from interpose.relay.api import Call, Proceed, Reply
from interpose.relay.outcome import is_doubtful
from interpose.relay.store_updates import STEPS, Step

_log = logging.getLogger(__name__)


class Bookkeeper:
    """The interceptor. Last in the chain, or its records are not what the runtime has."""

    name = "bookkeeper"
    methods = tuple(STEPS)
    tidy = True  # all it writes is one annotation, in one go

    def __init__(self, store: Store, sync: Synchronizer) -> None:
        self._store = store
        self._sync = sync

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Let the call pass and note what became of it."""
        try:
            step = STEPS[call.method.name](self._store, self._sync, call)
        except Unreadable:
            return await proceed()
        try:
            reply = await proceed()
        except BaseException:
            # The caller left, or we are going down: what was sent was sent.
            _safely(step.doubtful)
            _safely(step.close)
            raise
        # Nobody asks before the next call is read, and the caller need not wait for it.
        settlement = _Settlement(step, reply)
        call.afterwards(settlement.settle)
        if not settlement.settled:
            asyncio.get_running_loop().call_soon(settlement.settle)
        return reply


class _Settlement:
    """What a call meant for the records, written once."""

    __slots__ = ("_reply", "_step", "settled")

    def __init__(self, step: Step, reply: Reply) -> None:
        self._step = step
        self._reply = reply
        self.settled = False

    def settle(self) -> None:
        if not self.settled:
            self.settled = True
            _safely(lambda: _conclude(self._step, self._reply))
            _safely(self._step.close)


def _conclude(step: Step, reply: Reply) -> None:
    if reply.code == Code.OK:
        try:
            response = reply.response
        except Unreadable:
            step.doubtful()
        else:
            step.done(response)
    elif is_doubtful(reply):
        step.doubtful()
    elif reply.code == Code.NOT_FOUND:
        step.gone()


def _safely(act: Callable[[], None]) -> None:
    """Our own mistake must not become the caller's."""
    try:
        act()
    except Exception:
        _log.exception("Failed to update the store")
