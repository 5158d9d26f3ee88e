"""The demo's node, looked at from outside: what runs, what its cgroup files say, and what the runtime was told.

Values come from the files where the programs put them; nothing is taken on trust.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from examples.demo.parts import CPUS, PODS, DemoPod
from examples.demo.places import Places
from examples.demo.report import ASKED, PARAMETERS, Spot
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.core.model.kubernetes_names import POD_NAME, POD_UID
from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.host.cgroup.tree import CgroupTree

_TOP: Final = "kubepods"
_BY_NAME: Final = {pod.name: pod for pod in PODS}
_LAYOUT: Final = CgroupLayout(driver=Driver.CGROUPFS)
# Where a bundle has what CRI carried.
_IN_BUNDLE: Final[Mapping[Parameter, tuple[str, str]]] = {
    Parameter.CPU_SHARES: ("cpu", "shares"),
    Parameter.CPU_QUOTA: ("cpu", "quota"),
    Parameter.CPUSET_CPUS: ("cpu", "cpus"),
    Parameter.MEMORY_LIMIT: ("memory", "limit"),
}
_NOTHING: Final[Mapping[Parameter, Value]] = {
    Parameter.CPU_QUOTA: UNLIMITED,
    Parameter.MEMORY_LIMIT: UNLIMITED,
    Parameter.CPUSET_CPUS: CLEAR,
}


class Seen(NamedTuple):
    """A pod of the demo of which the container runs."""

    pod: DemoPod
    uid: str
    container: str

    def directory(self, level: Level) -> str:
        """Its cgroup."""
        of_pod = _LAYOUT.pod(self.uid, self.pod.kube_qos)
        return of_pod if level is Level.POD else f"{of_pod}/{self.container}"


class Node:
    """Asks the runtime through the relay, as the manager does, and reads files."""

    def __init__(self, places: Places, services: RuntimeClient) -> None:
        self._places = places
        self._services = services
        self._tree = CgroupTree(KernelFiles(), str(places.cgroups), version=1)

    async def seen(self) -> dict[str, Seen]:
        """The pods of the demo that run, by name."""
        state = cri.ContainerStateValue(state=cri.CONTAINER_RUNNING)
        found = await self._services.list_containers(cri.ContainerFilter(state=state))
        listed = {
            one.labels[POD_NAME]: Seen(_BY_NAME[name], one.labels[POD_UID], one.id)
            for one in found
            if (name := one.labels[POD_NAME]) in _BY_NAME
        }
        return {name: listed[name] for name in _BY_NAME if name in listed}

    async def pods(self) -> list[str]:
        """Names of all pods that the runtime has, in whatever state."""
        return [one.metadata.name for one in await self._services.list_pod_sandbox()]

    async def exit_codes(self, name: str) -> list[int]:
        """How the containers of a pod ended that have."""
        labelled = cri.ContainerFilter(label_selector={POD_NAME: name})
        found = [one.id for one in await self._services.list_containers(labelled) if one.state == cri.CONTAINER_EXITED]
        return [(await self._services.container_status(one)).status.exit_code for one in found]

    async def status(self, one: Seen) -> cri.ContainerStatus:
        """What the manager sees of a container."""
        return (await self._services.container_status(one.container)).status

    def measured(self, pods: Iterable[Seen]) -> dict[Spot, Value]:
        """What the files say. A set of all CPUs is no restriction."""
        found: dict[Spot, Value] = {}
        for one in pods:
            for spot in (spot for spot in ASKED if spot.pod == one.pod.name):
                # A kernel's file never is, but ours is empty for a moment while somebody writes it.
                with suppress(ValueError, OSError):
                    found[spot] = _in_one_form(self._tree.read(one.directory(spot.level), spot.parameter))
        return found

    def told(self, one: Seen) -> dict[Spot, Value]:
        """With what the runtime made a container: from its bundle, which is written before anything runs."""
        text = (self._places.state / "containers" / one.container / "config.json").read_text()
        resources: dict[str, Any] = json.loads(text)["linux"]["resources"]
        found: dict[Spot, Value] = {}
        for parameter, (section, key) in _IN_BUNDLE.items():
            value = resources.get(section, {}).get(key) or _NOTHING.get(parameter)
            if value is not None:
                in_form = UNLIMITED if value == -1 else _in_one_form(value)
                found[Spot(one.pod.name, Level.CONTAINER, parameter)] = in_form
        return found

    def changed_at(self, one: Seen, parameter: Parameter) -> int:
        """When a value of a container was last written, in nanoseconds."""
        path = self._places.cgroups / "cpuset" / one.directory(Level.CONTAINER) / parameter
        return path.stat().st_mtime_ns

    def everything(self, directory: str = _TOP) -> dict[tuple[str, Parameter], Value]:
        """The values of the demo's kind in all cgroups of pods, also those nobody speaks of."""
        found = {(directory, parameter): self._tree.read(directory, parameter) for parameter in PARAMETERS}
        for name in self._tree.children(directory):
            found |= self.everything(f"{directory}/{name}")
        return found

    def untouched(self, pods: Iterable[Seen]) -> dict[tuple[str, Parameter], Value]:
        """The same on a node without relay and hook server: what new cgroups have, and what was asked for in them."""
        fresh = {parameter: self._tree.read(".new", parameter) for parameter in PARAMETERS}
        found = {(directory, parameter): fresh[parameter] for directory, parameter in self.everything()}
        for one in pods:
            asked = {
                Parameter.CPU_SHARES: one.pod.asked.cpu_shares,
                Parameter.CPU_QUOTA: one.pod.asked.cpu_quota,
                Parameter.MEMORY_LIMIT: one.pod.asked.memory_limit_in_bytes,
            }
            found |= {(one.directory(Level.CONTAINER), name): value for name, value in asked.items() if value}
        return found

    def leftovers(self) -> list[str]:
        """What is there of pods although none should be: cgroups and folders of the runtime."""
        tops = [path / _TOP for path in self._places.cgroups.iterdir()]
        cgroups = [path for top in tops if top.exists() for path in (top, *top.rglob("*"))]
        kinds = (self._places.state / kind for kind in ("sandboxes", "containers"))
        return [*map(str, cgroups), *(str(path) for kind in kinds if kind.is_dir() for path in kind.iterdir())]


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that have to do with a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if str(folder).encode() in words:
                found.append(f"{entry.name}: {words.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


def _in_one_form(value: Value) -> Value:
    return CLEAR if value == CPUS else value
