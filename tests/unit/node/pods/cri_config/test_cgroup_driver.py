"""Who makes cgroups, by what a runtime says."""

import json
from typing import Any, cast

import pytest

from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
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


class OldRuntime:
    """A runtime older than CRI's call for the driver; its verbose status has this information, or fails."""

    def __init__(self, info: dict[str, str] | None) -> None:
        self._info = info

    async def runtime_config(self) -> Any:
        """Refused, as by containerd 1.7."""
        raise RpcError(Code.UNIMPLEMENTED, "unknown method RuntimeConfig")

    async def status(self, *, verbose: bool) -> cri.StatusResponse:
        """The answer of containerd's status, which has its configuration only if asked for."""
        if self._info is None:
            raise RpcError(Code.UNAVAILABLE, "closed")
        return cri.StatusResponse(info=self._info if verbose else {})


@pytest.mark.parametrize(
    ("info", "driver"),
    [(containerd({"SystemdCgroup": True}), Driver.SYSTEMD), ({}, Driver.CGROUPFS), (None, Driver.CGROUPFS)],
)
async def test_older_runtimes_are_asked_for_their_configuration(info: dict[str, str] | None, driver: Driver) -> None:
    """A runtime that does not tell is taken for one with the default driver, cgroupfs."""
    assert await detect_cgroup_driver(cast("RuntimeClient", OldRuntime(info))) is driver
