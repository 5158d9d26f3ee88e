"""Hooks of containers."""

import asyncio
from pathlib import Path

import pytest

from interpose.cri.client import RuntimeClient
from interpose.node.pods.clock import Clocks
from interpose.node.pods.spec import ExecAction, HttpAction, LifecycleHandlers, Port, SleepAction, TcpAction
from interpose.node.pods.sync.lifecycle_hooks import HookError, LifecycleHookRunner
from interpose.node.pods.sync.result import StepReason
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.node.managed_node import ManagedNode, container, pod


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def running(runtime: FakeRuntime) -> str:
    [sandbox] = runtime.populate(1)
    return sandbox.containers[0]


async def test_a_command_has_to_end_well(runtime: FakeRuntime, running: str) -> None:
    """Its output is part of the message."""
    hooks = LifecycleHookRunner(RuntimeClient(runtime), Clocks())
    await hooks.run(ExecAction(command=("true",)), running, container(), ())
    with pytest.raises(HookError, match=r"^command ended with exit code 1$"):
        await hooks.run(ExecAction(command=("false",)), running, container(), ())
    with pytest.raises(HookError, match=r"command could not be run: .*not found"):
        await hooks.run(ExecAction(command=("nothing",)), running, container(), ())


async def test_what_a_command_said_is_told() -> None:
    """For the person who has to find out."""
    from interpose.testing.runtime.exec import ExecResult

    runtime = FakeRuntime(shell=lambda _c, _w: ExecResult(stdout=b"out ", stderr=b"no disk\n", exit_code=3))
    [sandbox] = runtime.populate(1)
    with pytest.raises(HookError, match=r"^command ended with exit code 3: out no disk$"):
        await LifecycleHookRunner(RuntimeClient(runtime), Clocks()).run(
            ExecAction(command=("x",)), sandbox.containers[0], container(), ()
        )


async def test_hooks_over_the_network(runtime: FakeRuntime) -> None:
    """Any answer will do. Without an address nobody is asked: it would be somebody else."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1000))
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    named = container(ports=(Port(container_port=port, name="web"),))
    hooks = LifecycleHookRunner(RuntimeClient(runtime), Clocks())
    async with server:
        await hooks.run(HttpAction(port="web", path="/bye", headers=(("X-A", "b"),)), "c", named, ("127.0.0.1",))
        await hooks.run(TcpAction(port=port), "c", named, ("127.0.0.1", "192.0.2.9"))
        with pytest.raises(HookError, match="the pod has no address"):
            await hooks.run(TcpAction(port=port), "c", named, ())
        await hooks.run(TcpAction(port=port, host="127.0.0.1"), "c", named, ("192.0.2.9",))
    assert asked[0].startswith(b"GET /bye HTTP/1.1\r\n")
    assert b"X-A: b\r\n" in asked[0]
    with pytest.raises(HookError, match=f":{port}"):
        await hooks.run(TcpAction(port=port), "c", named, ("127.0.0.1",))
    with pytest.raises(HookError, match="no port named 'other'"):
        await hooks.run(HttpAction(port="other"), "c", named, ())


async def test_sleeping(runtime: FakeRuntime) -> None:
    """As long as was said."""
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await LifecycleHookRunner(RuntimeClient(runtime), Clocks(sleep=sleep)).run(
        SleepAction(seconds=3), "c", container(), ()
    )
    assert slept == [3]


async def test_a_container_whose_post_start_hook_fails_is_stopped(tmp_path: Path) -> None:
    """And started again by the next round."""
    node = ManagedNode(tmp_path)
    web = pod(container(lifecycle=LifecycleHandlers(post_start=ExecAction(command=("false",)))))
    result = await node.sync(web)
    assert [(step.target, step.reason) for step in result.errors] == [("main", StepReason.POST_START)]
    assert node.calls()[-1] == "StopContainer"
    assert not node.running()


async def test_a_post_start_hook_that_succeeds(tmp_path: Path) -> None:
    """The container counts as started after it."""
    node = ManagedNode(tmp_path)
    web = pod(container(lifecycle=LifecycleHandlers(post_start=ExecAction(command=("true",)))))
    assert (await node.sync(web)).ok
    assert node.calls("StartContainer", "ExecSync") == ["StartContainer", "ExecSync"]


async def test_a_hook_with_tls_goes_to_who_speaks_none(runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    """As kubelets do it: without what is secret, and it is told. Who speaks neither is not reached."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1000))
        plain = asked[-1].startswith(b"GET")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" if plain else b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    headers = (("Authorization", "Bearer secret"), ("X-A", "b"))
    hooks = LifecycleHookRunner(RuntimeClient(runtime), Clocks())
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await hooks.run(HttpAction(port=port, scheme="HTTPS", headers=headers), "c", container(), ("127.0.0.1",))
    assert b"X-A: b\r\n" in asked[-1]
    assert b"secret" not in asked[-1]
    assert "retry with HTTP succeeded" in caplog.text
    async with await asyncio.start_server(nonsense, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(HookError):
            await hooks.run(HttpAction(port=port, scheme="HTTPS"), "c", container(), ("127.0.0.1",))
