"""Pods and containers of a node, as old calls tell of them."""

from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import ContainerState
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.store.requested import ANNOTATION
from interpose.net.grpc.status import Code
from interpose.resmgr.whatif.events import ReplyEvent, RequestEvent
from interpose.resmgr.whatif.node_history import NodeHistory
from interpose.testing.pods import pod_config, run_request
from tests.support.policy.recalled_node import create_of


class Teller:
    """Tells a node of calls, each asked and answered at once."""

    def __init__(self) -> None:
        self.node = NodeHistory()

    def call(self, method: str, request: Any, reply: Any = None, *, mark: int | None = None, **more: Any) -> None:
        """One of them; `mark` is when it was asked, now unless said."""
        asked = RequestEvent(number=1, time_ns=0, method=method, request=request.SerializeToString())
        data = None if reply is None else reply.SerializeToString()
        since = self.node.store.mark() if mark is None else mark
        self.node.on_reply(asked, ReplyEvent(number=1, time_ns=0, reply=data, **more), since)

    def pod(self, name: str = "web", **more: Any) -> None:
        """A pod whose id is its name."""
        reply = cri.RunPodSandboxResponse(pod_sandbox_id=name)
        self.call("RunPodSandbox", run_request(pod_config(name)), reply, **more)

    def container(self, container_id: str = "c1", pod: str = "web") -> None:
        """One that runs, from before."""
        self.call("ContainerStatus", cri.ContainerStatusRequest(), status(container_id, pod))

    def event(self, ref: str, kind: Any) -> None:
        """Something happened to a container or pod."""
        asked = RequestEvent(number=1, time_ns=0, method="GetContainerEvents")
        event = cri.ContainerEventResponse(container_id=ref, container_event_type=kind)
        self.node.on_message(asked, event.SerializeToString(), self.node.store.mark())

    def state(self) -> ContainerState | None:
        found = self.node.store.containers.get("c1")
        return None if found is None else found.state


def status(container_id: str, pod: str, state: Any = cri.CONTAINER_RUNNING) -> cri.ContainerStatusResponse:
    """The status of a container; without a pod it is not verbose."""
    reply = cri.ContainerStatusResponse(info={"info": f'{{"sandboxID": "{pod}"}}'} if pod else {})
    reply.status.id = container_id
    reply.status.state = state
    return reply


def pod_status(ready: bool = True, pod_id: str = "web") -> cri.PodSandboxStatusResponse:
    """The status of a pod."""
    state = cri.SANDBOX_READY if ready else cri.SANDBOX_NOTREADY
    return cri.PodSandboxStatusResponse(status=cri.PodSandboxStatus(id=pod_id, state=state))


def pods(*ready: bool) -> cri.ListPodSandboxResponse:
    """A list with the pod."""
    state = {True: cri.SANDBOX_READY, False: cri.SANDBOX_NOTREADY}
    return cri.ListPodSandboxResponse(items=[cri.PodSandbox(id="web", state=state[one]) for one in ready])


@pytest.fixture
def teller() -> Teller:
    """A pod with a container that runs."""
    teller = Teller()
    teller.pod()
    teller.container()
    return teller


def test_a_pod_is_as_the_runtime_got_it() -> None:
    """Its annotations may be those of hook servers; what was asked for is known as well."""
    teller = Teller()
    sent = run_request(pod_config("web", annotations={"a": "b"}, qos="besteffort"))
    teller.pod(forwarded=sent.SerializeToString())
    pod = teller.node.store.pods["web"]
    assert pod.annotations["a"] == "b"
    assert pod.annotations.keys() == {"a", ANNOTATION}  # the relay notes what was requested
    assert "besteffort" in pod.cgroup_parent
    assert "burstable" in pod.requested_cgroup_parent


@pytest.mark.parametrize("code", [Code.INTERNAL, Code.NOT_FOUND])
def test_a_pod_that_was_not_made_is_none(code: Code) -> None:
    """Neither is one of which nobody kept the id."""
    teller = Teller()
    teller.pod(code=code)
    teller.call("RunPodSandbox", run_request(pod_config("web")))
    assert not teller.node.store.pods


@pytest.mark.parametrize("method", ["StartContainer", "StopContainer", "Version"])
def test_what_happens_to_nobody_changes_nothing(method: str) -> None:
    """The container is not known, or the call is about none."""
    teller = Teller()
    teller.call(method, getattr(cri, f"{method}Request")(**({"container_id": "x"} if method != "Version" else {})))
    asked = RequestEvent(number=1, time_ns=0, method=method)
    teller.node.on_message(asked, b"", 0)
    assert not teller.node.store.containers


def test_starting_counts_if_it_worked(teller: Teller) -> None:
    """A container that the runtime does not know is not running."""
    teller.node.store.put_pod(teller.node.store.pods["web"])
    teller.call("StopContainer", cri.StopContainerRequest(container_id="c1"))
    teller.call("StartContainer", cri.StartContainerRequest(container_id="c1"), code=Code.NOT_FOUND)
    assert teller.state() is ContainerState.EXITED
    teller.call("StartContainer", cri.StartContainerRequest(container_id="c1"))
    assert teller.state() is ContainerState.RUNNING


def test_a_start_without_an_outcome_leaves_the_state_unknown(teller: Teller) -> None:
    """As in a relay: the container may run. A reply that cannot be read is no outcome either, and raises."""
    request = cri.StartContainerRequest(container_id="c1")
    teller.call("StartContainer", request, code=Code.UNAVAILABLE)
    assert teller.state() is ContainerState.UNKNOWN
    teller.call("StartContainer", request)
    assert teller.state() is ContainerState.RUNNING
    event = RequestEvent(number=1, time_ns=0, method="StartContainer", request=request.SerializeToString())
    with pytest.raises(UnreadableMessageError):
        teller.node.on_reply(event, ReplyEvent(number=1, time_ns=0, reply=b"\xff"), 0)
    assert teller.state() is ContainerState.UNKNOWN


def test_a_create_in_a_pod_that_is_gone_leaves_no_record() -> None:
    """There is no runtime that could be asked which pod it is in."""
    teller = Teller()
    request = create_of(("web", pod_config("web")), 100)
    teller.call("CreateContainer", request, cri.CreateContainerResponse(container_id="c1"))
    assert teller.state() is None
    teller.pod()
    teller.call("CreateContainer", request, cri.CreateContainerResponse(container_id="c1"))
    assert teller.state() is ContainerState.CREATED


def test_a_container_that_is_not_there_to_be_stopped_is_gone(teller: Teller) -> None:
    """A failure is none."""
    teller.call("StopContainer", cri.StopContainerRequest(container_id="c1"), code=Code.INTERNAL)
    assert teller.state() is ContainerState.RUNNING
    teller.call("StopContainer", cri.StopContainerRequest(container_id="c1"), code=Code.NOT_FOUND)
    assert teller.state() is None


def test_a_pod_goes_with_its_containers(teller: Teller) -> None:
    """Stopped they are still there, removed they are not."""
    teller.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="web"))
    assert teller.state() is ContainerState.EXITED
    assert not teller.node.store.pods["web"].ready
    teller.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id="web"))
    assert teller.state() is None
    teller.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="web"))
    assert not teller.node.store.pods


def test_containers_in_lists_are_strangers_until_somebody_tells_more() -> None:
    """As long as they run, and their pod does."""
    teller = Teller()
    running, exited = cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED

    def seen(*containers: tuple[str, str, Any]) -> set[str]:
        items = [cri.Container(id=one, pod_sandbox_id=pod, state=state) for one, pod, state in containers]
        teller.call("ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse(containers=items))
        return set(teller.node.unknown)

    everybody = [(one, f"p{one}", running) for one in ("1", "2", "3", "4", "5")]
    assert seen(*everybody, ("6", "p", exited)) == {"1", "2", "3", "4", "5"}
    assert seen(*everybody[:4], ("5", "p5", exited)) == {"1", "2", "3", "4"}
    assert seen(*everybody[:3]) == {"1", "2", "3"}
    teller.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id="p3"))
    teller.event("2", cri.CONTAINER_STOPPED_EVENT)
    teller.call("ContainerStatus", cri.ContainerStatusRequest(), status("1", ""))
    assert not teller.node.unknown
    assert teller.node.store.containers["1"].pod_id == "p1"
    assert teller.node.guessed == {"1", "p1"}


@pytest.mark.parametrize(
    "reply", [status("c1", ""), status("", "web"), status("c1", "web", cri.CONTAINER_EXITED)], ids=str
)
def test_a_status_that_says_too_little_tells_nothing(reply: cri.ContainerStatusResponse) -> None:
    """No pod, no id, or it has ended long since."""
    teller = Teller()
    teller.call("ContainerStatus", cri.ContainerStatusRequest(), reply)
    assert not teller.node.store.containers


def test_lists_tell_that_pods_stop_and_go(teller: Teller) -> None:
    """Those that were asked for since the pod came; pieces of a stream are no whole list."""
    node = teller.node
    teller.call("ListPodSandbox", cri.ListPodSandboxRequest(), pods(), mark=0)
    assert "web" in node.store.pods
    node.on_message(RequestEvent(number=1, time_ns=0, method="StreamPodSandboxes"), b"", node.store.mark())
    assert "web" in node.store.pods
    teller.call("ListPodSandbox", cri.ListPodSandboxRequest(), pods(False), mark=0)
    assert node.store.pods["web"].ready
    for ready in (False, True):
        teller.call("ListPodSandbox", cri.ListPodSandboxRequest(), pods(ready))
        assert node.store.pods["web"].ready is ready
    teller.call("ListPodSandbox", cri.ListPodSandboxRequest(), pods())
    assert teller.state() is None


def test_the_status_of_a_pod_tells_of_it() -> None:
    """First that it is there, then that it stopped."""
    teller = Teller()
    for reply, ready in ((pod_status(), True), (pod_status(False), False), (pod_status(False), False)):
        teller.call("PodSandboxStatus", cri.PodSandboxStatusRequest(), reply)
        assert teller.node.store.pods["web"].ready is ready
    teller.call("PodSandboxStatus", cri.PodSandboxStatusRequest(), pod_status(pod_id=""))
    teller.call("PodSandboxStatus", cri.PodSandboxStatusRequest(), pod_status(), mark=0)
    assert teller.node.guessed == {"web"}
    assert [pod.ready for pod in teller.node.store.pods.values()] == [False]


def test_events_tell_what_happens(teller: Teller) -> None:
    """Of containers and of pods; one that nobody knows is no matter."""
    teller.event("c1", cri.CONTAINER_STOPPED_EVENT)
    assert teller.state() is ContainerState.EXITED
    teller.event("c1", cri.CONTAINER_DELETED_EVENT)
    teller.event("c1", cri.CONTAINER_DELETED_EVENT)
    assert teller.state() is None
    teller.call("ContainerStatus", cri.ContainerStatusRequest(), status("c1", "web", cri.CONTAINER_CREATED))
    teller.event("c1", cri.CONTAINER_CREATED_EVENT)
    assert teller.state() is ContainerState.CREATED
    teller.event("c1", cri.CONTAINER_STARTED_EVENT)
    assert teller.state() is ContainerState.RUNNING
    teller.event("web", cri.CONTAINER_STOPPED_EVENT)
    assert not teller.node.store.pods["web"].ready
    teller.event("web", cri.CONTAINER_DELETED_EVENT)
    assert not teller.node.store.pods


def test_the_pod_of_a_create_is_the_one_that_is_known(teller: Teller) -> None:
    """Otherwise the one that the request repeats."""
    node = teller.node
    known = node.pod_of_create(create_of(("web", pod_config("other")), 100))
    assert known.name == "web"
    guessed = node.pod_of_create(create_of(("p2", pod_config("other")), 100))
    assert (guessed.id, guessed.name) == ("p2", "other")
    assert "p2" in node.guessed
