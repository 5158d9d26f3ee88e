"""Records of the store joined with the directories of the cgroup tree."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import CLEAR, UNLIMITED, KubeQos, Level, Parameter
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.qos import QosClass
from interpose.core.model.resources import LinuxResources
from interpose.hooks.server.node.nodeslo import HostApplication
from interpose.hooks.server.reconcile.desired_state import PodTarget
from interpose.hooks.server.reconcile.inventory import Inventory, application_directory, default_layout, is_own, newest
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.original_values import ANNOTATION
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.pods import container_config
from interpose.testing.qospods import be_pod, ls_pod
from tests.support.hooks.parts import HookParts

SHARES, QUOTA = Parameter.CPU_SHARES, Parameter.CPU_QUOTA
POD = Pod(id="s1", name="web", namespace="shop", uid="u1", cgroup_parent="/kubepods/podu1")
DIRECTORY = "kubepods/podu1"


@pytest.fixture
async def parts() -> AsyncIterator[HookParts]:
    """A node without pods."""
    made = HookParts()
    yield made
    await made.close()


def inventory(kernel: FakeKernel | None = None, journal: Journal | None = None) -> Inventory:
    """Of a node with nothing but cgroups."""
    node = FakeNode(FakeKernel() if kernel is None else kernel)
    return Inventory(node.tree, Journal(None, "boot") if journal is None else journal)  # an empty journal is false


def with_pod() -> FakeKernel:
    """A kernel with the cgroups of a pod, its sandbox and one container."""
    kernel = FakeKernel()
    for name in ("s1", "c1"):
        kernel.make(f"{DIRECTORY}/{name}")
    return kernel


def container(**said: object) -> Container:
    """A container that runs with 100 shares."""
    one = Container(id="c1", name="app", pod_id="s1", state=ContainerState.RUNNING)
    has = LinuxResources(cpu_shares=100)
    return replace(one, **{"resources": has, "requested": has, **said})  # type: ignore[arg-type]


def only(found: list[PodTarget]) -> PodTarget:
    """The one subject."""
    (one,) = found
    return one


# -- where things are


@pytest.mark.parametrize("systemd", [False, True])
@pytest.mark.parametrize("version", [1, 2])
async def test_everything_of_a_pod_is_found(version: int, systemd: bool) -> None:
    """With either version and either driver."""
    parts = HookParts(FakeNode(FakeKernel(version), systemd=systemd))
    sandbox = be_pod(parts.node, "batch", containers=("one", "two"))
    await parts.sync.resync()
    subject = only(parts.inventory.subjects(parts.records()))
    directory = parts.node.pod_directory(sandbox)
    assert [(one.level, one.directory, one.name) for one in subject.targets] == [
        (Level.POD, directory, "default/batch"),
        (Level.SANDBOX, parts.node.directory(sandbox.id), "default/batch"),
        (Level.CONTAINER, parts.node.directory(sandbox.containers[0]), "default/batch/one"),
        (Level.CONTAINER, parts.node.directory(sandbox.containers[1]), "default/batch/two"),
    ]
    assert {one.pod_uid for one in subject.targets} == {sandbox.config.metadata.uid}
    assert all(one.running for one in subject.targets)
    await parts.close()


def test_a_pod_without_cgroup_has_no_target() -> None:
    """Its containers are there all the same: the runtime knows them."""
    subject = only(inventory().subjects([(POD, [container()])]))
    assert subject.target is None
    assert subject.sandbox is None
    (member,) = subject.members
    assert (member.target.directory, member.target.running) == ("", False)


@pytest.mark.parametrize("parent", ["", "/", "/../etc", "a--b.slice"])
def test_a_cgroup_parent_that_is_none_is_no_cgroup(parent: str) -> None:
    """Whatever somebody wrote there, nothing fails and nothing outside is looked at."""
    subject = only(inventory().subjects([(replace(POD, cgroup_parent=parent), [container()])]))
    assert list(subject.targets) == [subject.members[0].target]
    assert not subject.members[0].target.running


async def test_a_container_that_was_only_created_does_not_run(parts: HookParts) -> None:
    """It has no directory yet."""
    sandbox = ls_pod(parts.node, "web")
    state = parts.node.runtime.state
    image = parts.node.runtime.images.pull("docker.io/library/busybox:1.36", cri.AuthConfig())
    created = state.create_container(sandbox, container_config(sandbox.config, "late"), image)
    await parts.sync.resync()
    members = only(parts.inventory.subjects(parts.records())).members
    assert [(one.target.key == created.id, one.target.running) for one in members] == [(False, True), (True, False)]


def test_a_pod_whose_sandbox_has_no_directory_has_none_at_that_level() -> None:
    """The pod itself is there."""
    kernel = FakeKernel()
    kernel.make(DIRECTORY)
    subject = only(inventory(kernel).subjects([(POD, [])]))
    assert subject.target is not None
    assert subject.sandbox is None


def test_a_container_may_be_elsewhere_than_its_pod() -> None:
    """Where its own record says."""
    kernel = with_pod()
    kernel.make("elsewhere/c1")
    subject = only(inventory(kernel).subjects([(POD, [container(cgroup_parent="/elsewhere")])]))
    assert subject.members[0].target.directory == "elsewhere/c1"
    assert subject.target is not None
    assert subject.target.directory == DIRECTORY


def test_a_container_elsewhere_that_is_not_there_does_not_run() -> None:
    """A directory of its pod's with the same name is not taken for it."""
    subject = only(inventory(with_pod()).subjects([(POD, [container(cgroup_parent="/elsewhere")])]))
    assert subject.members[0].target.directory == ""


# -- who counts


def test_what_has_ended_is_not_there() -> None:
    """Pods that are not ready, containers that exited."""
    gone = replace(POD, id="s0", uid="u0", ready=False)
    exited = container(state=ContainerState.EXITED)
    subject = only(inventory(with_pod()).subjects([(gone, []), (POD, [exited])]))
    assert subject.pod is POD
    assert subject.members == ()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_sandboxes_of_a_pod_the_later_attempt_counts(order: tuple[int, int]) -> None:
    """They share one cgroup, so only one of them can have a say; in whatever order they are listed."""
    first, second = POD, replace(POD, id="s2", attempt=1)
    both = [(first, [container()]), (second, [])]
    assert [pod.id for pod, _ in newest([both[index] for index in order])] == ["s2"]


def test_a_later_sandbox_that_is_not_ready_does_not_count() -> None:
    """The one before does as long as it runs."""
    assert [pod.id for pod, _ in newest([(POD, []), (replace(POD, id="s2", attempt=1, ready=False), [])])] == ["s1"]


def test_sandboxes_without_a_uid_are_pods_of_their_own() -> None:
    """Nobody knows whose they are."""
    pods = [replace(POD, id=name, uid="") for name in ("a", "b")]
    assert [pod.id for pod, _ in newest([(pod, []) for pod in pods])] == ["a", "b"]


# -- what stays the same object


def test_what_has_not_changed_is_the_same_object() -> None:
    """So that nobody decides again about a pod that is as before."""
    found, record = inventory(with_pod()), container()
    before = only(found.subjects([(POD, [record])]))
    assert only(found.subjects([(POD, [record])])) is before


def test_another_record_is_another_subject() -> None:
    """With another member in it."""
    found = inventory(with_pod())
    before = only(found.subjects([(POD, [container()])]))
    has = LinuxResources(cpu_shares=7)
    after = only(found.subjects([(POD, [container(resources=has, requested=has)])]))
    assert after is not before
    assert after.members[0].container.requested.cpu_shares == 7


def test_a_container_that_got_its_cgroup_is_another_member() -> None:
    """Though its record is the same."""
    kernel = FakeKernel()
    kernel.make(f"{DIRECTORY}/s1")
    found, record = inventory(kernel), container()
    before = only(found.subjects([(POD, [record])]))
    kernel.make(f"{DIRECTORY}/c1")
    after = only(found.subjects([(POD, [record])]))
    assert [one.members[0].target.running for one in (before, after)] == [False, True]


def test_an_unchanged_container_is_the_same_member_in_a_changed_pod() -> None:
    """Only what changed is made anew."""
    found, record = inventory(with_pod()), container()
    before = only(found.subjects([(POD, [record])]))
    after = only(found.subjects([(replace(POD, labels={"a": "b"}), [record])]))
    assert after is not before
    assert after.members[0] is before.members[0]


def test_a_container_that_went_and_came_back_is_seen_anew() -> None:
    """Nothing is kept for those that are gone."""
    found, record = inventory(with_pod()), container()
    before = only(found.subjects([(POD, [record])])).members[0]
    found.subjects([])
    assert only(found.subjects([(POD, [record])])).members[0] is not before


# -- what was asked for


def test_the_note_of_a_container_tells_what_was_asked_for() -> None:
    """And goes into the journal, which knows what to restore."""
    journal = Journal(None, "boot")
    record = container(annotations={ANNOTATION: '{"cpu_shares":[2,100,"toy"],"cpu_quota":[0,-1]}'})
    record = replace(record, resources=replace(record.resources, cpu_quota=-1))
    member = only(inventory(with_pod(), journal).subjects([(POD, [record])])).members[0]
    assert member.container.requested.cpu_shares == 2
    assert member.container.requested.cpu_quota == 0
    entries = journal.entries_of(Level.CONTAINER, "c1")
    assert {parameter: (one.found, one.written, one.plugin) for parameter, one in entries.items()} == {
        SHARES: (2, 100, "toy"),
        QUOTA: (None, UNLIMITED, ""),
    }


@pytest.mark.parametrize("note", ["{", "[]", '{"cpu_shares":7}', '{"cpu_shares":["2",100]}', '{"strange":[1,2]}'])
def test_a_damaged_note_is_as_good_as_none(note: str) -> None:
    """The record counts as it is."""
    journal = Journal(None, "boot")
    record = container(annotations={ANNOTATION: note})
    assert only(inventory(with_pod(), journal).subjects([(POD, [record])])).members[0].container is record
    assert len(journal) == 0


def test_a_note_counts_only_while_its_value_is_in_force() -> None:
    """Otherwise somebody asked for something else since, and that is the original."""
    journal = Journal(None, "boot")
    record = container(annotations={ANNOTATION: '{"cpu_shares":[2,300]}'})
    member = only(inventory(with_pod(), journal).subjects([(POD, [record])])).members[0]
    assert member.container.requested.cpu_shares == 100
    assert len(journal) == 0


def test_the_journal_knows_better_than_the_note() -> None:
    """The note is as old as the container."""
    journal = Journal(None, "boot")
    target = ActuatorTarget(level=Level.CONTAINER, key="c1")
    journal.note(target, SHARES, found=50, written=100, plugin="toy")
    record = container(annotations={ANNOTATION: '{"cpu_shares":[2,100]}'})
    member = only(inventory(with_pod(), journal).subjects([(POD, [record])])).members[0]
    assert member.container.requested.cpu_shares == 50


def test_an_entry_whose_value_is_not_in_force_tells_nothing() -> None:
    """The container has another value: somebody asked for it."""
    journal = Journal(None, "boot")
    journal.note(ActuatorTarget(level=Level.CONTAINER, key="c1"), SHARES, found=50, written=300, plugin="toy")
    member = only(inventory(with_pod(), journal).subjects([(POD, [container()])])).members[0]
    assert member.container.requested.cpu_shares == 100


def test_the_value_before_is_ours_too() -> None:
    """The last one may not have come to be."""
    journal = Journal(None, "boot")
    journal.note(
        ActuatorTarget(level=Level.CONTAINER, key="c1"), SHARES, found=50, written=300, plugin="toy", before=100
    )
    member = only(inventory(with_pod(), journal).subjects([(POD, [container()])])).members[0]
    assert member.container.requested.cpu_shares == 50


def test_entries_that_requests_do_not_carry_say_nothing_about_requests() -> None:
    """Such as the burst of a container."""
    journal = Journal(None, "boot")
    journal.note(ActuatorTarget(level=Level.CONTAINER, key="c1"), Parameter.CPU_BURST, found=0, written=5, plugin="toy")
    record = container()
    assert only(inventory(with_pod(), journal).subjects([(POD, [record])])).members[0].container is record


def test_a_cleared_set_was_asked_for_as_the_journal_says() -> None:
    """The container has none, and that is our doing."""
    journal = Journal(None, "boot")
    target = ActuatorTarget(level=Level.CONTAINER, key="c1")
    journal.note(target, Parameter.CPUSET_CPUS, found="2-3", written=CLEAR, plugin="toy")
    member = only(inventory(with_pod(), journal).subjects([(POD, [container()])])).members[0]
    assert member.container.requested.cpuset_cpus == "2-3"


# -- above pods


def test_the_node_and_the_directories_of_classes_are_groups() -> None:
    """Guaranteed pods are in the root of all."""
    groups = inventory().groups(CgroupLayout(driver=Driver.CGROUPFS), ())
    assert [(one.target.level, one.target.directory, one.context.kube_qos) for one in groups] == [
        (Level.NODE, "", None),
        (Level.QOS, "kubepods", KubeQos.GUARANTEED),
        (Level.QOS, "kubepods/burstable", KubeQos.BURSTABLE),
        (Level.QOS, "kubepods/besteffort", KubeQos.BEST_EFFORT),
    ]


def test_without_the_kubelets_cgroups_there_is_only_the_node() -> None:
    """Nobody knows what they are called."""
    assert [one.target.level for one in inventory().groups(None, ())] == [Level.NODE]


def test_a_class_without_a_directory_is_no_group() -> None:
    """Some kubelets do not make them."""
    kernel = FakeKernel()
    kernel.make("other/burstable")
    found = inventory(kernel).groups(CgroupLayout(driver=Driver.CGROUPFS, root="other"), ())
    assert [one.target.name for one in found] == ["node", "Guaranteed", "Burstable"]


def test_host_applications_that_run_are_groups() -> None:
    """With the class they were given."""
    kernel = FakeKernel()
    kernel.make("system.slice/nginx")
    apps = (
        HostApplication(name="nginx", qos=QosClass.LS, directory="/system.slice/nginx"),
        HostApplication(name="away", qos=QosClass.LS, directory="system.slice/away"),
        HostApplication(name="odd", directory="../etc"),
        HostApplication(name="nowhere"),
    )
    found = inventory(kernel).groups(None, apps)[1:]
    assert [(one.context.name, one.context.qos, one.target.key) for one in found] == [
        ("nginx", QosClass.LS, "system.slice/nginx")
    ]
    assert found[0].target.level is Level.HOST_APP


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("Kubepods", "kubepods/app"),
        ("KubepodsBurstable", "kubepods/burstable/app"),
        ("KubepodsBesteffort", "kubepods/besteffort/app"),
        ("CgroupRoot", "app"),
        ("", "app"),
    ],
)
def test_a_host_application_is_below_its_base(base: str, expected: str) -> None:
    """Whether or not its directory begins with a slash."""
    app = HostApplication(name="app", base=base, directory="/app/")
    assert application_directory(app, CgroupLayout(driver=Driver.CGROUPFS)) == expected


def test_a_base_that_is_not_there_has_no_applications() -> None:
    """The kubelet has made no cgroups yet."""
    assert application_directory(HostApplication(name="app", base="Kubepods", directory="app"), None) == ""


def test_a_layout_is_chosen_by_name_or_looked_for() -> None:
    """auto looks."""
    assert default_layout("auto", "kubepods") is None
    assert default_layout("systemd", "pods") == CgroupLayout(driver=Driver.SYSTEMD, root="pods")


@pytest.mark.parametrize("parent", ["/kubepods", "/kubepods/burstable", "/system.slice"])
def test_a_directory_that_is_not_the_pods_alone_is_no_target(parent: str) -> None:
    """Values of a pod on it would be everybody's; containers have directories of their own."""
    kernel = FakeKernel(1)
    directory = parent.strip("/")
    for place in (directory, f"{directory}/c1"):
        kernel.make(place)
    pod = replace(POD, cgroup_parent=parent)
    subject = only(inventory(kernel).subjects([(pod, [container(cgroup_parent=parent)])]))
    assert subject.target is None
    assert [member.target.directory for member in subject.members] == [f"{directory}/c1"]


def test_directories_named_after_the_pod_are_its_own() -> None:
    """By either driver; one without a uid has none."""
    pod = replace(POD, uid="7712555c-ce62")
    assert is_own(pod, "kubepods/burstable/pod7712555c-ce62")
    assert is_own(pod, "kubepods.slice/kubepods-pod7712555c_ce62.slice")
    assert not is_own(pod, "kubepods/pod7712555c-ce62/other")
    assert not is_own(replace(pod, uid=""), "kubepods/pod")
