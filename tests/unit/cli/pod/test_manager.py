"""The manager of a runtime: what it learns of runtime and node."""

from pathlib import Path

import pytest

from interpose.cli.pod.connect import pod_runtime
from interpose.cli.pod.manager import open_manager
from interpose.cli.pod.options import ConnectionOptions
from interpose.host.cgroup.paths import Driver
from interpose.net.grpc.status import Code
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.queries import FakeIdentity
from interpose.testing.serve import serve_runtime


@pytest.mark.parametrize(("systemd", "driver"), [(True, Driver.SYSTEMD), (False, Driver.CGROUPFS)])
async def test_the_runtime_says_who_makes_cgroups(tmp_path: Path, systemd: bool, driver: Driver) -> None:
    """And pods are put where that is expected."""
    connection = ConnectionOptions(endpoint=str(tmp_path / "a"), root=str(tmp_path))
    fake = FakeRuntime(identity=FakeIdentity(systemd_cgroups=systemd))
    async with serve_runtime(tmp_path / "a", fake), pod_runtime(connection) as runtime:
        manager = await open_manager(runtime, connection)
        assert manager.node.cgroup_driver is driver
        assert manager.where == str(tmp_path / "a")


async def test_a_runtime_that_does_not_say_it_makes_them_itself(tmp_path: Path) -> None:
    """As older ones do."""
    fake = FakeRuntime()
    fake.fail("RuntimeConfig", Code.UNIMPLEMENTED)
    fake.fail("Status", Code.UNAVAILABLE)
    connection = ConnectionOptions(endpoint=str(tmp_path / "a"), root=str(tmp_path))
    async with serve_runtime(tmp_path / "a", fake), pod_runtime(connection) as runtime:
        manager = await open_manager(runtime, connection)
        assert manager.node.cgroup_driver is Driver.CGROUPFS
        assert not manager.node.recursive_read_only


async def test_who_makes_cgroups_can_be_said_by_hand(tmp_path: Path) -> None:
    """For a runtime that does not say it."""
    connection = ConnectionOptions(endpoint=str(tmp_path / "a"), root=str(tmp_path), cgroup_driver="systemd")
    async with serve_runtime(tmp_path / "a", FakeRuntime()), pod_runtime(connection) as runtime:
        manager = await open_manager(runtime, connection)
        assert manager.node.cgroup_driver is Driver.SYSTEMD


async def test_cgroups_may_be_elsewhere(tmp_path: Path) -> None:
    """What the node has is read there."""
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpu memory\n")
    connection = ConnectionOptions(
        endpoint=str(tmp_path / "a"), root=str(tmp_path), cgroup_mount=str(tmp_path / "cgroup")
    )
    async with serve_runtime(tmp_path / "a", FakeRuntime()), pod_runtime(connection) as runtime:
        manager = await open_manager(runtime, connection)
        assert manager.node.cgroup_version == 2
