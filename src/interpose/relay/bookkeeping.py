"""Records of what passes: the last interceptor of the chain, which sees each call as the runtime gets it.

Nothing here delays a call or changes its outcome: records are written when the reply is out, and before anything else
is read. The one thing it writes is the annotation that keeps what was
requested (see `store.requested`). What a call means for the records is said in `bookings`.
"""

import logging
from collections.abc import Callable
from typing import Final

from interpose.relay.bookings import STEPS, Step
from interpose.relay.interceptor import Call, Proceed, Reply, Unreadable
from interpose.rpc.status import Code
from interpose.store.store import Store
from interpose.store.sync import Synchronizer

_log = logging.getLogger(__name__)

# The runtime may have done it all the same.
_DOUBTFUL: Final = frozenset((Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE))


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
        call.afterwards(lambda: _settle(step, reply))
        return reply


def _settle(step: Step, reply: Reply) -> None:
    _safely(lambda: _conclude(step, reply))
    _safely(step.close)


def _conclude(step: Step, reply: Reply) -> None:
    if reply.code == Code.OK:
        try:
            response = reply.response
        except Unreadable:
            step.doubtful()
        else:
            step.done(response)
    elif reply.code in _DOUBTFUL or (reply.raw is not None and reply.raw.failure is not None):
        step.doubtful()
    elif reply.code == Code.NOT_FOUND:
        step.gone()


def _safely(act: Callable[[], None]) -> None:
    """Our own mistake must not become the caller's."""
    try:
        act()
    except Exception:
        _log.exception("Failed to update the store")
