"""Who runs pods: containerd as on a node, and our own runtime; what they cost is read from a cgroup around all of it.

The daemon, its shims, the OCI runtimes, the CNI plugins and the containers themselves are in one cgroup tree for each
contestant, so that nothing is lost of processes that live for a few milliseconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import grpc

from bench.contestants import CACHED_BYTECODE
from interpose._pb import cri_pb2
from tests.support.lab.containerd import Containerd
from tests.support.lab.cri import CriClient
from tests.support.lab.pods import CGROUPS
from tests.support.lab.processes import Child, LabError, wait_for
from tests.support.lab.relay import program, relay_argv
from tests.support.lab.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERD, OURS, BEFORE = "containerd", "interpose", "before"
# In front of them a relay that passes everything on.
BEHIND_RELAY = {CONTAINERD: "relay-containerd", OURS: "relay-interpose"}
GROUP = "interpose-bench"
_NAMED = "/var/run/netns"
_NETWORKS = {CONTAINERD: 211, OURS: 212, BEFORE: 213}


class Daemon(Protocol):
    """A runtime as a process."""

    folder: Path
    socket: Path

    @property
    def child(self) -> Child: ...

    def add_images(self) -> None: ...

    def kill(self) -> None: ...

    def start_again(self) -> None: ...


class BenchContainerd(Containerd):
    """With overlayfs and pods in networks of their own, as on a node."""

    snapshotter = "overlayfs"

    def start_again(self) -> None:
        """Do not wait until it answers."""
        self.start_unready()

    def __exit__(self, failure: type[BaseException] | None = None, *more: object) -> None:
        # Shims can be ended by force, but the networks of their pods would stay.
        with contextlib.suppress(LabError, grpc.RpcError):
            if not self.child.running:
                self.start()
            with CriClient(self.socket) as client:
                for pod in client.call("ListPodSandbox").items:
                    client.outcome("StopPodSandbox", cri_pb2.StopPodSandboxRequest(pod_sandbox_id=pod.id))
                    client.outcome("RemovePodSandbox", cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod.id))
        super().__exit__(failure, *more)


class BenchRuntime(Runtime):
    """Ours; with `source` another checkout of it."""

    def __init__(self, folder: Path, source: Path | None = None) -> None:
        super().__init__(folder)
        self._env = {**CACHED_BYTECODE, **({} if source is None else {"PYTHONPATH": str(source / "src")})}

    def start(self) -> None:
        self.start_again()
        self.child.wait_listening(self.socket)

    def __exit__(self, failure: type[BaseException] | None = None, *more: object) -> None:
        with contextlib.suppress(LabError):
            if not self.child.running:
                self.start()
        super().__exit__(failure, *more)

    def start_again(self) -> None:
        """Do not wait until it answers."""
        places = {"--listen": self.socket, "--root": self.root, "--state": self.state, "--cni-conf-dir": self.cni}
        argv = [str(program()), "runtime", *(str(word) for pair in places.items() for word in pair)]
        argv += ["--executor", "runc", "--admin-listen", "none"]
        self._child = Child(argv, log=self.log, env=self._env)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contestant:
    """A runtime that is there, and what is around it."""

    name: str
    daemon: Daemon
    group: str

    @property
    def socket(self) -> Path:
        return self.daemon.socket

    def adopt(self) -> None:
        """Put the daemon into its cgroup; what it starts from now on is in it, too."""
        for tree in _trees():
            place = tree / self.group.strip("/") / "daemon"
            place.mkdir(parents=True, exist_ok=True)
            (place / "cgroup.procs").write_text(str(self.daemon.child.pid))

    def cpu_seconds(self) -> float:
        """Of everything that was ever in its cgroup."""
        group = self.group.strip("/")
        counted = CGROUPS / "cpuacct" / group / "cpuacct.usage"
        if counted.exists():
            return int(counted.read_text()) / 1e9
        for line in (CGROUPS / group / "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        raise LabError(f"no CPU time of {self.group}")

    def processes(self) -> list[int]:
        """All that are in its cgroup now, containers too."""
        return processes_in(self.group)

    def overhead(self) -> list[int]:
        """All but the containers of the load: their program is known by its command line."""
        return [pid for pid in self.processes() if not _is_load(pid)]


LOAD_MARK = "987654321"
"""Every container of the load sleeps for so many seconds."""


def _is_load(pid: int) -> bool:
    try:
        return LOAD_MARK.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


def processes_in(group: str) -> list[int]:
    """All that are in a cgroup or below it."""
    found: list[int] = []
    for folder, _, names in os.walk(_trees()[0] / group.strip("/")):
        if "cgroup.procs" in names:
            with contextlib.suppress(OSError):
                found += map(int, Path(folder, "cgroup.procs").read_text().split())
    return found


def _trees() -> list[Path]:
    """The one tree of cgroup v2; of v1 only what counts CPU time: it costs the same for all."""
    counted = CGROUPS / "cpuacct"
    return [counted if counted.is_dir() else CGROUPS]


def write_network(folder: Path, number: int) -> None:
    """A CNI configuration: an address each, point to point, nothing masqueraded."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": f"10.{number}.0.0/16"}]],
        "dataDir": str(folder.parent / "ipam"),
    }
    ptp = {"type": "ptp", "ipMasq": False, "ipam": ipam}
    folder.mkdir(parents=True, exist_ok=True)
    document = {"name": f"bench{number}", "cniVersion": "0.4.0", "plugins": [ptp]}
    (folder / "10-bench.conflist").write_text(json.dumps(document))


@contextlib.contextmanager
def running(name: str, folder: Path, source: Path | None = None) -> Iterator[Contestant]:
    """A runtime with the images of the lab; nothing of it is left after the block."""
    place = folder / name
    place.mkdir()
    write_network(place / "cni", _NETWORKS[name])
    daemon = BenchContainerd(place) if name == CONTAINERD else BenchRuntime(place, source)
    group = f"/{GROUP}-{secrets.token_hex(3)}-{name}"
    with contextlib.ExitStack() as stack:
        stack.callback(remove_groups, group)
        stack.callback(remove_namespaces, _NETWORKS[name], namespaces())
        stack.enter_context(daemon)
        daemon.add_images()
        contestant = Contestant(name=name, daemon=daemon, group=group)
        contestant.adopt()
        yield contestant


@contextlib.contextmanager
def relayed(contestant: Contestant, folder: Path) -> Iterator[Path]:
    """The socket of a relay in front of it."""
    place = folder / BEHIND_RELAY[contestant.name]
    place.mkdir()
    listen = place / "relay.sock"
    argv = relay_argv(listen, contestant.socket, place / "admin.sock")
    with Child(argv, log=place / "relay.log", env=CACHED_BYTECODE) as child:
        child.wait_listening(listen)
        yield listen


def remove_groups(group: str) -> None:
    """With whatever is still in them: a daemon that was broken off leaves containers that were never started."""

    def removed() -> bool:
        left = False
        for pid in processes_in(group):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for tree in (CGROUPS, *(entry for entry in CGROUPS.iterdir() if entry.is_dir())):
            top = tree / group.strip("/")
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
            left = left or top.exists()
        return not left

    with contextlib.suppress(LabError):
        wait_for(removed, what=f"the cgroup {group} to be empty", every=0.1)


def namespaces() -> frozenset[str]:
    """Network namespaces that have a name, as containerd gives them one."""
    return frozenset(os.listdir(_NAMED)) if os.path.isdir(_NAMED) else frozenset()


def remove_namespaces(number: int, before: frozenset[str]) -> None:
    """containerd leaves the namespace of a pod whose start was broken off: those that are new and in our network."""
    for name in namespaces() - before:
        shown = subprocess.run(
            ["ip", "netns", "exec", name, "ip", "-brief", "address"], capture_output=True, text=True, check=False
        )
        if f" 10.{number}." in shown.stdout:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def memory_of(pids: list[int]) -> tuple[int, int]:
    """Resident bytes of all together, and the same with shared pages divided among those who share them."""
    resident = proportional = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                key, _, rest = line.partition(":")
                if key == "Rss":
                    resident += int(rest.split()[0]) * 1024
                elif key == "Pss":
                    proportional += int(rest.split()[0]) * 1024
    return resident, proportional


def resident_now(pids: list[int]) -> int:
    """Resident bytes, cheaply."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")


def now() -> float:
    return time.perf_counter()
