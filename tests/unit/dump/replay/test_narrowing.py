"""Filters of lists."""

from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.dump.replay.answers import narrow

CONTAINERS = cri.ListContainersResponse(
    containers=[
        cri.Container(id="aa1", pod_sandbox_id="p1", state=cri.CONTAINER_RUNNING, labels={"app": "web"}),
        cri.Container(id="bb2", pod_sandbox_id="p1", state=cri.CONTAINER_EXITED),
        cri.Container(id="cc3", pod_sandbox_id="p2", state=cri.CONTAINER_CREATED, labels={"app": "db"}),
    ]
)
PODS = cri.ListPodSandboxResponse(
    items=[
        cri.PodSandbox(id="aa1", state=cri.SANDBOX_READY, labels={"app": "web"}),
        cri.PodSandbox(id="bb2", state=cri.SANDBOX_NOTREADY),
    ]
)
IMAGES = cri.ListImagesResponse(
    images=[cri.Image(id="aa1", repo_tags=["web:1"]), cri.Image(id="bb2", repo_digests=["db@sha256:1"])]
)


def left(name: str, wanted: Any, reply: Any) -> list[str]:
    """The ids that stay."""
    copy = type(reply)()
    copy.CopyFrom(reply)
    narrow(name, wanted, copy)
    return [one.id for _field, items in copy.ListFields() for one in items]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (cri.ContainerFilter(), ["aa1", "bb2", "cc3"]),
        (cri.ContainerFilter(id="bb"), ["bb2"]),
        (cri.ContainerFilter(pod_sandbox_id="p1"), ["aa1", "bb2"]),
        (cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING)), ["aa1"]),
        (cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_CREATED)), ["cc3"]),
        (cri.ContainerFilter(label_selector={"app": "db"}), ["cc3"]),
        (cri.ContainerFilter(label_selector={"app": "db"}, pod_sandbox_id="p1"), []),
    ],
)
def test_containers(wanted: cri.ContainerFilter, ids: list[str]) -> None:
    """Everything that is asked for has to fit."""
    assert left("ListContainers", cri.ListContainersRequest(filter=wanted), CONTAINERS) == ids


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (cri.PodSandboxFilter(), ["aa1", "bb2"]),
        (cri.PodSandboxFilter(id="aa1"), ["aa1"]),
        (cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)), ["bb2"]),
        (cri.PodSandboxFilter(label_selector={"app": "web"}), ["aa1"]),
    ],
)
def test_pods(wanted: cri.PodSandboxFilter, ids: list[str]) -> None:
    """As containers."""
    assert left("ListPodSandbox", cri.ListPodSandboxRequest(filter=wanted), PODS) == ids


@pytest.mark.parametrize(
    ("name", "ids"), [("", ["aa1", "bb2"]), ("web:1", ["aa1"]), ("bb2", ["bb2"]), ("db@sha256:1", ["bb2"]), ("x", [])]
)
def test_images(name: str, ids: list[str]) -> None:
    """By id, tag or digest."""
    wanted = cri.ListImagesRequest(filter=cri.ImageFilter(image=cri.ImageSpec(image=name)))
    assert left("ListImages", wanted, IMAGES) == ids
