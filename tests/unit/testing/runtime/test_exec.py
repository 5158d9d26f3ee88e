"""Commands in containers."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, pod_config
from interpose.testing.runtime.exec import OUTPUT_LIMIT, ExecResult


async def running(runtime: FakeRuntime) -> str:
    """A running container with an environment."""
    pod = pod_config("web")
    sandbox = runtime.state.run_sandbox(pod)
    image = runtime.images.list()[0]
    container = runtime.state.create_container(sandbox, container_config(pod, envs={"A": "1", "B": b"\xff"}), image)
    runtime.state.start_container(container)
    return container.id


@pytest.mark.parametrize(
    ("command", "stdout", "code"),
    [
        (["echo", "a", "b"], b"a b\n", 0),
        (["/bin/sh", "-c", "echo 'x y'"], b"x y\n", 0),
        (["sh", "-c", ""], b"", 0),
        (["env"], b"A=1\nB=\xff\n", 0),
        (["true"], b"", 0),
        (["false"], b"", 1),
        (["sh", "-c", "exit 7"], b"", 7),
    ],
)
async def test_built_in_commands(runtime: FakeRuntime, command: list[str], stdout: bytes, code: int) -> None:
    """Commands that probes and tests like to use work; a failing command is an answer, not an error."""
    request = cri.ExecSyncRequest(container_id=await running(runtime), cmd=command)
    answer = await runtime.call("ExecSync", request)
    assert (answer.stdout, answer.exit_code) == (stdout, code)


async def test_an_unknown_command_is_an_error(runtime: FakeRuntime) -> None:
    """The message names the command, as that of a real runtime does."""
    request = cri.ExecSyncRequest(container_id=await running(runtime), cmd=["nosuch"])
    with pytest.raises(RpcError, match='"nosuch": executable file not found'):
        await runtime.call("ExecSync", request)


async def test_nothing_to_run_is_an_error(runtime: FakeRuntime) -> None:
    """An empty command is refused with the runtime's own words."""
    with pytest.raises(RpcError, match="args must not be empty"):
        await runtime.call("ExecSync", cri.ExecSyncRequest(container_id=await running(runtime)))


async def test_a_command_over_its_time_is_deadline_exceeded(runtime: FakeRuntime) -> None:
    """This code is what makes a probe fail; without a timeout there is no limit."""
    request = cri.ExecSyncRequest(container_id=await running(runtime), cmd=["sleep", "10"], timeout=1)
    with pytest.raises(RpcError) as caught:
        await runtime.call("ExecSync", request)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    request.timeout = 0
    assert (await runtime.call("ExecSync", request)).exit_code == 0


async def test_output_is_cut() -> None:
    """Each output is limited as in real runtimes."""
    runtime = FakeRuntime(shell=lambda _container, _command: ExecResult(stdout=b"x" * (OUTPUT_LIMIT + 1)))
    answer = await runtime.call("ExecSync", cri.ExecSyncRequest(container_id=await running(runtime), cmd=["flood"]))
    assert len(answer.stdout) == OUTPUT_LIMIT


@pytest.mark.parametrize(
    ("method", "request_type", "arguments"),
    [
        ("ExecSync", cri.ExecSyncRequest, {"cmd": ["true"]}),
        ("Exec", cri.ExecRequest, {"cmd": ["true"], "stdout": True}),
        ("Attach", cri.AttachRequest, {"stdout": True}),
    ],
)
async def test_only_running_containers_can_be_entered(
    runtime: FakeRuntime, method: str, request_type: type, arguments: dict[str, object]
) -> None:
    """An ended container is refused by its state, an unknown one is not found."""
    container_id = await running(runtime)
    await runtime.call(method, request_type(container_id=container_id, **arguments))
    runtime.exit_container(container_id)
    with pytest.raises(RpcError, match="CONTAINER_EXITED"):
        await runtime.call(method, request_type(container_id=container_id, **arguments))
    with pytest.raises(RpcError) as caught:
        await runtime.call(method, request_type(container_id="nosuch", **arguments))
    assert caught.value.code is Code.NOT_FOUND


async def test_streaming_calls_give_one_time_urls(runtime: FakeRuntime) -> None:
    """Each call has its own token below the name of its kind."""
    container_id = await running(runtime)
    exec_request = cri.ExecRequest(container_id=container_id, cmd=["sh"], stdin=True, tty=True)
    first, second = [(await runtime.call("Exec", exec_request)).url for _ in range(2)]
    assert first.startswith("http://127.0.0.1:10010/exec/")
    assert first != second
    attach = await runtime.call("Attach", cri.AttachRequest(container_id=container_id, stdout=True))
    assert "/attach/" in attach.url
    sandbox_id = next(iter(runtime.sandboxes))
    forward = cri.PortForwardRequest(pod_sandbox_id=sandbox_id, port=[80])
    assert "/portforward/" in (await runtime.call("PortForward", forward)).url
    runtime.state.stop_sandbox(runtime.sandboxes[sandbox_id])
    with pytest.raises(RpcError, match="is not running"):
        await runtime.call("PortForward", forward)


@pytest.mark.parametrize(
    ("request_message", "method", "text"),
    [
        (cri.ExecRequest(cmd=["sh"]), "Exec", "stdin, stdout or stderr"),
        (cri.ExecRequest(cmd=["sh"], tty=True, stderr=True), "Exec", "tty and stderr"),
        (cri.AttachRequest(), "Attach", "stdin, stdout or stderr"),
    ],
)
async def test_senseless_requests_are_refused(
    runtime: FakeRuntime, request_message: cri.ExecRequest, method: str, text: str
) -> None:
    """INVALID_ARGUMENT names what is wrong."""
    request_message.container_id = await running(runtime)
    with pytest.raises(RpcError, match=text) as caught:
        await runtime.call(method, request_message)
    assert caught.value.code is Code.INVALID_ARGUMENT
