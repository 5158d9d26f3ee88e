"""How a runtime shows its objects: list items, statuses, events, filters.

Pure functions from records to CRI messages. The answers satisfy what the kubelet's client checks (ids, metadata,
creation times and image references are never empty).
"""

from collections.abc import Mapping

from interpose._pb import cri_pb2 as cri
from interpose.testing.runtime.state import FakeContainer, FakeSandbox, NodeState, full_id


def sandbox_item(sandbox: FakeSandbox) -> cri.PodSandbox:
    """The sandbox as ListPodSandbox shows it."""
    return cri.PodSandbox(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        state=sandbox_state(sandbox),
        created_at=sandbox.created_at,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.runtime_handler,
    )


def sandbox_status(sandbox: FakeSandbox) -> cri.PodSandboxStatus:
    """The sandbox as PodSandboxStatus shows it: a host network pod and a stopped one have no address."""
    status = cri.PodSandboxStatus(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        state=sandbox_state(sandbox),
        created_at=sandbox.created_at,
        network=cri.PodSandboxNetworkStatus(ip=sandbox.ip),
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.runtime_handler,
    )
    status.linux.namespaces.options.CopyFrom(sandbox.config.linux.security_context.namespace_options)
    return status


def sandbox_state(sandbox: FakeSandbox) -> "cri.PodSandboxState":
    """READY while its network and its pause process stand."""
    return cri.SANDBOX_READY if sandbox.ready else cri.SANDBOX_NOTREADY


def container_item(container: FakeContainer) -> cri.Container:
    """The container as ListContainers shows it."""
    return cri.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=container.config.metadata,
        image=container.config.image,
        image_ref=container.image.id,
        image_id=container.image.id,
        state=container.state,
        created_at=container.created_at,
        labels=container.config.labels,
        annotations=container.config.annotations,
    )


def container_status(container: FakeContainer) -> cri.ContainerStatus:
    """The container as ContainerStatus shows it, with the resources in force now."""
    image = container.image
    status = cri.ContainerStatus(
        id=container.id,
        metadata=container.config.metadata,
        state=container.state,
        created_at=container.created_at,
        started_at=container.started_at,
        finished_at=container.finished_at,
        exit_code=container.exit_code,
        reason=container.reason,
        message=container.message,
        image=cri.ImageSpec(image=image.repo_tags[0] if image.repo_tags else container.config.image.image),
        image_ref=image.repo_digests[0] if image.repo_digests else image.id,
        image_id=image.id,
        labels=container.config.labels,
        annotations=container.config.annotations,
        mounts=container.config.mounts,
        log_path=container.log_path,
        resources=cri.ContainerResources(linux=container.resources),
        stop_signal=container.config.stop_signal,
    )
    status.user.linux.uid = container.config.linux.security_context.run_as_user.value
    status.user.linux.gid = container.config.linux.security_context.run_as_group.value
    return status


def event(
    state: NodeState, kind: "cri.ContainerEventType", object_id: str, sandbox: FakeSandbox | None, now: int
) -> cri.ContainerEventResponse:
    """An event with the whole pod beside it; only the end of the sandbox itself has nothing left to show."""
    message = cri.ContainerEventResponse(container_id=object_id, container_event_type=kind, created_at=now)
    if sandbox is not None:
        message.pod_sandbox_status.CopyFrom(sandbox_status(sandbox))
        message.containers_statuses.extend(container_status(container) for container in state.containers_of(sandbox))
    return message


def list_sandboxes(state: NodeState, wanted: cri.PodSandboxFilter) -> list[cri.PodSandbox]:
    """The sandboxes a filter asks for; all parts of a filter must match."""
    sandbox_id = full_id(state.sandboxes, wanted.id)
    return [
        sandbox_item(sandbox)
        for sandbox in state.sandboxes.values()
        if sandbox_id in ("", sandbox.id)
        and (not wanted.HasField("state") or sandbox_state(sandbox) == wanted.state.state)
        and has_labels(sandbox.config.labels, wanted.label_selector)
    ]


def list_containers(state: NodeState, wanted: cri.ContainerFilter) -> list[cri.Container]:
    """The containers a filter asks for; all parts of a filter must match."""
    container_id = full_id(state.containers, wanted.id)
    sandbox_id = full_id(state.sandboxes, wanted.pod_sandbox_id)
    return [
        container_item(container)
        for container in state.containers.values()
        if container_id in ("", container.id)
        and sandbox_id in ("", container.sandbox_id)
        and (not wanted.HasField("state") or container.state == wanted.state.state)
        and has_labels(container.config.labels, wanted.label_selector)
    ]


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether every label of the selector is there with the same value."""
    return all(labels.get(key) == value for key, value in selector.items())
