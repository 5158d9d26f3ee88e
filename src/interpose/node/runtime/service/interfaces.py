"""What the service wants of the parts below it: shims, bundles, grounds, networks. Protocols and values.

The service knows only these. The real ones are put together in `parts`; tests have a world in memory that can be killed
at any act. Every undoing act (`clear`, `teardown`, `delete`, `stop`) may be repeated and does not mind what is gone.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from interpose.cri.messages import cri
from interpose.node.runtime.state.records import ContainerRecord, ContainerUser, SandboxRecord, UsedImage


class PartError(Exception):
    """A part could not do what was asked; the text is for people, in the words of whoever refused."""


class NotRunningError(PartError):
    """The container has ended, or was never started."""


class ShimGoneError(PartError):
    """There is no shim (any more); the holder ended with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """How a container ended."""

    code: int
    at: int  # nanoseconds
    oom: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimState:
    """A container as its shim knows it. A pid of 0 without an exit: it is being started just now."""

    pid: int = 0
    started_at: int = 0
    exited: ContainerExit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOutput:
    """What a command left behind."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0
    timed_out: bool = False


class ShimStreams(Protocol):
    """A session with a process: an exec'd one, or the container's own."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """(1 or 2, bytes) until the process ends or closes them."""

    async def write(self, data: bytes) -> None:
        """To its stdin."""

    async def write_eof(self) -> None:
        """The end of its stdin."""

    async def resize(self, width: int, height: int) -> None:
        """The size of its terminal."""

    async def wait(self) -> int | None:
        """The exit code; None where it did not end but the session did."""

    async def close(self) -> None:
        """End the session, and with it a process that was exec'd."""


class Shim(Protocol):
    """The process that has a sandbox: holder of its namespaces, parent of its containers."""

    @property
    def pid(self) -> int: ...

    @property
    def holder(self) -> int: ...

    async def run(self, record: ContainerRecord) -> int:
        """Start a container; its pid. PartError with the words of the OCI runtime."""

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal to the first process of a container; nothing happens if it has ended."""

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: int) -> ExecOutput:
        """Run a command to its end; a timeout of 0 is none."""

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> ShimStreams:
        """Run a command with streams."""

    async def attach(self, container_id: str, *, stdin: bool) -> ShimStreams:
        """The streams of the container itself; `stdin` if the client has something to type."""

    async def reopen_log(self, container_id: str) -> None:
        """Write to a new log file."""

    async def states(self) -> Mapping[str, ShimState]:
        """All containers that it has."""

    async def forget(self, container_id: str) -> None:
        """A container that ended and is being removed."""

    async def stop(self) -> None:
        """End the holder and the shim."""

    async def gone(self) -> None:
        """Wait until it is gone, or we have let go of it."""

    async def leave(self) -> None:
        """Let go of it; everything goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimCallbacks:
    """Who is told by a shim: a container's end, and the end of the sandbox (its holder died, or the shim itself)."""

    exited: Callable[[str, ContainerExit], None]
    lost: Callable[[str], None]


class ShimManager(Protocol):
    """Starts shims and finds them again."""

    async def launch(self, record: SandboxRecord, ears: ShimCallbacks) -> Shim:
        """A new one, with the holder in its namespaces."""

    async def attach(self, sandbox_id: str, ears: ShimCallbacks) -> Shim:
        """The one that is there; ShimGoneError, and then there is none."""

    async def sweep(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that have a shim and are not known."""


class SandboxFiles(Protocol):
    """What a sandbox stands on: its folder, /etc files, shared memory, the cgroup of its holder."""

    async def lay(self, record: SandboxRecord) -> None: ...

    async def settle(self, record: SandboxRecord, holder: int) -> None:
        """The holder is there: put it in its cgroup."""

    async def unsettle(self, record: SandboxRecord) -> None:
        """The holder is gone."""

    async def clear(self, record: SandboxRecord) -> None:
        """Give all of it back."""

    async def sweep(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that left something behind and are not known."""

    async def sweep_away(self, sandbox_id: str) -> None:
        """Remove what such a one left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleResult:
    """What came out of making a bundle."""

    user: ContainerUser
    stop_signal: int


class Bundles(Protocol):
    """The files of a container: root file system, configuration for the OCI runtime, exit record."""

    async def image(self, reference: str, asked: str = "") -> UsedImage | None:
        """The image that a container is to be made of; `asked` is what the pod's author calls it."""

    async def make(
        self, record: ContainerRecord, sandbox: SandboxRecord, holder: int, target_pid: int
    ) -> BundleResult: ...

    async def clear(self, record: ContainerRecord) -> None:
        """Remove all of it."""

    async def exit_of(self, container_id: str) -> ContainerExit | None:
        """What the shim wrote when it ended."""

    async def spec(self, container_id: str) -> dict[str, Any]:
        """The OCI configuration; empty if it is gone."""

    async def adjust(self, record: ContainerRecord, resources: cri.LinuxContainerResources) -> Mapping[str, Any]:
        """Put other resources into the configuration; what to tell the OCI runtime."""

    async def sweep(self, known: Collection[str]) -> list[str]:
        """Ids of containers that left something behind and are not known."""

    async def sweep_away(self, container_id: str) -> None:
        """Remove what such a one left behind."""


class Executor(Protocol):
    """What is left to ask of the OCI runtime."""

    async def delete(self, record: ContainerRecord, *, force: bool = False) -> None:
        """Forget a container, with its cgroup; one it does not know is fine. `force` kills what is in it first."""

    async def kill_all(self, record: ContainerRecord) -> None:
        """End every process in the container's cgroup."""

    async def update(self, record: ContainerRecord, resources: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAddresses:
    """Where a pod can be reached."""

    ip: str = ""
    additional: tuple[str, ...] = ()


class PodNetwork(Protocol):
    """The network of pods."""

    @property
    def configured(self) -> bool:
        """Whether pods get one of their own."""

    def condition(self) -> tuple[bool, str, str]:
        """Ready, reason, message."""

    def node_address(self) -> str:
        """The address of the node, for pods that share its network."""

    async def setup(self, record: SandboxRecord, holder: int) -> PodAddresses: ...

    async def teardown(self, record: SandboxRecord, holder: int) -> None:
        """`holder` 0: it is gone, and its namespace with it."""

    async def end_strays(self, settled: Collection[str]) -> None:
        """End what a process before us had under way: it would finish after it was undone.

        Networks of `settled` sandboxes are as they should be; who works for them is left alone.
        """

    async def sweep(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that are still connected and not known."""

    async def sweep_away(self, sandbox_id: str) -> None:
        """Disconnect such a one."""
