"""The parts of a hook server around a fake node, joined by plain calls: no sockets, no files, no clock of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import Level, Parameter, Value
from interpose.core.model.pod import Container, Pod
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.actuators.cgroup import CgroupActuator
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Response
from interpose.hooks.server.plugin import AnyPlugin, NodeInputs, Plugin
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.cri_updates import ContainerUpdates
from interpose.hooks.server.reconcile.inventory import Inventory
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.worker_threads import Runner
from interpose.host.cgroup.parameters import TABLE
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel

Wanted = Mapping[Parameter, Value]
_EVERYTHING: Final = frozenset(TABLE)


class ToyPlugin(Plugin[tuple[Any, ...]]):
    """Wants what a test put into `wanted`, on every target of a level; fails for those in `fails`."""

    switch: ClassVar[str] = "toy"
    summary: ClassVar[str] = "For tests"
    stages: ClassVar[frozenset[HookPoint]] = frozenset(HookPoint)
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = dict.fromkeys(Level, _EVERYTHING)

    def __init__(self, name: str = "toy", wanted: Mapping[Level, Wanted] | None = None) -> None:
        self.name = name  # type: ignore[misc]
        self.wanted: dict[Level, Wanted] = dict(wanted or {})
        self.fails: set[str] = set()  # names of pods and containers
        self.problem = ""  # why there is no rule
        self.seen: list[str] = []  # what it was asked about

    def rule(self, node: NodeInputs, previous: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """What is wanted now, as a value."""
        if self.problem:
            raise ValueError(self.problem)
        return tuple(
            (level, parameter, value) for level, some in self.wanted.items() for parameter, value in some.items()
        )

    def group(self, rule: tuple[Any, ...], context: GroupContext) -> None:
        """By its level."""
        self._want(rule, context.level, context.name, context.response)

    def pod(self, rule: tuple[Any, ...], context: PodContext) -> None:
        """By its level."""
        self._want(rule, Level.POD, context.request.name, context.response)

    def container(self, rule: tuple[Any, ...], context: ContainerContext) -> None:
        """By its level."""
        self._want(rule, context.level, context.request.name or context.request.id, context.response)

    def _want(self, rule: tuple[Any, ...], level: Level, name: str, response: Response) -> None:
        self.seen.append(name)
        if name in self.fails:
            raise ValueError(f"{name} cannot be understood")
        for where, parameter, value in rule:
            if where is level:
                response.set(parameter, value, "told so")


class HookParts:
    """A node and everything that looks at it and acts on it. `close` ends tasks and threads."""

    def __init__(
        self,
        node: FakeNode | None = None,
        *,
        plugins: Sequence[AnyPlugin] = (),
        asked: Callable[[str], int] | None = None,
        dry_run: bool = False,
    ) -> None:
        """`asked` as `ContainerUpdates` has it."""
        self.node = FakeNode(FakeKernel(1)) if node is None else node  # v1 keeps numbers as they are
        self.now = 0.0
        self.plugins = tuple(plugins)
        self.journal = Journal(None, "boot")
        self.store = Store()
        self.sync = Synchronizer(self.store, self.call)
        self.runner = Runner(timeout=WAIT_LIMIT)
        self.inventory = Inventory(self.node.tree, self.journal)
        actuator = CgroupActuator(self.node.tree)
        self.applier = Applier(
            dict.fromkeys(TABLE, actuator),
            self.journal,
            now=lambda: self.now,
            dry_run=dry_run,
            allowed=self.allowed,
        )
        self.updates = ContainerUpdates(
            self.store, self.call, self.journal, allowed=self.allowed, refresh=self.sync.refresh, update_count=asked
        )

    async def call(self, method: str, message: bytes) -> bytes:
        """A call of the runtime."""
        request = getattr(cri, f"{method}Request").FromString(message)
        answer: bytes = (await self.node.runtime.call(method, request)).SerializeToString()
        return answer

    def allowed(self, parameter: Parameter, directory: str) -> str:
        """All CPUs or memory nodes that children of a directory can have."""
        tree = self.node.tree
        return (tree.allowed_cpus if parameter is Parameter.CPUSET_CPUS else tree.allowed_mems)(directory)

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.sync.close()
        await self.runner.close()

    # -- what there is

    def records(self) -> list[tuple[Pod, Sequence[Container]]]:
        """Pods with their containers, as the store has them."""
        return [(pod, self.store.containers_of(pod.id)) for pod in self.store.pods.values()]

    def value(self, object_id: str, parameter: Parameter) -> Value:
        """What the cgroup of a container that runs has; also of the one that holds a pod together."""
        return self.node.tree.read(self.node.directory(object_id), parameter)

    def sent(self) -> list[cri.LinuxContainerResources]:
        """What updates carried, in their order."""
        return [request.linux for request in self.node.runtime.requests_of("UpdateContainerResources")]

    async def update(self, container_id: str, **values: Any) -> None:
        """An update by somebody else."""
        request = cri.UpdateContainerResourcesRequest(
            container_id=container_id, linux=cri.LinuxContainerResources(**values)
        )
        await self.node.runtime.call("UpdateContainerResources", request)
