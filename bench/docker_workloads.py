"""What is measured in Docker mode: requests, bodies of many megabytes, and containers that come and go."""

from __future__ import annotations

from bench.workloads import Workload

DOCKERD, FAKE_DOCKER = "dockerd", "fake dockerd"
KEPT, FRESH, UPLOAD, DOWNLOAD, STREAM, PODS = "kept", "fresh", "upload", "download", "stream", "pods"
BULK = frozenset({UPLOAD, DOWNLOAD, STREAM})

PING = "/_ping"
CONTAINERS = 20
LIST = "/v1.41/containers/json?all=1"
TARGETS = {"ping": PING, "list": LIST}
MEGABYTES = 100

# The calls of one container's life that are timed, as `docker_pods` names them.
LIFE = ("sandbox", "create", "start", "remove")
_LIFE_TITLES = {
    "sandbox": "create of a sandbox",
    "create": "create of a container",
    "start": "start of a container",
    "remove": "remove of a container",
}


def request_workloads(scale: float = 1.0) -> tuple[Workload, ...]:
    """Short requests; the calls of a timed run are many enough for a second or so through most proxies."""
    rows = (
        ("ping-1", "`/_ping`, 1 connection", KEPT, 1, 3000),
        ("ping-16", "`/_ping`, 16 connections", KEPT, 16, 10000),
        ("ping-fresh", "`/_ping`, a new connection per request", FRESH, 1, 1500),
        ("list-1", f"`/containers/json` of {CONTAINERS}, 1 connection", KEPT, 1, 600),
        ("list-16", f"`/containers/json` of {CONTAINERS}, 16 connections", KEPT, 16, 1000),
    )
    return tuple(_workload(*row, scale) for row in rows)


def bulk_workloads(scale: float = 1.0) -> tuple[Workload, ...]:
    """Much data in one exchange; `calls` are megabytes."""
    size = int(MEGABYTES * scale)
    rows = (
        ("load", f"Upload of {size} MB (`docker load`, chunked)", UPLOAD, 1, MEGABYTES),
        ("save", f"Download of {size} MB (`docker save`, chunked)", DOWNLOAD, 1, MEGABYTES),
        ("attach", f"Hijacked stream, {size} MB there and back (`docker attach` to `cat`)", STREAM, 1, MEGABYTES),
    )
    return tuple(_workload(*row, scale) for row in rows)


def life_workloads(backend: str, scale: float = 1.0) -> tuple[Workload, ...]:
    """Calls that are intercepted. They are timed in one run, one call after the other; `calls` are containers."""
    calls = {DOCKERD: 12, FAKE_DOCKER: 200}[backend]
    return tuple(
        Workload(
            name=f"{call}@{backend}",
            title=f"{_LIFE_TITLES[call]}, {backend}",
            backend=backend,
            client=PODS,
            streams=1,
            calls=max(int(calls * scale), 2),
        )
        for call in LIFE
    )


def target_of(load: Workload) -> str:
    """The request target of a workload of short requests."""
    return TARGETS[load.name.partition("-")[0]]


def _workload(name: str, title: str, client: str, streams: int, calls: int, scale: float) -> Workload:
    return Workload(
        name=name,
        title=title,
        backend=DOCKERD,
        client=client,
        streams=streams,
        calls=max(int(calls * scale), 2 * streams),
    )
