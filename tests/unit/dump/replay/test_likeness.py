"""When two requests mean the same."""

from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.replay.answers import request_key, request_subjects
from interpose.dump.replay.id_map import Reference, ReferenceKind
from interpose.testing.pods import container_config, create_request, pod_config, run_request


def key(name: str, request: Any) -> bytes:
    """The key of a copy."""
    copy = type(request)()
    copy.CopyFrom(request)
    return request_key(copy, METHODS[name])


def create(uid: str = "", attempt: int = 0, sandbox: str = "p", image: str = "i") -> cri.CreateContainerRequest:
    """A container of a pod."""
    pod = pod_config("web", uid=uid or None, attempt=attempt)
    return create_request(sandbox, pod, container_config(pod, attempt=attempt, image=image))


def test_a_pod_of_another_run_is_alike() -> None:
    """Uid, attempt, ids and paths do not count; what shall run does."""
    assert key("CreateContainer", create()) == key("CreateContainer", create("other-uid", 3, "another"))
    assert key("CreateContainer", create()) != key("CreateContainer", create(image="other"))
    pods = [run_request(pod_config("web", uid=uid)) for uid in ("a", "b")]
    assert key("RunPodSandbox", pods[0]) == key("RunPodSandbox", pods[1])
    assert key("RunPodSandbox", pods[0]) != key("RunPodSandbox", run_request(pod_config("other")))


def test_a_request_of_nothing_but_ids_keeps_them() -> None:
    """Else all would be alike."""
    one, other = (cri.StartContainerRequest(container_id=text) for text in ("a", "b"))
    assert key("StartContainer", one) != key("StartContainer", other)


def test_an_empty_filter_is_as_good_as_none() -> None:
    """A kubelet sends the one, others the other."""
    without, empty = cri.ListContainersRequest(), cri.ListContainersRequest(filter=cri.ContainerFilter())
    assert key("ListContainers", empty) == key("ListContainers", without) == b""
    assert key("ListContainers", cri.ListContainersRequest(filter=cri.ContainerFilter(id="a"))) != b""


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (run_request(pod_config("web", "shop")), ("pod shop/web",)),
        (create(), ("container app", "pod default/web")),
        (cri.StartContainerRequest(container_id="c"), (Reference(ReferenceKind.CONTAINER, "c"),)),
        (cri.StopPodSandboxRequest(pod_sandbox_id="p"), (Reference(ReferenceKind.POD, "p"),)),
        (cri.ImageStatusRequest(image=cri.ImageSpec(image="i")), (Reference(ReferenceKind.IMAGE, "i"),)),
        (cri.VersionRequest(version="1"), ()),
    ],
)
def test_whom_a_request_is_about(request_: Any, wanted: tuple[Reference | str, ...]) -> None:
    """Names before ids."""
    assert request_subjects(request_) == wanted
