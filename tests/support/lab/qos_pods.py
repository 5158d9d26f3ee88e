"""Co-located pods on real cgroups: a kubelet's part of the tree for one test, and pods as Koordinator makes them.

See `interpose.testing.qospods` for the same on a fake node. Needs cgroup v1: with v2 the controllers would have to be
handed down first.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from interpose._pb import cri_pb2 as cri
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES
from tests.support.lab.images import FOREVER
from tests.support.lab.pods import CGROUPS, LAB_GROUP, MEBIBYTE, LabPod, remove_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support.lab.cri import CriClient

_CLASSES: Final = ("burstable", "besteffort")
_NEEDED: Final = ("cpu", "cpuset", "memory")
# Shares, quota and memory limit: what a kubelet asks for the pods made here, and what they get on CPUs that are 1.2
# times as fast.
RATIO: Final = 1.2
SCALED: Final = 83_334
BE_ASKED: Final = (2, -1, -1)
BE: Final = (512, SCALED, 64 * MEBIBYTE)
LS_ASKED: Final = (512, 100_000, 128 * MEBIBYTE)
LS: Final = (512, SCALED, 128 * MEBIBYTE)

# The first process of a container notes what its own cgroup says, then waits.
NOTED: Final = "/values"
_OWN_FILES: Final = ("cpu/cpu.shares", "cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes", "cpuset/cpuset.cpus")
NOTING: Final = (
    "/bin/sh",
    "-c",
    f"cd /sys/fs/cgroup && cat {' '.join(_OWN_FILES)} /proc/self/oom_score_adj > {NOTED} && exec {' '.join(FOREVER)}",
)


class Kubepods:
    """The cgroups above pods, in every hierarchy, under a name of this test alone; they go with the `with` block."""

    def __init__(self) -> None:
        self._above = f"{LAB_GROUP}/{uuid.uuid4().hex}"
        self.name = f"{self._above}/kubepods"

    @staticmethod
    def missing() -> str | None:
        """Why there can be none here, or None."""
        if not all((CGROUPS / controller).is_dir() for controller in _NEEDED):
            return "no cgroup v1 mounted"
        return None if os.access(CGROUPS / "cpu", os.W_OK) else "cgroups cannot be written"

    def __enter__(self) -> Self:
        for qos in _CLASSES:
            self.make(f"{self.name}/{qos}")
        return self

    def __exit__(self, *_: object) -> None:
        remove_groups(self._above)

    def make(self, directory: str) -> None:
        """A cgroup as a kubelet makes it: in every hierarchy, with the CPUs of its parent."""
        for tree in (entry for entry in CGROUPS.iterdir() if entry.is_dir()):
            (tree / directory).mkdir(parents=True, exist_ok=True)
        parts = directory.split("/")
        for depth in range(1, len(parts) + 1):
            group = CGROUPS.joinpath("cpuset", *parts[:depth])
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not (group / name).read_text().strip():
                    (group / name).write_text((group.parent / name).read_text())

    def file(self, directory: str, name: str) -> Path:
        """A control file; the controller is in its name."""
        return CGROUPS / name.partition(".")[0] / directory.strip("/") / name


class QosPod(LabPod):
    """A pod of a QoS class with one container, `main`. `made`: its cgroup is there before it is run."""

    def __init__(
        self,
        client: CriClient,
        kubepods: Kubepods,
        name: str,
        *,
        qos: QosClass,
        kube_qos: str,
        resources: cri.LinuxContainerResources,
        annotations: Mapping[str, str],
        made: bool = True,
        command: Sequence[str] = NOTING,
    ) -> None:
        super().__init__(client, name, command)
        self.cgroup_parent = f"/{kubepods.name}/{kube_qos}/pod{self.uid}"
        self._kubepods = kubepods
        self._made = made
        config = self.sandbox_config
        config.linux.cgroup_parent = self.cgroup_parent
        config.linux.resources.CopyFrom(resources)
        config.labels[QOS_LABEL] = str(qos)
        config.annotations.update(annotations)
        self.container_config.linux.resources.CopyFrom(resources)

    def run(self) -> None:
        """With the pod's cgroup made beforehand, and the values of the pod in it, as a kubelet does it."""
        if self._made:
            asked = self.sandbox_config.linux.resources
            self._kubepods.make(self.cgroup_parent.strip("/"))
            self.write_pod("cpu.shares", asked.cpu_shares)
            self.write_pod("cpu.cfs_quota_us", asked.cpu_quota or -1)
            self.write_pod("memory.limit_in_bytes", asked.memory_limit_in_bytes or -1)
        super().run()

    # -- control files, as numbers where they are; a memory limit that is none is -1

    def has(self, name: str) -> int | str:
        """What a control file of the container says now."""
        return _value((self._container_file(name)).read_text())

    def pod_has(self, name: str) -> int | str:
        """What a control file of the pod says now."""
        return _value(self._kubepods.file(self.cgroup_parent, name).read_text())

    def write(self, name: str, value: int | str) -> None:
        """Change a control file of the container behind everybody's back."""
        self._container_file(name).write_text(f"{value}\n")

    def write_pod(self, name: str, value: int | str) -> None:
        """Write a control file of the pod, as a kubelet does."""
        self._kubepods.file(self.cgroup_parent, name).write_text(f"{value}\n")

    @property
    def cpu(self) -> tuple[int | str, int | str]:
        """Shares and quota of the container."""
        return self.has("cpu.shares"), self.has("cpu.cfs_quota_us")

    @property
    def values(self) -> tuple[int | str, ...]:
        """Shares, quota and memory limit of the container."""
        return *self.cpu, self.has("memory.limit_in_bytes")

    @property
    def pod_values(self) -> tuple[int | str, ...]:
        """Shares, quota and memory limit of the pod."""
        return tuple(self.pod_has(name) for name in ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes"))

    def noted(self) -> list[int | str]:
        """What the first process found, if it ran `NOTING`: shares, quota, memory limit, CPUs, OOM score."""
        return [_value(line) for line in self.exec("cat", NOTED).stdout.decode().splitlines()]

    def _container_file(self, name: str) -> Path:
        return self._kubepods.file(f"{self.cgroup_parent}/{self.container_id}", name)


def be_pod(
    client: CriClient,
    kubepods: Kubepods,
    name: str = "batch",
    *,
    cpu: tuple[int, int] = (500, 1000),
    memory: int = 64 * MEBIBYTE,
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> QosPod:
    """A BE pod: request and limit of batch CPU are in thousandths. Kubernetes sees one that asks for nothing."""
    amounts = {
        kind: {"kubernetes.io/batch-cpu": str(amount), "kubernetes.io/batch-memory": str(memory)}
        for kind, amount in zip(("requests", "limits"), cpu, strict=True)
    }
    return QosPod(
        client,
        kubepods,
        name,
        qos=QosClass.BE,
        kube_qos="besteffort",
        resources=cri.LinuxContainerResources(cpu_period=100_000, cpu_shares=2, oom_score_adj=1000),
        annotations={EXTENDED_RESOURCES: json.dumps({"containers": {"main": amounts}}), **(annotations or {})},
        **more,
    )


def ls_pod(
    client: CriClient,
    kubepods: Kubepods,
    name: str = "web",
    *,
    quota: int = 100_000,
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> QosPod:
    """An LS pod, Burstable: half a CPU asked for, with a CPU limit and a memory limit."""
    resources = cri.LinuxContainerResources(
        cpu_period=100_000,
        cpu_quota=quota,
        cpu_shares=512,
        memory_limit_in_bytes=128 * MEBIBYTE,
        oom_score_adj=900,
    )
    return QosPod(
        client,
        kubepods,
        name,
        qos=QosClass.LS,
        kube_qos="burstable",
        resources=resources,
        annotations=annotations or {},
        **more,
    )


def _value(text: str) -> int | str:
    """A number where it is one; the kernel's word for no memory limit is its largest page."""
    text = text.strip()
    if not text.lstrip("-").isdigit():
        return text
    return -1 if int(text) >= 1 << 62 else int(text)
