"""The life of a relay process: the composition root of `interpose relay`.

The listening socket comes first, everything that costs time or memory after it. READY=1 means that we listen, not that
the backend is there. The process ends in one of two ways: by a signal (SIGTERM, SIGINT), or after a successor took
over; both drain. Exit code 0 if every call in flight could end, 1 if not.
"""

import asyncio
import importlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from interpose import __version__
from interpose.cli.common.daemon import Daemon, run_daemon
from interpose.cli.common.full_collection import FullCollection
from interpose.cli.common.heartbeat import Heartbeat
from interpose.cli.relay.fronts import Front, open_front
from interpose.cli.relay.sockets import Endpoints, Sockets, acquire, copy_owner, find_endpoints
from interpose.cli.relay.unused_libraries import leave_out_python_messages
from interpose.config.relay.settings import RelaySettings
from interpose.host.rlimits import descriptors_needed, raise_file_limit
from interpose.host.unix_sockets import BoundSocket
from interpose.log import LogControl
from interpose.net.grpc.transport import Hub

if TYPE_CHECKING:
    from interpose.cli.relay.dump import DumpPart
    from interpose.cli.relay.embedded import EmbeddedRuntime
    from interpose.cli.relay.interception import Interception
    from interpose.cli.relay.leftovers import Leftovers
    from interpose.cli.relay.state_lock import StateLock
    from interpose.metrics import Family
    from interpose.net.httpd.routes import Hijack, ServerRequest, ServerResponse
    from interpose.net.httpd.server import AdminServer
    from interpose.resmgr.service import PolicyService

_log = logging.getLogger(__name__)


def run(settings: RelaySettings, origins: Mapping[str, str]) -> int:
    """Run a relay until a signal or a successor ends it; the exit code. With `detach` the parent returns when the child
    serves."""
    on_ready = _fork() if settings.process.detach else None
    if isinstance(on_ready, int):
        return on_ready

    async def open_daemon(log: LogControl, stop: "asyncio.Future[str]") -> RelayDaemon:
        return await _open(settings, origins, log, stop, on_ready)

    return run_daemon(settings.logging, open_daemon, on_hangup="use --take-over to reload")


def _fork() -> int | Callable[[], None]:
    """Go on in a child of its own session. The parent gets the exit code, the child what to call when it serves."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            return 0 if pipe.read(1) else 1
    os.close(reader)
    os.setsid()

    def ready() -> None:
        os.write(writer, b"1")
        os.close(writer)

    return ready


async def _open(
    settings: RelaySettings,
    origins: Mapping[str, str],
    log: LogControl,
    stop: "asyncio.Future[str]",
    on_ready: Callable[[], None] | None,
) -> "RelayDaemon":
    embedded = _embedded(settings)
    endpoints = find_endpoints(settings) if embedded is None else Endpoints(embedded.path, embedded.path)
    _allow_descriptors(settings.socket.max_connections)
    hub = Hub(buffered=settings.limits.buffered)
    front = open_front(settings, endpoints, hub)
    if settings.process.take_over:
        await front.connect_backends()
    lock = _state_lock(settings)
    policy = None if lock is None else _policy(settings, origins, hub, lock)
    _check_dump(settings)
    sockets = acquire(settings, endpoints, os.environ)
    if not _has_state(lock, settings, sockets):
        lock = policy = None
    return RelayDaemon(settings, origins, log, hub, front, sockets, stop, policy, embedded, lock, on_ready)


def _allow_descriptors(connections: int) -> None:
    wanted = descriptors_needed(connections)
    if (allowed := raise_file_limit(wanted)) < wanted:
        kv = {"wanted": wanted, "allowed": allowed, "max_connections": connections}
        _log.warning("Open file limit is too low for the maximum number of clients", extra={"kv": kv})


class RelayDaemon(Daemon):
    """A relay with its sockets, interceptors, dump and admin server."""

    def __init__(
        self,
        settings: RelaySettings,
        origins: Mapping[str, str],
        log: LogControl,
        hub: Hub,
        front: Front,
        sockets: Sockets,
        stop: "asyncio.Future[str]",
        policy: "PolicyService | None",
        embedded: "EmbeddedRuntime | None" = None,
        state_lock: "StateLock | None" = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._origins = origins
        self._log_control = log
        self._front = front
        self._sockets = sockets
        self._stop = stop
        self._relay = front.relay
        self._matched = not settings.socket.like_backend or sockets.matched
        self._full_collection = FullCollection(lambda: self._relay.in_flight)
        self._heartbeat = Heartbeat(
            [
                front.tick,
                self._match_backend,
                self.notifier.watchdog,
                self._tick_interception,
                self._full_collection.tick,
            ]
        )
        self._admin: AdminServer | None = None
        self._metrics: AdminServer | None = None
        self._interception = _interception(settings, front, hub, policy)
        self._leftovers = _leftovers(settings, hub) if policy is None else None
        self._dump: DumpPart | None = None
        self._embedded = embedded
        self._state_lock = state_lock
        self._on_ready = on_ready

    async def start(self) -> None:
        """Listen first, then start everything that costs time or memory."""
        predecessor = self._sockets.predecessor
        if self._interception is not None:
            self._interception.load(None if predecessor is None else predecessor.estate.memory)
        if _is_dump_enabled(self._settings):
            self._dump_part().start()
        await self._front.listen(self._sockets.listen.sock)
        if self._embedded is not None:
            await self._embedded.start()
        if self._interception is not None:
            self._interception.start()
        if predecessor is not None:
            # WATCHDOG_PID names the predecessor, so the environment does not say that systemd watches us.
            self.notifier.watchdog_interval = predecessor.estate.watchdog_interval
        await self._start_admin()
        if predecessor is not None:
            predecessor.ready()
            if self._state_lock is not None:
                self._state_lock.sign()
            _log.info("Took over", extra={"kv": {"predecessor": predecessor.pid}})
        if self._leftovers is not None:
            self._leftovers.start()
        self._heartbeat.start()
        kv = {"version": __version__, "listen": self._sockets.listen.path, "pid": os.getpid()}
        _log.info("Relay is listening", extra={"kv": kv | self._backend_paths()})
        self.announce(f"listening on {self._sockets.listen.path}")

    def announce(self, status: str) -> None:
        """Also to a parent that waits for the child it detached."""
        self.notifier.ready(status, mainpid=os.getpid())
        if self._on_ready is not None:
            self._on_ready()
        self._full_collection.start()

    def _backend_paths(self) -> dict[str, str]:
        return {role: backend.path for role, backend in self._front.backends.items()}

    def _on_replaced(self) -> None:
        if not self._stop.done():
            self._stop.set_result(_REPLACED)

    async def shut_down(self, reason: str) -> int:
        """Drain: calls in flight have the time of --grace, or of the take-over, to end."""
        replaced = reason == _REPLACED
        grace = self._settings.process.take_over_cap if replaced else self._settings.process.grace
        kv = {"reason": reason, "grace_seconds": grace, "in_flight": self._relay.in_flight}
        _log.info("Relay is draining", extra={"kv": kv})
        # First of all: clients that connect from now on are the successor's, and need not be sent away again.
        self._front.stop_accepting()
        if replaced:
            if self._interception is not None:
                self._interception.retire()
            if self._state_lock is not None:
                self._state_lock.release()
            if self._leftovers is not None:
                await self._leftovers.close()
            if self._metrics is not None:
                await self._metrics.finish(_SCRAPE)  # answers under way are sent to their end
            # From now on the admin socket is the successor's alone.
            await self._stop_admin()
            self._sockets.release()
        else:
            self.notifier.stopping("draining")
            self._sockets.close()
        done = await self._front.drain(grace)
        _log.info("Relay ended", extra={"kv": {"complete": done}})
        return 0 if done else 1

    def _match_backend(self) -> None:
        """With `like_backend` and a backend that came after us: its mode and owner are copied once it is there."""
        runtime = self._front.backends["runtime"]
        if not self._matched and runtime.up:
            self._matched = copy_owner(self._sockets.listen, runtime.path)

    def _tick_interception(self) -> None:
        if self._interception is not None:
            self._interception.tick()
        if self._leftovers is not None:
            self._leftovers.tick()
        if self._embedded is not None:
            self._embedded.tick()

    async def _start_admin(self) -> None:
        admin, metrics = self._sockets.admin, self._sockets.metrics
        if admin is None and metrics is None:
            return
        from interpose.cli.relay.admin import AdminViews, make_takeover_handler
        from interpose.metrics import build_info, log_collector, process_collector
        from interpose.net.httpd.index import with_index
        from interpose.net.httpd.server import AdminServer
        from interpose.relay.metrics import backend_collector

        views = AdminViews(
            settings=self._settings,
            origins=self._origins,
            front=self._front,
            log=self._log_control,
            listen_path=self._sockets.listen.path,
            interception=self._interception,
            dump=lambda: self._dump,
            attach=self._attach,
        )
        take_over = make_takeover_handler(
            self._sockets.listen,
            admin,
            watchdog=lambda: self.notifier.watchdog_interval,
            memory=lambda: {} if self._interception is None else self._interception.memory(),
            metrics=None if metrics is None else (self._settings.admin.metrics_listen, metrics),
            lock=lambda: None if self._state_lock is None else self._state_lock.held,
            on_handed_over=self._on_replaced,
        )
        collectors = [
            build_info,
            *self._front.collectors(),
            backend_collector(self._front.backends),
            self._heartbeat.collect,
            log_collector(self._log_control),
            process_collector(),
            *(self._interception.collectors() if self._interception is not None else []),
            self._collect_dump,
        ]
        routes = with_index(views.routes(collectors, take_over))
        if admin is not None:
            self._admin = AdminServer((admin.sock if isinstance(admin, BoundSocket) else admin).dup(), routes)
            self._admin.start()
        if metrics is not None:
            from interpose.cli.common.admin_socket import metrics_server

            self._metrics = metrics_server(metrics.dup(), routes)
            self._metrics.start()

    def _dump_part(self) -> "DumpPart":
        """Made for the first client that looks at calls, or for rules and recordings of the settings."""
        if self._dump is None:
            from interpose.cli.relay.dump import DumpPart

            endpoints = {"listen": self._sockets.listen.path} | self._backend_paths()
            self._dump = DumpPart(self._settings, self._relay, endpoints)
        return self._dump

    def _collect_dump(self) -> "Iterable[Family]":
        return () if self._dump is None else self._dump.collect()

    async def _attach(self, request: "ServerRequest") -> "ServerResponse | Hijack":
        # In a thread: the first client has to wait for the code to be read from disk, others do not.
        await asyncio.to_thread(importlib.import_module, "interpose.cli.relay.dump")
        return await self._dump_part().attach(request)

    async def _stop_admin(self) -> None:
        for server in (self._admin, self._metrics):
            if server is not None:
                await server.close()
        self._admin = self._metrics = None

    async def close(self) -> None:
        """Close in the order of a drain: new clients, admin, interceptors, dump, calls, the embedded runtime."""
        self._heartbeat.stop()
        self._front.stop_accepting()
        self._sockets.close()
        await self._stop_admin()
        if self._interception is not None:
            await self._interception.close()
        if self._state_lock is not None:
            self._state_lock.release()
        if self._leftovers is not None:
            await self._leftovers.close()
        if self._dump is not None:
            await self._dump.close()  # after those whose calls it shows
        await self._front.close()
        if self._embedded is not None:
            await self._embedded.close()


def _embedded(settings: RelaySettings) -> "EmbeddedRuntime | None":
    """The runtime in this process. Its settings are read before sockets are bound: a mistake ends the start."""
    if not settings.embedded:
        return None
    from interpose.cli.relay.embedded import embedded_runtime

    return embedded_runtime(os.environ)


def _check_dump(settings: RelaySettings) -> None:
    """Called before sockets are bound: a mistake in the rules ends the start."""
    if settings.dump.rules or settings.dump.file or settings.dump.record:
        from interpose.cli.relay.dump import check_dump

        check_dump(settings.dump)


def _is_dump_enabled(settings: RelaySettings) -> bool:
    if not settings.dump.rules and not settings.dump.record:
        return False
    from interpose.cli.relay.dump import is_dump_enabled

    return is_dump_enabled(settings.dump)


def _state_lock(settings: RelaySettings) -> "StateLock | None":
    """The lock on the state of policies, if this relay may need it; a predecessor may still have it."""
    from interpose.cli.relay.policy_wanted import is_policy_needed

    if not is_policy_needed(settings.policy):
        return None
    from interpose.cli.relay.state_lock import StateLock

    lock = StateLock(settings.policy)
    return lock if settings.process.take_over or lock.claim() else None


def _has_state(lock: "StateLock | None", settings: RelaySettings, sockets: Sockets) -> bool:
    """Whether the state of policies is ours to write. A predecessor keeps its own if this ends the start."""
    predecessor = sockets.predecessor
    given = None if predecessor is None else predecessor.estate.lock
    if lock is None:
        if given is not None:
            os.close(given.descriptor)
        return False
    try:
        return not settings.process.take_over or lock.inherit(given)
    except BaseException:
        sockets.close() if predecessor is None else sockets.release()
        raise


def _policy(settings: RelaySettings, origins: Mapping[str, str], hub: Hub, lock: "StateLock") -> "PolicyService":
    """A policy, or the service that gets one later. Read before sockets are bound: a mistake ends the start."""
    leave_out_python_messages()
    from interpose.cli.relay.policy import make_policy_service

    return make_policy_service(settings, origins, hub, write=lock.write)


def _leftovers(settings: RelaySettings, hub: Hub) -> "Leftovers | None":
    """Removes state of an earlier policy from the Node; for a relay without a policy, and with an agent."""
    if settings.policy.agent_socket == "none":
        return None
    from interpose.cli.relay.leftovers import Leftovers

    return Leftovers(settings.policy.agent_socket, hub)


def _interception(
    settings: RelaySettings, front: Front, hub: Hub, policy: "PolicyService | None"
) -> "Interception | None":
    if not settings.hooks.enabled and policy is None:
        return None
    from interpose.cli.relay.interception import Interception

    return Interception(settings, front.relay, front.end_event_streams, hub, front.backends["runtime"], policy)


_REPLACED = "a successor took over"
_SCRAPE = 2.0  # seconds for answers under way
