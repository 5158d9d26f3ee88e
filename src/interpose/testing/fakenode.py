"""A fake node: a FakeRuntime whose pods and containers have cgroups, as a kubelet, a runtime and a kernel make them.

The kubelet's part is the directories of QoS classes and pods with the values of whole pods; the runtime's is a
directory per container with the values it was given, and a process in it. What the kernel refuses is the answer of the
call. Cgroups are a `FakeKernel` (in memory, with its rules) or `PlainCgroups` (files on disk, for other processes).

`python -m interpose.testing.fakenode --socket S --cgroups DIR --pods 500` serves until it is terminated; the socket
appears when all pods are there.
"""

import argparse
import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import CRI_FIELDS, MIN_SHARES, KubeQos, Parameter, cri_value
from interpose.core.model.resources import LinuxResources
from interpose.cri.store.convert import to_resources
from interpose.host.cgroup.files import CgroupFiles, KernelFiles
from interpose.host.cgroup.paths import CgroupLayout, Driver, pod_directory
from interpose.host.cgroup.tree import CgroupTree
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.pods import BUSYBOX
from interpose.testing.runtime.queries import FakeIdentity
from interpose.testing.runtime.state import FakeContainer, FakeSandbox
from interpose.testing.serve import serve_runtime

_SANDBOX_OOM_SCORE: Final = -998
_BOOT: Final = "0d3a8ae1-6f3c-4e5c-9d2b-3a7c1d9f0b42\n"
# Above every process id that a kernel gives away: whoever believes in a process of ours finds none.
_NO_PROCESS: Final = 1 << 22


class Cgroups(CgroupFiles, Protocol):
    """Cgroups, seen by those who make and fill them."""

    version: int
    root: str

    def make(self, directory: str) -> str: ...

    def remove(self, directory: str) -> None: ...

    def spawn(self, directory: str, pid: int, threads: tuple[int, ...] = (), oom_score_adj: int = 0) -> int: ...

    def kill(self, pid: int) -> None: ...


class PlainCgroups(KernelFiles):
    """Files with a kernel's defaults in a directory of one's own, without its rules."""

    def __init__(
        self,
        root: Path,
        version: int = 2,
        cpus: str = "0-7",
        mems: str = "0",
        *,
        proc: Path | None = None,
        bvt: bool = False,
    ) -> None:
        """`proc` stands for /proc: it gets OOM scores of processes, and tells the boot. Without it there is none."""
        self.root = str(root)
        self.version = version
        self._proc = proc
        self._where: dict[int, list[Path]] = {}
        if proc is not None:
            boot = proc / "sys/kernel/random/boot_id"
            boot.parent.mkdir(parents=True, exist_ok=True)
            boot.write_text(_BOOT)
        model = FakeKernel(version, cpus, mems, bvt=bvt)
        model.make("any")
        names = model.directories(model.root) if version == 1 else [""]
        self._defaults: Mapping[Path, Mapping[str, str]] = {root / name: model.contents("any", name) for name in names}
        for name in names:
            (root / name).mkdir(parents=True, exist_ok=True)
            _fill(root / name, model.contents("", name))

    def make(self, directory: str) -> str:
        """A cgroup and those above it, in all hierarchies."""
        parts = directory.split("/")
        for base, files in self._defaults.items():
            for depth in range(1, len(parts) + 1):
                folder = base.joinpath(*parts[:depth])
                if not folder.is_dir():
                    folder.mkdir()
                    _fill(folder, files)
        return directory

    def remove(self, directory: str) -> None:
        """A cgroup, in all hierarchies."""
        for base in self._defaults:
            shutil.rmtree(base / directory)

    def write(self, path: str, text: str) -> None:
        """As a kernel takes it: a quota of v2 without a period keeps the one that is there."""
        if path.endswith("/cpu.max") and len(text.split()) == 1:
            text = " ".join((text.strip(), *self.read(path).split()[1:]))
        super().write(path, text)

    def spawn(self, directory: str, pid: int, threads: tuple[int, ...] = (), oom_score_adj: int = 0) -> int:
        """A process appears. Its number is not the one that was asked for: that one may be somebody else's here."""
        shown = pid + _NO_PROCESS
        self._where[pid] = [base / directory for base in self._defaults]
        numbers = [shown, *(thread + _NO_PROCESS for thread in threads if thread != pid)]
        for folder in self._where[pid]:
            _append(folder / "cgroup.procs", numbers[:1])
            _append(folder / ("tasks" if self.version == 1 else "cgroup.threads"), numbers)
        if self._proc is not None:
            (self._proc / str(shown)).mkdir(parents=True, exist_ok=True)
            (self._proc / str(shown) / "oom_score_adj").write_text(f"{oom_score_adj}\n")
        return shown

    def kill(self, pid: int) -> None:
        """A process is gone, and with it all that is in its cgroup: here each has one of its own."""
        for folder in self._where.pop(pid, ()):
            for name in ("cgroup.procs", "tasks" if self.version == 1 else "cgroup.threads"):
                (folder / name).write_text("")
        if self._proc is not None:
            shutil.rmtree(self._proc / str(pid + _NO_PROCESS), ignore_errors=True)


class FakeNode:
    """A runtime with cgroups. Belongs to one event loop, as the runtime does."""

    def __init__(
        self, cgroups: Cgroups | None = None, *, systemd: bool = False, scope: str = "cri-containerd", **runtime: Any
    ) -> None:
        """`scope` is what the runtime puts before ids with systemd; `runtime` are options of FakeRuntime."""
        self.cgroups: Cgroups = FakeKernel() if cgroups is None else cgroups
        self.systemd = systemd
        self._scope = scope
        self.tree = CgroupTree(self.cgroups, self.cgroups.root, version=self.cgroups.version)
        self.layout = CgroupLayout(driver=Driver.SYSTEMD if systemd else Driver.CGROUPFS)
        self.runtime = FakeRuntime(observer=self, identity=FakeIdentity(systemd_cgroups=systemd), **runtime)
        self._pods: dict[str, str] = {}  # directory of the pod by sandbox; several attempts share one
        self._running: dict[str, tuple[str, int]] = {}  # directory and process by container, sandboxes included
        self._image = self.runtime.images.pull(BUSYBOX, cri.AuthConfig())
        for qos in KubeQos:
            self.cgroups.make(self.layout.qos_directory(qos))

    # -- what a kubelet does

    def make_pod(self, config: cri.PodSandboxConfig) -> str:
        """The cgroup of a pod with what the whole pod may have; nothing happens if there is one."""
        directory = pod_directory(config.linux.cgroup_parent)
        if not self.tree.exists(directory):
            self.cgroups.make(directory)
            self._write(directory, to_resources(config.linux.resources))
        return directory

    def add(self, config: cri.PodSandboxConfig, containers: Sequence[cri.ContainerConfig] = ()) -> FakeSandbox:
        """A running pod, past recording and failpoints of the runtime."""
        state = self.runtime.state
        sandbox = state.run_sandbox(config, "runc")
        for container in containers:
            state.start_container(state.create_container(sandbox, container, self._image))
        return sandbox

    # -- where things are

    def pod_directory(self, sandbox: FakeSandbox) -> str:
        """The cgroup of a pod."""
        return pod_directory(sandbox.config.linux.cgroup_parent)

    def directory(self, object_id: str) -> str:
        """The cgroup of a container that runs, or of the sandbox's own; KeyError if it has none."""
        return self._running[object_id][0]

    def pid(self, object_id: str) -> int:
        """The process in it, as its files show it."""
        return self._running[object_id][1] + (_NO_PROCESS if isinstance(self.cgroups, PlainCgroups) else 0)

    # -- what a runtime does

    def changed(self, kind: "cri.ContainerEventType", object_id: str, sandbox: FakeSandbox | None) -> None:
        """Something began, ended or is gone."""
        of_pod = object_id in self._pods or (sandbox is not None and sandbox.id == object_id)
        if kind == cri.CONTAINER_STARTED_EVENT and sandbox is not None:
            if not sandbox.config.linux.cgroup_parent:
                return  # without a kubelet a runtime uses cgroups of its own
            if of_pod:
                self._start_sandbox(sandbox)
            else:
                self._start(self.runtime.containers[object_id], sandbox)
        elif kind == cri.CONTAINER_STOPPED_EVENT:
            self._stop(object_id)
        elif kind == cri.CONTAINER_DELETED_EVENT:
            pod = self._pods.pop(object_id, None)
            if pod is not None and pod not in self._pods.values():
                self.cgroups.remove(pod)

    def updating(self, container: FakeContainer, patch: cri.LinuxContainerResources) -> None:
        """Other resources for a container; one that does not run has nothing to write to."""
        if container.id in self._running:
            try:
                self._write(self._running[container.id][0], to_resources(patch))
            except OSError as error:
                raise RpcError(Code.UNKNOWN, f'failed to update resources of "{container.id}": {error}') from None

    def _start_sandbox(self, sandbox: FakeSandbox) -> None:
        self._pods[sandbox.id] = self.make_pod(sandbox.config)
        resources = LinuxResources(cpu_shares=MIN_SHARES, oom_score_adj=_SANDBOX_OOM_SCORE)
        self._occupy(sandbox.id, sandbox, sandbox.pid, resources)

    def _start(self, container: FakeContainer, sandbox: FakeSandbox) -> None:
        try:
            self._occupy(container.id, sandbox, container.pid, to_resources(container.in_force))
        except OSError as error:
            self._stop(container.id)
            raise RpcError(
                Code.UNKNOWN, f"failed to create containerd task: OCI runtime create failed: {error}"
            ) from None

    def _occupy(self, object_id: str, sandbox: FakeSandbox, pid: int, resources: LinuxResources) -> None:
        name = f"{self._scope}-{object_id}.scope" if self.systemd else object_id
        directory = self.cgroups.make(f"{self._pods[sandbox.id]}/{name}")
        self._running[object_id] = directory, pid
        self._write(directory, resources)
        self.cgroups.spawn(directory, pid, oom_score_adj=resources.oom_score_adj)

    def _stop(self, object_id: str) -> None:
        if (running := self._running.pop(object_id, None)) is not None:
            directory, pid = running
            self.cgroups.kill(pid)
            self.cgroups.remove(directory)

    def _write(self, directory: str, resources: LinuxResources) -> None:
        late = not self._write_period(directory, resources)
        for parameter in CRI_FIELDS:
            value = cri_value(resources, parameter)
            if value is not None:
                self.tree.write(directory, parameter, value)
        if late:
            self.tree.write(directory, Parameter.CPU_PERIOD, resources.cpu_period)

    def _write_period(self, directory: str, resources: LinuxResources) -> bool:
        """Whether that is done. With the old quota a shorter period may be too much: it comes after the new one."""
        period = resources.cpu_period
        try:
            if period and self.tree.read(directory, Parameter.CPU_PERIOD) != period:
                self.tree.write(directory, Parameter.CPU_PERIOD, period)
        except OSError:
            if not resources.cpu_quota:
                raise
            return False
        return True


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        # There are tens of thousands of them, and Path.write_text takes more than twice as long.
        descriptor = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.write(descriptor, text.encode())
        os.close(descriptor)


def _append(path: Path, numbers: Sequence[int]) -> None:
    known = path.read_text().split()
    path.write_text("".join(f"{number}\n" for number in (*known, *numbers)))


_VERSIONS: Final[Mapping[str, int]] = MappingProxyType({"v1": 1, "v2": 2})


async def _serve(options: argparse.Namespace) -> None:
    from interpose.testing.qospods import populate

    cgroups = PlainCgroups(options.cgroups, _VERSIONS[options.version], options.cpus, proc=options.proc)
    node = FakeNode(cgroups, systemd=options.systemd)
    populate(node, options.pods)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    options.socket.unlink(missing_ok=True)
    async with serve_runtime(options.socket, node.runtime):
        await ended.wait()


def main(argv: Sequence[str] | None = None) -> None:
    import uvloop

    parser = argparse.ArgumentParser(prog="fakenode", description="A runtime with pods and cgroups, for tests.")
    parser.add_argument("--socket", type=Path, required=True, help="of the runtime; it appears when all is there")
    parser.add_argument("--cgroups", type=Path, required=True, metavar="DIR", help="the root of the cgroups")
    parser.add_argument("--proc", type=Path, metavar="DIR", help="what stands for /proc; without it there is none")
    parser.add_argument("--pods", type=int, default=10, metavar="N", help="of all classes (10)")
    parser.add_argument("--version", choices=_VERSIONS, default="v2", help="of the cgroups (v2)")
    parser.add_argument("--systemd", action="store_true", help="name cgroups as systemd does")
    parser.add_argument("--cpus", default="0-63", metavar="LIST", help="of the node (0-63)")
    uvloop.run(_serve(parser.parse_args(argv)))


if __name__ == "__main__":
    main()
