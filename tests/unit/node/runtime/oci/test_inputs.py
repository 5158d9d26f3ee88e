"""What a specification needs, looked up."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci import capabilities
from interpose.node.runtime.oci.inputs import read_host, read_inputs
from interpose.node.runtime.oci.spec_types import SpecError

STATUS = "Name:\tx\nCapPrm:\t000001ffffffffff\nCapBnd:\t000001fffeffffff\nSeccomp:\t0\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A /proc and a cgroup root of ours."""
    own = tmp_path / "proc/self"
    own.mkdir(parents=True)
    (own / "status").write_text(STATUS)
    (own / "oom_score_adj").write_text("-5\n")
    (own / "cgroup").write_text("1:cpu:/x\n0::/mine\n")
    (tmp_path / "cgroup/mine").mkdir(parents=True)
    return tmp_path


def _host(machine: Path, version: int) -> Any:
    return read_host(cgroup_version=version, cgroup_root=str(machine / "cgroup"), proc=str(machine / "proc"))


def test_what_we_may_do(machine: Path) -> None:
    """Permitted and in our bounds; scores are no lower than ours where that right is missing."""
    host = _host(machine, 2)
    assert set(capabilities.ALL) - set(host.capabilities) == {"CAP_SYS_RESOURCE"}
    assert host.lowest_oom_score == -5
    assert host.seccomp


def test_with_the_right_to_lower_scores(machine: Path) -> None:
    """There is no bottom but the kernel's."""
    (machine / "proc/self/status").write_text(STATUS.replace("fffe", "ffff"))
    assert _host(machine, 2).lowest_oom_score == -1000


def test_controllers_of_v2(machine: Path) -> None:
    """Swap is looked for in cgroups that are not the root."""
    host = _host(machine, 2)
    assert not host.swap
    assert not host.hugetlb
    (machine / "cgroup/cgroup.controllers").write_text("cpu hugetlb\n")
    (machine / "cgroup/mine/memory.swap.max").touch()
    host = _host(machine, 2)
    assert host.swap
    assert host.hugetlb


def test_controllers_of_v1(machine: Path) -> None:
    """Each has a folder."""
    assert not _host(machine, 1).swap
    for name in ("memory/memory.memsw.limit_in_bytes", "hugetlb/cgroup.procs"):
        (file := machine / "cgroup" / name).parent.mkdir()
        file.touch()
    host = _host(machine, 1)
    assert host.swap
    assert host.hugetlb


def test_a_machine_that_tells_nothing() -> None:
    """It can do nothing, and that is no error."""
    host = read_host(cgroup_version=2, cgroup_root="/no/such", proc="/no/such")
    assert (host.capabilities, host.seccomp, host.swap, host.lowest_oom_score) == ((), False, False, 0)


def test_the_inputs_of_a_container(tmp_path: Path) -> None:
    """User of the image's files, devices, sources, profile."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("web:x:33:44::/:\n")
    (profile := tmp_path / "p.json").write_text(json.dumps({"defaultAction": "x"}))
    kind = cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=str(profile))
    context = cri.LinuxContainerSecurityContext(seccomp=kind)
    config = cri.ContainerConfig(
        linux=cri.LinuxContainerConfig(security_context=context),
        devices=[cri.Device(host_path="/dev/null")],
        mounts=[cri.Mount(host_path=str(tmp_path), container_path="/c")],
    )
    found = read_inputs(config, str(tmp_path), "web")
    assert (found.user.uid, found.user.gid) == (33, 44)
    assert [one.path for one in found.devices] == ["/dev/null"]
    assert found.sources == {str(tmp_path): str(tmp_path)}
    assert found.seccomp_profile == {"defaultAction": "x"}


def test_a_privileged_container_has_all_devices(tmp_path: Path) -> None:
    """Of the machine as it is now; one that is asked for at the same place comes before."""
    context = cri.LinuxContainerSecurityContext(privileged=True)
    config = cri.ContainerConfig(
        linux=cri.LinuxContainerConfig(security_context=context),
        devices=[cri.Device(host_path="/dev/zero", container_path="/dev/null")],
    )
    found = {one.path: one for one in read_inputs(config, str(tmp_path), "").devices}
    assert found["/dev/null"].minor == found["/dev/zero"].minor
    assert "/dev/urandom" in found


def test_an_image_without_users(tmp_path: Path) -> None:
    """Root is a number; no profile is none."""
    found = read_inputs(cri.ContainerConfig(), str(tmp_path), "")
    assert (found.user.uid, found.seccomp_profile) == (0, None)


@pytest.mark.parametrize(
    "text", [None, "{", "[]", "[" * 200_000, '{"a":' + "[" * 150 + "]" * 150 + "}", '{"a":' * 101 + "1" + "}" * 101]
)
def test_profiles_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    """The file is named."""
    if text is not None:
        (tmp_path / "p.json").write_text(text)
    kind = cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=str(tmp_path / "p.json"))
    context = cri.LinuxContainerSecurityContext(seccomp=kind)
    config = cri.ContainerConfig(linux=cri.LinuxContainerConfig(security_context=context))
    with pytest.raises(SpecError, match=r"p\.json"):
        read_inputs(config, str(tmp_path), "")


@pytest.mark.parametrize("place", ["dev", "proc", "sys"])
def test_links_where_the_executor_works(tmp_path: Path, place: str) -> None:
    """An image cannot send it to the node's files: runc follows such links in some versions."""
    (tmp_path / place).mkdir()
    read_inputs(cri.ContainerConfig(), str(tmp_path), "")
    (tmp_path / place).rmdir()
    (tmp_path / place).symlink_to("/etc")
    with pytest.raises(SpecError, match=f"link in the place of /{place}"):
        read_inputs(cri.ContainerConfig(), str(tmp_path), "")
