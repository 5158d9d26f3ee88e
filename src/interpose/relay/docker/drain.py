"""Leaving without cutting a call short.

Clients with nothing in flight are closed at once, the others after their answer; a tunnel counts as a call. Who has
connected and said nothing yet has a moment for its first request. Answers that never end (events, logs that are
followed) are ended a moment after the last call: what they still have to tell of it has time to arrive, and their
clients ask again.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from interpose.relay.docker.client import DockerClientConnection

_log = logging.getLogger(__name__)
_LOOK_AGAIN: Final = 0.02
# Seconds after the last call in which endless answers go on, and clients may hang up or finish what they began to say.
_FAREWELL: Final = 1.0


class Drainable(Protocol):
    """The listener that is drained."""

    @property
    def links(self) -> "Collection[DockerClientConnection]": ...

    def stop_accepting(self) -> None: ...

    def drain(self) -> None: ...

    def abort(self) -> None: ...


class DockerDrain:
    """Empties a listener. Nothing of it may be used afterwards."""

    def __init__(self, listener: Drainable) -> None:
        self._listener = listener

    async def run(self, grace: float) -> bool:
        """Wait at most `grace` seconds for calls in flight. True if all of them ended."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        quiet_since: float | None = None
        self._listener.stop_accepting()
        # Connections that were made already and not looked at yet belong to us, too.
        await asyncio.sleep(0)
        self._listener.drain()
        while self._listener.links and loop.time() < deadline:
            if self._waiting():
                quiet_since = None
            else:
                quiet_since = quiet_since or loop.time()
                if loop.time() - quiet_since > _FAREWELL:
                    break
            await asyncio.sleep(_LOOK_AGAIN)
        left = self._waiting()
        if left:
            _log.warning("Calls still in flight at the end of the grace period", extra={"kv": {"calls": left}})
        self._listener.abort()
        return not left

    def _waiting(self) -> int:
        """Calls that end by themselves."""
        return sum(link.in_flight and not (link.endless and not link.tunnelled) for link in self._listener.links)
