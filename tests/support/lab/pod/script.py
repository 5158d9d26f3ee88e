"""A pod from nothing to nothing, by somebody who does not give up: as a kubelet goes on after the runtime was away.

Each stage begins with what the runtime shows. Answers that were lost are no reason for anything; an error that the
runtime gives is: a runtime that was killed may have forgotten what was half made, but may not be in its own way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.pods import container_config, pod_config
from tests.support.lab.images import TEST_IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.lab.cri import CriClient

GREETING: Final = b"hello\n"


class RuntimeAwayError(Exception):
    """It was killed, or is not there."""


class PodScript:
    """One pod with one container. `run` does what is left to be done."""

    def __init__(self, name: str, cgroup: str, logs: Path) -> None:
        self._name = name
        self._cgroup = cgroup
        self._logs = logs
        self._stages: list[Callable[[CriClient], None]] = [self._up, self._down]
        self.calls: list[str] = []

    @property
    def done(self) -> bool:
        """Whether the pod was there and is gone."""
        return not self._stages

    def run(self, client: CriClient) -> None:
        """To the end; RuntimeAwayError if the runtime does not live that long."""
        while self._stages:
            self._stages[0](client)
            self._stages.pop(0)

    # -- up

    def _up(self, client: CriClient) -> None:
        sandbox_id, config = self._sandbox(client)
        container_id = self._container(client, sandbox_id, config)
        said = self._call(client, "ExecSync", container_id=container_id, cmd=["echo", "hello"])
        assert (said.stdout, said.exit_code) == (GREETING, 0)

    def _sandbox(self, client: CriClient) -> tuple[str, cri.PodSandboxConfig]:
        there = list(self._call(client, "ListPodSandbox").items)
        for one in there:
            if one.state == cri.SANDBOX_READY:
                return one.id, self._pod(one.metadata.attempt)
            self._call(client, "StopPodSandbox", pod_sandbox_id=one.id)
        config = self._pod(max((one.metadata.attempt + 1 for one in there), default=0))
        answer = self._call(client, "RunPodSandbox", config=config)
        return str(answer.pod_sandbox_id), config

    def _container(self, client: CriClient, sandbox_id: str, pod: cri.PodSandboxConfig) -> str:
        there = [one for one in self._call(client, "ListContainers").containers if one.pod_sandbox_id == sandbox_id]
        for one in there:
            if one.state == cri.CONTAINER_RUNNING:
                return str(one.id)
        config = container_config(pod, "main", attempt=max((one.metadata.attempt + 1 for one in there), default=0))
        for field in ("command", "mounts"):
            config.ClearField(field)
        config.image.image = TEST_IMAGE
        config.command.extend(["sh", "-c", 'trap "exit 3" TERM; echo up; while :; do sleep 0.02; done'])
        answer = self._call(client, "CreateContainer", pod_sandbox_id=sandbox_id, config=config, sandbox_config=pod)
        self._call(client, "StartContainer", container_id=answer.container_id)
        return str(answer.container_id)

    def _pod(self, attempt: int) -> cri.PodSandboxConfig:
        config = pod_config(self._name, attempt=attempt)
        config.log_directory = str(self._logs / self._name)
        config.linux.cgroup_parent = f"{self._cgroup}/pod{config.metadata.uid}"
        return config

    # -- down

    def _down(self, client: CriClient) -> None:
        for one in self._call(client, "ListContainers").containers:
            self._call(client, "StopContainer", container_id=one.id, timeout=5)
            self._call(client, "RemoveContainer", container_id=one.id)
        for one in self._call(client, "ListPodSandbox").items:
            self._call(client, "StopPodSandbox", pod_sandbox_id=one.id)
            self._call(client, "RemovePodSandbox", pod_sandbox_id=one.id)
        assert not self._call(client, "ListContainers").containers
        assert not self._call(client, "ListPodSandbox").items

    def _call(self, client: CriClient, method: str, **fields: Any) -> Any:
        self.calls.append(method)
        try:
            return client.call(method, getattr(cri, f"{method}Request")(**fields), timeout=WAIT_LIMIT)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise RuntimeAwayError(error.details()) from None
            raise AssertionError(f"{method}: {error.code().name} {error.details()}") from None
