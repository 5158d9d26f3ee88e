"""A node in memory for the local runtime: shims, bundles, networks and records that can be killed at any act.

`LocalWorld` is what outlives a runtime process: its disk, the shims and containers, networks, sandbox files. A runtime
gets at it through a `Process`, which counts its acts and dies at a chosen one: before it is done or just after. A dead
process does nothing any more, so a test can start another one on the same world.

Invariant checked by `leaks`: nothing is in the world that no record knows.
"""

import asyncio
import errno
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interpose.cri.messages import cri
from interpose.net.streaming.handler import ByteReader, ByteWriter
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.exec import ExecService
from interpose.node.runtime.service.interfaces import (
    BundleResult,
    ContainerExit,
    ExecOutput,
    NotRunningError,
    PartError,
    PodAddresses,
    ShimCallbacks,
    ShimGoneError,
    ShimState,
)
from interpose.node.runtime.service.queries import RuntimeIdentity
from interpose.node.runtime.service.runtime import LocalRuntime
from interpose.node.runtime.state.records import (
    ContainerRecord,
    ContainerUser,
    Record,
    SandboxRecord,
    UsedImage,
    decode,
    encode,
)

IMAGE = "localhost/app:1"
IMAGE_ID = "sha256:" + "1" * 64


class KilledError(BaseException):
    """The process of the runtime was killed here; nothing catches it."""


@dataclass(slots=True)
class _Process:
    """A process in a container: it may ignore TERM."""

    pid: int
    stubborn: bool = False
    exited: ContainerExit | None = None


@dataclass(slots=True)
class _Shim:
    pid: int
    pause_pid: int
    containers: dict[str, _Process] = field(default_factory=dict)
    callbacks: ShimCallbacks | None = None
    lost: asyncio.Event = field(default_factory=asyncio.Event)


class LocalWorld:
    """Everything that a kill of the runtime does not touch."""

    def __init__(self) -> None:
        self.files: dict[tuple[type, str], bytes] = {}
        self.shims: dict[str, _Shim] = {}
        self.sandbox_files: set[str] = set()
        self.attached: set[str] = set()
        self.networks: set[str] = set()
        self.ready_networks: list[list[str]] = []  # what was left alone when orphan plugins were killed, by start
        self.bundles: dict[str, dict[str, Any]] = {}
        self.known_to_oci: set[str] = set()
        self.exits: dict[str, ContainerExit] = {}  # what shims wrote
        self.orphans: set[str] = set()  # containers that run without a shim
        self.stubborn = False
        self.hanging = False  # processes do not even end when they are killed, only with their cgroup
        self.half_started: set[str] = set()  # containers whose start is still under way in the shim
        self.pod_network = True
        self.refuse: dict[str, str] = {}  # act -> words of the refusal
        self.unreadable = ""  # why records cannot be read
        self.short_lived = False  # pause processes die at once
        self.full = False  # there is no room for records
        self._pids = itertools.count(100)
        self._ids = itertools.count(1)
        self._time = itertools.count(1_700_000_000_000_000_000, 1_000_000)

    def new_id(self) -> str:
        return f"{next(self._ids):064x}"

    def now(self) -> int:
        return next(self._time)

    def new_pid(self) -> int:
        return next(self._pids)

    def end(self, container_id: str, code: int = 0, *, oom: bool = False) -> None:
        """A container ends by itself; its shim writes that down and reports it."""
        for shim in self.shims.values():
            process = shim.containers.get(container_id)
            if process is not None and process.exited is None:
                process.exited = self.exits[container_id] = ContainerExit(code=code, at=self.now(), oom=oom)
                if shim.callbacks is not None:
                    shim.callbacks.on_exit(container_id, process.exited)

    def lose_shim(self, sandbox_id: str) -> None:
        """The shim is killed: its containers run on with nobody to look after them."""
        shim = self.shims.pop(sandbox_id)
        shim.lost.set()
        self.orphans.update(one for one, process in shim.containers.items() if process.exited is None)
        if shim.callbacks is not None:
            shim.callbacks.on_lost(sandbox_id)

    def running(self) -> set[str]:
        """Containers with a process."""
        there = {
            one for shim in self.shims.values() for one, process in shim.containers.items() if process.exited is None
        }
        return there | self.orphans

    def reboot(self) -> None:
        """The machine restarts: what is not on the disk is gone."""
        self.shims.clear()
        self.attached.clear()
        self.bundles.clear()
        self.sandbox_files.clear()
        self.known_to_oci.clear()
        self.exits.clear()
        self.orphans.clear()

    def leaks(self) -> dict[str, list[str]]:
        """What is in the world without a record, by kind; empty if all is well."""
        sandboxes = {name for kind, name in self.files if kind is SandboxRecord}
        containers = {name for kind, name in self.files if kind is ContainerRecord}
        found = {
            "shims": set(self.shims) - sandboxes,
            "sandbox files": self.sandbox_files - sandboxes,
            "attached": self.attached - sandboxes,
            "networks": self.networks - sandboxes,
            "bundles": set(self.bundles) - containers,
            "oci": self.known_to_oci - containers,
            "running": self.running() - containers,
            "orphans": self.orphans,
        }
        return {kind: sorted(ids) for kind, ids in found.items() if ids}


class Process:
    """One process of the runtime. It dies at act number `dies_at` (from 1), before it is done or `after`."""

    def __init__(self, world: LocalWorld, *, dies_at: int = 0, after: bool = False) -> None:
        self.world = world
        self.acts: list[str] = []
        self.dead = False
        self._dies_at = dies_at
        self._after = after

    def begin(self, act: str) -> bool:
        """An act begins; True if the process dies once it is done."""
        if self.dead:
            raise KilledError(act)
        self.acts.append(act)
        last = len(self.acts) == self._dies_at
        if last and not self._after:
            self.die()
            raise KilledError(act)
        if (words := self.world.refuse.get(act)) is not None:
            raise PartError(words)
        return last

    def finish(self, last: bool, act: str) -> None:
        if last:
            self.die()
            raise KilledError(act)

    def die(self) -> None:
        self.dead = True
        for shim in self.world.shims.values():
            shim.callbacks = None

    def act(self, name: str, do: Any) -> Any:
        """Carry out an act."""
        last = self.begin(name)
        result = do()
        self.finish(last, name)
        return result

    def runtime(self, make_folder: Callable[[str, str], Awaitable[None]] | None = None) -> LocalRuntime:
        """A runtime in this process."""
        world = self.world
        core = RuntimeCore(
            records=_Records(self),
            shims=_Shims(self),
            sandbox_files=_SandboxFiles(self),
            bundles=_Bundles(self),
            executor=_Executor(self),
            network=_Network(self),
            new_id=world.new_id,
            clock=world.now,
        )
        execution = ExecService(core, _no_connection)
        identity = RuntimeIdentity(version="0", settings={})
        return LocalRuntime(core, identity, execution, (), make_folder=make_folder or _no_folder)


async def _no_folder(_sandbox_id: str, _path: str) -> None:
    """There are no logs here."""


class _Records:
    def __init__(self, process: Process) -> None:
        self._process = process

    def prepare(self) -> None:
        return

    def put(self, record: SandboxRecord | ContainerRecord) -> None:
        if self._process.world.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        files = self._process.world.files
        name = f"put {type(record).__name__} {record.phase}"
        self._process.act(name, lambda: files.__setitem__((type(record), record.id), encode(record)))

    def drop(self, record: SandboxRecord | ContainerRecord) -> None:
        files = self._process.world.files
        self._process.act("drop record", lambda: files.pop((type(record), record.id), None))

    def load(self, kind: type[Record]) -> dict[str, Record]:
        if self._process.world.unreadable:
            raise OSError(self._process.world.unreadable)
        return {name: decode(kind, data) for (of, name), data in self._process.world.files.items() if of is kind}


class _SandboxFiles:
    def __init__(self, process: Process) -> None:
        self._process, self._world = process, process.world

    async def create(self, record: SandboxRecord) -> None:
        self._process.act("create sandbox files", lambda: self._world.sandbox_files.add(record.id))

    async def attach(self, record: SandboxRecord, pause_pid: int) -> None:
        assert pause_pid
        self._process.act("attach pause process", lambda: self._world.attached.add(record.id))

    async def detach(self, record: SandboxRecord) -> None:
        self._process.act("detach pause process", lambda: self._world.attached.discard(record.id))

    async def remove(self, record: SandboxRecord) -> None:
        self._process.act("remove sandbox files", lambda: self._clear(record.id))

    def _clear(self, sandbox_id: str) -> None:
        self._world.sandbox_files.discard(sandbox_id)
        self._world.attached.discard(sandbox_id)

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        return sorted(one for one in self._world.sandbox_files if one not in known)

    async def remove_orphan(self, sandbox_id: str) -> None:
        self._process.act("remove orphan sandbox files", lambda: self._clear(sandbox_id))


class _Bundles:
    def __init__(self, process: Process) -> None:
        self._process, self._world = process, process.world

    async def find_image(self, reference: str, user_specified: str = "") -> UsedImage | None:
        return UsedImage(id=IMAGE_ID, name=IMAGE) if reference in (IMAGE, IMAGE_ID) else None

    async def create(
        self, record: ContainerRecord, sandbox: SandboxRecord, pause_pid: int, target_pid: int
    ) -> BundleResult:
        spec = {"process": {}, "linux": {"resources": {}}, "target": target_pid, "holder": pause_pid}
        self._process.act("create bundle", lambda: self._world.bundles.__setitem__(record.id, spec))
        return BundleResult(user=ContainerUser(uid=7, gid=8, groups=(9,)), stop_signal=15)

    async def remove(self, record: ContainerRecord) -> None:
        self._process.act("remove bundle", lambda: self._clear(record.id))

    def _clear(self, container_id: str) -> None:
        self._world.bundles.pop(container_id, None)
        self._world.exits.pop(container_id, None)

    async def read_exit(self, container_id: str) -> ContainerExit | None:
        return self._world.exits.get(container_id)

    async def read_spec(self, container_id: str) -> dict[str, Any]:
        return self._world.bundles.get(container_id, {})

    async def update_resources(
        self, record: ContainerRecord, resources: cri.LinuxContainerResources
    ) -> Mapping[str, Any]:
        wanted = {"cpu": {"cpus": resources.cpuset_cpus}}
        self._process.act("update bundle", lambda: self._world.bundles[record.id]["linux"].update(resources=wanted))
        return wanted

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        return sorted({*self._world.bundles, *self._world.known_to_oci} - set(known))

    async def remove_orphan(self, container_id: str) -> None:
        self._process.act("remove orphan bundle", lambda: self._clear(container_id))
        self._world.known_to_oci.discard(container_id)


class _Executor:
    def __init__(self, process: Process) -> None:
        self._process, self._world = process, process.world

    async def delete(self, record: ContainerRecord, *, force: bool = False) -> None:
        if record.id in self._world.running() and not force:
            raise PartError("container is running")
        self._process.act("oci delete", lambda: self._world.known_to_oci.discard(record.id))

    async def kill_all(self, record: ContainerRecord) -> None:
        self._process.act("kill all", lambda: self._kill(record.id))

    def _kill(self, container_id: str) -> None:
        self._world.orphans.discard(container_id)
        self._world.end(container_id, 137)

    async def update(self, record: ContainerRecord, resources: Mapping[str, Any]) -> None:
        assert record.id in self._world.known_to_oci
        self._process.act("oci update", lambda: dict(resources))


class _Network:
    def __init__(self, process: Process) -> None:
        self._process, self._world = process, process.world

    @property
    def configured(self) -> bool:
        return self._world.pod_network

    def condition(self) -> tuple[bool, str, str]:
        return True, "", ""

    def node_address(self) -> str:
        return "192.0.2.1"

    async def setup(self, record: SandboxRecord, pause_pid: int) -> PodAddresses:
        assert pause_pid
        self._process.act("network up", lambda: self._world.networks.add(record.id))
        return PodAddresses(ip="10.0.0.2", additional=("fd00::2",))

    async def teardown(self, record: SandboxRecord, pause_pid: int) -> None:
        self._process.act("network down", lambda: self._world.networks.discard(record.id))

    async def kill_orphan_plugins(self, ready: Collection[str]) -> None:
        self._process.act("kill orphan plugins", lambda: self._world.ready_networks.append(sorted(ready)))

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        return sorted(one for one in self._world.networks if one not in known)

    async def remove_orphan(self, sandbox_id: str) -> None:
        self._process.act("remove orphan network", lambda: self._world.networks.discard(sandbox_id))


class _Shims:
    def __init__(self, process: Process) -> None:
        self._process, self._world = process, process.world

    async def launch(self, record: SandboxRecord, callbacks: ShimCallbacks) -> "_Link":
        world = self._world
        shim = _Shim(pid=world.new_pid(), pause_pid=0 if world.short_lived else world.new_pid(), callbacks=callbacks)
        self._process.act("launch shim", lambda: world.shims.__setitem__(record.id, shim))
        return _Link(self._process, record.id, shim)

    async def attach(self, sandbox_id: str, callbacks: ShimCallbacks) -> "_Link":
        shim = self._world.shims.get(sandbox_id)
        if shim is None:
            raise ShimGoneError("no shim")
        shim.callbacks = callbacks
        return _Link(self._process, sandbox_id, shim)

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        return sorted(one for one in self._world.shims if one not in known)


class _Link:
    def __init__(self, process: Process, sandbox_id: str, shim: _Shim) -> None:
        self._process, self._world = process, process.world
        self._sandbox_id = sandbox_id
        self._shim = shim

    @property
    def pid(self) -> int:
        return self._shim.pid

    @property
    def pause_pid(self) -> int:
        return self._shim.pause_pid

    def _there(self) -> _Shim:
        if self._sandbox_id not in self._world.shims:
            raise ShimGoneError("no shim")
        return self._shim

    async def run(self, record: ContainerRecord) -> int:
        shim = self._there()
        process = _Process(self._world.new_pid(), stubborn=self._world.stubborn)

        def run() -> None:
            assert record.id in self._world.bundles
            self._world.known_to_oci.add(record.id)
            shim.containers[record.id] = process

        self._process.act("run", run)
        await asyncio.sleep(0)
        return process.pid

    async def signal(self, container_id: str, number: int) -> None:
        process = self._there().containers.get(container_id)
        if process is None or process.exited is not None:
            return
        self._process.act(f"signal {number}", lambda: None)
        if not self._world.hanging and (number == 9 or not process.stubborn):
            self._world.end(container_id, 128 + number)

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: int) -> ExecOutput:
        self._there()
        if command[0] == "sleep":
            return ExecOutput(timed_out=True, code=137)
        if command[0] == "kill":
            raise NotRunningError("cannot exec in a stopped container")
        return ExecOutput(stdout=" ".join(command).encode(), code=3)

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> "EchoStreams":
        return EchoStreams(tuple(command))

    async def attach(self, container_id: str, *, stdin: bool) -> "EchoStreams":
        return EchoStreams(("attached", "typing" if stdin else "watching"))

    async def reopen_log(self, container_id: str) -> None:
        self._process.act("reopen log", lambda: None)

    async def states(self) -> Mapping[str, ShimState]:
        found = {}
        for one, process in self._there().containers.items():
            starting = one in self._world.half_started
            self._world.half_started.discard(one)
            pid = 0 if starting else process.pid
            found[one] = ShimState(pid=pid, started_at=1, exited=None if starting else process.exited)
        return found

    async def forget(self, container_id: str) -> None:
        process = self._there().containers.get(container_id)
        assert process is None or process.exited is not None
        self._process.act("forget", lambda: self._shim.containers.pop(container_id, None))

    async def stop(self) -> None:
        self._process.act("stop shim", lambda: self._world.shims.pop(self._sandbox_id, None))

    async def wait_closed(self) -> None:
        await self._shim.lost.wait()

    async def disconnect(self) -> None:
        self._shim.callbacks = None


class EchoStreams:
    """A session that says what was typed, after the command, and ends with 5."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self.sizes: list[tuple[int, int]] = []
        self.closed = False

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        yield 1, " ".join(self._command).encode()
        while data := await self._typed.get():
            yield 2, data

    async def write(self, data: bytes) -> None:
        self._typed.put_nowait(data)

    async def write_eof(self) -> None:
        self._typed.put_nowait(b"")

    async def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def wait(self) -> int | None:
        return 5

    async def close(self) -> None:
        self.closed = True


async def _no_connection(_netns: str, port: int) -> tuple[ByteReader, ByteWriter]:
    raise PartError(f"nobody listens at {port}")
