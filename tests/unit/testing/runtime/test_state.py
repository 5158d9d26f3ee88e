"""The state of a fake node: objects, transitions, names, events, and laws over random histories."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.oci.resource_patch import patch_resources
from interpose.testing.pods import container_config, pod_config
from interpose.testing.runtime.state import EXIT_KILLED, EXIT_NOT_STARTED, FakeContainer, FakeSandbox, NodeState
from interpose.testing.runtime.views import container_status, list_containers, list_sandboxes, sandbox_status
from tests.support.clock import ManualClock

IMAGE = cri.Image(id="sha256:" + "a" * 64, repo_tags=["docker.io/library/busybox:1.36"])


def new_state() -> NodeState:
    """An empty node with a fixed seed."""
    return NodeState(random.Random(1), ManualClock())


def test_ids_are_the_same_for_the_same_seed() -> None:
    """Two nodes with one seed give the same ids; they look like those of containerd."""
    first, second = (new_state().run_sandbox(pod_config("web")).id for _ in range(2))
    assert first == second
    assert len(first) == 64
    assert int(first, 16) > 0


def test_objects_are_found_by_a_unique_start_of_their_id() -> None:
    """An abbreviated id works while it is unique; an empty one never does."""
    state = new_state()
    sandbox = state.run_sandbox(pod_config("web"))
    assert state.sandbox(sandbox.id[:12]) is sandbox
    twin = state.run_sandbox(pod_config("web2"))
    del state.sandboxes[twin.id]
    twin.id = sandbox.id[:12] + "0" * 52
    state.sandboxes[twin.id] = twin
    for wanted, code in ((sandbox.id[:12], Code.NOT_FOUND), ("nothing", Code.NOT_FOUND), ("", Code.UNKNOWN)):
        with pytest.raises(RpcError) as caught:
            state.sandbox(wanted)
        assert caught.value.code is code


def test_a_name_with_its_attempt_belongs_to_one_sandbox() -> None:
    """The same pod runs again only with another attempt, or after the first sandbox was removed."""
    state = new_state()
    first = state.run_sandbox(pod_config("web"))
    with pytest.raises(RpcError, match=f'is reserved for "{first.id}"'):
        state.run_sandbox(pod_config("web"))
    state.run_sandbox(pod_config("web", attempt=1))
    state.remove_sandbox(first)
    assert state.run_sandbox(pod_config("web")).id != first.id


def test_a_container_name_is_unique_over_the_sandboxes_of_a_pod() -> None:
    """The attempt of the sandbox is not a part of a container's name, so a second sandbox needs a new attempt too."""
    state = new_state()
    pod = pod_config("web")
    state.create_container(state.run_sandbox(pod), container_config(pod), IMAGE)
    second = state.run_sandbox(pod_config("web", attempt=1))
    with pytest.raises(RpcError, match="is reserved for"):
        state.create_container(second, container_config(pod), IMAGE)
    state.create_container(second, container_config(pod, attempt=1), IMAGE)
    assert len(state.containers) == 2


def test_a_refused_create_reserves_nothing() -> None:
    """A create in a stopped sandbox leaves the name free."""
    state = new_state()
    pod = pod_config("web")
    sandbox = state.run_sandbox(pod)
    state.stop_sandbox(sandbox)
    for _ in range(2):
        with pytest.raises(RpcError, match=f'task "{sandbox.id}" not found'):
            state.create_container(sandbox, container_config(pod), IMAGE)
    assert not state.containers


def test_a_configuration_needs_metadata() -> None:
    """Without a name nothing is created."""
    state = new_state()
    with pytest.raises(RpcError, match="sandbox config must include metadata"):
        state.run_sandbox(cri.PodSandboxConfig())
    sandbox = state.run_sandbox(pod_config("web"))
    with pytest.raises(RpcError, match="container config must include metadata"):
        state.create_container(sandbox, cri.ContainerConfig(), IMAGE)


def test_a_container_starts_once() -> None:
    """CREATED -> RUNNING -> EXITED: neither a running nor an ended container can be started."""
    state = new_state()
    pod = pod_config("web")
    container = state.create_container(state.run_sandbox(pod), container_config(pod), IMAGE)
    state.start_container(container)
    with pytest.raises(RpcError, match="CONTAINER_RUNNING"):
        state.start_container(container)
    state.exit_container(container, 0)
    with pytest.raises(RpcError, match="CONTAINER_EXITED"):
        state.start_container(container)


def test_a_stop_does_not_touch_a_container_that_never_ran() -> None:
    """A created container stays created, and cannot be started in the stopped sandbox."""
    state = new_state()
    pod = pod_config("web")
    sandbox = state.run_sandbox(pod)
    container = state.create_container(sandbox, container_config(pod), IMAGE)
    state.stop_sandbox(sandbox)
    assert container.state == cri.CONTAINER_CREATED
    with pytest.raises(RpcError, match="is not running"):
        state.start_container(container)


def test_an_exit_is_written_down_once() -> None:
    """Time, code and reason are those of the first end; a second one changes nothing."""
    clock = ManualClock()
    state = NodeState(random.Random(1), clock)
    pod = pod_config("web")
    container = state.create_container(state.run_sandbox(pod), container_config(pod), IMAGE)
    state.start_container(container)
    clock.advance(5)
    state.exit_container(container, 1)
    clock.advance(5)
    state.exit_container(container, 0, "Later")
    assert (container.exit_code, container.reason) == (1, "Error")
    assert container.finished_at - container.started_at == 5_000_000_000


def test_a_node_keeps_its_own_copy_of_a_configuration() -> None:
    """What the caller does with its message afterwards is not seen."""
    state = new_state()
    pod = pod_config("web")
    sandbox = state.run_sandbox(pod)
    pod.labels["later"] = "yes"
    assert "later" not in sandbox.config.labels


def test_addresses_come_from_the_pod_network() -> None:
    """Each pod has its own address of the announced network; a host network pod has none; stopping gives it back."""
    state = new_state()
    state.set_pod_cidr("10.1.2.0/24")
    first, second = (state.run_sandbox(pod_config(name)) for name in ("a", "b"))
    assert [first.ip, second.ip] == ["10.1.2.2", "10.1.2.3"]
    assert state.run_sandbox(pod_config("host", host_network=True)).ip == ""
    state.stop_sandbox(first)
    assert first.ip == ""


def test_start_that_an_observer_refuses() -> None:
    """The container has ended without having run, and says why."""

    def sink(kind: cri.ContainerEventType, object_id: str, sandbox: FakeSandbox | None) -> None:
        if kind == cri.CONTAINER_STARTED_EVENT and sandbox is not None and object_id != sandbox.id:
            raise RpcError(Code.UNKNOWN, "no room")

    clock = ManualClock()
    state = NodeState(random.Random(1), clock, sink)
    pod = pod_config("web")
    container = state.create_container(state.run_sandbox(pod), container_config(pod), IMAGE)
    with pytest.raises(RpcError, match="no room"):
        state.start_container(container)
    assert (container.state, container.pid, container.started_at) == (cri.CONTAINER_EXITED, 0, 0)
    assert (container.exit_code, container.reason, container.message) == (EXIT_NOT_STARTED, "StartError", "no room")
    assert container.finished_at == clock()


@pytest.mark.parametrize("cidr", ["10.1.2.0/33", "10.1.2.3/32"])
def test_a_bad_pod_network_is_refused(cidr: str) -> None:
    """The error names the network."""
    with pytest.raises(RpcError, match=cidr) as caught:
        new_state().set_pod_cidr(cidr)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_each_change_is_told() -> None:
    """A pod's life gives its events in order, sandbox included; the end of the sandbox has no pod to show."""
    told: list[tuple[str, str, bool]] = []

    def sink(kind: cri.ContainerEventType, object_id: str, sandbox: FakeSandbox | None) -> None:
        told.append((cri.ContainerEventType.Name(kind), object_id, sandbox is not None))

    state = NodeState(random.Random(1), ManualClock(), sink)
    pod = pod_config("web")
    sandbox = state.run_sandbox(pod)
    container = state.create_container(sandbox, container_config(pod), IMAGE)
    state.start_container(container)
    state.remove_sandbox(sandbox)
    assert told == [
        ("CONTAINER_CREATED_EVENT", sandbox.id, True),
        ("CONTAINER_STARTED_EVENT", sandbox.id, True),
        ("CONTAINER_CREATED_EVENT", container.id, True),
        ("CONTAINER_STARTED_EVENT", container.id, True),
        ("CONTAINER_STOPPED_EVENT", container.id, True),
        ("CONTAINER_STOPPED_EVENT", sandbox.id, True),
        ("CONTAINER_DELETED_EVENT", container.id, True),
        ("CONTAINER_DELETED_EVENT", sandbox.id, False),
    ]
    assert container.exit_code == EXIT_KILLED


def test_an_update_is_a_patch() -> None:
    """Zero and empty are "not specified"; unified and hugepages merge by key."""
    target = cri.LinuxContainerResources(
        cpu_shares=100,
        cpuset_cpus="0-3",
        unified={"memory.low": "1", "memory.high": "2"},
        hugepage_limits=[cri.HugepageLimit(page_size="2MB", limit=1)],
    )
    patch_resources(
        target,
        cri.LinuxContainerResources(
            cpu_quota=-1,
            cpuset_cpus="1",
            unified={"memory.high": "max"},
            hugepage_limits=[
                cri.HugepageLimit(page_size="2MB", limit=7),
                cri.HugepageLimit(page_size="1GB", limit=8),
            ],
        ),
    )
    assert target == cri.LinuxContainerResources(
        cpu_shares=100,
        cpu_quota=-1,
        cpuset_cpus="1",
        unified={"memory.low": "1", "memory.high": "max"},
        hugepage_limits=[cri.HugepageLimit(page_size="2MB", limit=7), cri.HugepageLimit(page_size="1GB", limit=8)],
    )


def _name_and_attempt(container: FakeContainer) -> tuple[str, int]:
    return container.config.metadata.name, container.config.metadata.attempt


class NodeLaws(RuleBasedStateMachine):
    """Random histories of pods: whatever happens, the laws of a node hold."""

    sandboxes = Bundle("sandboxes")
    containers = Bundle("containers")

    def __init__(self) -> None:
        super().__init__()
        self.state = new_state()
        self.seen: dict[str, int] = {}

    @rule(target=sandboxes, name=st.sampled_from("abc"), attempt=st.integers(0, 2))
    def run(self, name: str, attempt: int) -> object:
        """A second sandbox of the same name and attempt is refused, any other is made."""
        taken = {(one.config.metadata.name, one.config.metadata.attempt) for one in self.state.sandboxes.values()}
        try:
            made = self.state.run_sandbox(pod_config(name, attempt=attempt)).id
        except RpcError:
            assert (name, attempt) in taken
            return multiple()
        assert (name, attempt) not in taken
        return made

    @rule(target=containers, sandbox_id=sandboxes, name=st.sampled_from("xy"), attempt=st.integers(0, 1))
    def create(self, sandbox_id: str, name: str, attempt: int) -> object:
        """A container is made in a ready sandbox only, under a free name."""
        sandbox = self.state.sandboxes.get(sandbox_id)
        if sandbox is None:
            return multiple()
        config = container_config(sandbox.config, name, attempt=attempt)
        wanted = (sandbox.config.metadata.uid, name, attempt)
        taken = [
            (self.state.sandboxes[one.sandbox_id].config.metadata.uid, *_name_and_attempt(one))
            for one in self.state.containers.values()
        ]
        may = sandbox.ready and wanted not in taken
        try:
            made = self.state.create_container(sandbox, config, IMAGE).id
        except RpcError:
            assert not may
            return multiple()
        assert may
        return made

    @rule(container_id=containers)
    def start(self, container_id: str) -> None:
        """Only a created container in a ready sandbox starts."""
        container = self.state.containers.get(container_id)
        if container is None:
            return
        may = container.state == cri.CONTAINER_CREATED and self.state.sandboxes[container.sandbox_id].ready
        try:
            self.state.start_container(container)
        except RpcError:
            assert not may
        else:
            assert may

    @rule(container_id=containers, code=st.integers(0, 255))
    def end(self, container_id: str, code: int) -> None:
        """An exit leaves nothing running."""
        container = self.state.containers.get(container_id)
        if container is not None:
            self.state.exit_container(container, code)
            assert container.state != cri.CONTAINER_RUNNING

    @rule(container_id=containers)
    def remove(self, container_id: str) -> None:
        """A removed container is nowhere."""
        container = self.state.containers.get(container_id)
        if container is not None:
            self.state.remove_container(container)
        with pytest.raises(RpcError):
            self.state.container(container_id)

    @rule(sandbox_id=sandboxes)
    def stop_pod(self, sandbox_id: str) -> None:
        """Stopping twice is stopping once."""
        sandbox = self.state.sandboxes.get(sandbox_id)
        if sandbox is not None:
            self.state.stop_sandbox(sandbox)
            before = sandbox_status(sandbox)
            self.state.stop_sandbox(sandbox)
            assert sandbox_status(sandbox) == before

    @rule(sandbox_id=consumes(sandboxes))
    def remove_pod(self, sandbox_id: str) -> None:
        """A sandbox goes with all its containers."""
        sandbox = self.state.sandboxes.get(sandbox_id)
        if sandbox is not None:
            self.state.remove_sandbox(sandbox)
        assert not [one for one in self.state.containers.values() if one.sandbox_id == sandbox_id]

    @invariant()
    def every_container_has_its_sandbox(self) -> None:
        """Both sides of the relation agree, and only ready sandboxes have running containers."""
        state = self.state
        owned = [one for sandbox in state.sandboxes.values() for one in sandbox.containers]
        assert sorted(owned) == sorted(state.containers)
        for container in state.containers.values():
            assert container.id in state.sandboxes[container.sandbox_id].containers
            if container.state == cri.CONTAINER_RUNNING:
                assert state.sandboxes[container.sandbox_id].ready

    @invariant()
    def lists_agree_with_statuses(self) -> None:
        """What the list says of an object is what its status says."""
        for item in list_containers(self.state, cri.ContainerFilter()):
            status = container_status(self.state.container(item.id))
            assert (item.state, item.created_at, item.metadata) == (status.state, status.created_at, status.metadata)
        for pod in list_sandboxes(self.state, cri.PodSandboxFilter()):
            of_pod = sandbox_status(self.state.sandbox(pod.id))
            assert (pod.state, pod.created_at, pod.metadata) == (of_pod.state, of_pod.created_at, of_pod.metadata)

    @invariant()
    def states_never_go_back(self) -> None:
        """CREATED < RUNNING < EXITED, for each id over the whole history."""
        for container in self.state.containers.values():
            assert container.state >= self.seen.get(container.id, 0)
            self.seen[container.id] = container.state


NodeLaws.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestNodeLaws = NodeLaws.TestCase
