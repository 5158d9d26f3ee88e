"""What exists on a fake node: sandboxes and containers, and the legal ways to change them.

Pure: no IO, no asyncio; time and randomness are given. One owner (FakeRuntime) calls it from one event loop.
Invariants: a container belongs to an existing sandbox; a name with its attempt belongs to one object; a container goes
CREATED -> RUNNING -> EXITED and never back; a running container stands in a ready sandbox.
Status codes are those containerd answers, so that a test sees what a kubelet would see.
"""

import ipaddress
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError

# What the shell shows for a process ended by a signal: 128 + number.
EXIT_KILLED = 137
EXIT_TERMINATED = 143
EXIT_NOT_STARTED = 128


@dataclass(slots=True, kw_only=True)
class FakeSandbox:
    """A pod sandbox. `config` is the create-time request; what was updated later is in `resources` and `overhead`."""

    id: str
    config: cri.PodSandboxConfig
    runtime_handler: str
    created_at: int
    ip: str
    pid: int
    resources: cri.LinuxContainerResources
    overhead: cri.LinuxContainerResources
    ready: bool = True
    containers: list[str] = field(default_factory=list)

    @property
    def host_network(self) -> bool:
        """Whether the pod lives in the network of the node (and has no address of its own)."""
        return self.config.linux.security_context.namespace_options.network == cri.NODE


@dataclass(slots=True, kw_only=True)
class FakeContainer:
    """A container. `config` is the create-time request; `resources` are the current ones as the runtime tells them.

    `in_force` are those of its cgroup, once it was started: the kernel's truth.
    """

    id: str
    sandbox_id: str
    config: cri.ContainerConfig
    image: cri.Image
    log_path: str
    created_at: int
    resources: cri.LinuxContainerResources
    state: "cri.ContainerState" = cri.CONTAINER_CREATED
    pid: int = 0
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    log_reopened: int = 0
    in_force: cri.LinuxContainerResources = field(default_factory=cri.LinuxContainerResources)
    starting: bool = False


# Told of each change: the kind, the id it is about (a sandbox has events too), the sandbox if it still exists.
EventSink = Callable[["cri.ContainerEventType", str, FakeSandbox | None], None]
Record = TypeVar("Record", FakeSandbox, FakeContainer)


def ignore_event(_kind: "cri.ContainerEventType", _object_id: str, _sandbox: FakeSandbox | None) -> None:
    """The sink of a state nobody watches."""


class Observer(Protocol):
    """Lives through what happens on a node, before anybody else hears of it.

    An RpcError from a start or an update is the answer of that call: it is how a kernel's refusal gets there.
    """

    def changed(self, kind: "cri.ContainerEventType", object_id: str, sandbox: FakeSandbox | None) -> None:
        """As an EventSink; the change is made."""

    def updating(self, container: FakeContainer, patch: cri.LinuxContainerResources) -> None:
        """Resources of a container are about to change."""


class NodeState:
    """The objects of one fake node."""

    def __init__(self, rng: random.Random, clock: Callable[[], int], sink: EventSink = ignore_event) -> None:
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.containers: dict[str, FakeContainer] = {}
        self._network = ipaddress.ip_network("10.88.0.0/16")
        self._rng = rng
        self._clock = clock
        self._sink = sink
        self._names: dict[str, str] = {}
        self._reserved: dict[str, str] = {}
        self._addresses = 0
        self._pids = 1000

    def set_pod_cidr(self, cidr: str) -> None:
        """New pods get their addresses from this network."""
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f'pod_cidr "{cidr}": {error}') from None
        if network.num_addresses < 4:
            raise RpcError(Code.INVALID_ARGUMENT, f'pod_cidr "{cidr}": too small for pods')
        self._network = network

    def sandbox(self, sandbox_id: str) -> FakeSandbox:
        """The sandbox with this id or unique start of an id; NOT_FOUND if there is none."""
        return _lookup(self.sandboxes, sandbox_id, "sandbox")

    def container(self, container_id: str) -> FakeContainer:
        """The container with this id or unique start of an id; NOT_FOUND if there is none."""
        return _lookup(self.containers, container_id, "container")

    def containers_of(self, sandbox: FakeSandbox) -> list[FakeContainer]:
        """The containers of a sandbox in the order they were created."""
        return [self.containers[container_id] for container_id in sandbox.containers]

    def run_sandbox(self, config: cri.PodSandboxConfig, runtime_handler: str = "") -> FakeSandbox:
        """Create and start a sandbox."""
        if not config.HasField("metadata"):
            raise RpcError(Code.UNKNOWN, "sandbox config must include metadata")
        meta = config.metadata
        sandbox_id = self._reserve("sandbox", f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}")
        sandbox = FakeSandbox(
            id=sandbox_id,
            config=_copy(config),
            runtime_handler=runtime_handler,
            created_at=self._clock(),
            ip="",
            pid=self._next_pid(),
            resources=_copy(config.linux.resources),
            overhead=_copy(config.linux.overhead),
        )
        if not sandbox.host_network:
            sandbox.ip = self._next_address()
        self.sandboxes[sandbox_id] = sandbox
        self._sink(cri.CONTAINER_CREATED_EVENT, sandbox_id, sandbox)
        self._sink(cri.CONTAINER_STARTED_EVENT, sandbox_id, sandbox)
        return sandbox

    def stop_sandbox(self, sandbox: FakeSandbox) -> None:
        """Kill what runs in it and give its network back; nothing happens if it is stopped."""
        for container in self.containers_of(sandbox):
            self.exit_container(container, EXIT_KILLED)
        if sandbox.ready:
            sandbox.ready = False
            sandbox.ip = ""
            self._sink(cri.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox)

    def remove_sandbox(self, sandbox: FakeSandbox) -> None:
        """Remove a sandbox with all its containers, stopping them first."""
        self.stop_sandbox(sandbox)
        for container in self.containers_of(sandbox):
            self.remove_container(container)
        del self.sandboxes[sandbox.id]
        self._release(sandbox.id)
        self._sink(cri.CONTAINER_DELETED_EVENT, sandbox.id, None)

    def create_container(self, sandbox: FakeSandbox, config: cri.ContainerConfig, image: cri.Image) -> FakeContainer:
        """Create a container in a ready sandbox."""
        if not config.HasField("metadata"):
            raise RpcError(Code.UNKNOWN, "container config must include metadata")
        if not sandbox.ready:
            # The code surprises; it is what containerd answers, because the task of the sandbox is gone.
            raise RpcError(
                Code.NOT_FOUND, f'failed to get sandbox container task: task "{sandbox.id}" not found: not found'
            )
        pod, meta = sandbox.config.metadata, config.metadata
        name = f"{meta.name}_{pod.name}_{pod.namespace}_{pod.uid}_{meta.attempt}"
        container_id = self._reserve("container", name)
        directory = sandbox.config.log_directory
        container = FakeContainer(
            id=container_id,
            sandbox_id=sandbox.id,
            config=_copy(config),
            image=_copy(image),
            log_path=f"{directory}/{config.log_path}" if directory and config.log_path else "",
            created_at=self._clock(),
            resources=_copy(config.linux.resources),
        )
        self.containers[container_id] = container
        sandbox.containers.append(container_id)
        self._sink(cri.CONTAINER_CREATED_EVENT, container_id, sandbox)
        return container

    def begin_start(self, container: FakeContainer) -> None:
        """Its cgroup is made of the resources of this moment."""
        if container.state == cri.CONTAINER_CREATED:
            container.in_force = _copy(container.resources)
            container.starting = True

    def start_container(self, container: FakeContainer) -> None:
        """CREATED -> RUNNING, only in a ready sandbox."""
        sandbox = self.sandboxes[container.sandbox_id]
        if container.state != cri.CONTAINER_CREATED:
            raise RpcError(
                Code.UNKNOWN,
                f'failed to start container "{container.id}": container is in {state_name(container)} state',
            )
        if not sandbox.ready:
            raise RpcError(Code.UNKNOWN, f'sandbox container "{sandbox.id}" is not running')
        if not container.starting:
            self.begin_start(container)
        container.starting = False
        container.state = cri.CONTAINER_RUNNING
        container.started_at = self._clock()
        container.pid = self._next_pid()
        try:
            self._sink(cri.CONTAINER_STARTED_EVENT, container.id, sandbox)
        except RpcError as error:
            self._failed_start(container, error.message)
            raise

    def _failed_start(self, container: FakeContainer, message: str) -> None:
        """It never ran, and cannot be started again."""
        container.state = cri.CONTAINER_EXITED
        container.started_at, container.finished_at = 0, self._clock()
        container.exit_code, container.reason, container.message = EXIT_NOT_STARTED, "StartError", message
        container.pid = 0

    def exit_container(self, container: FakeContainer, code: int, reason: str = "", message: str = "") -> None:
        """RUNNING -> EXITED; nothing happens to a container that does not run, as with a real stop."""
        if container.state != cri.CONTAINER_RUNNING:
            return
        container.state = cri.CONTAINER_EXITED
        container.finished_at = self._clock()
        container.exit_code = code
        container.reason = reason or ("Completed" if code == 0 else "Error")
        container.message = message
        container.pid = 0
        self._sink(cri.CONTAINER_STOPPED_EVENT, container.id, self.sandboxes[container.sandbox_id])

    def remove_container(self, container: FakeContainer) -> None:
        """Remove a container; a running one is killed first."""
        self.exit_container(container, EXIT_KILLED)
        sandbox = self.sandboxes[container.sandbox_id]
        sandbox.containers.remove(container.id)
        del self.containers[container.id]
        self._release(container.id)
        self._sink(cri.CONTAINER_DELETED_EVENT, container.id, sandbox)

    def _reserve(self, kind: str, name: str) -> str:
        key = f"{kind} {name}"
        owner = self._names.get(key)
        if owner is not None:
            raise RpcError(
                Code.UNKNOWN, f'failed to reserve {kind} name "{name}": name "{name}" is reserved for "{owner}"'
            )
        object_id = f"{self._rng.getrandbits(256):064x}"
        self._names[key] = object_id
        self._reserved[object_id] = key
        return object_id

    def _release(self, object_id: str) -> None:
        del self._names[self._reserved.pop(object_id)]

    def _next_address(self) -> str:
        network = self._network
        # The first address is the network, the second its bridge, the last the broadcast.
        self._addresses += 1
        return str(network[2 + (self._addresses - 1) % (network.num_addresses - 3)])

    def _next_pid(self) -> int:
        self._pids += 1
        return self._pids


def state_name(container: FakeContainer) -> str:
    """The state as CRI spells it, for messages."""
    return cri.ContainerState.Name(container.state)


def full_id(known: Collection[str], object_id: str) -> str:
    """The one id that starts like this; what was asked for if there is none or several (or nothing was asked for)."""
    if not object_id or object_id in known:
        return object_id
    matches = [known_id for known_id in known if known_id.startswith(object_id)]
    return matches[0] if len(matches) == 1 else object_id


def _lookup(objects: Mapping[str, Record], object_id: str, kind: str) -> Record:
    if not object_id:
        raise RpcError(Code.UNKNOWN, f'an error occurred when try to find {kind} "": prefix must not be empty')
    found = objects.get(full_id(objects.keys(), object_id))
    if found is None:
        raise RpcError(Code.NOT_FOUND, f'an error occurred when try to find {kind} "{object_id}": not found')
    return found


Copied = TypeVar(
    "Copied",
    cri.PodSandboxConfig,
    cri.ContainerConfig,
    cri.LinuxContainerResources,
    cri.Image,
)


def _copy(message: Copied) -> Copied:
    """A copy of our own: what the caller does with its message later is not our state."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
