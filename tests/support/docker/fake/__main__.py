"""`python -m tests.support.docker.fake SOCKET [--driver systemd]`: serves until it is told to end."""

import argparse
import asyncio
import signal
from pathlib import Path

from tests.support.docker.fake.server import FakeDocker


async def _serve(path: Path, driver: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with FakeDocker(path, driver=driver):
        await ended.wait()


def main() -> None:
    """The command line."""
    import uvloop

    parser = argparse.ArgumentParser(prog="fakedocker", description="A Docker API for tests.")
    parser.add_argument("socket", type=Path)
    parser.add_argument("--driver", choices=("cgroupfs", "systemd"), default="cgroupfs")
    options = parser.parse_args()
    uvloop.run(_serve(options.socket, options.driver))


if __name__ == "__main__":
    main()
