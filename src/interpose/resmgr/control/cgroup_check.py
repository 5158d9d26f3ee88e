"""Comparing what containers should have with their cgroups: the runtime and the kernel may disagree.

A container is checked soon after something was written in it or it was started, and all of them within a minute. Files
are read in a thread, some containers at a time. What is not as it should be is written again, through the runtime.
Where a cgroup cannot be read the runtime's report counts, and the admin socket says so.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from interpose.core.model.cgroup import UNLIMITED, Parameter, Value
from interpose.core.model.pod import Container, ContainerState
from interpose.core.policy.decision import NO_QUOTA, Assignment
from interpose.core.policy.request import Key
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.errors import ConfigError
from interpose.host.cgroup.paths import find_child, pod_directory
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.control.updaters import ContainerUpdater, ContainerUpdaters, patch_of
from interpose.tasks import TaskBag

_CYCLE: Final = 60  # ticks in which all containers are checked
_AT_ONCE: Final = 50  # containers that are checked in one call in a thread
_MOST: Final = 200  # of those that are due, in one tick

Tree = Callable[[], CgroupTree]


class CgroupQuestion(NamedTuple):
    """A container, what it should have, and how many updates it was sent before the check."""

    key: Key
    container: Container
    desired: Assignment
    sent: int


class CgroupAnswer(NamedTuple):
    """Whether a cgroup has the desired values; `error` if that cannot be read."""

    same: bool
    found: str = ""
    error: str = ""


def directory_of(cgroups: CgroupTree, container: Container) -> str:
    """The cgroup of a container; FileNotFoundError if it has none. Reads files: not for the loop."""
    parent = pod_directory(container.cgroup_parent)
    child = find_child(cgroups.children(parent), container.id)
    if child is None:
        raise FileNotFoundError(f"no cgroup of this container is below {parent}")
    return f"{parent}/{child}"


def compare(tree: Tree, questions: Sequence[CgroupQuestion]) -> list[CgroupAnswer]:
    """What the kernel says about each. Reads files: not for the loop."""
    try:
        cgroups = tree()
    except (OSError, ConfigError) as error:
        return [CgroupAnswer(same=False, error=str(error))] * len(questions)
    return [_compare(cgroups, question) for question in questions]


def _compare(cgroups: CgroupTree, question: CgroupQuestion) -> CgroupAnswer:
    try:
        directory = directory_of(cgroups, question.container)
        found = {name: cgroups.read(directory, name) for name in _values(question.desired)}
    except (OSError, ValueError) as error:
        return CgroupAnswer(same=False, error=str(error))
    desired = _values(question.desired)
    differing = [
        f"{name} {value}" for name, value in found.items() if not cgroups.same_by_runtime(name, value, desired[name])
    ]
    return CgroupAnswer(same=not differing, found=", ".join(differing))


def _values(desired: Assignment) -> dict[Parameter, Value]:
    values: dict[Parameter, Value] = {}
    if desired.cpus is not None:
        values[Parameter.CPUSET_CPUS] = str(desired.cpus)
    if desired.mems is not None:
        values[Parameter.CPUSET_MEMS] = str(desired.mems)
    if desired.shares is not None:
        values[Parameter.CPU_SHARES] = desired.shares
    if desired.quota is not None:
        values[Parameter.CPU_QUOTA] = UNLIMITED if desired.quota == NO_QUOTA else desired.quota
    return values


class CgroupCheck:
    """Checks the cgroups of containers that have an updater. Without a tree nothing is read."""

    def __init__(self, tree: Tree | None, updaters: ContainerUpdaters, store: Store, starts: StartTracker) -> None:
        self._tree = tree
        self._updaters = updaters
        self._store = store
        self._starts = starts
        self._tasks = TaskBag()
        self._due: dict[Key, None] = {}
        self._cycle: list[Key] = []  # containers that are still to be checked in this cycle
        self._confirmed: dict[Key, Assignment] = {}  # what the kernel was seen to have
        self._task: asyncio.Task[None] | None = None
        self.unreadable: dict[Key, str] = {}  # containers that could not be read at the last check, and why

    def check_soon(self, key: Key) -> None:
        """Check a container at the next tick."""
        self._due[key] = None

    def drop(self, key: Key) -> None:
        """Forget a container that is gone."""
        self._due.pop(key, None)
        self._confirmed.pop(key, None)
        self.unreadable.pop(key, None)

    def is_confirmed(self, key: Key, desired: Assignment | None) -> bool:
        """Whether the kernel was seen to have this; true of an assignment that says nothing."""
        return desired is not None and (self._confirmed.get(key) == desired or not _values(desired))

    @property
    def confirmed(self) -> int:
        """In how many containers the kernel has what they should have."""
        return sum(self.is_confirmed(key, self._updaters.desired(key)) for key in self._confirmed)

    @property
    def busy(self) -> bool:
        """Whether a check is under way in the background."""
        return self._task is not None and not self._task.done()

    def tick(self) -> None:
        """Begin to check those that are due and a part of all others; to be called once a second."""
        if self._tree is None or self.busy:
            return
        keys = dict.fromkeys([*self._some_due(), *self._next_of_cycle()])
        if keys:
            self._task = self._tasks.spawn(self.check(keys), name="read cgroups")

    async def close(self) -> None:
        """Cancel a check that is under way."""
        await self._tasks.cancel()

    def _some_due(self) -> list[Key]:
        some = list(self._due)[:_MOST]
        for key in some:
            del self._due[key]
        return some

    def _next_of_cycle(self) -> list[Key]:
        every = self._updaters.by_key
        if not self._cycle:
            self._cycle = list(every)
        count = -(-len(every) // _CYCLE)
        some, self._cycle = self._cycle[:count], self._cycle[count:]
        return some

    async def check(self, keys: Iterable[Key]) -> None:
        """Compare these containers with their cgroups now."""
        if self._tree is None:
            return
        questions = [question for key in keys if (question := self._question(key)) is not None]
        for start in range(0, len(questions), _AT_ONCE):
            some = questions[start : start + _AT_ONCE]
            for question, answer in zip(some, await asyncio.to_thread(compare, self._tree, some), strict=True):
                if self._question(question.key) == question:  # nothing was written or decided meanwhile
                    self._conclude(question, answer)

    def _question(self, key: Key) -> CgroupQuestion | None:
        """None if there is nothing to compare: it does not run, or is being updated."""
        updater, desired = self._updaters.by_key.get(key), self._updaters.desired(key)
        if updater is None or desired is None or not _at_rest(updater, desired) or not _values(desired):
            return None
        container = self._store.containers.get(updater.id)
        running = container is not None and container.state is ContainerState.RUNNING
        if container is None or not running or self._starts.in_flight(updater.id):
            return None
        return CgroupQuestion(key, container, desired, updater.sent)

    def _conclude(self, question: CgroupQuestion, answer: CgroupAnswer) -> None:
        key = question.key
        self._confirmed.pop(key, None)
        self.unreadable.pop(key, None)
        if answer.same:
            self._confirmed[key] = question.desired
        elif answer.found:
            self._updaters.mark_differing(key, answer.found)
        else:
            self.unreadable[key] = answer.error


def _at_rest(updater: ContainerUpdater, desired: Assignment) -> bool:
    return not updater.lock.locked() and updater.retry is None and patch_of(desired, updater.has) is None
