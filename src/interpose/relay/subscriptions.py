"""Who intercepts calls, who edits streams and who looks on: what every kind of relay has, whatever it speaks.

A method nobody subscribes to is not touched, and without any subscriber the code for them is not even imported. How
intercepted calls are collected is the business of whoever inherits this: `_collect`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from interpose.cri.methods import METHODS
from interpose.net.grpc.transport import Hub
from interpose.relay.api import Interceptor, Interest, Reply, StreamEditor, Tap
from interpose.relay.routes import Routes

if TYPE_CHECKING:
    from interpose.cri.store.sync import Synchronizer


class Subscriptions:
    """The subscriptions of a relay, and the calls of our own parts."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.collector: Any = None
        self.watchers: Any = None
        self.editors: Any = None
        self._known = routes.known
        self._message_limit = 0

    def subscribe(
        self,
        interceptors: Sequence[Interceptor],
        taps: Sequence[Tap] = (),
        *,
        hub: Hub,
        message_limit: int,
        now: Callable[[], float],
        editors: Sequence[StreamEditor] = (),
    ) -> None:
        """Say once who intercepts, who edits streams, and who looks on from now on. They run in the order given."""
        from interpose.relay.chain import Chain
        from interpose.relay.stream_editor import StreamEditors

        self._message_limit = message_limit
        watchers = self._watched()
        watchers.taps = (*taps, *watchers.taps)
        self.editors = StreamEditors(editors)
        self.collector = self._collect(Chain(interceptors), hub=hub, limit=message_limit, now=now)
        self.refresh()

    def _collect(self, chain: Any, *, hub: Hub, limit: int, now: Callable[[], float]) -> Any:
        """What collects intercepted calls and runs them through the chain."""
        raise NotImplementedError

    def inform(self, sync: "Synchronizer") -> None:
        """Whoever keeps the records wants to know what the runtime tells by itself. Over CRI that is seen by taps."""

    def forget(self) -> None:
        """The records are kept no longer."""

    def watch(self, tap: Tap) -> None:
        """From now on this one looks on, too. Calls in flight are not shown to it."""
        watchers = self._watched()
        watchers.taps = (*watchers.taps, tap)
        self.refresh()

    def unwatch(self, tap: Tap) -> None:
        """It looks on no longer, but for calls that it has seen begin."""
        watchers = self._watched()
        watchers.taps = tuple(one for one in watchers.taps if one is not tap)
        self.refresh()

    def _watched(self) -> Any:
        if self.watchers is None:
            from interpose.relay.taps import TapRegistry

            self.watchers = TapRegistry()
        return self.watchers

    def refresh(self) -> None:
        """Ask the subscribers again which methods they want. Calls in flight go on as they began."""
        intercepted = frozenset[str]() if self.collector is None else self._intercepted()
        watchers = self._watched()
        for name in METHODS:
            for route in self.routes.of_method(name):
                route.subscribe(
                    intercepted=name in intercepted,
                    taps=watchers.of(name),
                    readers=watchers.of(name, Interest.MESSAGES),
                    editors=() if self.editors is None else self.editors.of(name),
                )
        for route in self.routes.others:
            route.subscribe(intercepted=False, taps=watchers.of(""), readers=watchers.of("", Interest.MESSAGES))

    def _intercepted(self) -> frozenset[str]:
        """The methods somebody intercepts. ValueError if somebody wants what cannot be."""
        chain = self.collector.chain
        chain.arrange()
        subscribers: list[Interceptor | StreamEditor] = [*chain.interceptors, *self.editors.editors]
        for one in subscribers:
            if unknown := sorted(set(one.methods) - set(METHODS)):
                raise ValueError(f"{one.name} subscribes to {', '.join(unknown)}: no such CRI method")
        intercepted: frozenset[str] = chain.methods
        for name in intercepted:
            if METHODS[name].server_streaming:
                raise ValueError(f"{name} streams its replies: it can be tapped or edited, not intercepted")
        for name in self.editors.methods:
            if not METHODS[name].server_streaming:
                raise ValueError(f"{name} has one reply: it can be tapped or intercepted, not edited")
        return intercepted

    @property
    def in_flight(self) -> int:
        """Calls begun and not ended."""
        return sum(stats.in_flight for stats in self.routes.stats())

    def totals(self) -> tuple[int, int]:
        """Calls begun, and calls that failed."""
        stats = self.routes.stats()
        return sum(one.started for one in stats), sum(sum(one.codes[1:]) for one in stats)

    async def call(
        self, path: bytes, message: bytes, *, origin: str, below: Interceptor | None = None, timeout: float = 10.0
    ) -> Reply:
        """A call of one of our own parts, which enters the chain below that part."""
        reply: Reply = await self.collector.originate(
            self._known[path], path, message, origin=origin, below=below, timeout=timeout
        )
        return reply
