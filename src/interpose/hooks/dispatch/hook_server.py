"""A registered hook server at run time: its registration, its client, and the counters of its calls."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.registration import HookServer

# A plugin on the same node answers in a few hundred microseconds; its time-out is seconds.
BOUNDS: Final[tuple[float, ...]] = (
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
OK: Final = "ok"

Metadata = tuple[tuple[bytes, bytes], ...]


class HookCaller(Protocol):
    """The part of a hook client that the dispatcher uses."""

    async def call(
        self, point: HookPoint, message: bytes, *, metadata: Metadata = (), timeout: float, hurried: bool = False
    ) -> bytes: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def note_unreadable_answer(self, why: str) -> None: ...


class PointStats:
    """Counters of the calls of one plugin at one hook point: plain numbers, read at each scrape."""

    __slots__ = ("buckets", "changes", "refusals", "results", "seconds")

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()  # ok, or the reason of a failure
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.changes = 0  # fields it changed
        self.refusals = 0  # calls of the kubelet that were refused because of it

    def add(self, result: str, seconds: float) -> None:
        """Count a call of the plugin that ended."""
        self.results[result] += 1
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class HookServerStats:
    """All counters of one plugin name; they outlive edits of its registration."""

    def __init__(self) -> None:
        self.points: dict[HookPoint, PointStats] = {point: PointStats() for point in HookPoint}
        self.last_error = ""
        self.last_error_at: float | None = None

    @property
    def calls(self) -> int:
        return sum(stats.results.total() for stats in self.points.values())

    @property
    def failures(self) -> int:
        return self.calls - sum(stats.results[OK] for stats in self.points.values())

    @property
    def mean_seconds(self) -> float | None:
        """Mean duration of a call; None before the first."""
        return sum(stats.seconds for stats in self.points.values()) / self.calls if self.calls else None

    def record_failure(self, point: HookPoint, reason: str, text: str, seconds: float, now: float) -> None:
        """Count a failed call and remember its error."""
        self.points[point].add(reason, seconds)
        self.last_error, self.last_error_at = f"{point}: {text}", now


class RegisteredServer:
    """A hook server in force. Immutable but for its counters, shared with earlier registrations of the name."""

    __slots__ = ("caller", "server", "stats")

    def __init__(self, server: HookServer, caller: HookCaller, stats: HookServerStats) -> None:
        self.server = server
        self.caller = caller
        self.stats = stats

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def is_required(self) -> bool:
        """Whether calls must not reach the runtime without this hook server."""
        return self.server.failure_policy is FailurePolicy.FAIL


class RegisteredServers:
    """The hook servers in force by hook point, replaced as a whole when registrations change."""

    def __init__(self, connect: Callable[[HookServer], HookCaller]) -> None:
        self._connect = connect
        self._stats: dict[str, HookServerStats] = {}
        self._callers: dict[tuple[str, str], HookCaller] = {}
        self.all: tuple[RegisteredServer, ...] = ()
        self._by_point: Mapping[HookPoint, tuple[RegisteredServer, ...]] = {}

    def registered_for(self, point: HookPoint | None) -> tuple[RegisteredServer, ...]:
        """The hook servers registered for this hook point, in order."""
        return self._by_point.get(point, ()) if point is not None else ()

    def update(self, servers: tuple[HookServer, ...]) -> list[HookCaller]:
        """Put these registrations in force; returns the clients that are no longer used.

        A plugin whose endpoint stays keeps its connection, one whose name stays keeps its counters.
        """
        stats = {server.name: self._stats.get(server.name) or HookServerStats() for server in servers}
        callers = {}
        for server in servers:
            key = (server.name, server.endpoint)
            callers[key] = self._callers.get(key) or self._connect(server)
        unused = [caller for key, caller in self._callers.items() if key not in callers]
        self._stats, self._callers = stats, callers
        self.all = tuple(
            RegisteredServer(server, callers[server.name, server.endpoint], stats[server.name]) for server in servers
        )
        self._by_point = {
            point: found
            for point in HookPoint
            if (found := tuple(plugin for plugin in self.all if point in plugin.server.hooks))
        }
        return unused
