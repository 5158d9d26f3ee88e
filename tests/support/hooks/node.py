"""A fake node with the parts of a hook server, in the test's own event loop: rounds by hand, a kernel in memory.

The wiring is that of the product (`cli.hookserver.parts`): the runtime is on a socket, the journal in a file, the
NodeSLO too. Only the cgroups are not real.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.cli.hookserver.parts import HookServerParts, select_plugins
from interpose.config.hookserver.settings import CgroupSettings, HookServerSettings, PluginSettings, ServingSettings
from interpose.core.model.cgroup import Parameter, Value
from interpose.hooks.server.plugin import AnyPlugin
from interpose.hooks.server.pods.pod_annotations import NORMALIZATION_RATIO
from interpose.hooks.server.reconcile.reconciler import ReconcilePass
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.runtime.state import FakeSandbox
from interpose.testing.serve import serve_runtime

# No such directory: whoever goes past the kernel in memory finds nothing.
_CGROUPS: Final = "/nowhere/cgroup"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# What CRI can give a container but not take away: there the set in force counts.
_LISTS: Final = ("cpuset.cpus", "cpuset.mems")


def node_document(
    *, identity: bool = False, cfs_quota: bool = False, ratio: float | None = None, **annotations: str
) -> dict[str, Any]:
    """A node's document: whether classes are ranked, best-effort pods limited together, and how fast its CPUs are."""
    cpu_qos = {"cpuQOS": {"enable": identity}}
    spec = {
        "resourceUsedThresholdWithBE": {"enable": cfs_quota, "cpuSuppressPolicy": "cfsQuota"},
        "resourceQOSStrategy": dict.fromkeys(("lsrClass", "lsClass", "beClass"), cpu_qos),
    }
    slo = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "spec": spec}
    if ratio is not None:
        annotations[NORMALIZATION_RATIO] = f"{ratio:.2f}"
    return {
        "apiVersion": "interpose/v1",
        "kind": "NodeState",
        "nodeSLO": slo,
        "node": {"name": "node", "annotations": annotations},
    }


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Put a document in place of the old one, in one step."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps(document))
    fresh.chmod(0o644)
    fresh.rename(path)


def write_cpus(sys_root: Path, nodes: Sequence[str]) -> None:
    """The part of /sys that tells the CPUs of each NUMA node."""
    system = sys_root / "devices" / "system"
    (system / "cpu").mkdir(parents=True, exist_ok=True)
    (system / "cpu" / "online").write_text(",".join(nodes) + "\n")
    for number, cpus in enumerate(nodes):
        (system / "node" / f"node{number}").mkdir(parents=True, exist_ok=True)
        (system / "node" / f"node{number}" / "cpulist").write_text(f"{cpus}\n")


def write_boot(proc_root: Path, boot: str = "0d3a8ae1-6f3c-4e5c-9d2b-3a7c1d9f0b42") -> None:
    """The part of /proc that tells one boot from another."""
    folder = proc_root / "sys" / "kernel" / "random"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "boot_id").write_text(f"{boot}\n")


def all_files(kernel: FakeKernel) -> dict[str, str]:
    """Every file of every cgroup and what is in it, and what processes in them have."""
    hierarchies = kernel.directories(kernel.root) if kernel.version == 1 else [""]
    groups = list(kernel.node.root.below())
    found = {
        f"{hierarchy}/{group.path}/{name}": text
        for group in groups
        for hierarchy in hierarchies
        for name, text in kernel.contents(group.path, hierarchy).items()
    }
    for group in groups:
        scores = sorted(kernel.read(f"{kernel.proc}/{pid}/oom_score_adj") for pid in group.processes)
        found |= {f"{group.path}/oom_score_adj": "".join(scores)} if scores else {}
    return found


class HookNode:
    """A node with eight CPUs in two NUMA nodes, and what a hook server does to it, round by round."""

    def __init__(self, folder: Path, node: FakeNode, kernel: FakeKernel, settings: HookServerSettings) -> None:
        self.node = node
        self.kernel = kernel
        self.settings = settings
        self._folder = folder
        self._parts: HookServerParts | None = None
        self._answers = False
        self._serving = AsyncExitStack()

    @property
    def parts(self) -> HookServerParts:
        """The hook server that runs."""
        if self._parts is None:
            raise LookupError("the hook server was not started")
        return self._parts

    # -- what it is told

    def slo(self, **said: Any) -> None:
        """Another document for the node; takes effect with the next round."""
        write_document(Path(self.settings.nodeslo), node_document(**said))
        if self.parts.node_file is not None:
            self.parts.node_file.load()

    async def start(self, plugins: Sequence[AnyPlugin] | None = None) -> None:
        """Start it, anew if it runs. Its journal and the node stay. `plugins` None: those of the settings.

        A runtime that answers is connected: a busy machine shall not look like one without a runtime.
        """
        await self.stop()
        chosen = select_plugins(self.settings) if plugins is None else plugins
        self._parts = HookServerParts(self.settings, plugins=chosen, files=self.kernel)
        if self._parts.node_file is not None:
            self._parts.node_file.load()
        upstream = self._parts.upstream
        upstream.start()
        if self._answers:
            await eventually(lambda: upstream.up, "the connection to the runtime")

    async def stop(self) -> None:
        """End it; values stay."""
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.close()

    async def runtime_up(self) -> None:
        """The runtime answers."""
        await self._serving.enter_async_context(serve_runtime(self.settings.runtime_endpoint, self.node.runtime))
        self._answers = True

    async def runtime_down(self) -> None:
        """The runtime is away; what it runs goes on."""
        self._answers = False
        await self._serving.aclose()

    async def round(self, **options: Any) -> ReconcilePass:
        """One round."""
        return await self.parts.reconciler.reconcile("test", **options)

    async def off(self) -> ReconcilePass:
        """A round without any plugin: everything that was set is put back."""
        await self.start(plugins=())
        return await self.round()

    # -- what there is

    def of_pod(self, sandbox: FakeSandbox, parameter: Parameter) -> Value:
        """A value of a pod's cgroup."""
        return self.node.tree.read(self.node.pod_directory(sandbox), parameter)

    def of_sandbox(self, sandbox: FakeSandbox, parameter: Parameter) -> Value:
        """A value of the container that holds a pod together."""
        return self.node.tree.read(self.node.directory(sandbox.id), parameter)

    def of_container(self, sandbox: FakeSandbox, parameter: Parameter, number: int = 0) -> Value:
        """A value of a container's cgroup."""
        return self.node.tree.read(self.node.directory(sandbox.containers[number]), parameter)

    def files(self) -> dict[str, str]:
        """All that cgroups have. A container whose set the runtime cannot take away shows the one in force instead."""
        found = all_files(self.kernel)
        if self.kernel.version == 1:
            return found
        running = [one.id for one in self.node.runtime.containers.values() if one.state == cri.CONTAINER_RUNNING]
        for directory in map(self.node.directory, running):
            for name in _LISTS:
                found[f"/{directory}/{name}"] = found[f"/{directory}/{name}.effective"]
        return found


def node_settings(folder: Path, *, timeout: float = WAIT_LIMIT, **plugins: Any) -> HookServerSettings:
    """Settings of a hook server in a folder; `plugins` are switches of plugins."""
    return HookServerSettings(
        mode="standalone",
        nodeslo=str(folder / "nodeslo.json"),
        runtime_endpoint=str(folder / "runtime.sock"),
        relay_admin="none",
        state_dir=str(folder / "state"),
        kubelet_state_dir=str(folder / "kubelet"),
        hooks=ServingSettings(plugin_timeout=timeout),
        cgroups=CgroupSettings(root=_CGROUPS, proc_root=str(folder / "proc"), sys_root=str(folder / "sys")),
        plugins=replace(PluginSettings(), **plugins),
    )


@asynccontextmanager
async def hook_node(
    folder: Path,
    version: int = 2,
    *,
    plugins: Sequence[AnyPlugin] | None = None,
    cpus: Sequence[str] = ("0-3", "4-7"),
    timeout: float = WAIT_LIMIT,
    bvt: bool = False,
    systemd: bool = False,
    **switches: Any,
) -> AsyncIterator[HookNode]:
    """A node without pods and a hook server that has done nothing yet. `switches` are settings of plugins."""
    settings = node_settings(folder, timeout=timeout, **switches)
    kernel = FakeKernel(version, ",".join(cpus), root=_CGROUPS, proc=settings.cgroups.proc_root, bvt=bvt)
    write_cpus(folder / "sys", cpus)
    write_boot(folder / "proc")
    write_document(Path(settings.nodeslo), node_document())
    node = HookNode(folder, FakeNode(kernel, systemd=systemd), kernel, settings)
    await node.runtime_up()
    try:
        await node.start(plugins)
        yield node
    finally:
        await node.stop()
        await node.runtime_down()
