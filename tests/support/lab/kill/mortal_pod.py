"""A pod on our own runtime, seen from outside: its processes by their numbers, to be killed behind its back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.testing.pods import container_config, pod_config
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from tests.support.lab.cri import CriClient
    from tests.support.lab.kill.killable import KillableRuntime

FOREVER: Final = ("sh", "-c", "while :; do sleep 0.02; done")


def config_on(node: KillableRuntime, name: str = "mortal") -> cri.PodSandboxConfig:
    """The configuration of a pod there."""
    config = pod_config(name)
    config.log_directory = str(node.folder / "logs" / name)
    config.linux.cgroup_parent = f"{node.cgroup}/pod{config.metadata.uid}"
    return config


class MortalPod:
    """One sandbox with one container that runs."""

    def __init__(self, node: KillableRuntime, client: CriClient, *command: str, name: str = "mortal") -> None:
        self._node = node
        self.config = config_on(node, name)
        self.sandbox = str(client.call("RunPodSandbox", cri.RunPodSandboxRequest(config=self.config)).pod_sandbox_id)
        self.container = self.add(client, *command)
        client.call("StartContainer", cri.StartContainerRequest(container_id=self.container))

    def add(self, client: CriClient, *command: str, name: str = "main") -> str:
        """The id of a further container, not started."""
        config = container_config(self.config, name)
        for field in ("command", "mounts"):
            config.ClearField(field)
        config.image.image = TEST_IMAGE
        config.command.extend(command or FOREVER)
        request = cri.CreateContainerRequest(pod_sandbox_id=self.sandbox, config=config, sandbox_config=self.config)
        return str(client.call("CreateContainer", request).container_id)

    # -- who it is

    @property
    def shim(self) -> int:
        """The process that looks after it."""
        return int(self._shim_file()["pid"])

    @property
    def holder(self) -> int:
        """The process that has its namespaces."""
        return int(self._shim_file()["holder"])

    @property
    def first(self) -> int:
        """The first process of its container."""
        document = json.loads((self._node.state / "oci" / self.container / "state.json").read_text())
        return int(document["init_process_pid"])

    @property
    def log(self) -> list[str]:
        """What the container wrote, without times, up to the last whole line: the next one may be half written."""
        path = Path(self.config.log_directory) / "main" / "0.log"
        return [line.split(" ", 3)[3] for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def _shim_file(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self._node.state / "sandboxes" / self.sandbox / "shim.json").read_text())
        return document

    # -- how it is

    def ready(self, client: CriClient) -> bool:
        """Whether its sandbox is."""
        answer = client.call("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id=self.sandbox))
        return bool(answer.status.state == cri.SANDBOX_READY)

    def status(self, client: CriClient, container_id: str = "") -> cri.ContainerStatus:
        """Of a container."""
        request = cri.ContainerStatusRequest(container_id=container_id or self.container)
        status: cri.ContainerStatus = client.call("ContainerStatus", request).status
        return status

    def ended(self, client: CriClient) -> tuple[int, str]:
        """How the container ended, once it has: exit code and reason."""
        over = lambda: self.status(client).state == cri.CONTAINER_EXITED  # noqa: E731
        wait_for(over, what="the container to end")
        status = self.status(client)
        return status.exit_code, status.reason

    def says(self, client: CriClient, *command: str) -> bytes:
        """What a command in the container prints."""
        request = cri.ExecSyncRequest(container_id=self.container, cmd=command)
        return bytes(client.call("ExecSync", request).stdout)


def slay(*pids: int) -> None:
    """kill -9, and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        wait_for(lambda pid=pid: not _lives(pid), what=f"process {pid} to end")  # type: ignore[misc]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def remove_all(client: CriClient) -> None:
    """All pods, whatever they are."""
    for one in client.call("ListPodSandbox").items:
        client.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=one.id))
        client.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=one.id))
