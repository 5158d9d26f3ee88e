"""Who makes cgroups, by what a runtime says."""

import json
from typing import Any, cast

import pytest

from interpose.cri.client import RuntimeClient
from interpose.host.cgroup.paths import Driver
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.cri_config.cgroup_driver import configured_driver, detect_cgroup_driver


def containerd(options: Any, name: Any = "runc", **more: Any) -> dict[str, str]:
    """The verbose status of containerd 1.6, but for what nobody asks for here."""
    runtimes = {"runc": {"runtimeType": "io.containerd.runc.v2", "options": options}, "other": {"options": None}}
    return {"config": json.dumps({"containerd": {"defaultRuntimeName": name, "runtimes": runtimes}, **more})}


@pytest.mark.parametrize(
    ("info", "driver"),
    [
        (containerd({"SystemdCgroup": True}), Driver.SYSTEMD),
        (containerd({"SystemdCgroup": False}), Driver.CGROUPFS),
        (containerd({"SystemdCgroup": True}, name="other"), Driver.CGROUPFS),
        (containerd({}, systemdCgroup=True), Driver.SYSTEMD),
        (containerd(None), Driver.CGROUPFS),
        (containerd({}, name=7), Driver.CGROUPFS),
        ({"config": "[1]"}, Driver.CGROUPFS),
        ({"config": "[crio.runtime]"}, Driver.CGROUPFS),
        ({}, Driver.CGROUPFS),
    ],
)
def test_what_a_configuration_says(info: dict[str, str], driver: Driver) -> None:
    """Of the handler that pods get; nonsense says nothing."""
    assert configured_driver(info) is driver


class SilentRuntime:
    """A runtime that answers neither of the two calls."""

    async def runtime_config(self) -> Any:
        """Older than CRI's call for it."""
        raise RpcError(Code.UNIMPLEMENTED, "unknown method RuntimeConfig")

    async def status(self, *, verbose: bool = False) -> Any:
        """Just going away."""
        raise RpcError(Code.UNAVAILABLE, "closed")


async def test_a_runtime_that_cannot_be_asked_makes_cgroups_itself() -> None:
    """The default of every runtime is the driver cgroupfs."""
    assert await detect_cgroup_driver(cast("RuntimeClient", SilentRuntime())) is Driver.CGROUPFS
