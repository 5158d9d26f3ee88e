"""Pages that follow a container to other memory nodes, in cgroups of a fake kernel."""

import errno

import pytest

from interpose.core.model.cgroup import Parameter
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, ContainerState
from interpose.errors import ConfigError
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.control.memory_migration import MemoryMigration
from interpose.testing.kernel.cgroup import FakeKernel

DIRECTORY = "kubepods/podx/c"
FILE = "cpuset.memory_migrate"
RUNNING = Container(id="c", pod_id="p", name="main", state=ContainerState.RUNNING, cgroup_parent="/kubepods/podx")


class MigrationNode:
    """A container with pages on node 0, on one version of cgroups."""

    def __init__(self, version: int) -> None:
        self.kernel = FakeKernel(version)
        self.kernel.make(DIRECTORY)
        self.tree = CgroupTree(self.kernel, self.kernel.root, version=version)
        self.wanted = True
        self.migration = MemoryMigration(lambda: self.tree, lambda: self.wanted)
        self.kernel.group(DIRECTORY).pages = CpuSet.of([0])

    def move(self) -> str:
        """It gets node 1 alone: where its pages are then."""
        self.tree.write(DIRECTORY, Parameter.CPUSET_MEMS, "1")
        return str(self.kernel.group(DIRECTORY).pages)


async def test_pages_follow_on_v1_if_that_was_prepared() -> None:
    """Prepared twice is prepared once."""
    it = MigrationNode(1)
    await it.migration.prepare(RUNNING)
    await it.migration.prepare(RUNNING)
    assert [path for path, _ in it.kernel.writes] == [it.kernel.path(DIRECTORY, FILE)]
    assert it.move() == "1"


async def test_pages_stay_on_v1_if_the_configuration_does_not_ask() -> None:
    """As with any container there."""
    it = MigrationNode(1)
    it.wanted = False
    await it.migration.prepare(RUNNING)
    assert it.move() == "0"


async def test_pages_follow_on_v2_by_themselves() -> None:
    """Nothing is written for it."""
    it = MigrationNode(2)
    await it.migration.prepare(RUNNING)
    assert it.kernel.writes == []
    assert it.move() == "1"


@pytest.mark.parametrize(
    "container",
    [None, Container(id="c", pod_id="p", name="main", state=ContainerState.CREATED, cgroup_parent="/kubepods/podx")],
)
async def test_who_has_no_pages_needs_nothing(container: Container | None) -> None:
    """It was not started, or has ended."""
    it = MigrationNode(1)
    await it.migration.prepare(container)
    assert it.kernel.writes == []


async def test_a_kernel_without_the_file_is_normal(caplog: pytest.LogCaptureFixture) -> None:
    """Nor is there anything to do without cgroups at all."""
    it = MigrationNode(1)
    it.kernel.fail(it.kernel.path(DIRECTORY, FILE), errno.ENOENT)
    await it.migration.prepare(RUNNING)
    await MemoryMigration(None, lambda: True).prepare(RUNNING)
    assert (it.kernel.writes, caplog.records) == ([], [])


async def test_what_cannot_be_set_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """The update is sent all the same."""
    it = MigrationNode(1)
    it.kernel.fail(it.kernel.path(DIRECTORY, FILE), errno.EACCES)
    await it.migration.prepare(RUNNING)
    assert [record.message for record in caplog.records] == ["Memory of a container cannot follow its memory nodes"]


async def test_a_value_that_does_not_stay_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again after it was written."""
    it = MigrationNode(1)
    monkeypatch.setattr(it.kernel, "write", lambda path, text: None)
    await it.migration.prepare(RUNNING)
    assert "cpuset.memory_migrate of kubepods/podx/c stays off" in str(caplog.records[0].__dict__)


async def test_a_machine_without_cgroups_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Once in a while."""

    def none() -> CgroupTree:
        raise ConfigError("no cgroups")

    migration = MemoryMigration(none, lambda: True)
    await migration.prepare(RUNNING)
    await migration.prepare(RUNNING)
    assert len(caplog.records) == 1
