"""Relays with hook servers: the variants that are compared, and what such a relay weighs.

Every hook server is a process of its own that repeats what it was asked, like a koordlet that changes nothing. The
variants of a program differ in nothing but their registrations, so a difference between them is the cost of hooks.
Koordinator's own proxy takes part if `INTERPOSE_BENCH_KOORD` names its binary.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contestants import BEFORE, CACHED_BYTECODE, COMPILED, COMPILED_PROGRAM, Contestant, no_compiled, no_interpose
from bench.measure import Sample
from interpose.cli.common.admin_client import ask
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import register
from tests.support.lab.processes import Child, LabError, missing_programs
from tests.support.lab.relay import program, relay_argv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.workloads import Workload

NO_PLUGIN, NOT_ASKED, ONE_PLUGIN, THREE_PLUGINS = "no-plugin", "not-asked", "one-plugin", "three-plugins"
COMPILED_NONE, COMPILED_ONE = f"{COMPILED}-none", f"{COMPILED}-one"
BEFORE_NONE, BEFORE_ONE = f"{BEFORE}-none", f"{BEFORE}-one"
KOORD_NONE, KOORD_ONE = "koord-none", "koord-one"
KOORD_SWITCH = "INTERPOSE_BENCH_KOORD"
# Where Koordinator's proxy looks for registrations; no flag changes it.
_SETTLE = 10.0  # seconds until a policy has looked at all containers it found
_KOORD_HOOKS_DIR = "/etc/runtime/hookserver.d"
MOST_PLUGINS = 3
# A runtime process comes with 10 pods; a kubelet's default limit is 110 of them.
FEW_PODS, MANY_PODS = 10, 110
RUNS = 10_000
# A full node several times over, listed as by ten kubelets.
LISTED, LIST_PAUSE = 1000, 0.1


@dataclass(frozen=True, kw_only=True)
class HookFootprint:
    """Resident bytes of one relay with a hook server: idle with few and with many pods, and after many runs."""

    few_pods: int
    many_pods: int
    after_runs: int


@dataclass(frozen=True, kw_only=True)
class Variant(Contestant):
    """A proxy with registrations, and the name of the variant that it is compared with."""

    base: str


def variants(before: Path | None = None, koord: Path | None = None) -> tuple[Variant, ...]:
    """Relays by what is registered, the first of each program being what its others are compared with; `before` is the
    program of another version, `koord` that of Koordinator's proxy."""
    everything = tuple(HookPoint)
    elsewhere = (HookPoint.POST_START_CONTAINER,)

    def ours(
        executable: Path,
        missing: Callable[[], str | None],
        base: str,
        *rows: tuple[str, str, int, Sequence[HookPoint]],
    ) -> list[Variant]:
        return [
            Variant(
                name=name, title=title, start=partial(_start, executable, plugins, points), missing=missing, base=base
            )
            for name, title, plugins, points in rows
        ]

    found = ours(
        program(),
        no_interpose,
        NO_PLUGIN,
        (NO_PLUGIN, "no hook server", 0, everything),
        (NOT_ASKED, "one, for another call", 1, elsewhere),
        (ONE_PLUGIN, "one hook server", 1, everything),
        (THREE_PLUGINS, "three hook servers", 3, everything),
    )
    found += ours(
        COMPILED_PROGRAM,
        no_compiled,
        COMPILED_NONE,
        (COMPILED_NONE, "compiled, no hook server", 0, everything),
        (COMPILED_ONE, "compiled, one hook server", 1, everything),
    )
    if before is not None:
        found += ours(
            before,
            lambda: None,
            BEFORE_NONE,
            (BEFORE_NONE, "before, no hook server", 0, everything),
            (BEFORE_ONE, "before, one hook server", 1, everything),
        )
    if koord is not None:
        found += [
            Variant(
                name=name,
                title=title,
                start=partial(_start_koord, koord, plugins),
                missing=lambda: no_koord(koord),
                base=KOORD_NONE,
            )
            for name, title, plugins in (
                (KOORD_NONE, "koord-runtime-proxy, no hook server", 0),
                (KOORD_ONE, "koord-runtime-proxy, one hook server", 1),
            )
        ]
    return tuple(found)


def koord_program() -> Path | None:
    """Koordinator's proxy, if the environment names it."""
    named = os.environ.get(KOORD_SWITCH)
    return Path(named) if named else None


def no_koord(executable: Path) -> str | None:
    """Why Koordinator's proxy cannot be measured here, or None when it can."""
    if not os.access(executable, os.X_OK):
        return f"{KOORD_SWITCH} is {executable}: no such program"
    return missing_programs("unshare", "mount", root=True)


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


def longest_turn(folder: Path, executable: Path, scale: float) -> float:
    """CPU milliseconds of the longest turn of the loop of a relay with a hook server and a policy while many containers
    are listed; `executable` is the interpreter that has it."""
    listen, backend, turns = folder / "turns.sock", folder / "turns-runtime.sock", folder / "turns"
    turns.unlink(missing_ok=True)
    with runtime(folder, backend):
        podload("fill", {backend: None}, calls=LISTED - FEW_PODS)
        directory = _registrations(folder, listen, 1, tuple(HookPoint))
        policy = ("--policy", "static", "--reserved-resources", "cpu=1")
        _, *options = relay_argv(listen, backend, _admin(listen), "--hooks-dir", str(directory), *policy)
        argv = [str(executable), str(Path(__file__).with_name("loop_slices.py")), str(turns), *options]
        with Child(argv, log=folder / "turns.log", env=CACHED_BYTECODE) as relay:
            relay.wait_listening(listen)
            _wait_for_pods(relay, listen, LISTED)
            time.sleep(_SETTLE)
            begin = time.monotonic()
            podload("list", {listen: None}, calls=max(int(100 * scale), 30), pause=LIST_PAUSE)
    lines = (line.split() for line in turns.read_text().splitlines())
    return max((int(spent) / 1e3 for end, spent in lines if float(end) > begin), default=0.0)


def _start(
    executable: Path, plugins: int, points: Sequence[HookPoint], folder: Path, listen: Path, backend: Path
) -> Child:
    """A relay that listens and has reached its hook servers."""
    directory = _registrations(folder, listen, plugins, points)
    admin = _admin(listen)
    _, *options = relay_argv(listen, backend, admin, "--hooks-dir", str(directory))
    child = Child([str(executable), *options], log=folder / f"{listen.name}.log", env=CACHED_BYTECODE)
    child.wait_listening(listen)
    child.wait_listening(admin)
    child.wait_until(
        lambda: [one["state"] for one in _view(listen)["plugins"]] == ["connected"] * plugins,
        what="its hook servers",
    )
    return child


def _start_koord(executable: Path, plugins: int, folder: Path, listen: Path, backend: Path) -> Child:
    """Koordinator's proxy, which sees a directory of registrations of its own in place of the machine's."""
    directory = _registrations(folder, listen, plugins, tuple(HookPoint))
    script = f'mkdir -p {_KOORD_HOOKS_DIR} && mount --bind "$0" {_KOORD_HOOKS_DIR} && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, str(directory), str(executable)]
    argv += ["--koord-runtimeproxy-endpoint", str(listen), "--remote-runtime-service-endpoint", str(backend)]
    child = Child(argv, log=folder / f"{listen.name}.log", env=CACHED_BYTECODE)
    child.wait_listening(listen)
    return child


def _registrations(folder: Path, listen: Path, plugins: int, points: Sequence[HookPoint]) -> Path:
    directory = folder / f"{listen.name}.d"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    for number in range(plugins):
        register(directory, f"plugin-{number}", _plugin(folder, number), hooks=points)
    return directory


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
