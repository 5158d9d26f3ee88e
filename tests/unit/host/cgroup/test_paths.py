"""Where pods and containers are, with both drivers."""

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.host.cgroup.paths import CgroupLayout, Driver, check_confined, container_names, find_child, pod_directory

UID = "7712555c-ce62-454a-9e18-9ff0217b8941"
SLICE = "kubepods-burstable-pod7712555c_ce62_454a_9e18_9ff0217b8941.slice"
ID = "a" * 64


@pytest.mark.parametrize(
    ("parent", "directory"),
    [
        ("/kubepods/burstable/podX", "kubepods/burstable/podX"),
        ("kubepods/burstable/podX/", "kubepods/burstable/podX"),
        ("kubepods-burstable-podX.slice", "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podX.slice"),
        ("/kubepods-podX.slice", "kubepods.slice/kubepods-podX.slice"),
        ("/kubepods.slice/kubepods-podX.slice", "kubepods.slice/kubepods-podX.slice"),
        ("system.slice", "system.slice"),
    ],
)
def test_a_cgroup_parent_is_a_directory(parent: str, directory: str) -> None:
    """As CRI has it: a path, or the short name of a slice."""
    assert pod_directory(parent) == directory


@pytest.mark.parametrize(
    "parent", ["", "/", "..", "/a/../b", "a//b", "//a", "a/./b", "a\0b", "-.slice", "a--b.slice", ".slice"]
)
def test_a_parent_that_leads_elsewhere_is_refused(parent: str) -> None:
    """With the value; the root itself is elsewhere too."""
    with pytest.raises(ValueError, match=r"is not a (directory|name)"):
        pod_directory(parent)


def test_a_directory_with_dots_in_a_name_is_fine() -> None:
    """Only the names that mean another directory are refused."""
    assert check_confined("a/..b/c.d") == "a/..b/c.d"


@pytest.mark.parametrize(
    ("driver", "root", "qos", "directory"),
    [
        (Driver.SYSTEMD, "kubepods", KubeQos.GUARANTEED, "kubepods.slice"),
        (Driver.SYSTEMD, "kubepods", KubeQos.BEST_EFFORT, "kubepods.slice/kubepods-besteffort.slice"),
        (Driver.CGROUPFS, "kubepods", KubeQos.GUARANTEED, "kubepods"),
        (Driver.CGROUPFS, "kubepods", KubeQos.BURSTABLE, "kubepods/burstable"),
        (Driver.CGROUPFS, "/kubelet/kubepods", KubeQos.BEST_EFFORT, "kubelet/kubepods/besteffort"),
        (Driver.SYSTEMD, "kubelet/kubepods", KubeQos.GUARANTEED, "kubelet.slice/kubelet-kubepods.slice"),
        (
            Driver.SYSTEMD,
            "kubelet-kubepods",
            KubeQos.BURSTABLE,
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice",
        ),
    ],
)
def test_directory_of_a_class(driver: Driver, root: str, qos: KubeQos, directory: str) -> None:
    """Guaranteed pods are in the root."""
    assert CgroupLayout(driver=driver, root=root).qos_directory(qos) == directory


def test_directory_of_a_pod() -> None:
    """Systemd has another meaning for dashes."""
    systemd, cgroupfs = CgroupLayout(driver=Driver.SYSTEMD), CgroupLayout(driver=Driver.CGROUPFS)
    assert systemd.pod(UID, KubeQos.BURSTABLE) == f"kubepods.slice/kubepods-burstable.slice/{SLICE}"
    assert systemd.pod("u", KubeQos.GUARANTEED) == "kubepods.slice/kubepods-podu.slice"
    assert cgroupfs.pod(UID, KubeQos.BURSTABLE) == f"kubepods/burstable/pod{UID}"
    assert pod_directory(SLICE) == systemd.pod(UID, KubeQos.BURSTABLE)


@pytest.mark.parametrize("uid", ["", "a/b"])
def test_a_uid_that_is_none_is_refused(uid: str) -> None:
    """It would be another directory."""
    with pytest.raises(ValueError, match="is not a uid"):
        CgroupLayout(driver=Driver.CGROUPFS).pod(uid, KubeQos.BURSTABLE)


@pytest.mark.parametrize("root", ["", "/", "..", "a/../b"])
def test_a_root_that_leads_elsewhere_is_refused_at_once(root: str) -> None:
    """Not when the first pod comes."""
    with pytest.raises(ValueError, match="is not a directory"):
        CgroupLayout(driver=Driver.CGROUPFS, root=root)


@pytest.mark.parametrize(
    "name",
    [
        ID,
        f"cri-containerd-{ID}.scope",
        f"crio-{ID}.scope",
        f"crio-{ID}",
        f"docker-{ID}.scope",
        f"libpod-{ID}.scope",
        f"somebody-new-{ID}.scope",
        f"somebody-new-{ID}",
    ],
)
def test_a_container_is_found_whatever_the_runtime_calls_it(name: str) -> None:
    """Among other containers, and beside its monitor."""
    others = [f"crio-conmon-{ID}.scope", f"libpod-conmon-{ID}.scope", "b" * 64, f"cri-containerd-{'b' * 64}.scope"]
    assert find_child([*others, name], ID) == name
    assert find_child(others, ID) is None


def test_names_of_a_container_begin_with_the_likeliest() -> None:
    """The plain id, then scopes."""
    assert container_names("x")[:2] == ("x", "cri-containerd-x.scope")


@pytest.mark.parametrize("container_id", ["", "..", "a/b", "a\0"])
def test_an_id_that_is_none_is_refused(container_id: str) -> None:
    """It would be another directory."""
    with pytest.raises(ValueError, match="is no"):
        find_child(["a"], container_id)
