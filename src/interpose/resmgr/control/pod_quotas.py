"""The CFS quota of pods: lifted while a container in the pod has CPUs of its own, and put back after that.

The kubelet limits a pod to the sum of its containers' limits, in the pod's own cgroup, which no call of CRI reaches. A
container without a quota would still be throttled by that one. Kubelets since 1.33 lift it as soon as one container has
exclusive CPUs; the others keep their own.

Invariants: what was found in a cgroup is saved before it is replaced, so a relay that is killed at any moment puts it
back when it runs again. A value that somebody else wrote since counts more than the one that was found: it is left, or
takes its place. Only cgroups of the kubelet's pods are written, and of these only this one value.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from interpose.core.model.cgroup import UNLIMITED, Parameter, Value, find_kube_qos
from interpose.errors import ConfigError
from interpose.host.cgroup.paths import pod_directory
from interpose.host.cgroup.tree import CgroupTree
from interpose.log import RateLimited
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_CYCLE: Final = 60  # ticks in which all pods are looked at
_WATCHED: Final = 10  # ticks after a resize in which the kubelet may still write the quota of the pod
_SLICE: Final = ".slice"
_ROUNDS: Final = 5  # times that a value may change while it is being lifted, before it is left for the next tick

Tree = Callable[[], CgroupTree]
Wanted = Mapping[str, int]
"""Pods without a quota, by directory, with the quota that the kubelet asked for, as far as that is known; else 0."""


def quota_directory(cgroup_parent: str) -> str | None:
    """The cgroup of a kubelet's pod; None if it is none, and no business of ours."""
    if find_kube_qos(cgroup_parent) is None:
        return None
    try:
        directory = pod_directory(cgroup_parent)
    except ValueError:
        return None
    name = PurePosixPath(directory).name
    if name.endswith(_SLICE):
        name = name.rpartition("-")[2]  # the name of a slice is its path, and the kubelet leaves no dash in a uid
    return directory if name.startswith("pod") else None


class QuotaWrite(NamedTuple):
    """A quota to write, and the value that has to be there: the one that was saved."""

    directory: str
    expected: Value
    value: Value


class QuotaReading(NamedTuple):
    """The quota in a cgroup; `error` if it could not be read or written, `gone` if there is no such cgroup."""

    value: Value | None = None
    error: str = ""
    gone: bool = False


def read_quotas(tree: Tree, directories: Iterable[str]) -> dict[str, QuotaReading]:
    """What the kernel has. Reads files: not for the loop."""
    return _access(tree, directories, lambda cgroups, name: cgroups.read(name, Parameter.CPU_QUOTA))


def write_quotas(tree: Tree, writes: Iterable[QuotaWrite]) -> dict[str, QuotaReading]:
    """Write quotas where nobody has changed them; returns what is there then. Writes files: not for the loop."""
    by_directory = {write.directory: write for write in writes}

    def write_one(cgroups: CgroupTree, directory: str) -> Value:
        write = by_directory[directory]
        if cgroups.read(directory, Parameter.CPU_QUOTA) == write.expected:
            cgroups.write(directory, Parameter.CPU_QUOTA, write.value)
        return cgroups.read(directory, Parameter.CPU_QUOTA)

    return _access(tree, by_directory, write_one)


def _access(
    tree: Tree, directories: Iterable[str], access: Callable[[CgroupTree, str], Value]
) -> dict[str, QuotaReading]:
    try:
        cgroups = tree()
    except (OSError, ConfigError) as error:
        return {directory: QuotaReading(error=str(error)) for directory in directories}
    found = {}
    for directory in directories:
        try:
            found[directory] = QuotaReading(access(cgroups, directory))
        except FileNotFoundError:
            found[directory] = QuotaReading(gone=True)
        except (OSError, ValueError) as error:
            found[directory] = QuotaReading(error=str(error))
    return found


class PodQuotas:
    """The quotas of all pods. `wanted` returns None as long as nothing may be changed; without a tree nothing is.

    `save` brings `originals` to the disk and returns whether they are there.
    """

    def __init__(self, tree: Tree | None, wanted: Callable[[], Wanted | None]) -> None:
        self.originals: dict[str, int] = {}  # what was found in cgroups whose quota was lifted; never changed in place
        self.lifted: frozenset[str] = frozenset()  # pods that were seen without a quota
        self.unreadable: dict[str, str] = {}  # pods whose quota could not be read, and why
        self.problems: dict[str, str] = {}  # why the quota of a pod could not be lifted or put back
        self.save: Callable[[], Awaitable[bool]] = _nowhere
        self._saved: Mapping[str, int] = self.originals  # what is on the disk
        self._tree = tree
        self._wanted = wanted
        self._due: dict[str, None] = {}
        self._watched: dict[str, int] = {}  # ticks for which a pod is looked at each time
        self._cycle: list[str] = []
        self._rate_limited = RateLimited(_log)
        self._tasks = TaskBag()
        self._task: asyncio.Task[None] | None = None

    def restore(self, originals: Mapping[str, int]) -> None:
        """Use what an earlier run saved."""
        self.originals = self._saved = dict(originals)

    @property
    def busy(self) -> bool:
        """Whether quotas are being looked at in the background."""
        return self._task is not None and not self._task.done()

    def state(self, directory: str) -> str:
        """How a pod is on its way to having no quota: `writing`, `failing`; empty if it has none or nobody can tell."""
        if self._tree is None or directory in self.lifted or directory in self.unreadable:
            return ""
        return "failing" if directory in self.problems else "writing"

    def check_soon(self, directory: str | None, *, watch: bool = False) -> None:
        """Look at a pod at the next tick; `watch`: and at those after it, as the kubelet may be about to write it."""
        if directory is not None:
            self._due[directory] = None
            if watch:
                self._watched[directory] = _WATCHED

    def tick(self) -> None:
        """Begin to look at pods that are due and a part of all others; to be called once a second."""
        wanted = self._wanted()
        if self._tree is None or wanted is None:
            return
        for directory in tuple(self._watched):
            self._due[directory] = None
            self._watched[directory] -= 1
            if not self._watched[directory]:
                del self._watched[directory]
        known = dict.fromkeys((*wanted, *self.originals))
        self.lifted &= known.keys()
        for texts in (self.problems, self.unreadable):
            for directory in texts.keys() - known.keys():
                del texts[directory]
        # One that failed waits for its turn.
        pending = (name for name in known if not (name in wanted and name in self.lifted))
        changing = [name for name in pending if name not in self.problems and name not in self.unreadable]
        if not self._cycle:
            self._cycle = list(known)
        count = -(-len(known) // _CYCLE)
        some, self._cycle = self._cycle[:count], self._cycle[count:]
        self._due.update(dict.fromkeys((*changing, *some)))
        self._begin()

    async def settle(self, directory: str | None, timeout: float) -> None:
        """Give a pod the quota that it should have now, or none; it goes on after `timeout` seconds."""
        wanted = self._wanted()
        if directory is None or self._tree is None or wanted is None:
            return
        if directory in wanted or directory in self.originals:
            self._due[directory] = None
        if directory in self._due:
            self._begin()
            if self._task is not None:
                await asyncio.wait((self._task,), timeout=max(timeout, 0.0))

    async def close(self) -> None:
        """Cancel what is under way: what was saved is put back by the next run."""
        await self._tasks.cancel()

    def _begin(self) -> None:
        if self._due and not self.busy:
            self._task = self._tasks.spawn(self._work(), name="quotas of pods")

    async def _work(self) -> None:
        rounds = 0
        while self._due and self._tree is not None:
            directories, self._due = tuple(self._due), {}
            again = await self._look(self._tree, directories)
            rounds += 1 if again else 0
            if rounds >= _ROUNDS:
                return
            self._due.update(dict.fromkeys(again))

    async def _look(self, tree: Tree, directories: tuple[str, ...]) -> list[str]:
        """Bring these pods to what they should have; returns those that changed meanwhile."""
        found = await asyncio.to_thread(read_quotas, tree, directories)
        if (wanted := self._wanted()) is None:
            return []
        writes = [write for name in directories if (write := self._plan(name, found[name], wanted)) is not None]
        if any(write.value is UNLIMITED for write in writes) and not await self._save():
            for write in writes:
                self._note(write.directory, QuotaReading(write.expected), "the state file cannot be written")
            return []
        again: list[str] = []
        if writes:
            # Decided again: containers may have come or gone while it was written to the disk.
            now = self._wanted()
            late = [write for write in writes if now is None or (write.directory in now) != (write.value is UNLIMITED)]
            written = await asyncio.to_thread(write_quotas, tree, [write for write in writes if write not in late])
            again += [write.directory for write in late if now is not None]
            for write in writes:
                if (reading := written.get(write.directory)) is None:
                    continue
                self._note(write.directory, reading, reading.error)
                if write.value is not UNLIMITED and not reading.error:
                    self._forget(write.directory)
                elif reading.value is not None and reading.value != write.value:
                    again.append(write.directory)
        await self._save()
        return again

    async def _save(self) -> bool:
        """Bring what was found to the disk, if it is not there yet."""
        if self.originals == self._saved:
            return True
        saving = self.originals
        saved = await self.save()
        if saved:
            self._saved = saving
        return saved

    def _plan(self, directory: str, reading: QuotaReading, wanted: Wanted) -> QuotaWrite | None:
        """What to write in a pod; what it has is remembered if that is to be replaced."""
        self._note(directory, reading)
        if reading.error:
            self.unreadable[directory] = reading.error
        if reading.gone:
            self._forget(directory)
            return None
        if reading.value is None:
            return None
        original = self.originals.get(directory)
        if directory in wanted:
            if reading.value is UNLIMITED:
                if original is None and wanted[directory] > 0:
                    self._remember(directory, wanted[directory])  # an earlier run lifted it, and its state is lost
                return None
            self._remember(directory, int(str(reading.value)))
            return QuotaWrite(directory, reading.value, UNLIMITED)
        if original is not None and reading.value is UNLIMITED:
            return QuotaWrite(directory, UNLIMITED, original)
        self._forget(directory)  # somebody else has put a value there: it counts
        return None

    def _note(self, directory: str, reading: QuotaReading, problem: str = "") -> None:
        self.problems.pop(directory, None)
        self.unreadable.pop(directory, None)
        self.lifted = self.lifted | {directory} if reading.value is UNLIMITED else self.lifted - {directory}
        if problem:
            self.problems[directory] = problem
            kv = {"cgroup": directory, "err": problem}
            self._rate_limited.log(
                logging.WARNING, "CFS quota of a pod could not be changed, it is tried again", key=directory, **kv
            )

    def _remember(self, directory: str, quota: int) -> None:
        if self.originals.get(directory) != quota:
            self.originals = {**self.originals, directory: quota}

    def _forget(self, directory: str) -> None:
        if directory in self.originals:
            self.originals = {name: quota for name, quota in self.originals.items() if name != directory}


async def _nowhere() -> bool:
    """The default of `save`: without a state file nothing may be replaced."""
    return False
