"""Interfaces of the parts below the service: shims, bundles, sandbox files, networks. Protocols and values.

The service knows only these. The real ones are put together in `wiring`; tests have a world in memory that can be
killed at any act. Every undoing act (`remove`, `teardown`, `delete`, `stop`) may be repeated; what is gone is fine.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from interpose.cri.messages import cri
from interpose.node.runtime.state.records import ContainerRecord, ContainerUser, SandboxRecord, UsedImage


class PartError(Exception):
    """A part refused or failed; the text is for people, in the words of the program that refused."""


class NotRunningError(PartError):
    """The container has ended, or was never started."""


class ShimGoneError(PartError):
    """There is no shim (any more); the pause process ended with it."""


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
    """Output and exit code of a command."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0
    timed_out: bool = False


class ShimStreams(Protocol):
    """A session with a process: an exec'd one, or the container's own."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """(1 or 2, bytes) until the process ends or closes them."""

    async def write(self, data: bytes) -> None:
        """Write to the stdin of the process."""

    async def write_eof(self) -> None:
        """Close the stdin of the process."""

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal of the process."""

    async def wait(self) -> int | None:
        """The exit code; None where it did not end but the session did."""

    async def close(self) -> None:
        """End the session, and with it a process that was exec'd."""


class Shim(Protocol):
    """The shim process of a sandbox: parent of its pause process and of its containers."""

    @property
    def pid(self) -> int: ...

    @property
    def pause_pid(self) -> int:
        """The process that holds the namespaces of the sandbox; 0 after its end."""

    async def run(self, record: ContainerRecord) -> int:
        """Start a container; its pid. PartError with the words of the OCI runtime."""

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal to the first process of a container; nothing happens if it has ended."""

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: int) -> ExecOutput:
        """Run a command to its end; a timeout of 0 is none."""

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> ShimStreams:
        """Run a command with streams."""

    async def attach(self, container_id: str, *, stdin: bool) -> ShimStreams:
        """The streams of the container itself; `stdin` if the client wants to write."""

    async def reopen_log(self, container_id: str) -> None:
        """Let the shim write to a new log file of the same name."""

    async def states(self) -> Mapping[str, ShimState]:
        """All containers of the shim by id, ended ones included."""

    async def forget(self, container_id: str) -> None:
        """Drop a container that ended and is being removed."""

    async def stop(self) -> None:
        """End the pause process and the shim."""

    async def wait_closed(self) -> None:
        """Wait until the shim is gone, or `disconnect` was called."""

    async def disconnect(self) -> None:
        """Close the connection to the shim; shim and containers go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimCallbacks:
    """Called for a shim: at a container's exit, and when the sandbox is lost (pause process or shim died)."""

    on_exit: Callable[[str, ContainerExit], None]
    on_lost: Callable[[str], None]


class ShimManager(Protocol):
    """Starts shims and finds them again."""

    async def launch(self, record: SandboxRecord, callbacks: ShimCallbacks) -> Shim:
        """Start a shim, with a pause process in the namespaces of the sandbox."""

    async def attach(self, sandbox_id: str, callbacks: ShimCallbacks) -> Shim:
        """Connect to the shim that runs; ShimGoneError if there is none, or none is left then."""

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that have a shim and are not in `known`."""


class SandboxFiles(Protocol):
    """The files of a sandbox: its folder, /etc files, shared memory, the cgroup of its pause process."""

    async def create(self, record: SandboxRecord) -> None: ...

    async def attach(self, record: SandboxRecord, pause_pid: int) -> None:
        """Put the pause process, which runs now, into its cgroup."""

    async def detach(self, record: SandboxRecord) -> None:
        """Remove the cgroup of the pause process, which is gone."""

    async def remove(self, record: SandboxRecord) -> None:
        """Remove folder, mounts and cgroup of the sandbox."""

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that left something behind and are not in `known`."""

    async def remove_orphan(self, sandbox_id: str) -> None:
        """Remove what an unknown sandbox left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleResult:
    """What the creation of a bundle found out about its container."""

    user: ContainerUser
    stop_signal: int


class Bundles(Protocol):
    """The files of a container: root file system, configuration for the OCI runtime, exit record."""

    async def find_image(self, reference: str, user_specified: str = "") -> UsedImage | None:
        """The image for a new container, None if it is not here; `user_specified` is its name in the pod."""

    async def create(
        self, record: ContainerRecord, sandbox: SandboxRecord, pause_pid: int, target_pid: int
    ) -> BundleResult: ...

    async def remove(self, record: ContainerRecord) -> None:
        """Remove root file system and bundle, and release the image."""

    async def read_exit(self, container_id: str) -> ContainerExit | None:
        """The exit record that the shim wrote; None without one."""

    async def read_spec(self, container_id: str) -> dict[str, Any]:
        """The OCI configuration of a container; empty if it is gone."""

    async def update_resources(
        self, record: ContainerRecord, resources: cri.LinuxContainerResources
    ) -> Mapping[str, Any]:
        """Put other resources into the configuration; returns them for the OCI runtime."""

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of containers that left something behind and are not in `known`."""

    async def remove_orphan(self, container_id: str) -> None:
        """Remove what an unknown container left behind."""


class Executor(Protocol):
    """The calls of an OCI runtime that are not the shim's."""

    async def delete(self, record: ContainerRecord, *, force: bool = False) -> None:
        """Delete a container with its cgroup; an unknown one is fine. `force` kills its processes first."""

    async def kill_all(self, record: ContainerRecord) -> None:
        """End every process in the container's cgroup."""

    async def update(self, record: ContainerRecord, resources: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAddresses:
    """The addresses of a pod."""

    ip: str = ""
    additional: tuple[str, ...] = ()


class PodNetwork(Protocol):
    """The network of pods."""

    @property
    def configured(self) -> bool:
        """Whether pods get a network of their own."""

    def condition(self) -> tuple[bool, str, str]:
        """The NetworkReady condition: ready, reason, message."""

    def node_address(self) -> str:
        """The address of the node, for pods that share its network."""

    async def setup(self, record: SandboxRecord, pause_pid: int) -> PodAddresses: ...

    async def teardown(self, record: SandboxRecord, pause_pid: int) -> None:
        """Disconnect the pod; with a `pause_pid` of 0 its network namespace is gone."""

    async def kill_orphan_plugins(self, ready: Collection[str]) -> None:
        """Kill CNI plugins that the previous runtime process started: they would finish after they were undone.

        Networks of `ready` sandboxes are complete; their processes are left alone.
        """

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that are still connected and not in `known`."""

    async def remove_orphan(self, sandbox_id: str) -> None:
        """Disconnect an unknown sandbox."""
