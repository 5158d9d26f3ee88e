"""Watches CPU sets at a fake runtime: nobody may have a CPU that another container has alone, at no moment.

Who has what is what the runtime has; who has CPUs alone is what the books say. Looked at whenever the runtime is told
something, as the observer of a FakeRuntime.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Key
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.state import FakeContainer, FakeSandbox

if TYPE_CHECKING:
    from interpose._pb import cri_pb2 as cri
    from interpose.resmgr.tracker import AllocationTracker

_EXITED = 2  # as CRI numbers the states


class CpuWatch:
    """Collects what it sees in `overlaps`. Containers in `excused` may have what they like: those known to be late."""

    def __init__(self) -> None:
        self.overlaps: list[str] = []
        self.excused: set[str] = set()
        self.looks = 0
        self._runtime: FakeRuntime | None = None
        self._tracker: Callable[[], AllocationTracker] | None = None

    def follow(self, runtime: FakeRuntime, tracker: "Callable[[], AllocationTracker]") -> None:
        """Begin to look. Called again, other books count from now on."""
        self._runtime, self._tracker = runtime, tracker

    def changed(self, _kind: "cri.ContainerEventType", _object_id: str, _sandbox: FakeSandbox | None) -> None:
        """Something came or went."""
        self.look()

    def updating(self, container: FakeContainer, patch: "cri.LinuxContainerResources") -> None:
        """A container is about to have other CPUs."""
        self.look({container.id: patch.cpuset_cpus} if patch.cpuset_cpus else {})

    def look(self, soon: dict[str, str] | None = None) -> None:
        """Compare everybody with everybody who has CPUs alone; `soon`: CPU sets that are being written."""
        if self._runtime is None or self._tracker is None:
            return
        self.looks += 1
        grants = self._tracker().allocations.policy.state.grants
        alive = [one for one in self._runtime.containers.values() if one.state != _EXITED]
        # Without a CPU set it may run anywhere.
        has = {one.id: (soon or {}).get(one.id) or one.resources.cpuset_cpus or "0-1023" for one in alive}
        for owner in alive:
            grant = grants.get(_key(owner))
            if grant is None or not grant.exclusive:
                continue
            own = CpuSet.parse(has[owner.id])
            own = own & grant.exclusive if grant.pools else own
            for other in alive:
                both = own & CpuSet.parse(has[other.id])
                if other is not owner and both and not self.excused & {owner.id, other.id}:
                    self.overlaps.append(f"CPUs {both} of {_name(owner)} are those of {_name(other)} too")


def _key(container: FakeContainer) -> Key:
    meta = container.config.metadata
    return Key(container.sandbox_id, meta.name, meta.attempt)


def _name(container: FakeContainer) -> str:
    return container.config.labels.get("io.kubernetes.pod.name", container.id)
