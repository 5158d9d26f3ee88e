"""The targets of the relay, as data: which number, compared with what, and the limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RatioTarget:
    """A limit for the median of the per-round ratios of our number to the yardstick's."""

    workload: str
    metric: str
    title: str
    limit: float
    at_least: bool
    ours: str = "interpose"
    theirs: str = "haproxy"

    def met(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    @property
    def bound(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}x"


@dataclass(frozen=True, kw_only=True)
class AddedTarget:
    """A limit for the median of the per-round differences between two p50, in milliseconds."""

    workload: str
    title: str
    limit: float
    ours: str
    theirs: str

    def met(self, added: float) -> bool:
        return added <= self.limit

    @property
    def bound(self) -> str:
        return f"<= {self.limit:g} ms"


RATIO_TARGETS = (
    RatioTarget(workload="version-16", metric="rate", title="16 streams, req/s", limit=1.0, at_least=True),
    RatioTarget(workload="version-16", metric="cpu", title="16 streams, CPU per call", limit=1.25, at_least=False),
    RatioTarget(workload="version-1", metric="p50", title="1 stream, p50", limit=1.12, at_least=False),
    RatioTarget(workload="version-128", metric="rate", title="128 streams, req/s", limit=0.95, at_least=True),
    RatioTarget(workload="changing-16", metric="rate", title="changing header, req/s", limit=0.7, at_least=True),
    RatioTarget(workload="changing-16", metric="cpu", title="changing header, CPU per call", limit=2.2, at_least=False),
    RatioTarget(workload="large-1", metric="rate", title="1 MB reply, 1 stream, req/s", limit=0.8, at_least=True),
    RatioTarget(workload="large-16", metric="rate", title="1 MB reply, 16 streams, req/s", limit=0.8, at_least=True),
    RatioTarget(workload="large-128", metric="rate", title="1 MB reply, 128 streams, req/s", limit=0.8, at_least=True),
)

# The same for the compiled build.
COMPILED_TARGETS = tuple(
    RatioTarget(
        workload=workload, metric=metric, title=f"{title}, compiled", limit=limit, at_least=at_least, ours="compiled"
    )
    for workload, metric, title, limit, at_least in (
        ("version-16", "rate", "16 streams, req/s", 1.3, True),
        ("version-16", "cpu", "16 streams, CPU per call", 0.65, False),
        ("version-1", "p50", "1 stream, p50", 0.85, False),
        ("version-128", "rate", "128 streams, req/s", 1.3, True),
        ("changing-16", "rate", "changing header, req/s", 1.0, True),
        ("changing-16", "cpu", "changing header, CPU per call", 1.0, False),
    )
)

# Docker mode, the compiled build. A new connection per request should have HAProxy's rate, and must have nine tenths.
DOCKER_TARGETS = tuple(
    RatioTarget(workload=workload, metric=metric, title=title, limit=limit, at_least=at_least, ours="compiled")
    for workload, metric, title, limit, at_least in (
        ("ping-fresh", "rate", "a new connection per request, req/s", 0.9, True),
        ("ping-fresh", "cpu", "a new connection per request, CPU per call", 1.2, False),
        ("ping-16", "rate", "`/_ping`, 16 connections, req/s", 1.1, True),
        ("ping-16", "cpu", "`/_ping`, 16 connections, CPU per call", 0.8, False),
        ("list-1", "cpu", "lists, 1 connection, CPU per call", 1.0, False),
        ("list-16", "cpu", "lists, 16 connections, CPU per call", 1.0, False),
    )
)

RSS_LIMIT = 28e6
# Between 20 000 and 100 000 calls; an allocator may still settle by less than this.
RSS_GROWTH_LIMIT = 1e6
START_LIMIT = 0.150
EARLY_CALLS, LATE_CALLS = 20_000, 100_000

# Relays with hook servers, against the same relay without any.
ADDED_TARGETS = (
    AddedTarget(
        workload="hooks-run",
        title="RunPodSandbox, added p50 with one hook server",
        limit=0.6,
        ours="one-plugin",
        theirs="no-plugin",
    ),
    AddedTarget(
        workload="hooks-run",
        title="RunPodSandbox, added p50 with one hook server, compiled",
        limit=0.35,
        ours="compiled-one",
        theirs="compiled-none",
    ),
)
HOOK_RATIO_TARGETS = (
    RatioTarget(
        workload="hooks-version-16",
        metric="rate",
        title="Version with hooks, 16 streams, req/s",
        limit=0.95,
        at_least=True,
        ours="one-plugin",
        theirs="no-plugin",
    ),
    RatioTarget(
        workload="hooks-version-1",
        metric="p50",
        title="Version with hooks, 1 stream, p50",
        limit=1.05,
        at_least=False,
        ours="one-plugin",
        theirs="no-plugin",
    ),
)
HOOKS_RSS_LIMIT = 38e6
# Milliseconds that no other call is looked at while lists of 1000 containers pass, are read, and a policy is on.
TURN_LIMIT = 5.0

# Against Koordinator's proxy, if that is there: what a hook server adds to a call, and the whole call.
KOORD_ADDED_TARGETS = tuple(
    RatioTarget(
        workload="hooks-run",
        metric=metric,
        title=f"RunPodSandbox, added {title}, against koord-runtime-proxy",
        limit=limit,
        at_least=False,
        ours="compiled-one",
        theirs="koord-one",
    )
    for metric, title, limit in (("p50", "p50", 0.7), ("cpu", "CPU", 0.9))
)
KOORD_TARGET = RatioTarget(
    workload="hooks-run",
    metric="p50",
    title="RunPodSandbox with one hook server, p50, against koord-runtime-proxy",
    limit=0.7,
    at_least=False,
    ours="compiled-one",
    theirs="koord-one",
)
