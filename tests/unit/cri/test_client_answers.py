"""Answers that lack what must be in them."""

import pytest
from google.protobuf.message import Message

from interpose.cri.client import check_answer
from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError

_META = cri.PodSandboxMetadata(name="n", namespace="ns", uid="u")
_SANDBOX = cri.PodSandboxStatus(id="a", metadata=_META, created_at=1)
_CONDITIONS = [cri.RuntimeCondition(type="RuntimeReady"), cri.RuntimeCondition(type="NetworkReady")]

GOOD = [
    ("Version", cri.VersionResponse(version="1", runtime_name="n", runtime_version="2", runtime_api_version="v1")),
    ("RunPodSandbox", cri.RunPodSandboxResponse(pod_sandbox_id="a")),
    ("CreateContainer", cri.CreateContainerResponse(container_id="a")),
    ("PodSandboxStatus", cri.PodSandboxStatusResponse(status=_SANDBOX)),
    ("PodSandboxStatus", cri.PodSandboxStatusResponse(status=cri.PodSandboxStatus(id="a", created_at=1))),
    (
        "ContainerStatus",
        cri.ContainerStatusResponse(
            status=cri.ContainerStatus(
                id="a",
                metadata=cri.ContainerMetadata(name="n"),
                created_at=1,
                image=cri.ImageSpec(image="i"),
                image_ref="r",
            )
        ),
    ),
    ("ImageStatus", cri.ImageStatusResponse()),
    ("ImageStatus", cri.ImageStatusResponse(image=cri.Image(id="a", size=1))),
    ("PullImage", cri.PullImageResponse(image_ref="a")),
    ("Status", cri.StatusResponse(status=cri.RuntimeStatus(conditions=_CONDITIONS))),
    ("Exec", cri.ExecResponse(url="http://a")),
    ("ListContainers", cri.ListContainersResponse()),
]


@pytest.mark.parametrize(("method", "answer"), GOOD)
def test_what_is_complete_passes(method: str, answer: Message) -> None:
    """An image that is not there is no mistake; otherwise nothing of it could be left out."""
    check_answer(method, answer)
    for field, _ in answer.ListFields():
        less = type(answer).FromString(answer.SerializeToString())
        less.ClearField(field.name)
        if method == "ImageStatus":
            check_answer(method, less)
        else:
            with pytest.raises(RpcError, match=field.name):
                check_answer(method, less)


BAD = [
    ("Version", cri.VersionResponse(version="1", runtime_name="n"), "runtime_version, runtime_api_version"),
    ("RunPodSandbox", cri.RunPodSandboxResponse(), "pod_sandbox_id"),
    ("CreateContainer", cri.CreateContainerResponse(), "container_id"),
    ("PodSandboxStatus", cri.PodSandboxStatusResponse(), "status"),
    (
        "PodSandboxStatus",
        cri.PodSandboxStatusResponse(status=cri.PodSandboxStatus(metadata=_META)),
        "status.id, status.created_at",
    ),
    ("ContainerStatus", cri.ContainerStatusResponse(), "status"),
    (
        "ContainerStatus",
        cri.ContainerStatusResponse(status=cri.ContainerStatus(id="a", metadata=cri.ContainerMetadata(name="n"))),
        "status.created_at, status.image.image, status.image_ref",
    ),
    ("ImageStatus", cri.ImageStatusResponse(image=cri.Image(id="a")), "image.size"),
    ("PullImage", cri.PullImageResponse(), "image_ref"),
    ("Status", cri.StatusResponse(), "status.conditions (at least 2)"),
    ("Exec", cri.ExecResponse(), "url"),
    ("Attach", cri.AttachResponse(), "url"),
    ("PortForward", cri.PortForwardResponse(), "url"),
]


@pytest.mark.parametrize(("method", "answer", "missing"), BAD)
def test_what_is_missing_is_named(method: str, answer: Message, missing: str) -> None:
    """With the method."""
    with pytest.raises(RpcError) as caught:
        check_answer(method, answer)
    assert caught.value.code is Code.INTERNAL
    assert caught.value.message == f"the runtime's answer to {method} lacks {missing}"
