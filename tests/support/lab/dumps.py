"""`interpose dump` as somebody types it, and the whole life of a pod for it to look at."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.pods import MEBIBYTE
from tests.support.lab.processes import Child, LabError
from tests.support.lab.relay import program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.lab.pods import LabPod

# The calls of `live`, in order.
LIFE: Final = (
    "RunPodSandbox",
    "PodSandboxStatus",
    "CreateContainer",
    "StartContainer",
    "ContainerStatus",
    "ExecSync",
    "UpdateContainerResources",
    "ListContainers",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
)


def dump_argv(*arguments: object) -> list[str]:
    """The command line of `interpose dump`."""
    return [str(program()), "dump", *map(str, arguments)]


def dump(*arguments: object, code: int = 0) -> str:
    """What it prints; LabError if it does not end with this code."""
    done = subprocess.run(dump_argv(*arguments), capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
    if done.returncode != code:
        raise LabError(f"{done.args} ended with {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done.stdout


def dump_child(log: Path, *arguments: object) -> Child:
    """One that goes on, with what it prints in a file."""
    return Child(dump_argv(*arguments), log=log, env={"PYTHONUNBUFFERED": "1"})


def calls(*arguments: object) -> list[dict[str, Any]]:
    """The calls of a recording, or some of them: the documents of `show -o jsonl`."""
    return [json.loads(line) for line in dump("show", *arguments, "-o", "jsonl").splitlines()]


def methods(documents: Sequence[dict[str, Any]], origin: str = "client") -> list[str]:
    """The names of the calls that somebody made."""
    return [one["method"] for one in documents if one["origin"] == origin]


def live(pod: LabPod) -> None:
    """Everything that a kubelet does with a pod, see `LIFE`."""
    pod.run()
    pod.sandbox_status()
    pod.create()
    pod.start()
    pod.status()
    pod.exec("echo", "hello")
    pod.update(cpu_shares=300, memory_limit_in_bytes=64 * MEBIBYTE)
    mine = cri.ContainerFilter(pod_sandbox_id=pod.sandbox_id)
    pod.client.call("ListContainers", cri.ListContainersRequest(filter=mine))
    pod.stop()
    pod.client.call("RemoveContainer", cri.RemoveContainerRequest(container_id=pod.container_id))
    pod.remove()
