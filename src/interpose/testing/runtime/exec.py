"""Commands in fake containers: ExecSync with a few built-in commands, and URLs for Exec, Attach and PortForward.

No process is ever started. The URLs look like those of containerd's stream server; nothing listens there.
"""

import random
import shlex
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.runtime.methods import Methods, UnaryMethod
from interpose.testing.runtime.state import FakeContainer, NodeState, state_name

# Runtimes cut each of the two outputs here (a container must not fill the memory of the node).
OUTPUT_LIMIT = 16 << 20
_URL_CHARACTERS = string.ascii_letters + string.digits + "-_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """What a command left behind; `seconds` is how long it claims to have run (nobody waits for it)."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    seconds: float = 0.0


Shell = Callable[[FakeContainer, Sequence[str]], ExecResult]


def run_builtin(container: FakeContainer, command: Sequence[str]) -> ExecResult:
    """The built-in commands: echo, env, true, false, exit N, sleep N and sh -c with one of them."""
    name, *arguments = command
    match name.rsplit("/", 1)[-1], arguments:
        case "sh", ["-c", script]:
            words = shlex.split(script)
            return run_builtin(container, words) if words else ExecResult()
        case "echo", _:
            return ExecResult(stdout=" ".join(arguments).encode() + b"\n")
        case "env", []:
            return ExecResult(stdout=b"".join(b"%s=%s\n" % (e.key.encode(), e.value) for e in container.config.envs))
        case "true", _:
            return ExecResult()
        case "false", _:
            return ExecResult(exit_code=1)
        case "exit", [code]:
            return ExecResult(exit_code=int(code))
        case "sleep", [seconds]:
            return ExecResult(seconds=float(seconds))
        case _:
            raise RpcError(
                Code.UNKNOWN, f'failed to exec in container: exec: "{name}": executable file not found in $PATH'
            )


class Execution:
    """Methods that reach into a running container."""

    def __init__(self, state: NodeState, rng: random.Random, shell: Shell) -> None:
        self._state = state
        self._rng = rng
        self._shell = shell

    def methods(self) -> Methods:
        """The part of the method table that lives here."""
        return {
            "ExecSync": UnaryMethod(cri.ExecSyncRequest, self.exec_sync),
            "Exec": UnaryMethod(cri.ExecRequest, self.exec),
            "Attach": UnaryMethod(cri.AttachRequest, self.attach),
            "PortForward": UnaryMethod(cri.PortForwardRequest, self.port_forward),
        }

    def exec_sync(self, request: cri.ExecSyncRequest) -> cri.ExecSyncResponse:
        container = self._running(request.container_id)
        if not request.cmd:
            raise RpcError(Code.UNKNOWN, "failed to exec in container: args must not be empty")
        result = self._shell(container, list(request.cmd))
        if 0 < request.timeout < result.seconds:
            raise RpcError(
                Code.DEADLINE_EXCEEDED,
                f"failed to exec in container: timeout {request.timeout}s exceeded: context deadline exceeded",
            )
        return cri.ExecSyncResponse(
            stdout=result.stdout[:OUTPUT_LIMIT], stderr=result.stderr[:OUTPUT_LIMIT], exit_code=result.exit_code
        )

    def exec(self, request: cri.ExecRequest) -> cri.ExecResponse:
        _check_streams(request)
        self._running(request.container_id)
        return cri.ExecResponse(url=self._url("exec"))

    def attach(self, request: cri.AttachRequest) -> cri.AttachResponse:
        _check_streams(request)
        self._running(request.container_id)
        return cri.AttachResponse(url=self._url("attach"))

    def port_forward(self, request: cri.PortForwardRequest) -> cri.PortForwardResponse:
        sandbox = self._state.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise RpcError(Code.UNKNOWN, f'sandbox container "{sandbox.id}" is not running')
        return cri.PortForwardResponse(url=self._url("portforward"))

    def _running(self, container_id: str) -> FakeContainer:
        container = self._state.container(container_id)
        if container.state != cri.CONTAINER_RUNNING:
            raise RpcError(Code.UNKNOWN, f"container is in {state_name(container)} state")
        return container

    def _url(self, kind: str) -> str:
        token = "".join(self._rng.choices(_URL_CHARACTERS, k=8))
        return f"http://127.0.0.1:10010/{kind}/{token}"


def _check_streams(request: cri.ExecRequest | cri.AttachRequest) -> None:
    if not (request.stdin or request.stdout or request.stderr):
        raise RpcError(Code.INVALID_ARGUMENT, "one of stdin, stdout or stderr must be set")
    if request.tty and request.stderr:
        raise RpcError(Code.INVALID_ARGUMENT, "tty and stderr cannot both be true")
