"""Pods as the lists of a runtime show them: sandboxes and containers that belong together. Pure; messages come in
by their attributes.

A container whose sandbox is not listed still makes a pod: it has to be stopped and removed by somebody.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.core.model.kubernetes_names import CONTAINER_NAME, LABEL_PREFIX, POD_NAME, POD_NAMESPACE, POD_UID
from interpose.core.model.pod import ContainerState
from interpose.core.model.resources import empty_map

# By the numbers of CRI.
CONTAINER_STATES: Final = (
    ContainerState.CREATED,
    ContainerState.RUNNING,
    ContainerState.EXITED,
    ContainerState.UNKNOWN,
)
_SANDBOX_READY: Final = 0


def container_state(number: int) -> ContainerState:
    """The state; a number that nobody knows is UNKNOWN."""
    return CONTAINER_STATES[number] if 0 <= number < len(CONTAINER_STATES) else ContainerState.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSandbox:
    """A sandbox in a list."""

    id: str
    attempt: int = 0
    ready: bool = True
    created_at: int = 0
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    runtime_handler: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContainer:
    """A container in a list."""

    id: str
    name: str
    sandbox_id: str = ""
    attempt: int = 0
    state: ContainerState = ContainerState.RUNNING
    created_at: int = 0
    image: str = ""
    annotations: Mapping[str, str] = field(default_factory=empty_map)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePod:
    """What a runtime has of a pod. Newest first. `complete`: what has ended is in it, too."""

    uid: str
    name: str = ""
    namespace: str = ""
    sandboxes: tuple[RuntimeSandbox, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()
    complete: bool = False
    labels: Mapping[str, str] = field(default_factory=empty_map)  # the pod's own

    @property
    def title(self) -> str:
        """The pod's name for people: `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def running(self) -> tuple[RuntimeContainer, ...]:
        """The containers that have to be stopped: also those of which the runtime does not know."""
        return tuple(
            container
            for container in self.containers
            if container.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)
        )


def group_pods(sandboxes: Iterable[Any], containers: Iterable[Any], *, complete: bool) -> list[RuntimePod]:
    """Pods in the order their first sandbox is listed.

    A kubelet, and we, label sandboxes with the uid of their pod: those of one uid are one pod. Any other sandbox, such
    as one that was made with crictl, is a pod of its own, by its id. A container belongs to the pod of its sandbox.
    """
    names: dict[str, tuple[str, str]] = {}
    boxes: dict[str, dict[str, RuntimeSandbox]] = {}  # by id: what is listed twice is there once
    inside: dict[str, dict[str, RuntimeContainer]] = {}
    owners: dict[str, str] = {}  # uids by sandbox id
    for sandbox in sandboxes:
        meta = sandbox.metadata
        uid = owners[sandbox.id] = sandbox.labels.get(POD_UID, "") or sandbox.id
        names.setdefault(uid, (meta.name, meta.namespace))
        boxes.setdefault(uid, {})[sandbox.id] = _sandbox(sandbox)
    for container in containers:
        uid = owners.get(container.pod_sandbox_id, "") or container.labels.get(POD_UID, "") or container.pod_sandbox_id
        name = container.labels.get(CONTAINER_NAME, "") or container.metadata.name
        if uid and name:
            names.setdefault(uid, (container.labels.get(POD_NAME, ""), container.labels.get(POD_NAMESPACE, "")))
            inside.setdefault(uid, {})[container.id] = _container(container, name)
    return [
        RuntimePod(
            uid=uid,
            name=name,
            namespace=namespace,
            sandboxes=tuple(sorted(boxes.get(uid, {}).values(), key=newest)),
            containers=tuple(sorted(inside.get(uid, {}).values(), key=newest)),
            complete=complete,
            labels=_own_labels(boxes.get(uid, {}).values()),
        )
        for uid, (name, namespace) in names.items()
    ]


def _own_labels(sandboxes: Iterable[RuntimeSandbox]) -> dict[str, str]:
    """Those of the newest sandbox that say more than whose it is."""
    latest = min(sandboxes, key=newest, default=None)
    return {} if latest is None else {k: v for k, v in latest.labels.items() if not k.startswith(LABEL_PREFIX)}


def newest(found: RuntimeSandbox | RuntimeContainer) -> tuple[int, int, str]:
    """The key that sorts the newest to the front. The attempt counts first: clocks are set back now and then."""
    return (-found.attempt, -found.created_at, found.id)


def _sandbox(listed: Any) -> RuntimeSandbox:
    return RuntimeSandbox(
        id=listed.id,
        attempt=listed.metadata.attempt,
        ready=listed.state == _SANDBOX_READY,
        created_at=listed.created_at,
        labels=dict(listed.labels),
        annotations=dict(listed.annotations),
        runtime_handler=listed.runtime_handler,
    )


def _container(listed: Any, name: str) -> RuntimeContainer:
    return RuntimeContainer(
        id=listed.id,
        name=name,
        sandbox_id=listed.pod_sandbox_id,
        attempt=listed.metadata.attempt,
        state=container_state(listed.state),
        created_at=listed.created_at,
        image=listed.image.image,
        annotations=dict(listed.annotations),
    )
