"""Actuators on files: the right file, and errors that are all OSErrors."""

import errno

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.hooks.server.actuators.api import Actuator
from interpose.hooks.server.actuators.cgroup import BvtActuator, CgroupActuator, SysctlActuator
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel

POD = ActuatorTarget(level=Level.POD, key="1", directory="kubepods/pod1", name="default/web")
NOWHERE = ActuatorTarget(level=Level.POD, key="2", name="default/new")
NODE = ActuatorTarget(level=Level.NODE, key="node")


@pytest.fixture(params=[1, 2])
def kernel(request: pytest.FixtureRequest) -> FakeKernel:
    """A kernel of each version with one pod."""
    kernel = FakeKernel(request.param, bvt=True, sysctls={"sched_core": 1})
    kernel.make(POD.directory)
    return kernel


@pytest.fixture
def actuator(kernel: FakeKernel) -> Actuator:
    """What is tested."""
    return CgroupActuator(CgroupTree(kernel, version=kernel.version))


@pytest.fixture
def sysctls(kernel: FakeKernel) -> Actuator:
    """What else is tested."""
    return SysctlActuator(kernel)


def test_values_of_a_cgroup(actuator: Actuator) -> None:
    """Read, write, compare."""
    assert actuator.read(POD, Parameter.CPU_QUOTA) is UNLIMITED
    actuator.write(POD, Parameter.CPU_QUOTA, 50_000)
    assert actuator.read(POD, Parameter.CPU_QUOTA) == 50_000
    actuator.write(POD, Parameter.CPUSET_CPUS, CLEAR)
    assert actuator.same(Parameter.CPUSET_CPUS, actuator.read(POD, Parameter.CPUSET_CPUS), CLEAR)


def test_a_target_without_a_cgroup_is_gone(actuator: Actuator) -> None:
    """It may get one later."""
    with pytest.raises(FileNotFoundError, match="default/new"):
        actuator.read(NOWHERE, Parameter.CPU_SHARES)
    with pytest.raises(FileNotFoundError, match="default/new"):
        actuator.write(NOWHERE, Parameter.CPU_SHARES, 2)


def test_a_value_no_kernel_takes_is_an_error_of_the_system(actuator: Actuator) -> None:
    """With the words of the table."""
    with pytest.raises(OSError, match=r"cpu\.bvt_warp_ns: 3 is not between") as refused:
        actuator.write(POD, Parameter.CPU_BVT, 3)
    assert refused.value.errno == errno.EINVAL


def test_a_text_no_kernel_writes_is_an_error_of_the_system(kernel: FakeKernel, actuator: Actuator) -> None:
    """So that one file does not end a round."""
    kernel.put(kernel.path(POD.directory, "cpu.bvt_warp_ns"), "nonsense")
    with pytest.raises(OSError, match="cannot read 'nonsense'") as refused:
        actuator.read(POD, Parameter.CPU_BVT)
    assert refused.value.errno == errno.EIO


def test_switches_of_the_node(kernel: FakeKernel, sysctls: Actuator) -> None:
    """They have no directory."""
    assert sysctls.read(NODE, Parameter.SCHED_GROUP_IDENTITY) == 0
    sysctls.write(NODE, Parameter.SCHED_GROUP_IDENTITY, 1)
    assert sysctls.read(NODE, Parameter.SCHED_GROUP_IDENTITY) == 1
    assert sysctls.read(NODE, Parameter.SCHED_CORE) == 1
    assert sysctls.same(Parameter.SCHED_CORE, 1, 1)
    assert not sysctls.same(Parameter.SCHED_CORE, None, 1)
    assert kernel.writes == [("/proc/sys/kernel/sched_group_identity_enabled", "1")]


def test_a_switch_this_kernel_does_not_have() -> None:
    """Is unsupported, not gone."""
    sysctls = SysctlActuator(FakeKernel(2))
    with pytest.raises(OSError, match=r"no kernel\.sched_core") as refused:
        sysctls.read(NODE, Parameter.SCHED_CORE)
    assert refused.value.errno == errno.ENOTSUP
    with pytest.raises(OSError, match=r"no kernel\.sched_core") as refused:
        sysctls.write(NODE, Parameter.SCHED_CORE, 0)
    assert refused.value.errno == errno.ENOTSUP


def test_a_switch_is_on_or_off(kernel: FakeKernel, sysctls: Actuator) -> None:
    """Whatever is wanted, and whatever is found."""
    with pytest.raises(OSError, match="neither 0 nor 1") as refused:
        sysctls.write(NODE, Parameter.SCHED_CORE, UNLIMITED)
    assert refused.value.errno == errno.EINVAL
    kernel.put("/proc/sys/kernel/sched_core", "x\n")
    with pytest.raises(OSError, match="cannot read 'x'") as refused:
        sysctls.read(NODE, Parameter.SCHED_CORE)
    assert refused.value.errno == errno.EIO


def test_containers_follow_the_priority_of_their_pod() -> None:
    """They inherit it once; after that the kernel leaves it to us."""
    kernel = FakeKernel(1, bvt=True)
    children = [f"{POD.directory}/c{number}" for number in range(2)]
    for directory in (POD.directory, *children):
        kernel.make(directory)
    actuator = BvtActuator(CgroupTree(kernel, version=1))
    actuator.write(POD, Parameter.CPU_BVT, -1)
    assert [
        actuator.read(ActuatorTarget(level=Level.CONTAINER, key=one, directory=one), Parameter.CPU_BVT)
        for one in children
    ] == [
        -1,
        -1,
    ]
    assert actuator.read(POD, Parameter.CPU_BVT) == -1
    kernel.write(kernel.path(children[1], "cpu.bvt_warp_ns"), "2")
    found = actuator.read(POD, Parameter.CPU_BVT)
    assert found == -1
    assert not any(actuator.same(Parameter.CPU_BVT, found, wanted) for wanted in (-1, 2))  # one of them differs
    actuator.write(POD, Parameter.CPU_BVT, 0)
    assert {kernel.get(one, "cpu.bvt_warp_ns") for one in children} == {"0"}


def test_only_pods_have_followers() -> None:
    """A QoS directory has pods in it, which have values of their own."""
    kernel = FakeKernel(1, bvt=True)
    kernel.make("kubepods")
    kernel.make("kubepods/burstable")
    actuator = BvtActuator(CgroupTree(kernel, version=1))
    actuator.write(ActuatorTarget(level=Level.QOS, key="kubepods", directory="kubepods"), Parameter.CPU_BVT, 2)
    assert kernel.get("kubepods/burstable", "cpu.bvt_warp_ns") == "0"
