"""What the runtime asks of a shim and hears from it, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class ShimError(Exception):
    """The shim could not do it; the text is the OCI runtime's own where that is who refused."""


class ShimNotRunningError(ShimError):
    """The shim does not have this container, or it has ended."""


class ShimClosedError(Exception):
    """The shim itself does not answer: nobody holds the sandbox any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """What the holder of a sandbox has of its own; everything else is the host's."""

    network: bool = False
    ipc: bool = False
    uts: bool = False
    pid: bool = False  # the holder is process 1 and reaps
    hostname: str = ""  # only with uts
    sysctls: Mapping[str, str] = field(default_factory=dict)  # refused unless their namespace is the sandbox' own
    oom_score_adj: int | None = None  # a value lower than ours is ours where lowering it is not allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A container to start. `command` ends once the container runs, and leaves it behind: `runc run --detach`."""

    id: str
    command: Sequence[str]
    log_path: str  # empty: output is read and thrown away
    exit_file: str  # the record of how it ended, there before anybody is told
    stdin: bool = False
    stdin_once: bool = False  # stdin ends with the first client that brought one
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
    """How a container ended. A signal is 128 and its number, as shells say it."""

    code: int
    at_ns: int
    oom: bool = False  # the kernel killed something of it for want of memory while it ran


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimContainerState:
    """A container as its shim knows it. pid 0: its start is under way."""

    pid: int
    started_at: int  # nanoseconds since 1970
    exited: ShimExit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimExecResult:
    """What a command gave. With `timed_out` it was killed and the code is that of the signal."""

    stdout: bytes
    stderr: bytes
    code: int
    timed_out: bool = False
    truncated: bool = False  # there was more output than the limit; it was thrown away


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamExit:
    """How a session ended."""

    code: int
    timed_out: bool = False


def parse_exit(said: Mapping[str, Any]) -> ShimExit:
    """An exit as shims say it and write it into the record; KeyError, TypeError or ValueError if it is none."""
    return ShimExit(code=int(said["code"]), at_ns=int(said["at_ns"]), oom=bool(said.get("oom", False)))


def parse_state(said: Mapping[str, Any]) -> ShimContainerState:
    """A container's state as shims say it."""
    exited = said.get("exited")
    return ShimContainerState(
        pid=int(said["pid"]), started_at=int(said["started_at"]), exited=None if exited is None else parse_exit(exited)
    )


def parse_error(said: Mapping[str, Any]) -> ShimError:
    """A refusal as shims say it."""
    message = str(said.get("message", "the shim gave no reason"))
    return ShimNotRunningError(message) if said.get("kind") == "not-running" else ShimError(message)
