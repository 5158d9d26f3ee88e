"""The cgroup of a pod as a whole: its weight beside other pods, and limits over all that runs in it.

A kubelet makes it before the sandbox. The weights of the classes follow: what Burstable pods ask for together, and next
to nothing for BestEffort ones. Blocking: call from a thread.
"""

import logging
import os
import threading
from contextlib import suppress
from typing import Final

from interpose.core.model.cgroup import MAX_SHARES, MIN_SHARES, UNLIMITED, KubeQos, Parameter, Value
from interpose.core.model.resources import LinuxResources
from interpose.errors import ConfigError
from interpose.host.cgroup.files import CgroupFiles
from interpose.host.cgroup.paths import CgroupLayout
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.log import RateLimited
from interpose.node.pods.cri_config.qos import pod_qos
from interpose.node.pods.cri_config.resources import ResourceRules, pod_cgroup_resources
from interpose.node.pods.spec import PodSpec

_log = logging.getLogger(__name__)

_BURST: Final = 5
# Those in which there is something to set; runtimes make the others.
_CONTROLLERS: Final = ("cpu", "memory")
_PROCESSES: Final = "cgroup.procs"


def tree_at(files: CgroupFiles, mount: str) -> CgroupTree | None:
    """The cgroups that are mounted there; None if there are none."""
    try:
        return CgroupTree(files, mount, version=detect_version(files, mount))
    except ConfigError:
        return None


class PodLimits:
    """Makes cgroups of pods. Where there are none, or they are not ours to change, nothing is done."""

    def __init__(self, layout: CgroupLayout, mount: str, files: CgroupFiles) -> None:
        self._layout = layout
        self._mount = os.path.realpath(mount)
        self._files = files
        self._lock = threading.Lock()  # a class is weighed by what is in it
        self._remarks = RateLimited(_log, burst=_BURST)

    def apply(self, pod: PodSpec, rules: ResourceRules, *, grow_only: bool = False) -> None:
        """Make the pod's cgroup, or bring it to what the manifest says now. What the kernel refuses is logged: the pod
        runs without it, as it does where the runtime makes the cgroup."""
        qos = pod_qos(pod)
        directory = self._layout.pod(pod.uid, qos)
        try:
            tree = tree_at(self._files, self._mount)
            if tree is None or not self._make(tree.version, directory):
                return
            with self._lock:
                self._write(tree, pod, directory, pod_cgroup_resources(pod, rules), grow_only=grow_only)
                self._weigh(tree, qos)
        except PermissionError:
            return  # not root: the runtime's cgroups are not the kernel's either
        except OSError as error:
            self._refused(pod.title, directory, error)

    def weigh(self) -> None:
        """A pod is gone: what is left of its class has the weight."""
        with suppress(OSError, ValueError), self._lock:
            if (tree := tree_at(self._files, self._mount)) is not None:
                self._weigh(tree, KubeQos.BURSTABLE)

    # -- inside

    def _make(self, version: int, directory: str) -> bool:
        """Whether it is there now, as a cgroup.

        In a plain folder nothing is made, not even for a moment: a runtime that has one for its cgroups would take what
        it finds there for somebody else's, and never remove it.
        """
        bases = [self._mount] if version > 1 else [f"{self._mount}/{name}" for name in _CONTROLLERS]
        if not all(self._files.exists(f"{base}/{_PROCESSES}") for base in bases):
            return False
        for base in bases:
            folder = os.path.realpath(base)
            for part in directory.split("/"):
                if version > 1:
                    self._hand_down(folder)
                folder = f"{folder}/{part}"
                with suppress(FileExistsError):
                    self._files.make_directory(folder)
        return True

    def _hand_down(self, folder: str) -> None:
        """Let cgroups below use all that this one may."""
        handed = f"{folder}/cgroup.subtree_control"
        if not self._files.exists(handed):
            return
        have = self._files.read(f"{folder}/cgroup.controllers").split()
        given = self._files.read(handed).split()
        if missing := [name for name in have if name in _CONTROLLERS and name not in given]:
            self._files.write(handed, " ".join(f"+{name}" for name in missing))

    def _write(
        self, tree: CgroupTree, pod: PodSpec, directory: str, wanted: LinuxResources, *, grow_only: bool
    ) -> None:
        for parameter, value in pod_values(wanted).items():
            if value == 0 or not tree.supports(directory, parameter):
                continue
            try:
                found = tree.read(directory, parameter)
                if not tree.same(parameter, found, value) and not (grow_only and is_less(value, found)):
                    tree.write(directory, parameter, value)
            except OSError as error:
                self._refused(pod.title, f"{directory} {parameter}", error)

    def _weigh(self, tree: CgroupTree, qos: KubeQos) -> None:
        if qos is KubeQos.GUARANTEED:
            return
        directory = self._layout.qos_directory(qos)
        shares = MIN_SHARES
        if qos is KubeQos.BURSTABLE:
            pods = [name for name in tree.children(directory) if name.startswith("pod")]
            found = [tree.read(f"{directory}/{name}", Parameter.CPU_SHARES) for name in pods]
            shares = min(max(sum(value for value in found if isinstance(value, int)), MIN_SHARES), MAX_SHARES)
        if not tree.same(Parameter.CPU_SHARES, tree.read(directory, Parameter.CPU_SHARES), shares):
            tree.write(directory, Parameter.CPU_SHARES, shares)

    def _refused(self, title: str, what: str, error: OSError) -> None:
        self._remarks.log(
            logging.WARNING, "Cgroup of a pod cannot be set", key=what, pod=title, cgroup=what, err=str(error)
        )


def pod_values(wanted: LinuxResources) -> dict[Parameter, Value]:
    """What the cgroup of a pod has; 0 is not said."""
    return {
        Parameter.CPU_SHARES: wanted.cpu_shares,
        Parameter.CPU_PERIOD: wanted.cpu_period,
        Parameter.CPU_QUOTA: wanted.cpu_quota or UNLIMITED,
        Parameter.MEMORY_LIMIT: wanted.memory_limit_in_bytes or UNLIMITED,
    }


def is_less(value: Value, than: Value) -> bool:
    """Whether one value takes something away where there was another."""
    if than is UNLIMITED:
        return value is not UNLIMITED
    return isinstance(value, int) and isinstance(than, int) and value < than
