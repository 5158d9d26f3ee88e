"""The cgroup of a pod as a whole, on a kernel in memory."""

import errno
from fractions import Fraction
from pathlib import Path

import pytest

from interpose.core.model.quantity import parse_quantity
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.paths import Driver
from interpose.node.pods.cgroups.limits import PodLimits
from interpose.node.pods.cgroups.paths import layout_of
from interpose.node.pods.cri_config.resources import ResourceRules
from interpose.node.pods.spec import PodSpec, ResourceRequirements
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.node.managed_node import container, pod

RULES = ResourceRules(memory=1 << 30)
LAYOUT = layout_of(Driver.CGROUPFS)
MIB = 1 << 20


def amounts(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> ResourceRequirements:
    return ResourceRequirements(
        requests={name: parse_quantity(text) for name, text in (requests or {}).items()},
        limits={name: parse_quantity(text) for name, text in (limits or {}).items()},
    )


def burstable(uid: str, cpu: str, *, limit: str = "") -> PodSpec:
    return pod(container(resources=amounts(requests={"cpu": cpu}, limits={"cpu": limit} if limit else {})), uid=uid)


def guaranteed(cpu: str = "500m", memory: str = "64Mi") -> PodSpec:
    return pod(container(resources=amounts(limits={"cpu": cpu, "memory": memory})), uid="g")


def limits(kernel: FakeKernel) -> PodLimits:
    return PodLimits(LAYOUT, kernel.root, kernel)


def test_version_one() -> None:
    """Weight, quota and memory."""
    kernel = FakeKernel(1, root="/fake")
    limits(kernel).apply(guaranteed(), RULES)
    group = "kubepods/podg"
    assert kernel.get(group, "cpu.shares") == "512"
    assert kernel.get(group, "cpu.cfs_quota_us") == "50000"
    assert kernel.get(group, "memory.limit_in_bytes") == str(64 * MIB)


def test_version_two() -> None:
    """In its own units, with controllers handed down from the top where they are not yet."""
    kernel = FakeKernel(2, root="/fake")
    kernel.put("/fake/cgroup.controllers", "cpu io memory")
    kernel.put("/fake/cgroup.subtree_control", "cpu")
    kernel.put("/fake/kubepods/cgroup.controllers", "cpu memory")
    kernel.put("/fake/kubepods/cgroup.subtree_control", "memory cpu")
    limits(kernel).apply(guaranteed(), RULES)
    assert kernel.read("/fake/cgroup.subtree_control") == "+memory"
    assert kernel.read("/fake/kubepods/cgroup.subtree_control") == "memory cpu"
    group = "kubepods/podg"
    assert kernel.get(group, "cpu.weight") == "20"
    assert kernel.get(group, "cpu.max") == "50000 100000"
    assert kernel.get(group, "memory.max") == str(64 * MIB)


def test_a_class_weighs_what_is_in_it() -> None:
    """Burstable pods together, also when one is gone; BestEffort ones next to nothing."""
    kernel = FakeKernel(1, root="/fake")
    made = limits(kernel)
    made.apply(burstable("a", "1"), RULES)
    made.apply(burstable("b", "500m", limit="1"), RULES)
    made.apply(pod(uid="c"), RULES)
    assert kernel.get("kubepods/burstable", "cpu.shares") == "1536"
    assert kernel.get("kubepods/besteffort", "cpu.shares") == "2"
    assert kernel.get("kubepods/besteffort/podc", "cpu.shares") == "2"
    kernel.remove("kubepods/burstable/poda")
    made.weigh()
    assert kernel.get("kubepods/burstable", "cpu.shares") == "512"


def test_what_grows_grows_before_and_what_shrinks_after() -> None:
    """A resize: containers get more after the pod, and less before it."""
    kernel = FakeKernel(1, root="/fake")
    made = limits(kernel)
    made.apply(guaranteed("500m", "64Mi"), RULES)
    resized = guaranteed("1", "32Mi")
    made.apply(resized, RULES, grow_only=True)
    group = "kubepods/podg"
    assert kernel.get(group, "cpu.cfs_quota_us") == "100000"
    assert kernel.get(group, "memory.limit_in_bytes") == str(64 * MIB)
    made.apply(resized, RULES)
    assert kernel.get(group, "memory.limit_in_bytes") == str(32 * MIB)


def test_a_limit_that_is_new_waits_too() -> None:
    """There was none before, so it is less."""
    kernel = FakeKernel(1, root="/fake")
    made = limits(kernel)
    made.apply(burstable("a", "1"), RULES)
    made.apply(burstable("a", "1", limit="2"), RULES, grow_only=True)
    assert kernel.get("kubepods/burstable/poda", "cpu.cfs_quota_us") == "-1"
    made.apply(burstable("a", "1", limit="2"), RULES)
    assert kernel.get("kubepods/burstable/poda", "cpu.cfs_quota_us") == "200000"


def test_what_is_right_is_not_written_again() -> None:
    """A second time nothing happens."""
    kernel = FakeKernel(1, root="/fake")
    made = limits(kernel)
    made.apply(burstable("a", "1"), RULES)
    before = list(kernel.writes)
    made.apply(burstable("a", "1"), RULES)
    assert kernel.writes == before


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EBUSY])
def test_what_the_kernel_refuses_is_told(caplog: pytest.LogCaptureFixture, code: int) -> None:
    """And the rest is set all the same."""
    kernel = FakeKernel(1, root="/fake")
    made = limits(kernel)
    made.apply(pod(uid="g"), RULES)
    kernel.make("kubepods/podg")
    kernel.fail(kernel.path("kubepods/podg", "cpu.shares"), code, 9)
    made.apply(guaranteed(), RULES)
    assert "Cgroup of a pod cannot be set" in caplog.text
    assert kernel.get("kubepods/podg", "memory.limit_in_bytes") == str(64 * MIB)


def test_a_folder_that_is_no_tree_of_cgroups_is_left_alone(tmp_path: Path) -> None:
    """None at all, or one with folders that look like it."""
    PodLimits(LAYOUT, str(tmp_path / "missing"), KernelFiles()).apply(guaranteed(), RULES)
    PodLimits(LAYOUT, str(tmp_path / "missing"), KernelFiles()).weigh()


def test_in_a_plain_folder_nothing_is_made_even_for_a_moment(tmp_path: Path) -> None:
    """A runtime that uses the folder for its cgroups would take it for somebody else's."""
    made: list[str] = []

    class Recorder(KernelFiles):
        def make_directory(self, path: str) -> None:
            made.append(path)
            super().make_directory(path)

    for controller in ("cpu", "memory"):
        (tmp_path / controller).mkdir()
    PodLimits(LAYOUT, str(tmp_path), Recorder()).apply(guaranteed(), RULES)
    assert made == []


def test_one_who_may_not_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Not an error: the runtime of such a user has no cgroups of the kernel either."""

    class Forbidden(FakeKernel):
        def make_directory(self, path: str) -> None:
            raise PermissionError(errno.EACCES, "no", path)

    kernel = Forbidden(1, root="/fake")
    limits(kernel).apply(guaranteed(), RULES)
    assert kernel.writes == []
    assert caplog.text == ""


def test_another_refusal_to_make_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The pod comes up without."""

    class Full(FakeKernel):
        def make_directory(self, path: str) -> None:
            raise OSError(errno.ENOSPC, "too many", path)

    limits(Full(1, root="/fake")).apply(guaranteed(), RULES)
    assert "Cgroup of a pod cannot be set" in caplog.text


def test_the_amounts_come_from_the_whole_pod() -> None:
    """Overhead counts; a limit needs one of every container."""
    one = container("one", resources=amounts(requests={"cpu": "100m"}, limits={"cpu": "1", "memory": "16Mi"}))
    two = container("two", resources=amounts(requests={"cpu": "100m"}, limits={"cpu": "1"}))
    kernel = FakeKernel(1, root="/fake")
    limits(kernel).apply(pod(one, two, uid="p", overhead={"cpu": Fraction(1, 2)}), RULES)
    group = "kubepods/burstable/podp"
    assert kernel.get(group, "cpu.shares") == "716"
    assert kernel.get(group, "cpu.cfs_quota_us") == "250000"
    assert int(kernel.get(group, "memory.limit_in_bytes")) > 1 << 60
