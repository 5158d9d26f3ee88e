"""The relay in front of dockerd: which HTTP calls are intercepted, and which of them taps see.

Calls about containers of Kubernetes become CRI calls and go through the same chain as those of a CRI runtime; others
pass. Holds no connection and no socket: those are the listener's and the upstream's.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.net.h1.heads import RequestHead
from interpose.relay.api import Sighting
from interpose.relay.docker.events import DESTROY, StoreRefresher, read_event
from interpose.relay.docker.http_call import DockerHttpCall
from interpose.relay.docker.routes import METHODS_OF, DockerEndpoint, DockerOperation, operation_of
from interpose.relay.docker.stats import EndpointStats
from interpose.relay.docker.translate.errors import code_of_status
from interpose.relay.docker.upstream import DockerUpstream
from interpose.relay.routes import Routes
from interpose.relay.subscriptions import Subscriptions

if TYPE_CHECKING:
    from interpose.cri.store.sync import Synchronizer

_FAILED: Final = 400


class HttpCallView:
    """An HTTP call as taps see it."""

    __slots__ = ("_view",)

    def __init__(self, view: Any) -> None:
        self._view = view

    def end(self, status: int, why: str = "") -> None:
        """Report the end of the call; status 0 stands for no answer."""
        if 0 < status < _FAILED:
            self._view.end(Code.OK, why)
        else:
            self._view.end(code_of_status(status), why or (f"HTTP {status}" if status else ""))


class DockerRelay(Subscriptions):
    """Decides how each HTTP call is handled."""

    def __init__(self, upstream: DockerUpstream, *, limit: int, now: Callable[[], float]) -> None:
        super().__init__(Routes(upstream, upstream))
        self.endpoints: dict[str, EndpointStats] = {}
        self._upstream = upstream
        self._limit = limit
        self._now = now
        self._buffered_operations: frozenset[DockerOperation] = frozenset()
        self._sync: Synchronizer | None = None
        self._store_refresher: StoreRefresher | None = None
        self._tap_runner: Any = None  # runs calls that are tapped and not intercepted
        self._runtime: Any = None  # dockerd for calls of our own, once needed
        upstream.on_event = self._on_event

    def _make_call_runner(self, chain: Any, *, hub: Hub, limit: int, now: Callable[[], float]) -> Any:
        from interpose.relay.docker.cri_adapter import DockerRuntime
        from interpose.relay.docker.intercepted import DockerCallRunner

        if self._runtime is None:
            self._runtime = DockerRuntime(self._upstream)
        call_runner = DockerCallRunner(
            chain=chain,
            tap_registry=self._ensure_tap_registry(),
            runtime=self._runtime,
            routes=self.routes,
            limit=limit,
            now=now,
        )
        call_runner.sight = self.begin
        call_runner.on_sandbox_stopped = self._on_sandbox_stopped
        return call_runner

    def attach_store(self, sync: "Synchronizer") -> None:
        """Refresh the store after events of dockerd; see `events`."""
        later = asyncio.get_running_loop().call_later
        self._sync = sync
        self._store_refresher = StoreRefresher(store=sync.store, resync=sync.resync_soon, later=later)

    def detach_store(self) -> None:
        """Stop refreshing the store."""
        refresher, self._store_refresher, self._sync = self._store_refresher, None, None
        if refresher is not None:
            refresher.close()

    def _on_event(self, line: bytes) -> None:
        event = read_event(line)
        if event is None:
            return
        if event.action == DESTROY and self._runtime is not None:
            self._runtime.known.remove(event.id)
        if self._store_refresher is not None:
            self._store_refresher(event)

    def _on_sandbox_stopped(self) -> None:
        """Refresh the store: the other containers of the pod live on, unlike after a StopPodSandbox of CRI."""
        if self._sync is not None:
            self._sync.resync_soon()

    def refresh(self) -> None:
        super().refresh()
        slow_path = {name for name in _CONCERNED if any(route.slow_path for route in self.routes.find_by_method(name))}
        self._buffered_operations = frozenset(
            operation for operation, methods in METHODS_OF.items() if slow_path.intersection(methods)
        )

    def needs_buffering(self, head: RequestHead) -> bool:
        """Whether the call may be intercepted; its body decides whether it is about a container of Kubernetes."""
        return bool(self._buffered_operations) and operation_of(head) in self._buffered_operations

    async def handle(self, call: DockerHttpCall) -> bytes:
        """Run a buffered call; returns the whole answer."""
        call_runner = self.call_runner
        if call_runner is None:
            if self._tap_runner is None:
                from interpose.relay.chain import Chain

                self._tap_runner = self._make_call_runner(Chain(()), hub=Hub(), limit=self._limit, now=self._now)
            call_runner = self._tap_runner
        answer: bytes = await call_runner.handle(call)
        return answer

    def begin(self, head: RequestHead, peer: Any) -> HttpCallView | None:
        """Show a call that passes to taps; None if no tap is interested."""
        others = self.routes.fallback_routes[0]
        if not others.taps:
            return None
        from interpose.relay.taps import CallView

        tap_registry = self._ensure_tap_registry()
        path = f"/docker/{head.method} {head.path}".encode("utf-8", "backslashreplace")
        return HttpCallView(
            CallView(tap_registry, others.taps, (), Sighting(tap_registry.number(), path, None, peer=peer))
        )

    def stats(self, endpoint: DockerEndpoint) -> EndpointStats:
        """The counters of an endpoint."""
        found = self.endpoints.get(endpoint.name)
        if found is None:
            found = self.endpoints[endpoint.name] = EndpointStats(endpoint.name)
        return found

    @property
    def in_flight(self) -> int:
        """HTTP calls begun and not ended."""
        return sum(endpoint.in_flight for endpoint in self.endpoints.values())

    def totals(self) -> tuple[int, int]:
        """HTTP calls begun, and those that failed."""
        endpoints = self.endpoints.values()
        return sum(endpoint.started for endpoint in endpoints), sum(endpoint.failed for endpoint in endpoints)


_CONCERNED: Final[frozenset[str]] = frozenset(name for methods in METHODS_OF.values() for name in methods)
