"""Lists and verbose answers as crictl and dashboards use them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from conformance.checks.sandboxes import handler_name
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench


def _containers(bench: Bench, **wanted: Any) -> list[str]:
    return [container.id for container in bench.call("ListContainers", filter=cri.ContainerFilter(**wanted)).containers]


def _sandboxes(bench: Bench, **wanted: Any) -> list[str]:
    return [item.id for item in bench.call("ListPodSandbox", filter=cri.PodSandboxFilter(**wanted)).items]


def sandboxes_by_id(bench: Bench) -> None:
    pod = bench.pod()
    assert _sandboxes(bench, id=pod.id) == [pod.id]
    assert _sandboxes(bench, id=pod.id[:20]) == [pod.id]
    assert _sandboxes(bench, id="no-such-id") == []


def sandboxes_by_state(bench: Bench) -> None:
    pod = bench.pod()
    ready = cri.PodSandboxStateValue(state=cri.SANDBOX_READY)
    other = cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)
    assert pod.id in _sandboxes(bench, state=ready)
    assert pod.id not in _sandboxes(bench, state=other)
    pod.stop()
    assert pod.id not in _sandboxes(bench, state=ready)
    assert pod.id in _sandboxes(bench, state=other)


def sandboxes_by_labels(bench: Bench) -> None:
    pod = bench.pod(labels={"app": "web"})
    labels = dict(pod.config.labels)
    assert _sandboxes(bench, label_selector=labels) == [pod.id]
    assert _sandboxes(bench, label_selector={**labels, "app": "other"}) == []


def containers_by_id(bench: Bench) -> None:
    container = bench.home.create()
    assert _containers(bench, id=container.id) == [container.id]
    assert _containers(bench, id=container.id[:20]) == [container.id]
    assert _containers(bench, id="no-such-id") == []


def containers_by_pod(bench: Bench) -> None:
    pod = bench.pod()
    made = {pod.create().id, pod.create().id}
    assert set(_containers(bench, pod_sandbox_id=pod.id)) == made
    assert set(_containers(bench, pod_sandbox_id=pod.id[:20])) == made


def containers_by_state(bench: Bench) -> None:
    pod = bench.pod()
    created, running, exited = pod.create(), pod.run_container(), pod.run_container("/bin/true")
    exited.ended()
    for state, wanted in (
        (cri.CONTAINER_CREATED, created),
        (cri.CONTAINER_RUNNING, running),
        (cri.CONTAINER_EXITED, exited),
    ):
        value = cri.ContainerStateValue(state=state)
        assert _containers(bench, pod_sandbox_id=pod.id, state=value) == [wanted.id]


def containers_by_labels(bench: Bench) -> None:
    pod = bench.pod()
    first, _ = pod.create(name="first"), pod.create(name="second")
    assert _containers(bench, label_selector={"point": pod.config.metadata.uid, "name": "first"}) == [first.id]


def all_together(bench: Bench) -> None:
    pod = bench.pod()
    container = pod.create()
    created = cri.ContainerStateValue(state=cri.CONTAINER_CREATED)
    selector = {"name": container.config.metadata.name}
    wanted: dict[str, Any] = {"id": container.id, "pod_sandbox_id": pod.id, "state": created}
    assert _containers(bench, **wanted, label_selector=selector) == [container.id]
    assert _containers(bench, **{**wanted, "pod_sandbox_id": "no-such-id"}, label_selector=selector) == []


def item(bench: Bench) -> None:
    name = handler_name(bench)
    container = bench.pod(handler=name).create()
    found = bench.call("ListContainers", filter=cri.ContainerFilter(id=container.id)).containers[0]
    assert found.pod_sandbox_id == container.pod.id
    assert found.metadata == container.config.metadata
    assert found.image.image == container.config.image.image
    assert (found.labels, found.annotations) == (container.config.labels, container.config.annotations)
    assert found.created_at == container.status().created_at
    pod = bench.call("ListPodSandbox", filter=cri.PodSandboxFilter(id=container.pod.id)).items[0]
    assert pod.runtime_handler == name


def short_ids(bench: Bench) -> None:
    container = bench.container()
    short = container.id[:13]
    assert bench.call("ContainerStatus", container_id=short).status.id == container.id
    assert bench.call("PodSandboxStatus", pod_sandbox_id=container.pod.id[:13]).status.id == container.pod.id
    assert bench.call("ExecSync", container_id=short, cmd=["echo", "x"]).stdout == b"x\n"
    bench.call("StopContainer", container_id=short)
    assert container.status().state == cri.CONTAINER_EXITED
    bench.call("RemoveContainer", container_id=short)
    assert bench.code("ContainerStatus", container_id=container.id) == "NOT_FOUND"


def verbose_container(bench: Bench) -> None:
    container = bench.container()
    document = container.info()
    assert document["pid"] > 0
    assert document["sandboxID"] == container.pod.id
    assert document["config"]["metadata"]["name"] == container.config.metadata.name
    assert document["runtimeSpec"]["linux"]["cgroupsPath"].endswith(container.id)
    assert not bench.call("ContainerStatus", container_id=container.id).info


def verbose_sandbox(bench: Bench) -> None:
    pod = bench.pod()
    document = json.loads(pod.status(verbose=True).info["info"])
    assert document["pid"] > 0
    assert document["config"]["metadata"]["uid"] == pod.config.metadata.uid
    assert not pod.status().info


def streamed(bench: Bench) -> None:
    container = bench.container()
    pods = [sandbox.id for answer in bench.stream("StreamPodSandboxes") for sandbox in answer.pod_sandboxes]
    assert container.pod.id in pods
    found = [container.id for answer in bench.stream("StreamContainers") for container in answer.containers]
    assert container.id in found
    stats = [entry.attributes.id for answer in bench.stream("StreamContainerStats") for entry in answer.container_stats]
    assert container.id in stats


def same_on_both(bench: Bench) -> None:
    container = bench.pod().run_container()
    for method, request in (
        ("ContainerStatus", cri.ContainerStatusRequest(container_id=container.id)),
        ("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id=container.pod.id)),
        ("ListContainers", cri.ListContainersRequest(filter=cri.ContainerFilter(id=container.id))),
        ("ExecSync", cri.ExecSyncRequest(container_id=container.id, cmd=["echo", "x"], timeout=60)),
    ):
        outcomes = [
            bench.client.outcome(f"/runtime.{version}.RuntimeService/{method}", request)
            for version in ("v1", "v1alpha2")
        ]
        replies = [getattr(cri, f"{method}Response").FromString(outcome.reply) for outcome in outcomes]
        for reply in replies:
            if method == "PodSandboxStatus":
                reply.ClearField("timestamp")
        assert [outcome.code for outcome in outcomes] == ["OK", "OK"]
        assert replies[0] == replies[1], method


GROUPS = (
    Group(
        name="Lists",
        about="crictl's use of lists and details",
        points=(
            Point(name="sandboxes by id or its start", check=sandboxes_by_id),
            Point(name="sandboxes by state", check=sandboxes_by_state),
            Point(name="sandboxes by labels", check=sandboxes_by_labels),
            Point(name="containers by id or its start", check=containers_by_id),
            Point(name="containers by sandbox", check=containers_by_pod),
            Point(name="containers by state", check=containers_by_state),
            Point(name="containers by labels", check=containers_by_labels),
            Point(name="all parts of a filter count", check=all_together),
            Point(name="an item of a list has what was asked for at creation", check=item),
            Point(name="calls take the start of an id", check=short_ids),
            Point(name="verbose ContainerStatus has pid, configuration and OCI specification", check=verbose_container),
            Point(name="verbose PodSandboxStatus has pid and configuration", check=verbose_sandbox),
            Point(name="lists as streams", check=streamed),
            Point(name="v1alpha2 gives the same answers as v1", check=same_on_both),
        ),
    ),
)
