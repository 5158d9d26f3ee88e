"""The directory of a pod, with both drivers."""

from fractions import Fraction

import pytest

from interpose.host.cgroup.paths import Driver
from interpose.node.pods.cgroups.paths import cgroup_parent
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements

UID = "12-34"
GUARANTEED = ResourceRequirements(limits={"cpu": Fraction(1), "memory": Fraction(1)})
BURSTABLE = ResourceRequirements(requests={"cpu": Fraction(1)})
NONE = ResourceRequirements()
CGROUPFS, SYSTEMD = Driver.CGROUPFS, Driver.SYSTEMD


def pod(resources: ResourceRequirements, uid: str = UID) -> PodSpec:
    """A pod of that class."""
    return PodSpec(name="p", uid=uid, containers=(ContainerSpec(name="c", image="i", resources=resources),))


@pytest.mark.parametrize(
    ("resources", "driver", "root", "path"),
    [
        (GUARANTEED, CGROUPFS, "", "/kubepods/pod12-34"),
        (BURSTABLE, CGROUPFS, "", "/kubepods/burstable/pod12-34"),
        (NONE, CGROUPFS, "", "/kubepods/besteffort/pod12-34"),
        (GUARANTEED, SYSTEMD, "", "/kubepods.slice/kubepods-pod12_34.slice"),
        (
            BURSTABLE,
            SYSTEMD,
            "",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice",
        ),
        (
            NONE,
            SYSTEMD,
            "",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12_34.slice",
        ),
        (NONE, CGROUPFS, "/a/b/", "/a/b/kubepods/besteffort/pod12-34"),
        (GUARANTEED, SYSTEMD, "a", "/a.slice/a-kubepods.slice/a-kubepods-pod12_34.slice"),
    ],
)
def test_the_parent(resources: ResourceRequirements, driver: Driver, root: str, path: str) -> None:
    """A whole path, as kubelets write it."""
    assert cgroup_parent(pod(resources), driver, root) == path


@pytest.mark.parametrize("uid", ["", "a/b"])
def test_a_uid_that_is_no_name_is_refused(uid: str) -> None:
    """It would lead elsewhere."""
    with pytest.raises(ValueError, match="is not a uid of a pod"):
        cgroup_parent(pod(NONE, uid), CGROUPFS)
