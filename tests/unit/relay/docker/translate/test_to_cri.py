"""Which CRI call a call of Docker's API is."""

import threading
from typing import Any, cast

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.relay.docker.connection import HttpReply
from interpose.relay.docker.cri_adapter import DockerRuntime
from interpose.relay.docker.translate import create
from interpose.relay.docker.translate.json_edit import BodyTooLargeToReadError
from interpose.relay.docker.translate.labels import DockerIdentity
from interpose.relay.docker.translate.to_cri import CriCall, aside, to_cri_call
from interpose.relay.docker.upstream import DockerUpstream
from tests.support.docker.calls import ScriptedDocker, http_call, http_reply

POD, APP = "a" * 64, "b" * 64
TYPE = "io.kubernetes.docker.type"
FORM = "application/x-www-form-urlencoded"


async def nowhere(_request: bytes) -> HttpReply:
    """Nothing is sent on here."""
    raise AssertionError


class Stage:
    """A runtime that knows a pod and a container of it."""

    def __init__(self) -> None:
        self.docker = ScriptedDocker()
        self.runtime = DockerRuntime(cast("DockerUpstream", self.docker))
        self.runtime.known.add(DockerIdentity(id=POD, sandbox=True), self.runtime.known.mark())
        self.runtime.known.add(DockerIdentity(id=APP, sandbox=False), self.runtime.known.mark())

    async def becomes(self, line: str, document: Any = None, *, kind: str = "application/json") -> CriCall | None:
        """What the call is."""
        return await to_cri_call(http_call(line, document, nowhere, kind=kind), self.runtime)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        (f"POST /containers/{APP}/start", cri.StartContainerRequest(container_id=APP)),
        (f"POST /v1.41/containers/{APP}/restart?t=3", cri.StartContainerRequest(container_id=APP)),
        (f"POST /v1.24/containers/{APP}/stop?t=30", cri.StopContainerRequest(container_id=APP, timeout=30)),
        (f"POST /containers/{APP}/stop?t=-1", cri.StopContainerRequest(container_id=APP)),
        (f"POST /containers/{APP}/stop?t={'9' * 30}", cri.StopContainerRequest(container_id=APP, timeout=1 << 40)),
        (f"POST /containers/{APP}/stop?t={'0' * 5000}7", cri.StopContainerRequest(container_id=APP, timeout=7)),
        (f"POST /containers/{APP}/stop?t={'9' * 5000}", cri.StopContainerRequest(container_id=APP, timeout=1 << 40)),
        (f"POST /containers/{APP}/stop?t=0", cri.StopContainerRequest(container_id=APP)),
        (f"POST /containers/{APP}/kill", cri.StopContainerRequest(container_id=APP)),
        (f"POST /containers/{APP}/kill?signal=9", cri.StopContainerRequest(container_id=APP)),
        (f"DELETE /containers/{APP}?force=1", cri.RemoveContainerRequest(container_id=APP)),
        (f"POST /containers/{POD}/stop?t=10", cri.StopPodSandboxRequest(pod_sandbox_id=POD)),
        (f"POST /containers/{POD}/kill?signal=SIGKILL", cri.StopPodSandboxRequest(pod_sandbox_id=POD)),
        (f"DELETE /v1.41/containers/{POD}", cri.RemovePodSandboxRequest(pod_sandbox_id=POD)),
    ],
)
async def test_acts_on_what_is_known(stage: Stage, line: str, request_: Any) -> None:
    """By the id; how it is written does not matter."""
    made = await stage.becomes(line)
    assert made is not None
    assert made.methods == (type(request_).__name__.removesuffix("Request"),)
    assert type(request_).FromString(made.message) == request_
    assert not made.unreadable


@pytest.mark.parametrize(
    "line",
    [
        f"POST /containers/{POD}/start",
        f"POST /containers/{POD}/restart",
        f"POST /containers/{POD}/update",
        f"POST /containers/{APP}/kill?signal=HUP",
        f"POST /containers/{APP}/pause",
        "POST /containers/unknown/stop",
        "GET /containers/json",
    ],
)
async def test_what_passes(stage: Stage, line: str) -> None:
    """What has no counterpart, and what dockerd does not know."""
    assert await stage.becomes(line) is None


async def test_names_become_ids(stage: Stage) -> None:
    """Interceptors never see anything but a whole id."""
    labels = {TYPE: "container", "io.kubernetes.sandbox.id": POD}
    found = {"Id": APP, "Name": "/k8s_app", "Config": {"Labels": labels}}
    stage.docker.answers["GET /containers/k8s_app/json"] = http_reply(200, found)
    made = await stage.becomes("POST /containers/k8s_app/start")
    assert made is not None
    assert cri.StartContainerRequest.FromString(made.message).container_id == APP


async def test_container_of_somebody_else(stage: Stage) -> None:
    """Passes, and is asked about each time: the same letters may name another one tomorrow."""
    stage.docker.answers[f"GET /containers/{'c' * 64}/json"] = http_reply(200, {"Id": "c" * 64, "Config": {}})
    for _ in range(2):
        assert await stage.becomes(f"POST /containers/{'c' * 64}/stop") is None
    assert len(stage.docker.asked) == 2


# -- forms


@pytest.mark.parametrize(
    ("query", "form", "kills"),
    [("?signal=HUP", b"signal=KILL", True), ("?signal=KILL", b"signal=HUP", False), ("", b"signal=", True)],
)
async def test_signal_of_a_form_comes_first(stage: Stage, query: str, form: bytes, kills: bool) -> None:
    """As dockerd takes it."""
    made = await stage.becomes(f"POST /containers/{APP}/kill{query}", form, kind=FORM)
    assert (made is not None and made.methods == ("StopContainer",) and not made.unreadable) is kills
    assert made is not None or not kills


@pytest.mark.parametrize(("query", "form"), [("HUP", b"signal=KILL"), ("KILL", b"signal=HUP")])
async def test_form_that_go_may_not_read(stage: Stage, query: str, form: bytes) -> None:
    """Then nobody knows which signal it is."""
    made = await stage.becomes(f"POST /containers/{POD}/kill?signal={query}", form, kind=f"{FORM}; a=b; a=c")
    assert made is not None
    assert (made.methods, made.understood) == (("StopPodSandbox",), True)
    assert made.unreadable == "its form and its query have different signals"


async def test_grace_of_a_form(stage: Stage) -> None:
    """Comes first, too."""
    made = await stage.becomes(f"POST /containers/{APP}/stop?t=30", b"t=5", kind=FORM)
    assert made is not None
    assert cri.StopContainerRequest.FromString(made.message).timeout == 5


# -- starts with a body


async def test_start_with_a_body(stage: Stage) -> None:
    """It may set anew all that the container was created with."""
    made = await stage.becomes(f"POST /v1.23/containers/{APP}/start", {"CpuShares": 4000})
    assert made is not None
    assert made.methods == ("CreateContainer", "UpdateContainerResources", "StartContainer")
    assert made.unreadable
    assert made.understood
    made = await stage.becomes(f"POST /v1.23/containers/{POD}/start", {"CpuShares": 4000})
    assert made is not None
    assert made.methods == ("RunPodSandbox",)
    stage.docker.answers["GET /containers/some/json"] = HttpReply(failure="away")
    made = await stage.becomes("POST /v1.23/containers/some/start", {"CpuShares": 4000})
    assert made is not None
    assert made.methods == ("RunPodSandbox", "CreateContainer", "UpdateContainerResources", "StartContainer")


async def test_start_with_next_to_no_body(stage: Stage) -> None:
    """Is a start."""
    made = await stage.becomes(f"POST /containers/{APP}/start", {})
    assert made is not None
    assert made.methods == ("StartContainer",)


# -- whose it is


@pytest.mark.parametrize(
    ("line", "methods"),
    [
        ("POST /containers/some/start", ("StartContainer",)),
        ("POST /containers/some/update", ("UpdateContainerResources",)),
        ("POST /containers/some/stop", ("StopPodSandbox", "StopContainer")),
        ("DELETE /containers/some", ("RemovePodSandbox", "RemoveContainer")),
    ],
)
async def test_dockerd_does_not_say_whose_it_is(stage: Stage, line: str, methods: tuple[str, ...]) -> None:
    """Then it may be anybody's: those who must see all such calls hear of it, without a name to go by."""
    stage.docker.answers["GET /containers/some/json"] = HttpReply(failure="away")
    made = await stage.becomes(line)
    assert made is not None
    assert made.methods == methods
    assert made.unreadable == "dockerd does not say whose container it is: UNAVAILABLE: away"
    assert not made.message


# -- bodies


async def test_create_of_a_sandbox_and_of_a_container(stage: Stage) -> None:
    """By their labels."""
    line = "POST /v1.41/containers/create?name=k8s_POD_web_shop_u-1_0"
    pod = await stage.becomes(line, {"Labels": {TYPE: "podsandbox"}, "HostConfig": {"CgroupParent": "/kubepods/x"}})
    assert pod is not None
    assert pod.methods == ("RunPodSandbox",)
    request = cri.RunPodSandboxRequest.FromString(pod.message)
    assert (request.config.metadata.name, request.config.linux.cgroup_parent) == ("web", "/kubepods/x")
    labels = {TYPE: "container", "io.kubernetes.sandbox.id": POD}
    app = await stage.becomes("POST /containers/create?name=k8s_app_web_shop_u-1_3", {"Labels": labels})
    assert app is not None
    assert app.methods == ("CreateContainer",)
    made = cri.CreateContainerRequest.FromString(app.message)
    assert (made.pod_sandbox_id, made.config.metadata.name, made.config.metadata.attempt) == (POD, "app", 3)


async def test_edits_of_a_create(stage: Stage) -> None:
    """From what left the chain to what dockerd gets."""
    labels = {TYPE: "container", "io.kubernetes.sandbox.id": POD}
    made = await stage.becomes("POST /containers/create", {"Labels": labels, "HostConfig": {"CpuShares": 2}})
    assert made is not None
    assert made.edit is not None
    after = cri.CreateContainerRequest.FromString(made.message)
    after.config.linux.resources.cpu_shares = 512
    assert b'"HostConfig": {"CpuShares": 512}' in made.edit(after).body


async def test_update(stage: Stage) -> None:
    """And its edits."""
    made = await stage.becomes(f"POST /containers/{APP}/update", {"CpuShares": 2})
    assert made is not None
    assert made.edit is not None
    after = cri.UpdateContainerResourcesRequest.FromString(made.message)
    assert (after.container_id, after.linux.cpu_shares) == (APP, 2)
    after.linux.cpu_shares = 512
    assert made.edit(after).body == b'{"CpuShares": 512}'


async def test_create_by_hand(stage: Stage) -> None:
    """Passes; the labels of its image are looked at, if it has one."""
    assert await stage.becomes("POST /containers/create", {"Labels": {"app": "x"}}) is None
    assert not stage.docker.asked
    stage.docker.answers["GET /images/plain/json"] = http_reply(
        200, {"Id": "sha256:0", "Config": {"Labels": {"vendor": "acme"}}}
    )
    for image in ("plain", "missing"):
        assert await stage.becomes("POST /containers/create", {"Image": image}) is None
    assert [line for line, _ in stage.docker.asked] == ["GET /images/plain/json", "GET /images/missing/json"]


async def test_create_that_is_of_kubernetes_by_its_image(stage: Stage) -> None:
    """dockerd gives containers the labels of their image, so these say whose it is, and nothing else."""
    labels = {TYPE: "container", "io.kubernetes.sandbox.id": POD, "annotation.x": "forged"}
    stage.docker.answers["GET /images/forged/json"] = http_reply(200, {"Id": "sha256:0", "Config": {"Labels": labels}})
    line = "POST /containers/create?name=k8s_app_web_shop_u-1_0"
    made = await stage.becomes(line, {"Image": "forged", "Labels": {"own": "y"}})
    assert made is not None
    assert made.methods == ("CreateContainer",)
    request = cri.CreateContainerRequest.FromString(made.message)
    assert (request.pod_sandbox_id, request.config.metadata.name) == (POD, "app")
    assert dict(request.config.labels) == {"own": "y"}
    assert not request.config.annotations


async def test_create_with_labels_against_those_of_its_image(stage: Stage) -> None:
    """Its own come first."""
    stage.docker.answers["GET /images/forged/json"] = http_reply(
        200, {"Id": "sha256:0", "Config": {"Labels": {TYPE: "container"}}}
    )
    assert await stage.becomes("POST /containers/create", {"Image": "forged", "Labels": {TYPE: "mine"}}) is None


async def test_dockerd_does_not_say_what_labels_the_image_has(stage: Stage) -> None:
    """Then it may be anybody's."""
    stage.docker.answers["GET /images/x/json"] = HttpReply(failure="away")
    made = await stage.becomes("POST /containers/create", {"Image": "x"})
    assert made is not None
    assert made.methods == ("RunPodSandbox", "CreateContainer")
    assert made.unreadable == "dockerd does not say which labels the image has: UNAVAILABLE: away"
    assert not made.understood


@pytest.mark.parametrize("body", [b'{"Image":"a","image":"b"}', b'{"Image":"a"} more', b'{"Image":"a"'])
async def test_create_whose_image_is_not_sure(stage: Stage, body: bytes) -> None:
    """dockerd may see another one."""
    made = await stage.becomes("POST /containers/create", body)
    assert made is not None
    assert made.unreadable
    assert made.understood


@pytest.mark.parametrize("line", ["POST /containers/create", f"POST /containers/{APP}/update"])
async def test_body_that_is_too_large(stage: Stage, line: str) -> None:
    """Nobody looks at it, and it does not pass."""
    body = b'{"Labels":{"io.kubernetes.docker.type":"container"}}' + b" " * (4 << 20)
    with pytest.raises(BodyTooLargeToReadError):
        await stage.becomes(line, body)


async def test_create_that_may_be_of_kubernetes(stage: Stage) -> None:
    """A body dockerd may understand and we do not: every hook server that must see pods or containers counts."""
    body = b'{"Labels":{"io.kubernetes.docker.type":"container"},"labels":{}}'
    made = await stage.becomes("POST /containers/create", body)
    assert made is not None
    assert made.methods == ("RunPodSandbox", "CreateContainer")
    assert made.unreadable


async def test_update_that_cannot_be_read(stage: Stage) -> None:
    """Of a container of Kubernetes."""
    made = await stage.becomes(f"POST /containers/{APP}/update", b'{"CpuShares":1,"cpushares":2}')
    assert made is not None
    assert made.methods == ("UpdateContainerResources",)
    assert made.unreadable


@pytest.mark.parametrize(("count", "elsewhere"), [(10, False), (20_000, True)])
async def test_large_bodies_are_read_and_edited_aside(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, count: int, elsewhere: bool
) -> None:
    """Others are served meanwhile; small ones, as nearly all are, are not worth a thread."""
    threads: list[int] = []
    read, fill, edited = create.read_create, create.CreateBody.fill, create.CreateBody.edited

    def noted(work: Any) -> Any:
        def run(*args: Any) -> Any:
            threads.append(threading.get_ident())
            return work(*args)

        return run

    monkeypatch.setattr(create, "read_create", noted(read))
    monkeypatch.setattr(create.CreateBody, "fill", noted(fill))
    monkeypatch.setattr(create.CreateBody, "edited", noted(edited))
    document = {"Labels": {TYPE: "container"}, "Env": [f"A{number}=1" for number in range(count)]}
    call = http_call("POST /containers/create?name=k8s_app_web_shop_u-1_0", document, nowhere)
    made = await to_cri_call(call, stage.runtime)
    assert made is not None
    assert made.edit is not None
    request, edit = cri.CreateContainerRequest.FromString(made.message), made.edit
    assert len(request.config.envs) == count
    request.config.linux.resources.cpu_shares = 7
    changed = await aside(call.body, lambda: edit(request))
    assert b'"CpuShares":7' in changed.body
    assert len(threads) == 3
    assert all((one != threading.get_ident()) is elsewhere for one in threads)
