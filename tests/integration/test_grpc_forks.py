"""Programs that are started beside a grpcio at work, as most tests here do it."""

import subprocess
import sys

from interpose.testing.eventually import WAIT_LIMIT

CODE = """
import asyncio, tempfile
from pathlib import Path

import uvloop
from interpose.testing.grpcpeer import grpc_channel, grpc_server, unary

async def echo(request, _context):
    return request

async def session(path):
    async with grpc_server(path, {"/a/b": unary(echo)}), grpc_channel(path) as channel:
        call = channel.unary_unary("/a/b")
        for _ in range(4):
            assert await call(b"x") == b"x"

async def main():
    with tempfile.TemporaryDirectory() as folder:
        for number in range(20):
            talking = asyncio.ensure_future(session(Path(folder, str(number))))
            for _ in range(5):
                child = await asyncio.create_subprocess_exec("/bin/true", start_new_session=True)
                assert await child.wait() == 0
                await asyncio.sleep(0.001)
            await talking

uvloop.run(main())
"""


def test_children_become_their_programs_and_leave_connections_alone() -> None:
    """grpcio does nothing in them: it has crashed some, and cut calls of their parent."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CODE],
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "fork" not in done.stderr
    assert "Fatal Python error" not in done.stderr
