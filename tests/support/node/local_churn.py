"""A process that makes and removes pods on a local runtime without end: somebody to be killed.

python -m tests.support.node.local_churn FOLDER EXECUTOR
"""

import asyncio
import itertools
import sys
from contextlib import suppress
from pathlib import Path

import uvloop

from interpose.net.grpc.status import RpcError
from tests.support.node.local_node import LocalNode


async def churn(node: LocalNode, lane: str) -> None:
    """Pods one after the other, each through all that can happen to it."""
    for number in itertools.count():
        pod = node.pod(f"{lane}{number}")
        # What a killed process before us left has the same names.
        with suppress(RpcError):
            sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
            short = await node.start(pod, sandbox, node.container(pod, "true", name="short"))
            long = await node.start(pod, sandbox, node.container(pod, "sleep", "1000", name="long"))
            await node.call("ExecSync", container_id=long, cmd=["true"])
            await node.call("RemoveContainer", container_id=short)
            await node.call("StopPodSandbox", pod_sandbox_id=sandbox)
            await node.call("RemovePodSandbox", pod_sandbox_id=sandbox)


async def main(folder: Path, executor: str) -> None:
    """Two lanes until we are killed."""
    async with LocalNode(folder, executor) as node:
        await asyncio.gather(churn(node, "a"), churn(node, "b"))


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), sys.argv[2]))
