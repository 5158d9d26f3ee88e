"""The slice of a pod where systemd keeps the cgroups: its weight beside other pods, limits over all in it, its end.

systemd writes the files of its cgroups, and again whenever it likes: it is told what they should have, with the
programs that come with it. It makes a slice for the first container in it, and keeps it when the last one is gone, so
slices are stopped here. What runs in a slice ends with it: only one with nothing in it is stopped. Blocking: call from
a thread.
"""

import errno
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from interpose.core.model.cgroup import MAX_SHARES, MIN_SHARES, PERIOD, KubeQos, Parameter, Value
from interpose.host.cgroup.files import CgroupFiles
from interpose.host.cgroup.parameters import weight_of
from interpose.host.cgroup.paths import CgroupLayout
from interpose.host.cgroup.tree import CgroupTree
from interpose.log import RateLimited
from interpose.node.pods.cgroups.limits import is_less, pod_values, tree_at
from interpose.node.pods.cri_config.qos import pod_qos
from interpose.node.pods.cri_config.resources import ResourceRules, pod_cgroup_resources
from interpose.node.pods.spec import PodSpec

_log = logging.getLogger(__name__)

Ask = Callable[[tuple[str, ...]], str]
"""Runs a program and says why it failed; empty if it did not."""

_SECOND: Final = 1_000_000
# systemd writes quotas down in whole percents: less than was asked for would be wrong.
_PERCENT: Final = 10_000
_UNLIMITED: Final = (1 << 64) - 1
_MANAGER: Final = (
    *("busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
    "org.freedesktop.systemd1.Manager",
)
_ACCOUNTING: Final = {"CPUAccounting": "true", "MemoryAccounting": "true", "TasksAccounting": "true"}
_KEPT: Final = "/run/systemd/system.control"
_BURST: Final = 5
_TIMEOUT: Final = 30.0
# A process that was killed leaves its cgroup a moment after its parent was told.
_TRIES: Final = 20
_PAUSE: Final = 0.02


def ask_systemd(words: tuple[str, ...]) -> str:
    """Run one of systemd's programs."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603
            words, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"{words[0]} ended with {done.returncode}"


class PodSlices:
    """Makes and removes slices of pods. What systemd refuses is logged: the pod runs without it."""

    def __init__(self, layout: CgroupLayout, mount: str, files: CgroupFiles, ask: Ask = ask_systemd) -> None:
        self._layout = layout
        self._mount = os.path.realpath(mount)
        self._files = files
        self._ask = ask
        self._told: dict[str, Mapping[str, str]] = {}  # by name of the slice: what it was last made to have
        self._lock = threading.Lock()  # a class is weighed by what is in it
        self._remarks = RateLimited(_log, burst=_BURST)

    def apply(self, pod: PodSpec, rules: ResourceRules, *, grow_only: bool = False) -> None:
        """Make the pod's slice, or bring it to what the manifest says now. `grow_only`: but for what becomes less."""
        tree = tree_at(self._files, self._mount)
        if tree is None:
            return
        qos = pod_qos(pod)
        directory = self._layout.pod(pod.uid, qos)
        values = pod_values(pod_cgroup_resources(pod, rules))
        with self._lock:
            if qos is not KubeQos.GUARANTEED:
                self._weigh(tree, qos, beside=directory, own=values[Parameter.CPU_SHARES])
            if grow_only:
                values = {
                    parameter: value
                    for parameter, value in values.items()
                    if not _becomes_less(tree, directory, parameter, value)
                }
            self._set_properties(tree, directory, properties(values))

    def remove(self, directories: Iterable[str]) -> None:
        """Stop slices of a pod that are there. OSError if something still runs in one."""
        tree = tree_at(self._files, self._mount)
        if tree is None:
            return
        for directory in directories:
            with self._lock:
                self._told.pop(_name(directory), None)
            if not tree.exists(directory):
                continue
            self._wait_empty(tree, directory)
            if refused := self._ask(("systemctl", "--no-ask-password", "stop", "--", _name(directory))):
                self._remark(directory, refused)
            self._revert(_name(directory))
        with self._lock:
            self._weigh(tree, KubeQos.BURSTABLE)

    # -- inside

    def _set_properties(self, tree: CgroupTree, directory: str, wanted: Mapping[str, str]) -> None:
        """Start the slice with these properties; give one that is there those that it was not told yet."""
        name = _name(directory)
        there = tree.exists(directory)
        told = self._told.get(name, {}) if there else {}
        missing = {key: value for key, value in wanted.items() if told.get(key) != value}
        if not missing:
            return
        if not there:
            self._revert(name)
        refused = "" if there else self._ask((*_MANAGER, *_start(name, wanted)))
        if there or refused:  # another one may have been quicker
            refused = self._ask((*_MANAGER, *_set(name, missing)))
        if refused:
            self._remark(directory, refused)
        else:
            self._told[name] = {**told, **missing}

    def _revert(self, name: str) -> None:
        """Of a slice that a runtime made systemd keeps what it was told, for the next one of that name."""
        if self._files.exists(f"{_KEPT}/{name}.d"):
            self._ask(("systemctl", "--no-ask-password", "revert", "--", name))

    def _weigh(self, tree: CgroupTree, qos: KubeQos, *, beside: str = "", own: Value = 0) -> None:
        """A class weighs what is in it: Burstable pods together, BestEffort ones next to nothing."""
        directory = self._layout.qos_directory(qos)
        if not beside and not tree.exists(directory):
            return
        shares = MIN_SHARES
        if qos is KubeQos.BURSTABLE:
            others = [name for name in _children(tree, directory) if f"{directory}/{name}" != beside]
            found = [own, *(_shares(tree, f"{directory}/{name}") for name in others)]
            shares = min(max(sum(value for value in found if isinstance(value, int)), MIN_SHARES), MAX_SHARES)
        self._set_properties(tree, directory, properties({Parameter.CPU_SHARES: shares}))

    def _wait_empty(self, tree: CgroupTree, directory: str) -> None:
        for left in reversed(range(_TRIES)):
            if not _occupied(tree, directory):
                return
            if left:
                time.sleep(_PAUSE)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), directory)

    def _remark(self, directory: str, refused: str) -> None:
        self._remarks.log(logging.WARNING, "Slice of a pod cannot be set", key=directory, cgroup=directory, err=refused)


def properties(values: Mapping[Parameter, Value]) -> dict[str, str]:
    """What systemd calls these values, in its units; 0 is not said."""
    found: dict[str, str] = {}
    if isinstance(shares := values.get(Parameter.CPU_SHARES), int) and shares:
        found["CPUWeight"] = str(weight_of(shares))
    if quota := values.get(Parameter.CPU_QUOTA):
        period = values.get(Parameter.CPU_PERIOD) or PERIOD
        found["CPUQuotaPerSecUSec"] = str(_UNLIMITED)
        if isinstance(quota, int) and isinstance(period, int):
            found["CPUQuotaPerSecUSec"] = str(-(-quota * _SECOND // period // _PERCENT) * _PERCENT)
    if memory := values.get(Parameter.MEMORY_LIMIT):
        found["MemoryMax"] = str(memory if isinstance(memory, int) else _UNLIMITED)
    return found


def _start(name: str, wanted: Mapping[str, str]) -> tuple[str, ...]:
    settings = (*_words(wanted, "t"), *_words(_ACCOUNTING, "b"))
    count = str(len(wanted) + len(_ACCOUNTING))
    return ("StartTransientUnit", "ssa(sv)a(sa(sv))", name, "replace", count, *settings, "0")


def _set(name: str, wanted: Mapping[str, str]) -> tuple[str, ...]:
    return ("SetUnitProperties", "sba(sv)", name, "true", str(len(wanted)), *_words(wanted, "t"))


def _words(wanted: Mapping[str, str], kind: str) -> tuple[str, ...]:
    return tuple(word for key, value in wanted.items() for word in (key, kind, value))


def _name(directory: str) -> str:
    return directory.rpartition("/")[2]


def _children(tree: CgroupTree, directory: str) -> list[str]:
    try:
        return tree.children(directory)
    except OSError:
        return []


def _shares(tree: CgroupTree, directory: str) -> Value:
    try:
        return tree.read(directory, Parameter.CPU_SHARES)
    except (OSError, ValueError):
        return 0  # gone meanwhile


def _becomes_less(tree: CgroupTree, directory: str, parameter: Parameter, value: Value) -> bool:
    try:
        return is_less(value, tree.read(directory, parameter))
    except (OSError, ValueError):
        return False  # there is none yet


def _occupied(tree: CgroupTree, directory: str) -> bool:
    """Whether a process is in it or in one below."""
    try:
        if tree.processes(directory):
            return True
    except OSError:
        return False
    return any(_occupied(tree, f"{directory}/{name}") for name in _children(tree, directory))
