"""dockerd as a CRI runtime: what becomes of answers, errors and silence, and what is remembered."""

import asyncio
import json
from typing import Any, cast

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.store.convert import container_of_status
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Reply
from interpose.relay.docker import cri_adapter
from interpose.relay.docker.connection import HttpReply
from interpose.relay.docker.cri_adapter import DockerAnswer, DockerRuntime, read_object
from interpose.relay.docker.upstream import DockerUpstream
from tests.support.docker.calls import ScriptedDocker, http_reply

POD, APP, HAND = "a" * 64, "b" * 64, "c" * 64
LABELS = {
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "shop",
    "io.kubernetes.pod.uid": "u-1",
}
OF_POD = {**LABELS, "io.kubernetes.docker.type": "podsandbox"}
OF_APP = {
    **LABELS,
    "io.kubernetes.docker.type": "container",
    "io.kubernetes.sandbox.id": POD,
    "io.kubernetes.container.name": "app",
}


def inspected(object_id: str, name: str, labels: dict[str, str]) -> HttpReply:
    """What dockerd tells about a container."""
    return http_reply(
        200,
        {
            "Id": object_id,
            "Name": f"/{name}",
            "State": {"Status": "running"},
            "Config": {"Labels": labels, "Env": ["A=1"]},
            "HostConfig": {"CgroupParent": "/kubepods/podu-1", "CpuShares": 512},
        },
    )


def listed(object_id: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """A row of a list."""
    return {"Id": object_id, "Names": [f"/{name}"], "Labels": labels, "State": "running", "Created": 1}


class Stage:
    """A runtime in front of a scripted dockerd that knows a pod, a container of it, and one made by hand."""

    def __init__(self) -> None:
        self.docker = ScriptedDocker()
        self.runtime = DockerRuntime(cast("DockerUpstream", self.docker))
        self.docker.answers |= {
            f"GET /containers/{POD}/json": inspected(POD, "k8s_POD_web_shop_u-1_0", OF_POD),
            f"GET /containers/{APP}/json": inspected(APP, "k8s_app_web_shop_u-1_2", OF_APP),
            f"GET /containers/{HAND}/json": inspected(HAND, "hand", {}),
            "GET /containers/json": http_reply(
                200,
                [
                    listed(POD, "k8s_POD_web_shop_u-1_0", OF_POD),
                    listed(APP, "k8s_app_web_shop_u-1_2", OF_APP),
                    listed(HAND, "hand", {}),
                ],
            ),
            f"POST /containers/{APP}/update": http_reply(200, {"Warnings": None}),
            "GET /version": http_reply(200, {"Version": "20.10.24", "ApiVersion": "1.41"}),
        }

    async def call(self, request: Any, timeout: float = 5.0) -> Reply:
        """A call by the class of its request."""
        name = type(request).__name__.removesuffix("Request")
        return await self.runtime.call(name, request.SerializeToString(), timeout)

    @property
    def lines(self) -> list[str]:
        """What dockerd was asked."""
        return [line.partition("?")[0] for line, _ in self.docker.asked]


@pytest.fixture
def stage() -> Stage:
    return Stage()


# -- the methods


async def test_lists_show_what_is_of_kubernetes(stage: Stage) -> None:
    """Sandboxes in one, containers in the other, nobody's in none."""
    pods = await stage.call(cri.ListPodSandboxRequest())
    assert [one.id for one in pods.response.items] == [POD]
    containers = await stage.call(cri.ListContainersRequest())
    assert [(one.id, one.pod_sandbox_id) for one in containers.response.containers] == [(APP, POD)]


async def test_statuses(stage: Stage) -> None:
    """Each of its own kind."""
    pod = await stage.call(cri.PodSandboxStatusRequest(pod_sandbox_id=POD, verbose=True))
    assert (pod.response.status.id, pod.response.status.metadata.name) == (POD, "web")
    app = await stage.call(cri.ContainerStatusRequest(container_id=APP, verbose=True))
    assert (app.response.status.id, app.response.status.metadata.attempt) == (APP, 2)


@pytest.mark.parametrize(
    "request_",
    [
        cri.PodSandboxStatusRequest(pod_sandbox_id=APP),
        cri.ContainerStatusRequest(container_id=POD),
        cri.ContainerStatusRequest(container_id=HAND),
        cri.ContainerStatusRequest(container_id="unknown"),
    ],
)
async def test_status_of_something_else_is_not_found(stage: Stage, request_: Any) -> None:
    """A container is no sandbox, and what is not Kubernetes' is neither."""
    assert (await stage.call(request_)).code == Code.NOT_FOUND


IMAGE = "sha256:" + "e" * 64


def of_image(stage: Stage, answer: HttpReply) -> None:
    """Let the container be made of an image, whose labels and variables dockerd mixes into its own."""
    labels = {**OF_APP, "annotation.interpose/requested": '{"cpu_shares":9}', "vendor": "acme"}
    document = json.loads(inspected(APP, "k8s_app_web_shop_u-1_2", labels).body) | {"Image": IMAGE}
    document["Config"]["Env"] = ["A=1", "PATH=/bin"]
    stage.docker.answers[f"GET /containers/{APP}/json"] = http_reply(200, document)
    stage.docker.answers[f"GET /images/{IMAGE}/json"] = answer


def image_says(labels: dict[str, str]) -> HttpReply:
    """What dockerd tells about the image."""
    return http_reply(200, {"Id": IMAGE, "Config": {"Labels": labels, "Env": ["PATH=/bin"]}})


async def test_an_image_does_not_speak_for_a_container(stage: Stage) -> None:
    """What came with the image is taken away: nobody may write our notes by building an image. Asked once."""
    of_image(stage, image_says({"annotation.interpose/requested": '{"cpu_shares":9}', "vendor": "acme"}))
    for _ in range(2):
        reply = await stage.call(cri.ContainerStatusRequest(container_id=APP, verbose=True))
        found = container_of_status(reply.body.data()) if reply.body is not None else None
        assert found is not None
        assert found.record.requested.cpu_shares == 512
        assert "vendor" not in found.record.labels
        assert found.record.envs == (("A", b"1"),)
    assert stage.lines.count(f"GET /images/{IMAGE}/json") == 1


async def test_image_that_is_gone(stage: Stage) -> None:
    """Its containers stay, with all that dockerd shows; and it may come back."""
    of_image(stage, http_reply(404, {"message": "No such image"}))
    reply = await stage.call(cri.ContainerStatusRequest(container_id=APP, verbose=True))
    assert (reply.code, reply.response.status.labels["vendor"]) == (Code.OK, "acme")
    of_image(stage, image_says({"annotation.interpose/requested": '{"cpu_shares":9}'}))
    reply = await stage.call(cri.ContainerStatusRequest(container_id=APP, verbose=True))
    assert "interpose/requested" not in reply.response.status.annotations


async def test_image_that_dockerd_does_not_tell(stage: Stage) -> None:
    """Then the status is not told either: half of it would be believed."""
    of_image(stage, http_reply(500, {"message": "layer store"}))
    reply = await stage.call(cri.ContainerStatusRequest(container_id=APP, verbose=True))
    assert (reply.code, reply.message) == (Code.UNKNOWN, "layer store")


async def test_images_are_remembered_up_to_a_bound(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest one is asked for again."""
    monkeypatch.setattr(cri_adapter, "_MOST_IMAGES", 1)
    of_image(stage, image_says({}))
    other = json.loads(inspected(POD, "k8s_POD_web_shop_u-1_0", OF_POD).body) | {"Image": "sha256:" + "f" * 64}
    stage.docker.answers[f"GET /containers/{POD}/json"] = http_reply(200, other)
    stage.docker.answers[f"GET /images/sha256:{'f' * 64}/json"] = image_says({})
    for _ in range(2):
        await stage.call(cri.ContainerStatusRequest(container_id=APP, verbose=True))
        await stage.call(cri.PodSandboxStatusRequest(pod_sandbox_id=POD, verbose=True))
    assert stage.lines.count(f"GET /images/{IMAGE}/json") == 2


async def test_update(stage: Stage) -> None:
    """What is set, and nothing else."""
    linux = cri.LinuxContainerResources(cpuset_cpus="0-1")
    reply = await stage.call(cri.UpdateContainerResourcesRequest(container_id=APP, linux=linux))
    assert reply.code == Code.OK
    assert stage.docker.asked == [(f"POST /containers/{APP}/update", b'{"CpusetCpus":"0-1"}')]


async def test_version(stage: Stage) -> None:
    """As dockerd says."""
    response = (await stage.call(cri.VersionRequest())).response
    assert (response.runtime_name, response.runtime_version, response.runtime_api_version) == (
        "docker",
        "20.10.24",
        "1.41",
    )


async def test_everything_else_is_unimplemented(stage: Stage) -> None:
    """And dockerd is not asked."""
    assert (await stage.call(cri.ExecSyncRequest())).code == Code.UNIMPLEMENTED
    assert not stage.docker.asked


# -- trouble


async def test_request_that_is_none(stage: Stage) -> None:
    """Nobody guesses."""
    reply = await stage.runtime.call("ContainerStatus", b"\xff", 1.0)
    assert reply.code == Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (http_reply(500, {"message": "boom"}), Code.UNKNOWN),
        (http_reply(409, {"message": "boom"}), Code.FAILED_PRECONDITION),
        (HttpReply(failure="boom"), Code.UNAVAILABLE),
        (HttpReply(), Code.UNAVAILABLE),
        (http_reply(200, {}), Code.INTERNAL),
        (http_reply(200, "no list"), Code.INTERNAL),
    ],
)
async def test_errors_have_codes(stage: Stage, answer: HttpReply, code: Code) -> None:
    """Whatever dockerd does instead of telling."""
    stage.docker.answers["GET /containers/json"] = answer
    reply = await stage.call(cri.ListContainersRequest())
    assert reply.code == code
    assert reply.message


async def test_silence_is_a_deadline_exceeded() -> None:
    """A call of ours waits no longer than it may."""

    class Silent:
        event_session = 1

        async def request(self, *_: object, **__: object) -> HttpReply:
            await asyncio.Event().wait()
            raise AssertionError

    cri_adapter = DockerRuntime(cast("DockerUpstream", Silent()))
    reply = await cri_adapter.call("ListContainers", b"", 0.001)
    assert reply.code == Code.DEADLINE_EXCEEDED


# -- whose container it is


async def test_whose(stage: Stage) -> None:
    """A sandbox, a container, nobody's, and what does not exist."""
    pod, app = await stage.runtime.find_identity(POD), await stage.runtime.find_identity(APP)
    assert pod is not None
    assert pod.sandbox
    assert app is not None
    assert (app.id, app.sandbox, app.sandbox_id) == (APP, False, POD)
    assert await stage.runtime.find_identity(HAND) is None
    assert await stage.runtime.find_identity("gone") is None


async def test_full_ids_of_kubernetes_are_remembered(stage: Stage) -> None:
    """Names and beginnings may mean another one the next time, and what is nobody's may be somebody's."""
    stage.docker.answers["GET /containers/name/json"] = stage.docker.answers[f"GET /containers/{APP}/json"]
    for ref in ("name", APP, HAND):
        first = await stage.runtime.find_identity(ref)
        assert await stage.runtime.find_identity(ref) == first
    assert stage.lines == ["GET /containers/name/json"] * 2 + [f"GET /containers/{HAND}/json"] * 2


async def test_an_answer_that_a_removal_overtook(stage: Stage) -> None:
    """Counts for the call that asked, and for no other."""

    class Overtaken(ScriptedDocker):
        async def request(self, method: str, target: str, body: bytes = b"", *, timeout: float) -> HttpReply:
            found = await super().request(method, target, body, timeout=timeout)
            overtaken.known.remove(APP)
            return found

    docker = Overtaken()
    docker.answers = stage.docker.answers
    overtaken = DockerRuntime(cast("DockerUpstream", docker))
    for number in (1, 2):
        assert await overtaken.find_identity(APP) is not None
        assert len(docker.asked) == number


# -- labels of images


async def test_labels_of_an_image(stage: Stage) -> None:
    """Asked for each time: its name may mean another one."""
    stage.docker.answers["GET /images/registry:5000/a/b@sha256:0%3F/json"] = image_says({"x": "y"})
    for _ in range(2):
        assert await stage.runtime.labels_of_image("registry:5000/a/b@sha256:0?") == {"x": "y"}
    assert len(stage.docker.asked) == 2


@pytest.mark.parametrize("status", [400, 404])
async def test_image_that_does_not_exist(stage: Stage, status: int) -> None:
    """dockerd tells the caller the same."""
    stage.docker.answers["GET /images/x/json"] = http_reply(status, {"message": "no such image"})
    assert await stage.runtime.labels_of_image("x") == {}


@pytest.mark.parametrize("answer", [HttpReply(failure="away"), http_reply(500, {"message": "x"}), http_reply(200, [])])
async def test_image_dockerd_does_not_tell_about(stage: Stage, answer: HttpReply) -> None:
    """Not knowing is not the same as none."""
    stage.docker.answers["GET /images/x/json"] = answer
    with pytest.raises(RpcError):
        await stage.runtime.labels_of_image("x")


async def test_lists_say_whose_containers_are(stage: Stage) -> None:
    """After a start no call has to wait for a look-up."""
    for _ in range(2):
        await stage.call(cri.ListPodSandboxRequest())
        await stage.call(cri.ListContainersRequest())
    stage.docker.asked.clear()
    pod, app = await stage.runtime.find_identity(POD), await stage.runtime.find_identity(APP)
    assert pod is not None
    assert app is not None
    assert (pod.sandbox, app.sandbox) == (True, False)
    assert not stage.docker.asked


@pytest.mark.parametrize("answer", [HttpReply(failure="away"), http_reply(500, {"message": "x"}), http_reply(200, [])])
async def test_dockerd_that_does_not_tell(stage: Stage, answer: HttpReply) -> None:
    """Not knowing is not the same as nobody's."""
    stage.docker.answers[f"GET /containers/{APP}/json"] = answer
    with pytest.raises(RpcError):
        await stage.runtime.find_identity(APP)


async def test_refs_are_quoted(stage: Stage) -> None:
    """No name gets at another path."""
    assert await stage.runtime.find_identity("a/../b?c\xff") is None
    assert stage.lines == ["GET /containers/a%2F..%2Fb%3Fc%FF/json"]


# -- answers


def test_answers_of_creates() -> None:
    """A conflict is about the name there."""
    conflict = DockerAnswer(http_reply(409, {"message": "in use"}))
    assert conflict.code(creating=True) is Code.ALREADY_EXISTS
    assert conflict.code() is Code.FAILED_PRECONDITION
    assert (conflict.message, conflict.failure) == ("in use", None)


def test_half_an_answer_is_a_failure() -> None:
    """Whatever its status says."""
    half = DockerAnswer(HttpReply(head=http_reply(201, {}).head, failure="lost"))
    assert (half.code(), half.message, half.failure) == (Code.UNAVAILABLE, "lost", "lost")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_no_object(body: bytes) -> None:
    """Reads as empty."""
    assert read_object(body) == {}
