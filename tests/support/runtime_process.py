"""A FakeRuntime in a process of its own, to be killed, paused and started again.

`python -m tests.support.runtime_process SOCKET [METHOD ...]` serves until it is killed; calls of the methods named
stand still for ever. A socket left by a dead one is replaced.
"""

import asyncio
import sys
from pathlib import Path

from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime


async def main(path: Path, stalled: list[str]) -> None:
    """Serve."""
    runtime = FakeRuntime()
    runtime.populate(10)
    for method in stalled:
        runtime.stall(method)
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - at start, nobody waits
    async with serve_runtime(path, runtime):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
