"""The probe: 0 and silence, or 1 and the reason."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from interpose.cli.compat.cri_resmgr_agent_probe import run_command
from interpose.cli.main import cli
from interpose.kube.agent.messages import HEALTH_CHECK, health_check_reply, read_health_check
from interpose.net.grpc.handlers import Handlers, ServerContext, Unary
from interpose.net.grpc.server import serve
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.eventually import WAIT_LIMIT


async def health(data: bytes, _context: ServerContext) -> bytes:
    """All is well but for the configuration."""
    query = read_health_check(data)
    if query == "refuse":
        raise RpcError(Code.PERMISSION_DENIED, "not you")
    if query == "strange":
        return b"\xff\xff\xff"
    return health_check_reply("it was rejected" if query == "config-status" else "")


@contextmanager
def serving(path: Path, handlers: Handlers) -> Iterator[None]:
    """A server on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="agent")
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve(path, handlers), loop).result(WAIT_LIMIT)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(WAIT_LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_LIMIT)
        loop.close()


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[str]:
    """Of an agent that runs."""
    with serving(tmp_path / "a.sock", {HEALTH_CHECK: Unary(health)}):
        yield str(tmp_path / "a.sock")


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("", 0, ""),
        ("config-status", 1, "it was rejected"),
        ("refuse", 1, "not you"),
        ("strange", 1, "did not answer properly"),
    ],
)
def test_the_answer_is_the_exit_code(
    socket: str, query: str, code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason on standard error, and nothing else."""
    result = CliRunner().invoke(cli, ["agent", "probe", "--agent-socket", socket, "--query", query])
    assert (result.exit_code, result.stdout) == (code, "")
    assert reason in result.stderr
    assert run_command(["-agent-socket", socket, f"-query={query}"]) == code
    assert reason in capsys.readouterr().err


def test_nobody_there(tmp_path: Path) -> None:
    """The socket is named."""
    where = str(tmp_path / "x.sock")
    result = CliRunner().invoke(cli, ["agent", "probe", "--agent-socket", where])
    assert result.exit_code == 1
    assert f"cannot connect to {where}: No such file or directory" in result.stderr


def test_a_wrong_socket_is_a_mistake() -> None:
    """Not an agent that is away."""
    result = CliRunner().invoke(cli, ["agent", "probe", "--agent-socket", "x.sock"])
    assert result.exit_code == 78
    assert "--agent-socket: 'x.sock' is not absolute" in result.stderr
