"""Whom a call is about."""

import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.model.call import NO_SUBJECT, Flow, Subject
from interpose.dump.model.frames import Flags, Message, MessageSide, Packing
from interpose.dump.model.subject import CONTAINERS_IN_REPLIES, PODS_IN_REPLIES, REPLIES, REQUESTS, Subjects

POD = cri.PodSandboxMetadata(name="web-0", uid="u1", namespace="shop")
POD_CONFIG = cri.PodSandboxConfig(metadata=POD)
APP = cri.ContainerMetadata(name="app")
LABELS = {
    "io.kubernetes.pod.name": "web-0",
    "io.kubernetes.pod.namespace": "shop",
    "io.kubernetes.pod.uid": "u1",
}
IMAGE = cri.ImageSpec(image="busybox")


def flow(name: str) -> Flow:
    """A call that has just begun."""
    path = METHODS[name].paths[0] if name in METHODS else f"/x/{name}"
    return Flow(number=1, time=0, path=path, origin="client", pid=0, uid=0, flags=Flags.NONE, metadata=())


def frame(message: Any, side: MessageSide) -> Message:
    """A message of it."""
    body = message if isinstance(message, bytes) else message.SerializeToString()
    return Message(number=1, at=0, side=side, size=len(body), body=body)


def call(subjects: Subjects, name: str, request: Any = None, *replies: Any) -> Subject:
    """Whom a call is about when it is over."""
    one = flow(name)
    method = METHODS[name]
    one.subject = subjects.identify(
        one, frame(getattr(cri, method.request)() if request is None else request, MessageSide.REQUEST)
    )
    for reply in replies:
        one.subject = subjects.identify(one, frame(reply, MessageSide.REPLY))
    return one.subject


def running() -> Subjects:
    """A pod was run, with one container in it."""
    subjects = Subjects()
    call(
        subjects,
        "RunPodSandbox",
        cri.RunPodSandboxRequest(config=POD_CONFIG),
        cri.RunPodSandboxResponse(pod_sandbox_id="p1"),
    )
    call(
        subjects,
        "CreateContainer",
        cri.CreateContainerRequest(pod_sandbox_id="p1", config=cri.ContainerConfig(metadata=APP, image=IMAGE)),
        cri.CreateContainerResponse(container_id="c1"),
    )
    return subjects


def test_every_path_of_the_tables_is_in_the_messages() -> None:
    """A name that is not there would only be noticed when such a call comes."""
    tables: list[tuple[Mapping[str, Any], str]] = [(REQUESTS, "request"), (REPLIES, "response")]
    tables += [(PODS_IN_REPLIES, "response"), (CONTAINERS_IN_REPLIES, "response")]
    for table, side in tables:
        for name, paths in table.items():
            for path in [paths] if isinstance(paths, str) else paths.values():
                descriptor = getattr(cri, getattr(METHODS[name], side)).DESCRIPTOR
                for part in path.split("."):
                    assert part in descriptor.fields_by_name, (name, path)
                    descriptor = descriptor.fields_by_name[part].message_type


def test_running_a_pod_is_about_the_pod_from_its_request_on() -> None:
    """Its id comes with the reply."""
    subjects = Subjects()
    request = cri.RunPodSandboxRequest(config=POD_CONFIG)
    assert call(subjects, "RunPodSandbox", request) == Subject(namespace="shop", pod="web-0", pod_uid="u1")
    reply = cri.RunPodSandboxResponse(pod_sandbox_id="p1")
    assert call(subjects, "RunPodSandbox", request, reply).pod_id == "p1"


def test_creating_a_container_is_about_it_and_its_pod() -> None:
    """The pod is known by its id, or by what the request says of it."""
    config = cri.ContainerConfig(metadata=APP, image=IMAGE)
    request = cri.CreateContainerRequest(pod_sandbox_id="p1", config=config, sandbox_config=POD_CONFIG)
    subject = call(Subjects(), "CreateContainer", request)
    assert (str(subject), subject.image, subject.pod_id) == ("shop/web-0:app", "busybox", "p1")
    request.ClearField("sandbox_config")
    assert str(call(running(), "CreateContainer", request)) == "shop/web-0:app"


@pytest.mark.parametrize("name", sorted(name for name, row in REQUESTS.items() if row == {"pod_id": "pod_sandbox_id"}))
def test_a_call_with_the_id_of_a_pod_is_about_it(name: str) -> None:
    """By name."""
    request = getattr(cri, METHODS[name].request)(pod_sandbox_id="p1")
    assert str(call(running(), name, request)) == "shop/web-0"


@pytest.mark.parametrize(
    "name", sorted(name for name, row in REQUESTS.items() if row == {"container_id": "container_id"})
)
def test_a_call_with_the_id_of_a_container_is_about_it(name: str) -> None:
    """By name."""
    request = getattr(cri, METHODS[name].request)(container_id="c1")
    assert str(call(running(), name, request)) == "shop/web-0:app"


@pytest.mark.parametrize("name", ["PullImage", "ImageStatus", "RemoveImage"])
def test_a_call_about_an_image_is_about_that(name: str) -> None:
    """It has no pod."""
    request = getattr(cri, METHODS[name].request)(image=IMAGE)
    assert call(running(), name, request) == Subject(image="busybox")


def test_an_image_that_is_pulled_for_a_pod_is_about_both() -> None:
    """The kubelet says for whom."""
    request = cri.PullImageRequest(image=IMAGE, sandbox_config=POD_CONFIG)
    subject = call(Subjects(), "PullImage", request)
    assert (str(subject), subject.image) == ("shop/web-0", "busybox")


def test_a_list_is_about_nobody_unless_it_has_a_filter() -> None:
    """Then it is about the one that was asked for."""
    subjects = running()
    listed = cri.ListContainersResponse(containers=[cri.Container(id="c1", metadata=APP)])
    assert call(subjects, "ListContainers", None, listed) == NO_SUBJECT
    by_id = cri.ListContainersRequest(filter=cri.ContainerFilter(id="c1"))
    assert str(call(subjects, "ListContainers", by_id)) == "shop/web-0:app"
    by_pod = cri.ListContainersRequest(filter=cri.ContainerFilter(pod_sandbox_id="p1"))
    assert str(call(subjects, "ListContainers", by_pod)) == "shop/web-0"


def _stats(kind: Any, **more: Any) -> Any:
    return kind(attributes=more)


_POD: dict[str, Any] = {"id": "p1", "metadata": POD}
_CONTAINER: dict[str, Any] = {"id": "c1", "metadata": APP, "labels": LABELS}


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("ListPodSandbox", cri.ListPodSandboxResponse(items=[_POD])),
        ("StreamPodSandboxes", cri.StreamPodSandboxesResponse(pod_sandboxes=[_POD])),
        ("PodSandboxStatus", cri.PodSandboxStatusResponse(status=_POD)),
        ("GetContainerEvents", cri.ContainerEventResponse(pod_sandbox_status=_POD)),
        ("PodSandboxStats", cri.PodSandboxStatsResponse(stats=_stats(cri.PodSandboxStats, **_POD))),
        ("ListPodSandboxStats", cri.ListPodSandboxStatsResponse(stats=[_stats(cri.PodSandboxStats, **_POD)])),
        (
            "StreamPodSandboxStats",
            cri.StreamPodSandboxStatsResponse(pod_sandbox_stats=[_stats(cri.PodSandboxStats, **_POD)]),
        ),
    ],
)
def test_replies_tell_the_names_of_pods(name: str, reply: Any) -> None:
    """A relay that was started later knows them all the same."""
    subjects = Subjects()
    call(subjects, name, None, reply, reply)
    assert str(call(subjects, "StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="p1"))) == "shop/web-0"


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("ListContainers", cri.ListContainersResponse(containers=[_CONTAINER])),
        ("StreamContainers", cri.StreamContainersResponse(containers=[_CONTAINER])),
        ("ContainerStatus", cri.ContainerStatusResponse(status=_CONTAINER)),
        (
            "PodSandboxStatus",
            cri.PodSandboxStatusResponse(status=_POD, containers_statuses=[{"id": "c1", "metadata": APP}]),
        ),
        (
            "GetContainerEvents",
            cri.ContainerEventResponse(pod_sandbox_status=_POD, containers_statuses=[{"id": "c1", "metadata": APP}]),
        ),
        ("ContainerStats", cri.ContainerStatsResponse(stats=_stats(cri.ContainerStats, **_CONTAINER))),
        ("ListContainerStats", cri.ListContainerStatsResponse(stats=[_stats(cri.ContainerStats, **_CONTAINER)])),
        (
            "StreamContainerStats",
            cri.StreamContainerStatsResponse(container_stats=[_stats(cri.ContainerStats, **_CONTAINER)]),
        ),
    ],
)
def test_replies_tell_the_names_of_containers(name: str, reply: Any) -> None:
    """With those of their pod, from labels or from the pod beside them."""
    subjects = Subjects()
    call(subjects, name, None, reply, reply)
    request = cri.StopContainerRequest(container_id="c1")
    assert str(call(subjects, "StopContainer", request)) == "shop/web-0:app"


def test_a_state_names_the_one_it_was_asked_for() -> None:
    """When the reply is there."""
    request = cri.ContainerStatusRequest(container_id="c1")
    reply = cri.ContainerStatusResponse(status=_CONTAINER)
    assert str(call(Subjects(), "ContainerStatus", request)) == "c1"
    assert str(call(Subjects(), "ContainerStatus", request, reply)) == "shop/web-0:app"


def test_a_restored_pod_tells_its_containers() -> None:
    """One call makes them all."""
    subjects = Subjects()
    reply = cri.RestorePodResponse(
        pod_sandbox_id="p1", restored_containers=[cri.RestoredContainer(name="app", container_id="c1")]
    )
    call(subjects, "RestorePod", cri.RestorePodRequest(config=POD_CONFIG), reply)
    request = cri.StopContainerRequest(container_id="c1")
    assert str(call(subjects, "StopContainer", request)) == "shop/web-0:app"


def test_a_removed_container_stays_known() -> None:
    """Somebody asks for it once more, as a rule."""
    subjects = running()
    request = cri.RemoveContainerRequest(container_id="c1")
    call(subjects, "RemoveContainer", request, cri.RemoveContainerResponse())
    assert str(call(subjects, "RemoveContainer", request)) == "shop/web-0:app"


@pytest.mark.parametrize("name", ["Version", "MakeCoffee"])
def test_other_calls_are_about_nobody(name: str) -> None:
    """Those about the node, and those nobody knows."""
    one = flow(name)
    assert Subjects().identify(one, frame(b"\xff", MessageSide.REQUEST)) == NO_SUBJECT
    assert Subjects().identify(one, frame(b"\xff", MessageSide.REPLY)) == NO_SUBJECT


@pytest.mark.parametrize("side", [MessageSide.FORWARDED, MessageSide.RECEIVED])
def test_what_was_changed_on_the_way_tells_nothing_new(side: MessageSide) -> None:
    """What the caller said and got counts."""
    one = flow("RunPodSandbox")
    one.subject = Subject(pod="mine")
    assert Subjects().identify(one, frame(cri.RunPodSandboxRequest(config=POD_CONFIG), side)) == Subject(pod="mine")


@pytest.mark.parametrize(
    "message",
    [
        frame(b"\xff\xff", MessageSide.REQUEST),
        frame(b"\xff\xff", MessageSide.REPLY),
        Message(number=1, at=0, side=MessageSide.REQUEST, packing=Packing.ABSENT, size=3, body=b"not kept"),
        Message(number=1, at=0, side=MessageSide.REPLY, packing=Packing.ZLIB, size=3, body=zlib.compress(b"x")),
    ],
)
def test_a_message_that_cannot_be_read_changes_nothing(message: Message) -> None:
    """And does not fail."""
    one = flow("RunPodSandbox")
    one.subject = Subject(pod="mine")
    assert Subjects().identify(one, message) == Subject(pod="mine")


def test_what_is_known_goes_on_to_the_next_file() -> None:
    """A reader who begins there knows as much."""
    later = Subjects()
    later.learn(running().context())
    assert str(call(later, "StopContainer", cri.StopContainerRequest(container_id="c1"))) == "shop/web-0:app"
