"""`interpose pod` on our own runtime without runc: pods are ordinary processes, of root or of anybody."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.support.lab.embedded import AS_NOBODY, NOBODY, NobodysRuntime
from tests.support.lab.pod.run import PodCommand, pod_image
from tests.support.lab.pods import remove_groups
from tests.support.lab.runtime import Runtime

pytestmark = pytest.mark.e2e

DATA: Final = Path(__file__).parents[1] / "data"


def ordinary(pods: PodCommand) -> None:
    """A job and a service, from their begin to their end."""
    try:
        pods.run("run", "-f", DATA / "plain.yaml")
        rows = {row["name"]: row["status"] for row in pods.document("ls")}
        assert rows == {"job": "Completed", "service": "Running"}
        assert pods.run("logs", "job").stdout == "hello world\n"
        assert pods.run("exec", "service", "--", "sh", "-c", "echo here; exit 3", code=3).stdout == "here\n"
        pods.run("stop", "service")
        assert pods.run("logs", "service").stdout == "hello\nbye\n"
        (one,) = pods.document("status", "service")["containers"]
        assert (one["state"], one["exitCode"], one["reason"]) == ("Exited", 0, "Completed")
    finally:
        pods.run("rm", "--all", "--grace", "0", code=None)
    assert pods.document("ls") == []


def test_the_plain_executor_runs_pods_as_root(scratch: Path) -> None:
    """Without runc: ordinary processes in the image's files and in a cgroup."""
    if reason := Runtime.missing():
        pytest.skip(f"no runtime: {reason}")
    runtime = Runtime(scratch / "r", executor="plain")
    runtime.folder.mkdir()
    with runtime:
        runtime.import_archives([pod_image(scratch)])
        pods = PodCommand(folder=scratch, socket=runtime.socket, cgroup=f"/{scratch.name}")
        try:
            ordinary(pods)
        finally:
            remove_groups(pods.cgroup)
        assert runtime.leftovers() == {}


def test_anybody_can_run_pods(scratch: Path) -> None:
    """Without root: runtime, images and pods of a user who may do nothing else."""
    if reason := NobodysRuntime.missing():
        pytest.skip(f"not possible: {reason}")
    scratch.chmod(0o755)
    runtime = NobodysRuntime(scratch / "r")
    runtime.folder.mkdir()
    with runtime:
        archive = pod_image(scratch)
        runtime.import_archives([archive])
        pods = PodCommand(folder=scratch / "p", socket=runtime.socket, cgroup="/pods", prefix=AS_NOBODY)
        pods.folder.mkdir()
        shutil.chown(pods.folder, NOBODY, NOBODY)
        ordinary(pods)
        assert runtime.leftovers() == {}
