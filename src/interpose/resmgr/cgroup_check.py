"""Comparing what containers should have with what their cgroups have: the runtime's word is not the kernel's.

A container is looked at soon after something was written in it or it was started, and all of them within a minute.
Files are read in a thread, some containers at a time. What is not as it should be is written again, through the
runtime. Where a cgroup cannot be read the runtime's word counts, and reports say so.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from interpose.core.model.cgroup import Parameter, Value
from interpose.core.model.pod import Container, ContainerState
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.errors import ConfigError
from interpose.host.cgroup.paths import find_child, pod_directory
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.control import Writer, patch_of

if TYPE_CHECKING:
    from interpose.resmgr.tracker import Books

_ROUND: Final = 60  # ticks in which everybody is looked at
_AT_ONCE: Final = 50  # containers that one visit to a thread looks at
_MOST: Final = 200  # of those that are due, in one tick

Tree = Callable[[], CgroupTree]


class CgroupQuestion(NamedTuple):
    """A container, what it should have, and how many updates it was sent before the look."""

    key: Key
    container: Container
    wanted: Assignment
    sent: int


class CgroupAnswer(NamedTuple):
    """What the kernel has of it; `error` if that cannot be read."""

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
    return [_compare(cgroups, one) for one in questions]


def _compare(cgroups: CgroupTree, question: CgroupQuestion) -> CgroupAnswer:
    try:
        directory = directory_of(cgroups, question.container)
        found = {name: cgroups.read(directory, name) for name in _values(question.wanted)}
    except (OSError, ValueError) as error:
        return CgroupAnswer(same=False, error=str(error))
    wanted = _values(question.wanted)
    differing = [
        f"{name} {value}" for name, value in found.items() if not cgroups.same_by_runtime(name, value, wanted[name])
    ]
    return CgroupAnswer(same=not differing, found=", ".join(differing))


def _values(wanted: Assignment) -> dict[Parameter, Value]:
    values: dict[Parameter, Value] = {}
    if wanted.cpus is not None:
        values[Parameter.CPUSET_CPUS] = str(wanted.cpus)
    if wanted.mems is not None:
        values[Parameter.CPUSET_MEMS] = str(wanted.mems)
    if wanted.shares is not None:
        values[Parameter.CPU_SHARES] = wanted.shares
    return values


class CgroupCheck:
    """Of these books. Without a tree nothing is read."""

    def __init__(self, books: "Books", tree: Tree | None) -> None:
        self._books = books
        self._tree = tree
        self._due: dict[Key, None] = {}
        self._round: list[Key] = []  # who is still to be looked at in this round
        self._confirmed: dict[Key, Assignment] = {}  # what the kernel was seen to have
        self._task: asyncio.Task[None] | None = None
        self.unreadable: dict[Key, str] = {}  # who could not be looked at the last time, and why

    def soon(self, key: Key) -> None:
        """Look at a container at the next tick."""
        self._due[key] = None

    def drop(self, key: Key) -> None:
        """A container is gone."""
        self._due.pop(key, None)
        self._confirmed.pop(key, None)
        self.unreadable.pop(key, None)

    def confirms(self, key: Key, wanted: Assignment | None) -> bool:
        """Whether the kernel was seen to have this; whoever wants nothing has it."""
        return wanted is not None and (self._confirmed.get(key) == wanted or not _values(wanted))

    @property
    def confirmed(self) -> int:
        """In how many containers the kernel has what is wanted."""
        return sum(self.confirms(key, self._books.wanted(key)) for key in self._confirmed)

    def tick(self) -> None:
        """A second has passed."""
        if self._tree is None or (self._task is not None and not self._task.done()):
            return
        keys = dict.fromkeys([*self._some_due(), *self._some_of_the_round()])
        if keys:
            self._task = self._books.tasks.spawn(self.look(keys), name="read cgroups")

    def _some_due(self) -> list[Key]:
        some = list(self._due)[:_MOST]
        for key in some:
            del self._due[key]
        return some

    def _some_of_the_round(self) -> list[Key]:
        every = self._books.writers.all
        if not self._round:
            self._round = list(every)
        count = -(-len(every) // _ROUND)
        some, self._round = self._round[:count], self._round[count:]
        return some

    async def look(self, keys: Iterable[Key]) -> None:
        """Compare these containers with their cgroups now."""
        if self._tree is None:
            return
        questions = [one for key in keys if (one := self._question(key)) is not None]
        for start in range(0, len(questions), _AT_ONCE):
            some = questions[start : start + _AT_ONCE]
            for question, answer in zip(some, await asyncio.to_thread(compare, self._tree, some), strict=True):
                if self._question(question.key) == question:  # nobody wrote or decided anything meanwhile
                    self._conclude(question, answer)

    def _question(self, key: Key) -> CgroupQuestion | None:
        """None if there is nothing to compare: it does not run, or somebody is at work on it."""
        books = self._books
        writer, wanted = books.writers.all.get(key), books.wanted(key)
        if writer is None or wanted is None or not _at_rest(writer, wanted) or not _values(wanted):
            return None
        container = books.store.containers.get(writer.id)
        running = container is not None and container.state is ContainerState.RUNNING
        if container is None or not running or books.starts.in_flight(writer.id):
            return None
        return CgroupQuestion(key, container, wanted, writer.sent)

    def _conclude(self, question: CgroupQuestion, answer: CgroupAnswer) -> None:
        key = question.key
        self._confirmed.pop(key, None)
        self.unreadable.pop(key, None)
        if answer.same:
            self._confirmed[key] = question.wanted
        elif answer.found:
            self._books.writers.differs(key, answer.found)
        else:
            self.unreadable[key] = answer.error


def _at_rest(writer: Writer, wanted: Assignment) -> bool:
    return not writer.lock.locked() and writer.retry is None and patch_of(wanted, writer.has) is None
