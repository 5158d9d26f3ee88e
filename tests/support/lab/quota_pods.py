"""Pods whose cgroup has a CFS quota, as a kubelet makes it before it runs them: on real cgroups of v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interpose.core.model.cgroup import PERIOD
from tests.support.lab.policy_pods import GUARANTEED, PolicyPod, asked_for
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from tests.support.lab.cri import CriClient
    from tests.support.lab.qos_pods import Kubepods

SIDECAR: Final = 100  # thousandths of a CPU
_FILE: Final = "cpu.cfs_quota_us"
# More threads of work than CPUs: whatever quota there is, it is used up in each period.
BUSY: Final = ("/bin/sh", "-c", "while :; do :; done & while :; do :; done")


class QuotaPod(PolicyPod):
    """A Guaranteed pod of two containers, `main` and a sidecar, in a cgroup with the sum of their quotas."""

    def __init__(self, client: CriClient, kubepods: Kubepods, name: str, milli: int = 1000) -> None:
        super().__init__(client, kubepods, name, milli, GUARANTEED, BUSY)
        self._kubepods = kubepods
        self.sidecar_id = ""
        self.asked = (milli + SIDECAR) * PERIOD // 1000
        self.sandbox_config.linux.resources.CopyFrom(asked_for(milli + SIDECAR, GUARANTEED))

    def run(self) -> None:
        """With its cgroup made beforehand."""
        self._kubepods.make(self.cgroup_parent.strip("/"))
        self.write_quota(self.asked)
        super().run()

    def start(self) -> None:
        """Both containers."""
        super().start()
        main, self.container_id = self.container_id, ""
        config = self.container_config
        config.metadata.name = "sidecar"
        before = config.linux.resources
        kept = type(before).FromString(before.SerializeToString())
        config.linux.resources.CopyFrom(asked_for(SIDECAR, GUARANTEED))
        self.create()
        super().start()
        self.sidecar_id, self.container_id = self.container_id, main
        config.metadata.name = "main"
        config.linux.resources.CopyFrom(kept)

    def write_quota(self, quota: int) -> None:
        """The quota of the pod, as a kubelet sets it."""
        self._kubepods.file(self.cgroup_parent, _FILE).write_text(str(quota))

    def kubelet_resize(self, milli: int) -> None:
        """In place: the pod first if it grows, the container, and then the pod if it shrinks."""
        asked = (milli + SIDECAR) * PERIOD // 1000
        if asked > self.asked:
            self.write_quota(asked)
        self.resize(milli)
        if asked < self.asked:
            self.write_quota(asked)
        self.asked = asked

    @property
    def pod_quota(self) -> int:
        """The quota of the pod now."""
        return int(self._kubepods.file(self.cgroup_parent, _FILE).read_text())

    @property
    def quotas(self) -> tuple[int, int, int]:
        """The quotas of main container, sidecar and pod now."""
        sidecar = self.control_file(self.sidecar_id, "cpu", _FILE)
        return self.quota, int(sidecar.read_text()), self.pod_quota

    @property
    def reported(self) -> int:
        """The quota of the main container that the kubelet sees."""
        return int(self.status().resources.linux.cpu_quota)

    def throttled(self) -> int:
        """In how many periods the container or the pod had to wait, so far."""
        return sum(
            int(dict(line.split() for line in file.read_text().splitlines())["nr_throttled"])
            for file in (
                self.cgroup_file("cpu", "cpu.stat"),
                self._kubepods.file(self.cgroup_parent, "cpu.stat"),
            )
        )

    def periods(self, count: int) -> None:
        """Wait until it has used the CPU time of so many periods."""
        usage = self.cgroup_file("cpuacct", "cpuacct.usage")
        end = int(usage.read_text()) + count * PERIOD * 1000
        wait_for(lambda: int(usage.read_text()) >= end, what=f"{self.name} to have used CPU time")
