"""What is mounted in a container."""

from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci.mounts import mounts, rootfs_propagation
from interpose.node.runtime.oci.spec_types import SandboxFacts, SpecError

SANDBOX = SandboxFacts(
    id="s",
    config=cri.PodSandboxConfig(),
    pause_pid=1,
    shm="/s/shm",
    resolv_conf="/s/r",
    hosts="/s/h",
    hostname_file="/s/n",
)
PROPAGATION = cri.MountPropagation


def _config(*asked: cri.Mount, **context: Any) -> cri.ContainerConfig:
    linux = cri.LinuxContainerConfig(security_context=cri.LinuxContainerSecurityContext(**context))
    return cri.ContainerConfig(mounts=asked, linux=linux)


def _mounts(config: cri.ContainerConfig, sandbox: SandboxFacts = SANDBOX, **more: Any) -> dict[str, dict[str, Any]]:
    given = {"volumes": {}, "sources": {}, "image_mounts": {}, **more}
    return {one["destination"]: one for one in mounts(config, sandbox, **given)}


def test_every_container_has_the_kernels_file_systems() -> None:
    """And the sandbox's files; deeper ones after those they lie in."""
    found = _mounts(_config())
    expected = {"/proc", "/dev", "/sys", "/dev/pts", "/dev/mqueue", "/dev/shm", "/sys/fs/cgroup"}
    assert set(found) == expected | {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    places = list(found)
    assert places.index("/dev") < places.index("/dev/pts") < places.index("/sys/fs/cgroup")
    assert found["/etc/hosts"] == {
        "destination": "/etc/hosts",
        "type": "bind",
        "source": "/s/h",
        "options": ["rbind", "rprivate", "rw"],
    }


def test_a_sandbox_without_files_has_no_mounts_of_them() -> None:
    """An empty path is no file."""
    found = _mounts(_config(), SandboxFacts(id="s", config=None, pause_pid=1))
    assert not {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm"} & set(found)


@pytest.mark.parametrize(("privileged", "access"), [(False, "ro"), (True, "rw")])
def test_only_privileged_containers_write_to_sys(privileged: bool, access: str) -> None:
    """Nor to the cgroups."""
    found = _mounts(_config(privileged=privileged))
    assert found["/sys"]["options"][-1] == found["/sys/fs/cgroup"]["options"][-1] == access


def test_files_are_read_only_in_a_read_only_root() -> None:
    """The sandbox's too."""
    assert _mounts(_config(readonly_rootfs=True))["/etc/hosts"]["options"][-1] == "ro"


def test_the_hosts_shared_memory() -> None:
    """For those who share its IPC."""
    options = cri.NamespaceOption(ipc=cri.NamespaceMode.NODE)
    assert _mounts(_config(namespace_options=options))["/dev/shm"]["source"] == "/dev/shm"


def test_the_configuration_replaces_ours() -> None:
    """At the same place, however it is written; its /dev hides all of ours."""
    found = _mounts(_config(cri.Mount(container_path="/etc//hosts", host_path="/a")))
    assert found["/etc/hosts"]["source"] == "/a"
    found = _mounts(_config(cri.Mount(container_path="//dev", host_path="/dev")))
    assert found["/dev"]["type"] == "bind"
    assert "/dev/shm" not in found


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, ["rbind", "rprivate", "rw"]),
        ({"readonly": True}, ["rbind", "rprivate", "ro"]),
        ({"readonly": True, "recursive_read_only": True}, ["rbind", "rprivate", "rro"]),
        ({"propagation": PROPAGATION.PROPAGATION_HOST_TO_CONTAINER}, ["rbind", "rslave", "rw"]),
        ({"propagation": PROPAGATION.PROPAGATION_BIDIRECTIONAL}, ["rbind", "rshared", "rw"]),
        ({"mount_options": ["nosuid"]}, ["rbind", "rprivate", "rw", "nosuid"]),
    ],
)
def test_options_of_a_mount(fields: dict[str, Any], options: list[str]) -> None:
    """Access and propagation as asked."""
    found = _mounts(_config(cri.Mount(container_path="data", host_path="/a", **fields)), sources={"/a": "/real"})
    assert found["/data"]["options"] == options
    assert found["/data"]["source"] == "/real"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"container_path": ""}, r"mounts\[0\].container_path: is empty"),
        ({"container_path": "/"}, "root cannot be mounted over"),
        ({"container_path": "/a\0"}, "zero byte"),
        ({"host_path": ""}, r"mounts\[0\].host_path: is empty"),
        ({"propagation": 9}, "propagation: 9"),
        ({"uidMappings": [cri.IDMapping()]}, "id mapped"),
        ({"recursive_read_only": True}, "needs readonly"),
        ({"recursive_read_only": True, "readonly": True, "propagation": 1}, "other than private"),
        ({"image": cri.ImageSpec(image="i")}, "cannot be set together"),
        ({"image": cri.ImageSpec(image="i"), "host_path": ""}, "'i' is not mounted"),
    ],
)
def test_mounts_that_cannot_be(fields: dict[str, Any], problem: str) -> None:
    """The field is named."""
    mount = cri.Mount(**{"container_path": "/c", "host_path": "/a", **fields})
    with pytest.raises(SpecError, match=problem):
        _mounts(_config(mount))


def test_volumes_of_the_image_unless_mounted() -> None:
    """What the configuration mounts there comes before."""
    config = _config(cri.Mount(container_path="/one", host_path="/a"))
    found = _mounts(config, volumes={"/one/": "/v/1", "/two": "/v/2"})
    assert found["/one"]["source"] == "/a"
    assert found["/two"]["source"] == "/v/2"


def test_an_image_as_a_mount() -> None:
    """Always read-only."""
    config = _config(cri.Mount(container_path="/models", image=cri.ImageSpec(image="i")))
    found = _mounts(config, image_mounts={"/models": "/m"})
    assert (found["/models"]["source"], found["/models"]["options"][-1]) == ("/m", "ro")


@pytest.mark.parametrize(
    ("modes", "expected"), [((), ""), ((0,), ""), ((1,), "rslave"), ((1, 2), "rshared"), ((9,), "")]
)
def test_the_root_takes_part_as_its_mounts_need(modes: tuple[Any, ...], expected: str) -> None:
    """The most open one decides."""
    config = _config(*(cri.Mount(container_path="/c", host_path="/a", propagation=mode) for mode in modes))
    assert rootfs_propagation(config) == expected
