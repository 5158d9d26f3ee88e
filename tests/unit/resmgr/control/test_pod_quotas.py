"""CFS quotas of pods: lifted, put back, and what others write meanwhile."""

import errno

import pytest

from interpose.core.model.cgroup import UNLIMITED, Parameter, Value
from interpose.errors import ConfigError
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.control.pod_quotas import PodQuotas, QuotaWrite, Wanted, quota_directory, write_quotas
from interpose.testing.eventually import eventually
from interpose.testing.kernel.cgroup import FakeKernel

POD, OTHER = "kubepods/pod1", "kubepods/burstable/pod2"
ASKED = 400_000


class QuotaNode:
    """Two pods with a quota of their own in a fake kernel."""

    def __init__(self, version: int) -> None:
        self.kernel = FakeKernel(version)
        self.tree = CgroupTree(self.kernel, self.kernel.root, version=version)
        self.wanted: Wanted | None = {POD: 0}
        self.saved: list[dict[str, int]] = []
        self.disk = True
        for pod in (POD, OTHER):
            self.kernel.make(f"{pod}/app")
            self.write(pod, ASKED)
        self.quotas = self.restart()

    def restart(self, originals: dict[str, int] | None = None) -> PodQuotas:
        """A new run, with what is on the disk."""
        self.quotas = PodQuotas(lambda: self.tree, lambda: self.wanted)
        self.quotas.restore(originals or {})
        self.quotas.save = self.save
        return self.quotas

    async def save(self) -> bool:
        """Write to the disk, if that is possible."""
        if self.disk:
            self.saved.append(dict(self.quotas.originals))
        return self.disk

    def write(self, directory: str, value: Value) -> None:
        """Somebody else sets a quota."""
        self.tree.write(directory, Parameter.CPU_QUOTA, value)

    def read(self, directory: str = POD) -> Value:
        """The quota in force."""
        return self.tree.read(directory, Parameter.CPU_QUOTA)

    async def tick(self, count: int = 1) -> None:
        """Seconds pass."""
        for _ in range(count):
            self.quotas.tick()
            await eventually(lambda: not self.quotas.busy, "the look to end")


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def it(request: pytest.FixtureRequest) -> QuotaNode:
    return QuotaNode(request.param)


@pytest.mark.parametrize(
    ("parent", "directory"),
    [
        ("/kubepods/pod1", "kubepods/pod1"),
        ("kubepods/burstable/pod1-2/", "kubepods/burstable/pod1-2"),
        ("kubepods-besteffort-pod1.slice", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice"),
        ("/kubepods.slice/kubepods-pod1.slice", "kubepods.slice/kubepods-pod1.slice"),
        ("/custom/kubepods/pod1", "custom/kubepods/pod1"),
        ("", None),
        ("/", None),
        ("/system.slice", None),
        ("/kubepods/burstable", None),
        ("kubepods-burstable.slice", None),
        ("/kubepods/pod1/../../etc", None),
        ("/kubepods/pod1/app", None),
        ("kubepods--pod1.slice", None),
    ],
)
def test_only_cgroups_of_a_kubelets_pods_are_touched(parent: str, directory: str | None) -> None:
    """Neither those of classes above them nor what a client calls a parent."""
    assert quota_directory(parent) == directory


async def test_a_quota_is_lifted_and_put_back(it: QuotaNode) -> None:
    """What was found is on the disk before; other pods keep theirs."""
    it.wanted = {POD: 0}
    await it.tick()
    assert (it.read(), it.read(OTHER)) == (UNLIMITED, ASKED)
    assert it.saved == [{POD: ASKED}]
    assert it.quotas.lifted == {POD}
    it.wanted = {}
    await it.tick()
    assert it.read() == ASKED
    assert (it.saved[-1], it.quotas.originals, it.quotas.lifted) == ({}, {}, frozenset())
    count = len(it.kernel.writes)
    await it.tick(70)
    assert len(it.kernel.writes) == count


async def test_nothing_is_replaced_before_it_is_saved(it: QuotaNode) -> None:
    """While the disk is full the quota stays; it is tried again."""
    it.disk = False
    await it.tick(3)
    assert it.read() == ASKED
    assert it.quotas.problems == {POD: "the state file cannot be written"}
    assert it.quotas.state(POD) == "failing"
    it.disk = True
    await it.tick(61)
    assert (it.read(), it.quotas.problems, it.quotas.state(POD)) == (UNLIMITED, {}, "")


async def test_a_run_that_was_killed_is_made_up_for(it: QuotaNode) -> None:
    """Before the write or after it, with the policy or without."""
    it.wanted = {}
    it.restart({POD: ASKED})  # saved, and not lifted yet
    await it.tick()
    assert (it.read(), it.quotas.originals) == (ASKED, {})
    it.write(POD, UNLIMITED)
    it.restart({POD: ASKED})  # lifted
    await it.tick()
    assert (it.read(), it.quotas.originals) == (ASKED, {})
    it.wanted = {POD: 0}
    it.write(POD, UNLIMITED)
    it.restart({POD: ASKED})
    await it.tick()
    assert (it.read(), it.quotas.originals) == (UNLIMITED, {POD: ASKED})


async def test_what_a_kubelet_writes_meanwhile_is_what_is_put_back(it: QuotaNode) -> None:
    """It resizes the pod: seen at once if it was about to, and within a minute otherwise."""
    await it.tick()
    it.quotas.check_soon(POD, watch=True)
    await it.tick()
    it.write(POD, 500_000)
    await it.tick()
    assert (it.read(), it.quotas.originals) == (UNLIMITED, {POD: 500_000})
    await it.tick(10)
    it.write(POD, 600_000)
    await it.tick(60)
    assert (it.read(), it.quotas.originals) == (UNLIMITED, {POD: 600_000})
    it.wanted = {}
    await it.tick()
    assert it.read() == 600_000


async def test_a_value_of_somebody_else_is_not_undone(it: QuotaNode) -> None:
    """Written after it was lifted, and before it was to be put back."""
    await it.tick()
    it.write(POD, 100_000)
    it.wanted = {}
    await it.tick()
    assert (it.read(), it.quotas.originals) == (100_000, {})


async def test_a_value_that_comes_while_the_old_one_is_saved_is_saved_as_well(it: QuotaNode) -> None:
    """What is replaced is always what is on the disk."""

    async def slow_save() -> bool:
        await QuotaNode.save(it)
        if len(it.saved) == 1:
            it.write(POD, 700_000)
        return True

    it.quotas.save = slow_save
    await it.tick()
    assert (it.read(), it.saved[-1]) == (UNLIMITED, {POD: 700_000})


async def test_a_container_that_goes_while_it_is_saved_leaves_the_quota(it: QuotaNode) -> None:
    """It is decided again before anything is written."""

    async def slow_save() -> bool:
        it.wanted = {}
        return await QuotaNode.save(it)

    it.quotas.save = slow_save
    await it.tick()
    assert (it.read(), it.quotas.originals) == (ASKED, {})
    assert not [text for path, text in it.kernel.writes if text in ("-1", "max") and path.count("pod1")]


async def test_a_pod_without_a_quota_is_left_alone(it: QuotaNode) -> None:
    """Its kubelet knows none. Where the kubelet is known to want one, an earlier run has lifted it."""
    it.write(POD, UNLIMITED)
    await it.tick()
    assert it.quotas.lifted == {POD}
    assert it.quotas.originals == {}
    it.wanted = {}
    await it.tick()
    assert it.read() == UNLIMITED
    it.wanted = {POD: ASKED}
    await it.tick()
    assert (it.quotas.originals, it.saved[-1]) == ({POD: ASKED}, {POD: ASKED})
    it.wanted = {}
    await it.tick()
    assert it.read() == ASKED


async def test_what_is_gone_is_forgotten(it: QuotaNode) -> None:
    """A pod that ended takes its cgroup along."""
    await it.tick()
    it.kernel.remove(f"{POD}/app")
    it.kernel.remove(POD)
    it.wanted = {}
    await it.tick()
    assert (it.quotas.originals, it.saved[-1]) == ({}, {})


async def test_what_the_kernel_refuses_is_shown_and_tried_again(it: QuotaNode) -> None:
    """At the next look, a minute later."""

    async def save() -> bool:
        it.kernel.fail(it.kernel.writes[0][0], errno.EINVAL)
        return await it.save()

    it.quotas.save = save
    await it.tick()
    assert it.read() == ASKED
    assert "Invalid" in it.quotas.problems[POD]
    await it.tick(61)
    assert (it.read(), it.quotas.problems) == (UNLIMITED, {})


async def test_without_cgroups_nothing_is_done() -> None:
    """Then nobody can tell whether there is a quota."""
    it = QuotaNode(1)

    def none() -> CgroupTree:
        raise ConfigError("no cgroups here")

    it.quotas = PodQuotas(none, lambda: it.wanted)
    assert it.quotas.state(POD) == "writing"
    await it.tick()
    assert it.quotas.unreadable == {POD: "no cgroups here"}
    assert it.quotas.state(POD) == ""
    it.wanted = {}
    await it.tick()
    assert it.quotas.unreadable == {}
    it.quotas = PodQuotas(None, lambda: {POD: 0})
    await it.tick()
    await it.quotas.settle(POD, 1)
    assert it.quotas.state(POD) == ""
    assert it.read() == ASKED
    assert not await it.quotas.save()


async def test_while_nothing_is_decided_nothing_changes(it: QuotaNode) -> None:
    """At a start, or under a fallback; also if that begins in the middle."""
    it.wanted = None
    await it.tick()
    await it.quotas.settle(POD, 1)
    assert it.read() == ASKED
    answers = iter(({POD: 0}, None))
    it.quotas = PodQuotas(lambda: it.tree, lambda: next(answers, None))
    it.quotas.save = it.save
    await it.tick()
    assert it.read() == ASKED


async def test_a_call_waits_for_the_quota_of_its_pod(it: QuotaNode) -> None:
    """And for no other; without end it does not wait."""
    await it.quotas.settle(POD, 30)
    assert it.read() == UNLIMITED
    await it.quotas.settle(OTHER, 30)
    await it.quotas.settle(None, 30)
    assert it.read(OTHER) == ASKED
    it.wanted = {}
    await it.quotas.settle(POD, 0)
    await eventually(lambda: it.read() == ASKED, "the quota to be back")
    it.quotas.check_soon(None)
    await it.quotas.close()


def test_a_quota_is_replaced_only_where_it_is_the_one_that_was_saved(it: QuotaNode) -> None:
    """Whatever else is there is the kubelet's newest."""
    found = write_quotas(lambda: it.tree, [QuotaWrite(POD, 1, UNLIMITED), QuotaWrite(OTHER, ASKED, UNLIMITED)])
    assert [reading.value for reading in found.values()] == [ASKED, UNLIMITED]
