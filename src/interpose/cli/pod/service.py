"""A manager that watches manifests, as a service: its answers to systemd, probes and Prometheus.

It is there before the runtime is: a manager that waiting_for for one is alive, and says what it waiting_for for.
"""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from interpose.cli.common.admin_socket import AdminSockets
from interpose.cli.common.daemon_views import DaemonViews
from interpose.cli.common.heartbeat import Heartbeat
from interpose.cli.render.text import amount
from interpose.cri.caller import Caller
from interpose.cri.wrappers import InstrumentedCaller
from interpose.host.systemd import Notifier
from interpose.log import LogControl
from interpose.metrics import Collector, Family, build_info, log_collector, process_collector
from interpose.net.httpd.health import Check, health_routes, log_level_routes, metrics_route
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response
from interpose.node.pods.metrics import pods_collector
from interpose.node.pods.status.pod_state import PodState
from interpose.node.pods.sync.loop import PodSyncLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The addresses on which a manager answers over HTTP; `none` is turned off."""

    admin: str = "none"
    metrics: str = "none"


class PodService(DaemonViews):
    """Handlers over a pod sync loop, as soon as there is one."""

    def __init__(self, files: tuple[str, ...], listening: Listening, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__()
        self.waiting_for = "it was not asked yet"  # why there is no runtime yet
        self.file_problems: Mapping[str, tuple[str, ...]] = {}
        self._files = files
        self._listening = listening
        self._notifier = Notifier(environ)
        self._log: LogControl | None = None
        self._heartbeat: Heartbeat | None = None
        self._sync_loop: PodSyncLoop | None = None
        self._calls: InstrumentedCaller | None = None
        self._where = ""
        self._status_text = ""

    @asynccontextmanager
    async def running(self, log: LogControl) -> AsyncGenerator[None]:
        """Serve while the block lasts. Sockets come first: a second manager on the same ones gets no further."""
        self._log = log
        sockets = AdminSockets.bind(self._listening.admin, self._listening.metrics)
        self._heartbeat = heartbeat = Heartbeat([self._notifier.watchdog, self._tick])
        try:
            heartbeat.start()
            self.start(sockets)
            self._notifier.ready("waiting for the runtime")
            yield
        finally:
            self.stopping()
            heartbeat.stop()
            await self.close()
            sockets.close()

    def count_calls(self, caller: Caller) -> Caller:
        """The same caller, such that its calls are counted."""
        self._calls = InstrumentedCaller(caller)
        return self._calls

    def set_sync_loop(self, sync_loop: PodSyncLoop, where: str) -> None:
        """The runtime has answered, and `sync_loop` keeps pods on it."""
        self._sync_loop, self._where = sync_loop, where
        self._set_status(f"keeping pods on {where}")

    def stopping(self) -> None:
        """Tell systemd that the manager ends."""
        self._notifier.stopping("stopping")

    # -- what is known

    @property
    def pods(self) -> Iterable[PodState]:
        """The pods of the sync loop; none before there is one."""
        return () if self._sync_loop is None else self._sync_loop.pod_states

    @property
    def away(self) -> str:
        """Why the runtime cannot be asked; empty if it can."""
        return self.waiting_for if self._sync_loop is None else self._sync_loop.runtime_error

    @property
    def problems(self) -> int:
        """How many files cannot be used."""
        return len(self.file_problems)

    # -- answers

    def routes(self) -> RouteTable:
        """Everything the admin socket answers."""
        runtime = Check("runtime", lambda: self.away or None)
        levels = log_level_routes(self._log) if self._log is not None else {}
        return {
            **health_routes([Check("loop", lambda: None)], [runtime]),
            **metrics_route(self.collectors()),
            ("GET", "/v1/status"): self._status,
            **levels,
        }

    def collectors(self) -> list[Collector]:
        """Collectors of all metrics."""
        found: list[Collector] = [build_info, pods_collector(self), self._count_calls]
        if self._heartbeat is not None:
            found.append(self._heartbeat.collect)
        if self._log is not None:
            found.append(log_collector(self._log))
        return [*found, process_collector()]

    def _count_calls(self) -> Iterable[Family]:
        return () if self._calls is None else self._calls.collect()

    async def _status(self, _request: ServerRequest) -> ServerResponse:
        return json_response(
            {
                **self.process(),
                "files": list(self._files),
                "runtime": {"endpoint": self._where, "up": not self.away, "error": self.away},
                "pods": [_row(state) for state in sorted(self.pods, key=lambda state: state.pod.title)],
                "problems": [problem for of_file in self.file_problems.values() for problem in of_file],
                **({} if self._log is None else {"log_level": self._log.level}),
            }
        )

    def _tick(self) -> None:
        if self._sync_loop is not None:
            pods = list(self.pods)
            ready = sum(state.ready for state in pods)
            away = f", the runtime is away: {self.away}" if self.away else ""
            self._set_status(f"keeping {amount(len(pods), 'pod')}, {ready} ready{away}")

    def _set_status(self, words: str) -> None:
        if words != self._status_text:
            self._status_text = words
            self._notifier.status(words)


def _row(state: PodState) -> dict[str, Any]:
    return {
        "name": state.pod.title,
        "uid": state.pod.uid,
        "phase": state.phase.value,
        "ready": state.ready,
        "restarts": sum(view.restart_count for view in state.containers),
        "reason": state.reason,
        "message": state.message,
        "waiting": {view.name: view.reason for view in state.containers if view.reason and not view.ready},
    }
