"""The test API server as a process: prints where it listens, and stays until SIGTERM or SIGINT."""

import argparse
import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.support.apiserver.server import ApiServer


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.apiserver",
        description="An API server for tests: objects in memory, enough for kubectl, the agent and the webhook.",
    )
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="port 0 is any (default)")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="write one for this server here")
    parser.add_argument("--token", default="", help="what clients have to show; without it they need none")
    parser.add_argument("--user", default="admin", help="whose token that is (default: admin)")
    parser.add_argument("--node", action="append", default=[], metavar="NAME", help="a node that exists; repeatable")
    parser.add_argument("--tls", action="store_true", help="HTTPS, with a new authority in the kubeconfig")
    asyncio.run(_serve(parser.parse_args(arguments)))


async def _serve(given: argparse.Namespace) -> None:
    host, _, port = given.listen.rpartition(":")
    tokens = {given.token: given.user} if given.token else None
    server = ApiServer(tokens=tokens, tls=given.tls, nodes=given.node, host=host.strip("[]"), port=int(port))
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    async with server:
        if given.kubeconfig is not None:
            server.kubeconfig(given.kubeconfig)
        print(server.url, flush=True)
        await over.wait()


if __name__ == "__main__":
    main()
