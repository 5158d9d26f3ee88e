"""Probes of containers: runs them when they are due, and keeps their results. Implements `ProbeResults`.

The sync loop passes the status of pods (`update`, `forget`) and says that time has passed (`tick`); each probe that is
due runs in a task of its own. `changed` is called with the pod's uid when the result of a probe has changed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.model.pod import ContainerState
from interpose.cri.services import ContainerManager
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.prober.client import ProbeError, grpc_health, http_get, port_of, tcp_connect
from interpose.node.pods.prober.state import ProbeKind, ProbeState, probes_of
from interpose.node.pods.spec import ContainerSpec, ExecAction, GrpcAction, HttpAction, PodSpec, Probe, TcpAction
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.result import ProgressEvent, ProgressPhase
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_SHOWN: Final = 256
_NANO: Final = 1e9


def _ignore_end() -> None:
    pass


def _ignore_progress(_uid: str, _event: ProgressEvent) -> None:
    pass


class ProbeUnavailableError(Exception):
    """The probe could not be run: the runtime does not answer, or the container is just being replaced."""


class Prober:
    """Runs one attempt of a probe against a container."""

    def __init__(self, runtime: ContainerManager) -> None:
        self._runtime = runtime

    async def ask(self, probe: Probe, container: ContainerSpec, container_id: str, reach: Sequence[str]) -> str:
        """Empty if the probe succeeds, else what is wrong. ProbeUnavailableError if it cannot be run. `reach` are the
        addresses of the pod."""
        try:
            match probe.action:
                case ExecAction() as action:
                    return await self._exec(action, container_id, probe.timeout)
                case HttpAction() as action:
                    return await self._http(action, container, reach, probe.timeout)
                case TcpAction() as action:
                    await tcp_connect(_host(action.host, reach), port_of(action, container), probe.timeout)
                case GrpcAction() as action:
                    await grpc_health(_host("", reach), action.port, action.service, timeout=probe.timeout)
        except ProbeError as error:
            return str(error)
        return ""

    async def _exec(self, action: ExecAction, container_id: str, timeout: int) -> str:
        try:
            answer = await self._runtime.exec_sync(container_id, action.command, timeout)
        except RpcError as error:
            if error.code is Code.DEADLINE_EXCEEDED:
                return f"command did not end within {timeout} s"
            raise ProbeUnavailableError(str(error)) from None
        if not answer.exit_code:
            return ""
        said = (answer.stdout + answer.stderr)[:_SHOWN].decode("utf-8", "replace").strip()
        return f"command ended with exit code {answer.exit_code}" + (f": {said}" if said else "")

    async def _http(self, action: HttpAction, container: ContainerSpec, reach: Sequence[str], timeout: int) -> str:
        answer = await http_get(
            _host(action.host, reach),
            port_of(action, container),
            action.path,
            scheme=action.scheme,
            headers=action.headers,
            timeout=timeout,
        )
        return "" if answer.good else f"HTTP status {answer.status}"


def _host(host: str, reach: Sequence[str]) -> str:
    if not host and not reach:
        raise ProbeUnavailableError("the pod has no address")
    return host or reach[0]


@dataclass(slots=True, kw_only=True)
class _PodTracks:
    """The probes of one pod."""

    pod: PodSpec
    reach: tuple[str, ...]
    tracks: dict[tuple[str, ProbeKind], ProbeState]

    def started(self, name: str) -> bool:
        """Whether the other probes of a container may run."""
        track = self.tracks.get((name, ProbeKind.STARTUP))
        return track is None or track.result is True


class ProbeManager:
    """All probes of all pods of a node. `on_probe_end` is called when an attempt has ended: the next one is known then;
    `on_progress` with the pod's uid whenever a probe fails."""

    def __init__(
        self,
        prober: Prober,
        node: NodeFacts,
        clocks: Clocks,
        changed: Callable[[str], None],
        on_probe_end: Callable[[], None] = _ignore_end,
        on_progress: Callable[[str, ProgressEvent], None] = _ignore_progress,
    ) -> None:
        self._prober = prober
        self._node = node
        self._clocks = clocks
        self._changed = changed
        self._on_probe_end = on_probe_end
        self._on_progress = on_progress
        self._pods: dict[str, _PodTracks] = {}
        self._asking: set[tuple[str, str, ProbeKind]] = set()
        self._tasks = TaskBag()

    # -- Health ------------------------------------------------------------------------------------------------------

    def liveness(self, container_id: str) -> bool | None:
        """The result of the liveness probe of a container."""
        return self._result(container_id, ProbeKind.LIVENESS)

    def startup(self, container_id: str) -> bool | None:
        """The result of the startup probe of a container."""
        return self._result(container_id, ProbeKind.STARTUP)

    def readiness(self, container_id: str) -> bool | None:
        """The result of the readiness probe of a container."""
        return self._result(container_id, ProbeKind.READINESS)

    def words(self, uid: str, name: str) -> str:
        """What is wrong with a container by its last answers; empty if nothing is."""
        found = self._pods.get(uid)
        said = [track.words for (owner, _), track in found.tracks.items() if owner == name] if found else []
        return next(filter(None, said), "")

    def _result(self, container_id: str, kind: ProbeKind) -> bool | None:
        for track in self._tracks():
            if track.kind is kind and track.container_id == container_id:
                return track.result
        return None

    def _tracks(self) -> Iterator[ProbeState]:
        for found in self._pods.values():
            yield from found.tracks.values()

    # -- what is there -----------------------------------------------------------------------------------------------

    def update(self, pod: PodSpec, status: PodStatus) -> None:
        """Take a pod as its manifest and as the runtime has it."""
        before = self._pods.get(pod.uid)
        now, of_day = self._clocks.elapsed(), self._clocks.seconds
        tracks: dict[tuple[str, ProbeKind], ProbeState] = {}
        for container in (*pod.init_containers, *pod.containers):
            latest = status.latest_active(container.name)
            for kind, probe in probes_of(container).items():
                key = (container.name, kind)
                track = before.tracks.get(key) if before is not None else None
                if track is None or track.probe != probe:
                    track = ProbeState(kind=kind, container=container, probe=probe)
                track.container = container
                if latest is not None:
                    running = latest.state is ContainerState.RUNNING
                    track.update(latest.id, running=running, now=now, age=of_day - latest.started_at / _NANO)
                else:
                    track.update("", running=False, now=now, age=0.0)
                tracks[key] = track
        reach = self._node.reach(status.ips, host_network=pod.host_network)
        self._pods[pod.uid] = _PodTracks(pod=pod, reach=reach, tracks=tracks)

    def forget(self, uid: str) -> None:
        """Drop the probes of a pod."""
        self._pods.pop(uid, None)

    # -- time passes -------------------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """When the next probe is due, by the clock that never goes back; None if none is."""
        times = [
            due
            for uid, found in self._pods.items()
            for (name, kind), track in found.tracks.items()
            if (uid, name, kind) not in self._asking
            and (due := track.next_due(started=found.started(name))) is not None
        ]
        return min(times, default=None)

    def tick(self) -> None:
        """Start all probes that are due."""
        now = self._clocks.elapsed()
        for uid, found in self._pods.items():
            for (name, kind), track in found.tracks.items():
                key = (uid, name, kind)
                if key not in self._asking and track.is_due(now, started=found.started(name)):
                    track.mark_begun(now)
                    self._asking.add(key)
                    self._tasks.spawn(self._ask(key, found, track), name=f"{kind} probe of {found.pod.title}/{name}")

    @property
    def busy(self) -> bool:
        """Whether a probe is running."""
        return bool(self._asking)

    async def close(self) -> None:
        """Cancel all probes that are running."""
        await self._tasks.cancel()

    async def _ask(self, key: tuple[str, str, ProbeKind], found: _PodTracks, track: ProbeState) -> None:
        uid, name, kind = key
        container_id = track.container_id
        try:
            words = await self._prober.ask(track.probe, track.container, container_id, found.reach)
        except ProbeUnavailableError as error:
            _log.debug("Probe could not be run", extra=_about(found.pod, name, kind, str(error)))
            track.mark_unavailable(container_id, str(error))
            return
        finally:
            self._asking.discard(key)
            self._on_probe_end()
        if words:
            _log.debug("Probe failed", extra=_about(found.pod, name, kind, words))
            detail = f"{kind.value.capitalize()} probe failed: {words}"
            self._on_progress(
                uid, ProgressEvent(pod=found.pod.title, phase=ProgressPhase.UNHEALTHY, container=name, detail=detail)
            )
        if track.add_outcome(container_id, not words, words):
            level = logging.INFO if track.result else logging.WARNING
            text = "Probe succeeds" if track.result else "Probe keeps failing"
            _log.log(level, text, extra=_about(found.pod, name, kind, words))
            if kind is ProbeKind.STARTUP and track.result:
                self._hasten(uid, name)
            self._changed(uid)

    def _hasten(self, uid: str, name: str) -> None:
        """Run the readiness probe of a container that has started at once."""
        found = self._pods.get(uid)
        track = found.tracks.get((name, ProbeKind.READINESS)) if found is not None else None
        if track is not None:
            track.due = min(track.due, self._clocks.elapsed())


def _about(pod: PodSpec, name: str, kind: ProbeKind, error: str) -> dict[str, object]:
    details = {"pod": pod.title, "container": name, "probe": kind.value}
    return {"kv": {**details, "error": error} if error else details}
