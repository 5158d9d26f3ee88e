"""What single calls mean for the records, where the whole path does not show it."""

from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import LinuxResources
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.cri.store.pending import PendingCreates
from interpose.cri.store.requested import ANNOTATION
from interpose.cri.store.store import Store
from interpose.relay.api import CLIENT, Body, Call
from interpose.relay.store_updates import STORE_UPDATES, StoreUpdate


class Asked:
    """Notes what a synchronizer would be asked for."""

    def __init__(self) -> None:
        self.learned: list[str] = []
        self.refreshed: list[str] = []
        self.settles = 0

    def look_up_soon(self, *, pods: tuple[str, ...] = (), containers: tuple[str, ...] = ()) -> None:
        """Look up."""
        self.learned += [*pods, *containers]

    def refresh_soon(self, ref: str) -> None:
        """Look again."""
        self.refreshed.append(ref)

    def settle_soon(self) -> None:
        """Settle."""
        self.settles += 1


def step_of(
    store: Store, request: Any, *, asked: Any = None, origin: str = CLIENT, alone: bool = False
) -> tuple[StoreUpdate, Asked]:
    """The step of a request that came as `asked` and is sent as `request`."""
    name = type(request).__name__.removesuffix("Request")
    body = Body((asked or request).SerializeToString(), CriParser(f"{name}Request"))
    body.message.CopyFrom(request)
    call = Call(method=METHODS[name], path=b"", body=body, origin=origin, alone=alone)
    sync: Any = Asked()
    return STORE_UPDATES[name](store, sync, call), sync


def store_with(state: ContainerState = ContainerState.CREATED) -> Store:
    """A pod and a container."""
    store = Store(pending=PendingCreates(most=1))
    store.put_pod(Pod(id="p1", uid="u1"))
    store.put_container(Container(id="c1", pod_id="p1", name="app", state=state))
    return store


def test_container_that_never_ran_does_not_end() -> None:
    """Runtimes leave it as it is."""
    store = store_with()
    step_of(store, cri.StopContainerRequest(container_id="c1"))[0].on_success(None)
    step_of(store, cri.StopPodSandboxRequest(pod_sandbox_id="p1"))[0].on_success(None)
    assert store.containers["c1"].state is ContainerState.CREATED


def test_start_in_doubt_and_then_a_stop() -> None:
    """It may run; after a stop it surely does not."""
    store = store_with()
    step_of(store, cri.StartContainerRequest(container_id="c1"))[0].on_unknown_outcome()
    states = [store.containers["c1"].state]
    step_of(store, cri.StopContainerRequest(container_id="c1"))[0].on_success(None)
    states.append(store.containers["c1"].state)
    assert states == [ContainerState.UNKNOWN, ContainerState.EXITED]


@pytest.mark.parametrize(
    "request_",
    [
        cri.StartContainerRequest(container_id="x"),
        cri.UpdateContainerResourcesRequest(container_id="x"),
        cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id="x"),
    ],
)
def test_success_with_something_unknown_teaches(request_: Any) -> None:
    """It exists, so it is looked up; an answer on its way is stale."""
    store = store_with()
    step, sync = step_of(store, request_)
    with store.query("xyz") as question:
        step.on_success(None)
    assert (sync.learned, question.stale) == (["x"], True)


def test_container_placed_elsewhere_than_its_pod_is_looked_at() -> None:
    """Some runtimes follow such a request and some do not; one that repeats the cgroup of the pod is not a question."""
    store = store_with()
    store.put_pod(Pod(id="p1", uid="u1", cgroup_parent="/made"))
    for number, parent in enumerate(("/made", "/elsewhere")):
        request = cri.CreateContainerRequest(pod_sandbox_id="p1")
        request.sandbox_config.linux.cgroup_parent = parent
        step, sync = step_of(store, request)
        step.on_success(cri.CreateContainerResponse(container_id=f"new{number}"))
        assert store.containers[f"new{number}"].cgroup_parent == parent
        assert sync.refreshed == ([] if parent == "/made" else ["new1"])


def test_own_create_asks_for_what_it_sends() -> None:
    """A call of our parts has no other caller."""
    request = cri.CreateContainerRequest(pod_sandbox_id="p1")
    request.config.linux.resources.cpu_shares = 5
    step, _ = step_of(store_with(), request, asked=cri.CreateContainerRequest(), origin="policy")
    assert ANNOTATION not in step.call.request.config.annotations


def test_own_update_is_not_requested() -> None:
    """What it was is."""
    store = store_with()
    request = cri.UpdateContainerResourcesRequest(container_id="c1")
    request.linux.cpu_shares = 5
    step_of(store, request, origin="policy")[0].on_success(None)
    assert store.containers["c1"].resources == LinuxResources(cpu_shares=5)
    assert store.containers["c1"].requested == LinuxResources()


def test_difference_is_annotated_and_recorded() -> None:
    """Record and request have the same annotations."""
    store = store_with()
    asked = cri.CreateContainerRequest(pod_sandbox_id="p1")
    sent = cri.CreateContainerRequest(pod_sandbox_id="p1")
    sent.config.linux.resources.cpu_shares = 5
    step, _ = step_of(store, sent, asked=asked)
    step.on_success(cri.CreateContainerResponse(container_id="c2"))
    assert store.containers["c2"].annotations == {ANNOTATION: '{"cpu_shares":0}'}
    assert step.call.request.config.annotations[ANNOTATION] == '{"cpu_shares":0}'


def test_too_many_pending_creates() -> None:
    """The oldest makes room for the newest, which says so."""
    store = store_with()
    for name, dropped in (("a", None), ("b", ("u1", "a", 0))):
        request = cri.CreateContainerRequest(pod_sandbox_id="p1")
        request.config.metadata.name = name
        step, sync = step_of(store, request)
        step.on_unknown_outcome()
        assert sync.settles == 1
        assert (None if step.dropped is None else step.dropped.key) == dropped
    assert [entry.key for entry in store.pending] == [("u1", "b", 0)]


# -- Docker: a sandbox ends and goes without its neighbours


def test_a_pod_that_stops_alone_stops_nobody() -> None:
    """Its containers run on."""
    store = store_with(ContainerState.RUNNING)
    step_of(store, cri.StopPodSandboxRequest(pod_sandbox_id="p1"), alone=True)[0].on_success(None)
    assert (store.pods["p1"].ready, store.containers["c1"].state) == (False, ContainerState.RUNNING)
    step_of(store, cri.StopPodSandboxRequest(pod_sandbox_id="p1"))[0].on_success(None)
    assert store.containers["c1"].state is ContainerState.EXITED


@pytest.mark.parametrize("request_", [cri.RemovePodSandboxRequest, cri.StopPodSandboxRequest])
def test_a_pod_that_goes_alone_is_there_until_its_containers_are_gone(request_: Any) -> None:
    """It is only not ready."""
    store = store_with(ContainerState.RUNNING)
    step_of(store, request_(pod_sandbox_id="p1"), alone=True)[0].on_not_found()
    assert (store.pods["p1"].ready, list(store.containers)) == (False, ["c1"])
    store.remove_container("c1")
    step_of(store, request_(pod_sandbox_id="p1"), alone=True)[0].on_not_found()
    assert not store.pods


def test_a_removal_alone() -> None:
    """As if it had been gone before. One that nobody knows only makes answers stale."""
    store = store_with(ContainerState.RUNNING)
    step_of(store, cri.RemovePodSandboxRequest(pod_sandbox_id="p1"), alone=True)[0].on_success(None)
    assert (list(store.pods), list(store.containers)) == (["p1"], ["c1"])
    with store.query("p9") as question:
        step_of(store, cri.RemovePodSandboxRequest(pod_sandbox_id="p9"), alone=True)[0].on_success(None)
    assert question.stale
    step_of(store, cri.RemovePodSandboxRequest(pod_sandbox_id="p1"))[0].on_success(None)
    assert not store.containers


def test_an_update_of_a_pod_that_is_not_there_removes_nothing() -> None:
    """A list will."""
    store = store_with()
    step_of(store, cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id="p1"))[0].on_not_found()
    assert "p1" in store.pods
