"""Pods and their statuses in few words, and a runtime as a pure function: actions are applied to a status.

The runtime of the model does what it is told and nothing else; what ends by itself is said by the test. It refuses
what no manager may ask for: a container that is started while one of its name runs, a main container before the init
containers are done, a start without a sandbox.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from interpose.core.model.pod import ContainerState
from interpose.node.pods.labels import container_hash
from interpose.node.pods.spec import ContainerSpec, ExecAction, PodSpec, Probe, RestartPolicy
from interpose.node.pods.status.types import ContainerStatus, PodStatus, SandboxStatus
from interpose.node.pods.sync.action_types import PodActions
from interpose.node.pods.sync.restart_policy import is_sidecar

PROBE = Probe(action=ExecAction(command=("true",)))


def make_container(name: str, **more: Any) -> ContainerSpec:
    """A container."""
    return ContainerSpec(name=name, **{"image": "image:1", **more})


def make_sidecar(name: str, **more: Any) -> ContainerSpec:
    """An init container that stays."""
    return make_container(name, restart_policy=RestartPolicy.ALWAYS, **more)


def make_pod(*mains: str | ContainerSpec, init: tuple[str | ContainerSpec, ...] = (), **more: Any) -> PodSpec:
    """A pod of containers by their names; c0, c1 and c2 if none are given."""
    return PodSpec(
        name="pod",
        uid="uid",
        containers=tuple(map(_container, mains or ("c0", "c1", "c2"))),
        init_containers=tuple(map(_container, init)),
        **more,
    )


def _container(one: str | ContainerSpec) -> ContainerSpec:
    return make_container(one) if isinstance(one, str) else one


def make_sandbox(attempt: int = 0, **more: Any) -> SandboxStatus:
    """A sandbox that is ready and has an address."""
    return SandboxStatus(**{"id": f"sandbox-{attempt}", "attempt": attempt, "ip": "10.0.0.1", **more})


def make_status(container: ContainerSpec, state: str = "running", code: int = 0, **more: Any) -> ContainerStatus:
    """A container in a state: created, running, exited, unknown."""
    return ContainerStatus(
        **{
            "id": f"{container.name}-id",
            "name": container.name,
            "sandbox_id": "sandbox-0",
            "state": ContainerState(state),
            "exit_code": code,
            "hash": container_hash(container),
            **more,
        }
    )


def make_pod_status(
    *containers: ContainerStatus, sandboxes: tuple[SandboxStatus, ...] | None = None, uid: str = "uid"
) -> PodStatus:
    """The status of a pod; those in the newest sandbox are the active ones if it is ready."""
    every = (make_sandbox(),) if sandboxes is None else sandboxes
    active = every[0].id if every and every[0].ready else None
    return PodStatus(
        uid=uid,
        sandboxes=every,
        containers=containers,
        active=tuple(one for one in containers if one.sandbox_id == active),
    )


def brief(actions: PodActions) -> dict[str, Any]:
    """What actions say, without what they do not say; kills by id with their reasons."""
    said = {
        "kill_pod": actions.kill_pod,
        "create_sandbox": actions.create_sandbox,
        "attempt": actions.attempt,
        "start": actions.start,
        "init_start": actions.init_start,
        "ephemeral_start": actions.ephemeral_start,
        "kill": {key: one.reason.value for key, one in actions.kill.items()},
        "reset": actions.reset,
        "resize": tuple((one.index, one.container_id, one.init) for one in actions.resize),
        "settled": actions.settled,
    }
    return {key: value for key, value in said.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedHealth:
    """Health by container ids; those that are not named are not known."""

    alive: dict[str, bool] | None = None
    started: dict[str, bool] | None = None
    is_ready: dict[str, bool] | None = None

    def liveness(self, container_id: str) -> bool | None:
        """Whether it is alive."""
        return (self.alive or {}).get(container_id)

    def startup(self, container_id: str) -> bool | None:
        """Whether it has started."""
        return (self.started or {}).get(container_id)

    def readiness(self, container_id: str) -> bool | None:
        """Whether it is ready."""
        return (self.is_ready or {}).get(container_id)


class ModelRuntime:
    """A runtime with one pod. `status` is what it would say."""

    def __init__(self, pod: PodSpec, status: PodStatus) -> None:
        self.pod = pod
        self.started: list[str] = []
        self.killed: list[str] = []
        self._sandboxes = list(status.sandboxes)
        self._containers = list(status.containers)
        self._count = 0

    @property
    def status(self) -> PodStatus:
        """What is known now, newest first."""
        return make_pod_status(*self._containers, sandboxes=tuple(self._sandboxes), uid=self.pod.uid)

    def apply(self, actions: PodActions) -> None:
        """Do all of it, in the order in which a manager does."""
        if actions.kill_pod:
            self._change(lambda one: one.state is ContainerState.RUNNING, exit_code=137)
            self._sandboxes = [replace(one, ready=False) for one in self._sandboxes]
        else:
            self.killed += actions.kill
            self._change(lambda one: one.id in actions.kill, exit_code=137)
        for container_id in actions.reset:
            [gone] = [one for one in self._containers if one.id == container_id]
            assert gone.state is not ContainerState.RUNNING, f"{gone.name} is removed while it runs"
            self._containers.remove(gone)
        if actions.create_sandbox:
            fresh = make_sandbox(actions.attempt, host_network=self.pod.host_network)
            self._sandboxes.insert(0, replace(fresh, id=f"made-{actions.attempt}"))
            early = {one.name for one in self.pod.init_containers}
            self._containers = [one for one in self._containers if one.name not in early]
        for change in actions.resize:
            wanted = (self.pod.init_containers if change.init else self.pod.containers)[change.index].resources
            place = next(at for at, one in enumerate(self._containers) if one.id == change.container_id)
            self._containers[place] = replace(self._containers[place], resources=wanted)
        for kind, indices in (
            (self.pod.ephemeral_containers, actions.ephemeral_start),
            (self.pod.init_containers, actions.init_start),
            (self.pod.containers, actions.start),
        ):
            for index in indices:
                self._start(kind[index], main=kind is self.pod.containers)

    def finish_init(self) -> bool:
        """Init containers that run and are to end do so, well; whether there were any."""
        ending = {one.name for one in self.pod.init_containers if not is_sidecar(one)}
        before = self._containers
        self._change(lambda one: one.name in ending and one.state is ContainerState.RUNNING, exit_code=0)
        return self._containers != before

    def finish_mains(self, exit_code: int) -> None:
        """Main containers that run end."""
        mains = {one.name for one in self.pod.containers}
        self._change(lambda one: one.name in mains and one.state is ContainerState.RUNNING, exit_code=exit_code)

    def _change(self, which: Callable[[ContainerStatus], bool], *, exit_code: int) -> None:
        self._containers = [
            replace(one, state=ContainerState.EXITED, exit_code=exit_code) if which(one) else one
            for one in self._containers
        ]

    def _start(self, container: ContainerSpec, *, main: bool) -> None:
        status = self.status
        assert any(one.ready for one in status.sandboxes[:1]), f"{container.name} is started without a sandbox"
        running = [one for one in self._containers if one.name == container.name and one.state == "running"]
        assert not running, f"{container.name} is started beside itself"
        begun = any(status.latest_active(one.name) for one in self.pod.containers)
        assert not main or begun or self._init_done(status), f"{container.name} is started before init containers"
        self._count += 1
        self.started.append(container.name)
        fresh = make_status(
            container,
            id=f"{container.name}-new-{self._count}",
            sandbox_id=status.sandboxes[0].id,
            restart_count=self._count,
            resources=container.resources,
        )
        self._containers.insert(0, fresh)

    def _init_done(self, status: PodStatus) -> bool:
        """The last one that ends has ended well, and what stays after it runs."""
        for container in reversed(self.pod.init_containers):
            found = status.latest_active(container.name)
            if found is None or (is_sidecar(container) and found.state is not ContainerState.RUNNING):
                return False
            if not is_sidecar(container):
                return found.state is ContainerState.EXITED and not found.failed
        return True
