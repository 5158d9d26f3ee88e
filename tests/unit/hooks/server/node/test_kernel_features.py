"""Features of the kernel are found where pods live, and what is not there is not there."""

import pytest

from interpose.core.model.cgroup import Parameter
from interpose.hooks.server.node.kernel_features import probe
from interpose.hooks.server.plugin import Kernel, Resctrl
from interpose.host.cgroup.files import CgroupFiles
from interpose.host.cgroup.parameters import TABLE
from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.hooks.fake_resctrl import FakeResctrl

LAYOUT = CgroupLayout(driver=Driver.CGROUPFS)


def features(kernel: FakeKernel, layout: CgroupLayout | None = LAYOUT, files: CgroupFiles | None = None) -> Kernel:
    """What is found on a kernel."""
    tree = CgroupTree(kernel, kernel.root, version=kernel.version)
    return probe(tree, files or kernel, layout=layout, core_sched=lambda: False)


@pytest.mark.parametrize("version", [1, 2])
def test_parameters_are_those_of_the_directories_of_pods(version: int) -> None:
    """All that our table knows on a kernel that has them all."""
    kernel = FakeKernel(version, bvt=True)
    kernel.make("kubepods/burstable/pod1")
    assert features(kernel).parameters == frozenset(TABLE)


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_kernel_lacks_is_not_found(version: int) -> None:
    """An ordinary kernel has no group identity, an old one no idle groups."""
    kernel = FakeKernel(version, idle=False)
    kernel.make("kubepods/burstable")
    assert frozenset(TABLE) - features(kernel).parameters == {Parameter.CPU_BVT, Parameter.CPU_IDLE}


@pytest.mark.parametrize("version", [1, 2])
def test_before_there_are_pods_other_cgroups_are_looked_at(version: int) -> None:
    """Some files are not in the root."""
    kernel = FakeKernel(version)
    kernel.make("system.slice")
    assert features(kernel, layout=None).parameters == frozenset(TABLE) - {Parameter.CPU_BVT}


def test_without_any_cgroup_little_is_found() -> None:
    """And nothing fails, whether a layout is known that is gone or none."""
    kernel = FakeKernel(2)
    assert Parameter.CPU_SHARES not in features(kernel, layout=None).parameters
    assert features(kernel).parameters == frozenset()


def test_a_file_that_appears_is_found_the_next_time() -> None:
    """Nothing is remembered."""
    kernel = FakeKernel(1)
    assert features(kernel).parameters == frozenset()
    kernel.make("kubepods")
    assert Parameter.CPU_SHARES in features(kernel).parameters


def test_sysctls_have_their_values() -> None:
    """None is a kernel without it, and so is something that is not a number."""
    found = features(FakeKernel(sysctls={"sched_group_identity_enabled": 1, "sched_core": 0}))
    assert (found.group_identity, found.sched_core) == (1, 0)
    strange = FakeKernel()
    strange.put("/proc/sys/kernel/sched_core", "maybe\n")
    assert (features(strange).group_identity, features(strange).sched_core) == (None, None)


@pytest.mark.parametrize("answer", [True, False])
def test_cookies_are_asked_for(answer: bool) -> None:
    """By trying, which is somebody else's job."""
    kernel = FakeKernel()
    tree = CgroupTree(kernel, kernel.root, version=2)
    assert probe(tree, kernel, core_sched=lambda: answer).core_sched is answer


def test_resctrl_is_described() -> None:
    """None if it is not mounted."""
    kernel = FakeKernel()
    assert features(kernel).resctrl is None
    resctrl = FakeResctrl(cbm_mask=0xFFF, caches=(0, 3), vendor="AuthenticAMD", other=kernel)
    assert features(kernel, files=resctrl).resctrl == Resctrl(
        cbm_mask=0xFFF, l3_ids=(0, 3), mb_ids=(0, 3), vendor="AuthenticAMD"
    )
