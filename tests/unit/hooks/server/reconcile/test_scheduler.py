"""Cgroups of which the runtime does not tell yet: followed, and looked at again, but not for ever."""

from collections.abc import Iterable

from interpose.core.model.cgroup import Level
from interpose.core.model.pod import Pod
from interpose.hooks.server.reconcile.desired_state import PodTarget
from interpose.hooks.server.reconcile.scheduler import IDENTIFY_TIMEOUT, LONGEST, SHORTEST, NewCgroups, PassPauses
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel

LAYOUT = CgroupLayout(driver=Driver.CGROUPFS)
GROUPS = ["kubepods", "kubepods/besteffort", "kubepods/burstable"]
POD = "kubepods/burstable/podu1"


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeWatch:
    """Remembers what was followed; `then` happens right after, as if somebody had been waiting for it."""

    def __init__(self) -> None:
        self.followed: list[list[str]] = []
        self.then: dict[str, str] = {}
        self.kernel: FakeKernel | None = None

    def follow(self, directories: Iterable[str]) -> None:
        """These and no others."""
        self.followed.append(list(directories))
        for directory in self.followed[-1]:
            if self.kernel is not None and directory in self.then:
                self.kernel.make(self.then.pop(directory))


def subject(directory: str = POD, sandbox: str = "s1") -> PodTarget:
    """A pod with its sandbox container, where they are."""
    return PodTarget(
        pod=Pod(id=sandbox, uid="u1"),
        target=ActuatorTarget(level=Level.POD, key=directory, directory=directory, name="web"),
        sandbox=ActuatorTarget(level=Level.SANDBOX, key=sandbox, directory=f"{directory}/{sandbox}", name="web"),
    )


def newcomers(kernel: FakeKernel) -> tuple[NewCgroups, FakeWatch]:
    """On a node with the directories of QoS classes."""
    watch = FakeWatch()
    for group in GROUPS:
        kernel.make(group)
    return NewCgroups(CgroupTree(kernel, version=1), watch, now=Clock()), watch


# -- how long


def test_nothing_new_needs_no_other_look() -> None:
    """All that is there is known, and nothing was changed."""
    assert PassPauses(Clock()).next_pause(["a"], ["a"], changed=False) is None


def test_the_pause_grows_with_the_time_a_directory_is_unknown() -> None:
    """Soon at first; a runtime that takes longer is not asked all the time."""
    clock = Clock()
    pauses = PassPauses(clock)
    seen = []
    while (pause := pauses.next_pause(["a"], [], changed=False)) is not None:
        seen.append(pause)
        clock.now += pause
    assert seen[:2] == [SHORTEST, SHORTEST]
    assert seen == sorted(seen)
    assert seen[-1] == LONGEST
    assert clock.now - 100.0 >= IDENTIFY_TIMEOUT
    assert len(seen) < 15


def test_a_new_directory_is_not_kept_waiting_by_an_old_one() -> None:
    """The youngest decides."""
    clock = Clock()
    pauses = PassPauses(clock)
    pauses.next_pause(["a"], [], changed=False)
    clock.now += 5
    assert pauses.next_pause(["a"], [], changed=False) == LONGEST
    assert pauses.next_pause(["a", "b"], [], changed=False) == SHORTEST


def test_what_was_known_is_not_new_when_its_pod_ends() -> None:
    """The cgroup of a pod that has ended stays for a while, and is no reason to look."""
    pauses = PassPauses(Clock())
    assert pauses.next_pause(["a"], ["a"], changed=False) is None
    assert pauses.next_pause(["a"], [], changed=False) is None


def test_a_directory_that_is_made_again_is_new() -> None:
    """It was known, went, and is there again."""
    pauses = PassPauses(Clock())
    pauses.next_pause(["a"], ["a"], changed=False)
    pauses.next_pause([], [], changed=False)
    assert pauses.next_pause(["a"], [], changed=False) == SHORTEST


def test_a_change_is_looked_at_again() -> None:
    """Soon at first, then after longer and longer; from the start when there was a round without."""
    pauses = PassPauses(Clock())
    seen = [pauses.next_pause([], [], changed=True) for _ in range(20)]
    assert seen[:3] == [SHORTEST, 2 * SHORTEST, 4 * SHORTEST]
    assert seen[-1] == LONGEST
    assert pauses.next_pause([], [], changed=False) is None
    assert pauses.next_pause([], [], changed=True) == SHORTEST


# -- where


async def test_pods_that_nobody_knows_are_followed() -> None:
    """Containers appear in their directories too."""
    kernel = FakeKernel(1)
    comers, watch = newcomers(kernel)
    kernel.make(POD)
    assert await comers.next_pause([], LAYOUT, changed=False) == SHORTEST
    assert watch.followed[-1] == [*GROUPS, POD]


async def test_a_container_that_nobody_knows_is_waited_for() -> None:
    """Though its pod is known."""
    kernel = FakeKernel(1)
    comers, _ = newcomers(kernel)
    kernel.make(f"{POD}/s1")
    assert await comers.next_pause([subject()], LAYOUT, changed=False) is None
    kernel.make(f"{POD}/c1")
    assert await comers.next_pause([subject()], LAYOUT, changed=False) == SHORTEST


async def test_nothing_is_missed_between_looking_and_following() -> None:
    """What is made the moment after a directory is followed is seen."""
    kernel = FakeKernel(1)
    comers, watch = newcomers(kernel)
    watch.kernel = kernel
    kernel.make(POD)
    assert await comers.next_pause([subject()], LAYOUT, changed=False) is None
    watch.then = {POD: f"{POD}/c1"}
    assert await comers.next_pause([subject()], LAYOUT, changed=False) == SHORTEST
    watch.then = {GROUPS[1]: f"{GROUPS[1]}/podu2"}
    await comers.next_pause([subject()], LAYOUT, changed=False)
    assert watch.followed[-1] == [*GROUPS[:2], f"{GROUPS[1]}/podu2", GROUPS[2], POD]


async def test_watches_are_not_given_up_while_looking() -> None:
    """A directory that was followed stays so until it is known that it is gone."""
    kernel = FakeKernel(1)
    comers, watch = newcomers(kernel)
    kernel.make(POD)
    await comers.next_pause([], LAYOUT, changed=False)
    await comers.next_pause([], LAYOUT, changed=False)
    assert all(POD in one for one in watch.followed[1:])


async def test_without_a_kubelet_the_root_is_followed() -> None:
    """Its directories will appear there; what else is there is nobody's business."""
    kernel = FakeKernel(1)
    kernel.make("system.slice/cron")
    watch = FakeWatch()
    comers = NewCgroups(CgroupTree(kernel, version=1), watch, now=Clock())
    assert await comers.next_pause([], None, changed=False) is None
    assert watch.followed[-1] == [""]


async def test_pods_elsewhere_have_their_neighbours_followed() -> None:
    """A runtime may put pods where no kubelet would."""
    kernel = FakeKernel(1)
    comers, watch = newcomers(kernel)
    kernel.make("batch/podu1/s1")
    kernel.make("batch/podu2")
    assert await comers.next_pause([subject("batch/podu1")], LAYOUT, changed=False) == SHORTEST
    assert watch.followed[-1] == ["batch", "batch/podu1", "batch/podu2", *GROUPS]
