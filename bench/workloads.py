"""What is measured: the calls, how many are in flight, and which client makes them."""

from __future__ import annotations

from dataclasses import dataclass

CONTAINERD, NGINX, FAKE = "containerd", "nginx", "fake runtime"
H2LOAD, CHANGING, RUN_PODS, LISTS = "h2load", "changing traceparent", "run", "list"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One kind of load; `calls` in a timed run, a tenth of that before it to warm up."""

    name: str
    title: str
    backend: str
    client: str
    streams: int
    calls: int

    @property
    def warm_up(self) -> int:
        return max(self.calls // 10, self.streams)


def workloads(scale: float = 1.0) -> tuple[Workload, ...]:
    """All workloads; `scale` shortens them for a quick look."""
    version = [(1, 4000), (16, 12000), (128, 12000)]
    large = [(1, 300), (16, 400), (128, 400)]
    return (
        *(
            Workload(
                name=f"version-{streams}",
                title=f"Version, {streams} stream{'s' if streams > 1 else ''}",
                backend=CONTAINERD,
                client=H2LOAD,
                streams=streams,
                calls=int(calls * scale),
            )
            for streams, calls in version
        ),
        Workload(
            name="changing-16",
            title="Version, 16 streams, traceparent changes per call",
            backend=CONTAINERD,
            client=CHANGING,
            streams=16,
            calls=int(12000 * scale),
        ),
        *(
            Workload(
                name=f"large-{streams}",
                title=f"1 MB reply, {streams} stream{'s' if streams > 1 else ''}",
                backend=NGINX,
                client=H2LOAD,
                streams=streams,
                calls=int(calls * scale),
            )
            for streams, calls in large
        ),
    )


def hook_workloads(scale: float = 1.0) -> tuple[Workload, ...]:
    """What is measured with hook servers. Pods come and go at a fake runtime; calls that no hook is about go to a real
    one, which is faster than any relay.
    """
    return (
        Workload(
            name="hooks-run",
            title="RunPodSandbox, 1 stream",
            backend=FAKE,
            client=RUN_PODS,
            streams=1,
            calls=int(600 * scale),
        ),
        Workload(
            name="hooks-list",
            title="ListContainers of 110, 1 stream",
            backend=FAKE,
            client=LISTS,
            streams=1,
            calls=int(1000 * scale),
        ),
        *(
            Workload(
                name=f"hooks-version-{streams}",
                title=f"Version with hooks, {streams} stream{'s' if streams > 1 else ''}",
                backend=CONTAINERD,
                client=H2LOAD,
                streams=streams,
                calls=int(calls * scale),
            )
            for streams, calls in ((1, 4000), (16, 12000))
        ),
    )
