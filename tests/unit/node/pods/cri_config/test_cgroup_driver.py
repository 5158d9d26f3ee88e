"""Who makes cgroups, by what a runtime says."""

import json
from typing import Any

import pytest

from interpose.host.cgroup.paths import Driver
from interpose.node.pods.cri_config.cgroup_driver import configured_driver


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
