"""The process of a real runtime is killed in the middle of its work, again and again: nothing is left behind."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import RpcError
from interpose.testing.eventually import eventually
from tests.support.node.local_node import LocalNode, busybox

pytestmark = [
    pytest.mark.skipif(busybox() is None, reason="needs a static busybox"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("runc"), reason="needs root and runc"),
]


def live_and_die(folder: Path, seconds: float) -> None:
    """A process that works on this folder for a while."""
    child = subprocess.Popen([sys.executable, "-m", "tests.support.node.local_churn", str(folder), "runc"])
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
    assert child.wait() == -9, "only a kill ends it"


async def _runs_or_ends(node: LocalNode, container_id: str) -> None:
    """A container that is said to run can be reached, unless it comes to its end just now."""
    try:
        await node.call("ExecSync", container_id=container_id, cmd=["true"])
    except RpcError:
        for _ in range(500):
            if (await node.status(container_id)).state == cri.CONTAINER_EXITED:
                return
            await asyncio.sleep(0.01)
        raise


async def test_killed_at_any_moment(scratch: Path) -> None:
    """After each kill what is there is what is said to be there; removed, nothing of it is left on the machine."""
    moments = random.Random(9)
    node = LocalNode(scratch, "runc")
    for _ in range(6):
        live_and_die(scratch, moments.uniform(0.7, 1.6))
        async with node:
            ready = {one.id for one in (await node.call("ListPodSandbox")).items if one.state == cri.SANDBOX_READY}
            for one in (await node.call("ListContainers")).containers:
                if one.state == cri.CONTAINER_RUNNING:
                    assert one.pod_sandbox_id in ready
                    await _runs_or_ends(node, one.id)
            await node.remove_all()
            assert (await node.call("ListContainers")).containers == []
        # A shim that was being launched ends by itself when it finds its launcher gone.
        await eventually(lambda: not node.leftovers(), "the machine to be clean")
        assert node.leftovers() == {}
