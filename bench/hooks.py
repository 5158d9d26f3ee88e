"""Relays with hook servers: the variants that are compared, and what such a relay weighs.

Every hook server is a process of its own that repeats what it was asked, like a koordlet that changes nothing. The
variants differ in nothing but their registrations, so a difference between them is the cost of hooks.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contestants import CACHED_BYTECODE, Contestant, no_interpose
from bench.measure import Sample
from interpose.cli.common.admin_client import ask
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import register
from tests.support.lab.processes import Child, LabError
from tests.support.lab.relay import relay_argv

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.workloads import Workload

NO_PLUGIN, NOT_ASKED, ONE_PLUGIN, THREE_PLUGINS = "no-plugin", "not-asked", "one-plugin", "three-plugins"
MOST_PLUGINS = 3
# A runtime process comes with 10 pods; a kubelet's default limit is 110 of them.
FEW_PODS, MANY_PODS = 10, 110
RUNS = 10_000


@dataclass(frozen=True, kw_only=True)
class HookFootprint:
    """Resident bytes of one relay with a hook server: idle with few and with many pods, and after many runs."""

    few_pods: int
    many_pods: int
    after_runs: int


def variants() -> tuple[Contestant, ...]:
    """Relays by what is registered; the first is what the others are compared with."""
    everything = tuple(HookPoint)
    elsewhere = (HookPoint.POST_START_CONTAINER,)
    rows: tuple[tuple[str, str, int, Sequence[HookPoint]], ...] = (
        (NO_PLUGIN, "no hook server", 0, everything),
        (NOT_ASKED, "one, for another call", 1, elsewhere),
        (ONE_PLUGIN, "one hook server", 1, everything),
        (THREE_PLUGINS, "three hook servers", 3, everything),
    )
    return tuple(
        Contestant(name=name, title=title, start=partial(_start, plugins, points), missing=no_interpose)
        for name, title, plugins, points in rows
    )


@contextlib.contextmanager
def hook_servers(folder: Path) -> Iterator[None]:
    """As many as any variant needs, inside the block."""
    with contextlib.ExitStack() as stack:
        for number in range(MOST_PLUGINS):
            argv = [sys.executable, "-m", "interpose.testing.hookserver", str(_plugin(folder, number)), "--echo"]
            child = stack.enter_context(Child(argv, log=folder / f"plugin-{number}.log", env=CACHED_BYTECODE))
            child.wait_listening(_plugin(folder, number))
        yield


def runtime(folder: Path, socket: Path) -> Child:
    """A FakeRuntime with few pods, in a process of its own."""
    argv = [sys.executable, "-m", "tests.support.runtime_process", str(socket)]
    child = Child(argv, log=folder / f"{socket.name}.log", env=CACHED_BYTECODE)
    child.wait_listening(socket)
    return child


def podload(
    work: str, sockets: Mapping[Path, int | None], *, calls: int, warm_up: int = 0, pause: float = 0.0
) -> dict[str, Any]:
    """Run the client for pods in its own process: what it measured, by socket. Values are pids to watch."""
    argv = [sys.executable, str(Path(__file__).with_name("podload.py")), work]
    argv += [str(socket) if pid is None else f"{socket}={pid}" for socket, pid in sockets.items()]
    argv += ["--calls", str(calls), "--warm-up", str(warm_up), "--pause", str(pause)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}\n{done.stdout[-800:]}{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def samples(load: Workload, relays: Mapping[str, tuple[Path, Child]], round_: int) -> list[Sample]:
    """One run of a work of `podload` at all these relays, by name, in turns."""
    sockets: dict[Path, int | None] = {socket: child.pid for socket, child in relays.values()}
    found = podload(load.client, sockets, calls=load.calls, warm_up=load.warm_up)
    return [
        sample_of(name, load, round_, found[str(socket)], rss=child.rss_bytes())
        for name, (socket, child) in relays.items()
    ]


def sample_of(name: str, load: Workload, round_: int, found: Mapping[str, Any], rss: int) -> Sample:
    """What `podload` found at one socket. Calls are made one at a time, so the rate follows from their durations."""
    durations: list[float] = found["durations"]
    cuts = statistics.quantiles(durations, n=100, method="inclusive")
    return Sample(
        contestant=name,
        workload=load.name,
        round=round_,
        rate=len(durations) / sum(durations) * 1e6,
        p50=cuts[49],
        p99=cuts[98],
        cpu=found["cpu_seconds"] / len(durations) * 1e6,
        rss=rss,
    )


def footprint(folder: Path, scale: float) -> HookFootprint:
    """A fresh relay with one hook server before a fresh runtime; the hook servers are there already."""
    one = next(variant for variant in variants() if variant.name == ONE_PLUGIN)
    listen, backend = folder / "weight.sock", folder / "weight-runtime.sock"
    if one.start is None:
        raise ValueError(f"{one.name} has no process to start")
    with runtime(folder, backend), one.start(folder, listen, backend) as relay:
        _wait_for_pods(relay, listen, FEW_PODS)
        few = relay.rss_bytes()
        podload("fill", {listen: None}, calls=MANY_PODS - FEW_PODS)
        _wait_for_pods(relay, listen, MANY_PODS)
        many = relay.rss_bytes()
        podload("run", {listen: None}, calls=int(RUNS * scale))
        _wait_for_pods(relay, listen, MANY_PODS)
        return HookFootprint(few_pods=few, many_pods=many, after_runs=relay.rss_bytes())


def _start(plugins: int, points: Sequence[HookPoint], folder: Path, listen: Path, backend: Path) -> Child:
    """A relay that listens and has reached its hook servers."""
    directory = folder / f"{listen.name}.d"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    for number in range(plugins):
        register(directory, f"plugin-{number}", _plugin(folder, number), hooks=points)
    admin = _admin(listen)
    argv = relay_argv(listen, backend, admin, "--hooks-dir", str(directory))
    child = Child(argv, log=folder / f"{listen.name}.log", env=CACHED_BYTECODE)
    child.wait_listening(listen)
    child.wait_listening(admin)
    child.wait_until(
        lambda: [one["state"] for one in _view(listen)["plugins"]] == ["connected"] * plugins,
        what="its hook servers",
    )
    return child


def _wait_for_pods(relay: Child, listen: Path, count: int) -> None:
    known = {"pods": count, "containers": count, "pending": 0}
    what = f"the store to know {count} pods"
    relay.wait_until(lambda: _view(listen)["store"] == known, what=what, every=0.05)


def _view(listen: Path) -> dict[str, Any]:
    found: dict[str, Any] = ask(str(_admin(listen)), "GET", "/v1/hooks")
    return found


def _admin(listen: Path) -> Path:
    return listen.with_name(f"{listen.name}.admin")


def _plugin(folder: Path, number: int) -> Path:
    return folder / f"plugin-{number}.sock"
