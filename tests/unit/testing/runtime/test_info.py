"""The JSON of verbose answers."""

import json

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.message_json import message_to_json
from interpose.node.runtime.oci.resource_patch import patch_resources
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.info import container_info, oci_resources, sandbox_info


def test_a_message_becomes_plain_values() -> None:
    """Protocol names, numbers as numbers, bytes as text, maps as objects, unset fields left out."""
    message = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="a", attempt=2),
        envs=[cri.KeyValue(key="K", value=b"v")],
        labels={"l": "1"},
        args=["x"],
        linux=cri.LinuxContainerConfig(resources=cri.LinuxContainerResources(memory_limit_in_bytes=1 << 40)),
    )
    assert message_to_json(message) == {
        "metadata": {"name": "a", "attempt": 2},
        "envs": [{"key": "K", "value": "v"}],
        "labels": {"l": "1"},
        "args": ["x"],
        "linux": {"resources": {"memory_limit_in_bytes": 1 << 40}},
    }


def test_resources_in_the_words_of_oci() -> None:
    """Each field has its OCI name and place; what is not set is absent."""
    resources = cri.LinuxContainerResources(
        cpu_shares=2,
        cpu_quota=-1,
        cpu_period=100000,
        cpuset_cpus="0-1",
        cpuset_mems="0",
        memory_limit_in_bytes=5,
        unified={"memory.high": "max"},
        hugepage_limits=[cri.HugepageLimit(page_size="2MB", limit=1)],
    )
    assert oci_resources(resources) == {
        "cpu": {"shares": 2, "quota": -1, "period": 100000, "cpus": "0-1", "mems": "0"},
        "memory": {"limit": 5},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 1}],
        "unified": {"memory.high": "max"},
    }
    assert oci_resources(cri.LinuxContainerResources()) == {}


def test_config_is_of_creation_and_spec_is_of_now(runtime: FakeRuntime) -> None:
    """After an update the two differ: this is what a rebuilt store relies on."""
    sandbox = runtime.populate(1)[0]
    container = runtime.containers[sandbox.containers[0]]
    patch_resources(container.resources, cri.LinuxContainerResources(cpuset_cpus="3"))
    info = json.loads(container_info(container, sandbox, systemd=False)["info"])
    assert "cpuset_cpus" not in info["config"]["linux"]["resources"]
    assert info["runtimeSpec"]["linux"]["resources"]["cpu"]["cpus"] == "3"
    assert info["sandboxID"] == sandbox.id
    assert info["pid"] > 0


@pytest.mark.parametrize("systemd", [False, True])
def test_the_cgroup_path_follows_the_driver(runtime: FakeRuntime, systemd: bool) -> None:
    """A path below the parent, or slice:prefix:name."""
    sandbox = runtime.populate(1)[0]
    parent = sandbox.config.linux.cgroup_parent
    info = json.loads(sandbox_info(sandbox, systemd=systemd)["info"])
    expected = f"{parent.rsplit('/')[-1]}:cri-containerd:{sandbox.id}" if systemd else f"{parent}/{sandbox.id}"
    assert info["runtimeSpec"]["linux"]["cgroupsPath"] == expected
    assert info["config"]["metadata"]["uid"] == sandbox.config.metadata.uid
    assert info["processStatus"] == "running"
