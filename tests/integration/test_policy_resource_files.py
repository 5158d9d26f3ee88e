"""resources.sh through a relay: mounted into new containers, right after others come and go, and after restarts."""

from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

MACHINE = "n4c16"
PLACE = "/.interpose-resources"


@pytest.fixture
def document(tmp_path: Path) -> str:
    """A policy document."""
    path = tmp_path / "policy.yaml"
    path.write_text('policy: {Active: static, ReservedResources: {CPU: "cpuset:0"}}\n')
    path.chmod(0o644)
    return str(path)


def mount_of(stack: PolicyStack, container: str) -> cri.Mount | None:
    """Where a container has its directory from."""
    mounts = stack.runtime.containers[container].config.mounts
    return next((mount for mount in mounts if mount.container_path == PLACE), None)


def file_of(stack: PolicyStack, container: str) -> Path:
    """The file that a container sees."""
    mount = mount_of(stack, container)
    assert mount is not None
    assert mount.readonly
    return Path(mount.host_path, "resources.sh")


async def test_containers_can_read_what_they_were_given(tmp_path: Path, document: str) -> None:
    """From their start on, also when others take CPUs and give them back; a restart leaves the files right."""
    runtime = FakeRuntime()
    settings: dict[str, Any] = {"config": document, "resources_mount": PLACE}
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **settings) as stack:
        web = await stack.run("web", 100, "burstable")
        shared = file_of(stack, web)
        assert shared.read_text() == 'ALL_MEMS="0-3"\nDRAM_MEMS="0-3"\nSHARED_CPUS="0-15"\n'
        own = await stack.run("own", 2000)
        alone = file_of(stack, own)
        assert alone.read_text() == 'ALL_MEMS="0-3"\nDRAM_MEMS="0-3"\nEXCLUSIVE_CPUS="2-3"\n'
        await eventually(lambda: 'SHARED_CPUS="0-1,4-15"' in shared.read_text(), "the file to follow")
    alone.write_text("stale")
    left = shared.parent.parent / ("0" * 32)
    left.mkdir()
    async with policy_stack(tmp_path, None, runtime=runtime, **settings) as stack:
        stack.tick()
        await eventually(lambda: "2-3" in alone.read_text(), "the file to be brought up to date")
        await eventually(lambda: not left.exists(), "what was left to be swept")
        await stack.stop(own)
        await eventually(lambda: not alone.parent.exists(), "the file to go with its container")
        await eventually(lambda: 'SHARED_CPUS="0-15"' in shared.read_text(), "the file to follow")


async def test_nothing_is_mounted_unless_it_was_asked_for(tmp_path: Path, document: str) -> None:
    """Containers are as their authors made them."""
    async with policy_stack(tmp_path, machine(MACHINE), config=document) as stack:
        assert mount_of(stack, await stack.run("web", 100, "burstable")) is None
        assert not (tmp_path / "state/containers").exists()


async def test_a_file_that_cannot_be_written_fails_no_create(tmp_path: Path, document: str) -> None:
    """The container has its CPUs and no mount, and status says why."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/containers").write_text("in the way")
    async with policy_stack(tmp_path, machine(MACHINE), config=document, resources_mount=PLACE) as stack:
        own = await stack.run("own", 2000)
        assert stack.cpus(own) == "2-3"
        assert mount_of(stack, own) is None
        assert any("resources of containers cannot be written" in problem for problem in stack.policy.problems())
