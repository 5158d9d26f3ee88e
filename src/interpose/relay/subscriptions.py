"""Subscriptions to methods: interceptors, stream editors and taps of a relay, whatever protocol it speaks.

A method without a subscriber is not touched, and without any subscriber the code for them is not even imported. A
subclass says how intercepted calls are run: `_make_call_runner`.
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
        self.call_runner: Any = None
        self.tap_registry: Any = None
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
        """Set interceptors, stream editors and taps, once. They run in the order given."""
        from interpose.relay.chain import Chain
        from interpose.relay.stream_editor import StreamEditors

        self._message_limit = message_limit
        tap_registry = self._ensure_tap_registry()
        tap_registry.taps = (*taps, *tap_registry.taps)
        self.editors = StreamEditors(editors)
        self.call_runner = self._make_call_runner(Chain(interceptors), hub=hub, limit=message_limit, now=now)
        self.refresh()

    def _make_call_runner(self, chain: Any, *, hub: Hub, limit: int, now: Callable[[], float]) -> Any:
        """The object that buffers intercepted calls and runs them through the chain."""
        raise NotImplementedError

    def attach_store(self, sync: "Synchronizer") -> None:
        """Pass events of the runtime to this store's synchronizer. Over CRI taps see them: nothing to do."""

    def detach_store(self) -> None:
        """Stop passing events to the store."""

    def add_tap(self, tap: Tap) -> None:
        """Add a tap at run time. It does not see calls that are in flight already."""
        tap_registry = self._ensure_tap_registry()
        tap_registry.taps = (*tap_registry.taps, tap)
        self.refresh()

    def remove_tap(self, tap: Tap) -> None:
        """Remove a tap. It still sees the end of calls whose beginning it saw."""
        tap_registry = self._ensure_tap_registry()
        tap_registry.taps = tuple(other for other in tap_registry.taps if other is not tap)
        self.refresh()

    def _ensure_tap_registry(self) -> Any:
        if self.tap_registry is None:
            from interpose.relay.taps import TapRegistry

            self.tap_registry = TapRegistry()
        return self.tap_registry

    def refresh(self) -> None:
        """Ask the subscribers again which methods they want. Calls in flight go on as they began."""
        intercepted = frozenset[str]() if self.call_runner is None else self._intercepted()
        tap_registry = self._ensure_tap_registry()
        for name in METHODS:
            for route in self.routes.find_by_method(name):
                route.subscribe(
                    intercepted=name in intercepted,
                    taps=tap_registry.taps_for(name),
                    readers=tap_registry.taps_for(name, Interest.MESSAGES),
                    editors=() if self.editors is None else self.editors.editors_for(name),
                )
        for route in self.routes.fallback_routes:
            route.subscribe(
                intercepted=False, taps=tap_registry.taps_for(""), readers=tap_registry.taps_for("", Interest.MESSAGES)
            )

    def _intercepted(self) -> frozenset[str]:
        """Names of the methods with interceptors. ValueError if a subscriber names a method it cannot have."""
        chain = self.call_runner.chain
        chain.refresh()
        subscribers: list[Interceptor | StreamEditor] = [*chain.interceptors, *self.editors.editors]
        for subscriber in subscribers:
            if unknown := sorted(set(subscriber.methods) - set(METHODS)):
                raise ValueError(f"{subscriber.name} subscribes to {', '.join(unknown)}: no such CRI method")
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
        """Number of calls begun and not ended."""
        return sum(stats.in_flight for stats in self.routes.stats())

    def totals(self) -> tuple[int, int]:
        """Number of calls begun, and of calls that failed."""
        stats = self.routes.stats()
        return sum(method.started for method in stats), sum(sum(method.codes[1:]) for method in stats)

    async def call(
        self, path: bytes, message: bytes, *, origin: str, below: Interceptor | None = None, timeout: float = 10.0
    ) -> Reply:
        """A call of one of our own parts, which enters the chain below that part."""
        reply: Reply = await self.call_runner.originate(
            self._known[path], path, message, origin=origin, below=below, timeout=timeout
        )
        return reply
