"""Requests to a shim and its answers, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class ShimError(Exception):
    """The shim refused or failed; the text is the OCI runtime's own where that failed."""


class ShimNotRunningError(ShimError):
    """The shim does not have this container, or it has ended."""


class ShimClosedError(Exception):
    """The shim itself does not answer: the sandbox has no pause process any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """The namespaces and settings of a sandbox's pause process; everything else is the host's."""

    network: bool = False
    ipc: bool = False
    uts: bool = False
    pid: bool = False  # the pause process is process 1 and reaps
    hostname: str = ""  # only with uts
    sysctls: Mapping[str, str] = field(default_factory=dict)  # refused unless their namespace is the sandbox' own
    oom_score_adj: int | None = None  # a value lower than ours is ours where lowering it is not allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A container to start. `command` ends once the container runs, and leaves it behind: `runc run --detach`."""

    id: str
    command: Sequence[str]
    log_path: str  # empty: output is read and dropped
    exit_file: str  # the exit record, written before the exit is reported
    stdin: bool = False
    stdin_once: bool = False  # stdin ends with the first client that attaches to it
    tty: bool = False
    oom_file: str | None = None  # memory.oom_control (v1) or memory.events (v2) of its cgroup
    timeout: float = 60.0  # of the command, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """A process to start in a container; `process` is its description as of the OCI runtime specification."""

    container_id: str
    command: Sequence[str]
    process: Mapping[str, Any]
    tty: bool = False
    stdin: bool = False
    timeout: float = 0.0  # seconds from now until it is killed; 0: as long as it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimExit:
    """The exit of a container. A signal is 128 and its number, as in shells."""

    code: int
    at_ns: int
    oom: bool = False  # the kernel killed a process of it when memory ran out


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimContainerState:
    """A container as its shim knows it. pid 0: its start is under way."""

    pid: int
    started_at: int  # nanoseconds since 1970
    exited: ShimExit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimExecResult:
    """The result of a command. With `timed_out` it was killed and the code is that of the signal."""

    stdout: bytes
    stderr: bytes
    code: int
    timed_out: bool = False
    truncated: bool = False  # output beyond the limit was dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamExit:
    """The exit of the process of a session."""

    code: int
    timed_out: bool = False


def parse_exit(document: Mapping[str, Any]) -> ShimExit:
    """Parse an exit of a message or an exit record; KeyError, TypeError or ValueError if it is invalid."""
    return ShimExit(code=int(document["code"]), at_ns=int(document["at_ns"]), oom=bool(document.get("oom", False)))


def parse_state(document: Mapping[str, Any]) -> ShimContainerState:
    """Parse the state of a container in a shim's answer."""
    exited = document.get("exited")
    return ShimContainerState(
        pid=int(document["pid"]),
        started_at=int(document["started_at"]),
        exited=None if exited is None else parse_exit(exited),
    )


def parse_error(document: Mapping[str, Any]) -> ShimError:
    """Parse the error in a shim's answer."""
    message = str(document.get("message", "the shim gave no reason"))
    return ShimNotRunningError(message) if document.get("kind") == "not-running" else ShimError(message)
