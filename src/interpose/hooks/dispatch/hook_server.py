"""A registered hook server at run time: its registration, its client, and what became of its calls."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.registration import HookServer

# A plugin on the same node answers in a few hundred microseconds; its time-out is seconds.
BOUNDS: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OK: Final = "ok"

Metadata = tuple[tuple[bytes, bytes], ...]


class HookCaller(Protocol):
    """What the dispatcher needs of a client."""

    async def call(
        self, point: HookPoint, message: bytes, *, metadata: Metadata = (), timeout: float, hurried: bool = False
    ) -> bytes: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def note_garbage(self, why: str) -> None: ...


class PointStats:
    """What is known about the calls of one plugin at one hook point. Plain numbers, read when somebody scrapes."""

    __slots__ = ("buckets", "changes", "refusals", "results", "seconds")

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()  # ok, or the reason of a failure
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.changes = 0  # fields it changed
        self.refusals = 0  # calls of the kubelet that were refused because of it

    def add(self, result: str, seconds: float) -> None:
        """A call of the plugin ended."""
        self.results[result] += 1
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class HookServerStats:
    """Everything counted for one plugin name; outlives edits of its registration."""

    def __init__(self) -> None:
        self.points: dict[HookPoint, PointStats] = {point: PointStats() for point in HookPoint}
        self.last_error = ""
        self.last_error_at: float | None = None

    @property
    def calls(self) -> int:
        return sum(one.results.total() for one in self.points.values())

    @property
    def failures(self) -> int:
        return self.calls - sum(one.results[OK] for one in self.points.values())

    @property
    def mean_seconds(self) -> float | None:
        """Mean duration of a call."""
        return sum(one.seconds for one in self.points.values()) / self.calls if self.calls else None

    def failed(self, point: HookPoint, reason: str, text: str, seconds: float, now: float) -> None:
        """A call failed."""
        self.points[point].add(reason, seconds)
        self.last_error, self.last_error_at = f"{point}: {text}", now


class RegisteredServer:
    """One hook server in force. Immutable but for its counters, which it shares with its predecessors."""

    __slots__ = ("caller", "server", "stats")

    def __init__(self, server: HookServer, caller: HookCaller, stats: HookServerStats) -> None:
        self.server = server
        self.caller = caller
        self.stats = stats

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def must_see(self) -> bool:
        """Whether a call may not pass without it."""
        return self.server.failure_policy is FailurePolicy.FAIL


class RegisteredServers:
    """The plugins in force by hook point, replaced whole when registrations change."""

    def __init__(self, connect: Callable[[HookServer], HookCaller]) -> None:
        self._connect = connect
        self._stats: dict[str, HookServerStats] = {}
        self._callers: dict[tuple[str, str], HookCaller] = {}
        self.all: tuple[RegisteredServer, ...] = ()
        self._by_point: Mapping[HookPoint, tuple[RegisteredServer, ...]] = {}

    def at(self, point: HookPoint | None) -> tuple[RegisteredServer, ...]:
        """Who is registered for this hook point, in order."""
        return self._by_point.get(point, ()) if point is not None else ()

    def update(self, servers: tuple[HookServer, ...]) -> list[HookCaller]:
        """Put these registrations in force; returns the clients nobody needs any more.

        A plugin whose endpoint stays keeps its connection, one that stays at all keeps its counters.
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
