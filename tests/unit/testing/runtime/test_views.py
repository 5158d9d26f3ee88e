"""How objects are shown, and filters."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.views import container_status, event, list_containers, list_sandboxes, sandbox_status
from tests.support.clock import ManualClock


def test_a_status_has_all_the_kubelet_checks(runtime: FakeRuntime) -> None:
    """Ids, metadata, creation time and image references are filled; an empty one would be refused by its client."""
    sandbox = runtime.populate(1)[0]
    container = next(iter(runtime.containers.values()))
    pod_status, status = sandbox_status(sandbox), container_status(container)
    assert pod_status.id
    assert pod_status.metadata.name
    assert pod_status.metadata.namespace
    assert pod_status.metadata.uid
    assert pod_status.created_at
    assert pod_status.network.ip.startswith("10.88.")
    assert pod_status.linux.namespaces.options.pid == cri.CONTAINER
    assert status.id
    assert status.metadata.name
    assert status.created_at
    assert status.image.image == "docker.io/library/busybox:1.36"
    assert status.image_ref.startswith("docker.io/library/busybox@sha256:")
    assert status.image_id == container.image.id
    assert status.log_path == f"{sandbox.config.log_directory}/load-0000-container-0/0.log"
    assert status.mounts == container.config.mounts


def test_an_event_shows_the_whole_pod(runtime: FakeRuntime) -> None:
    """Sandbox status and the statuses of all its containers ride along."""
    sandbox = runtime.populate(1, 2)[0]
    message = event(runtime.state, cri.CONTAINER_STARTED_EVENT, sandbox.containers[0], sandbox, 42)
    assert (message.container_id, message.created_at) == (sandbox.containers[0], 42)
    assert message.pod_sandbox_status == sandbox_status(sandbox)
    assert [one.id for one in message.containers_statuses] == sandbox.containers


def test_an_event_of_a_removed_sandbox_has_no_pod(runtime: FakeRuntime) -> None:
    """There is nothing left to show."""
    message = event(runtime.state, cri.CONTAINER_DELETED_EVENT, "gone", None, 42)
    assert not message.HasField("pod_sandbox_status")


def test_sandbox_filters(runtime: FakeRuntime) -> None:
    """Id (also abbreviated), state and labels select; together they must all match."""
    first, second = runtime.populate(2)
    runtime.state.stop_sandbox(second)

    def ids(**parts: object) -> list[str]:
        wanted = cri.PodSandboxFilter(**parts)  # type: ignore[arg-type]
        return [item.id for item in list_sandboxes(runtime.state, wanted)]

    ready = cri.PodSandboxStateValue(state=cri.SANDBOX_READY)
    stopped = cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)
    uid = {"io.kubernetes.pod.uid": second.config.metadata.uid}
    assert ids() == [first.id, second.id]
    assert ids(id=second.id) == ids(id=second.id[:10]) == [second.id]
    assert ids(id="nothing") == []
    assert ids(state=ready) == [first.id]
    assert ids(state=stopped) == ids(label_selector=uid) == [second.id]
    assert ids(state=ready, label_selector=uid) == []


def test_container_filters(runtime: FakeRuntime) -> None:
    """Id, pod, state and labels select; together they must all match."""
    first, second = runtime.populate(2, 2)
    runtime.exit_container(first.containers[0], 1)

    def ids(**parts: object) -> list[str]:
        wanted = cri.ContainerFilter(**parts)  # type: ignore[arg-type]
        return [item.id for item in list_containers(runtime.state, wanted)]

    exited = cri.ContainerStateValue(state=cri.CONTAINER_EXITED)
    created = cri.ContainerStateValue(state=cri.CONTAINER_CREATED)
    name = {"io.kubernetes.container.name": "load-0000-container-1"}
    assert ids() == [*first.containers, *second.containers]
    assert ids(id=second.containers[1][:10]) == [second.containers[1]]
    assert ids(pod_sandbox_id=second.id[:10]) == second.containers
    assert ids(state=exited) == [first.containers[0]]
    assert ids(state=created) == []
    assert ids(label_selector=name) == [first.containers[1]]
    assert ids(pod_sandbox_id=second.id, label_selector=name) == []


@pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (3, "Error")])
def test_an_exit_is_visible(runtime: FakeRuntime, clock: ManualClock, code: int, reason: str) -> None:
    """Exit code, reason and time show in the status."""
    container_id = runtime.populate(1)[0].containers[0]
    clock.advance(2)
    runtime.exit_container(container_id, code)
    status = container_status(runtime.containers[container_id])
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, code, reason)
    assert status.finished_at == clock()
