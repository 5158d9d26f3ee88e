"""One sandbox with its shim and an executor, for tests: real processes, and nothing left of them afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interpose.node.runtime.oci.runc import OciRuntime, find_executor
from interpose.node.runtime.shimclient.client import (
    ExecRequest,
    SandboxOptions,
    ShimClient,
    ShimExecResult,
    ShimExit,
    StartRequest,
)
from interpose.node.runtime.shimclient.paths import ShimPaths, living_shim
from interpose.testing.eventually import eventually
from tests.support.lab.processes import missing_programs
from tests.support.node.bundles import busybox_rootfs, process, write_bundle

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass
class ShimNode:
    """The shim (once launched), what was heard of it, and short ways to run things."""

    folder: Path
    oci: OciRuntime
    rootfs: Path
    shim: ShimClient = field(init=False)
    exits: dict[str, ShimExit] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    @property
    def paths(self) -> ShimPaths:
        """The name of its folder alone is nearly as long as the path of a socket may be."""
        return ShimPaths(folder=self.folder / ("s" * 100))

    def listeners(self) -> dict[str, Any]:
        """What writes down what is heard."""
        return {
            "on_exit": self.exits.__setitem__,
            "on_lost": lambda: self.heard.append("lost"),
            "on_died": lambda: self.heard.append("died"),
        }

    async def launch(self, **options: Any) -> None:
        """Start the shim; options are those of the sandbox."""
        self.paths.folder.mkdir(mode=0o700)
        self.shim = await ShimClient.launch(self.paths, SandboxOptions(**options), **self.listeners())

    def log(self, name: str = "c1") -> Path:
        """The log of a container."""
        return self.folder / "logs" / f"{name}.log"

    def texts(self, name: str = "c1") -> list[str]:
        """Lines of a log without their times."""
        return [line.split(" ", 1)[1] for line in self.log(name).read_text().splitlines()]

    def cgroup(self, name: str = "c1") -> str:
        """The cgroup of a container."""
        return f"/{self._cgroup}/{name}"

    @property
    def _cgroup(self) -> str:
        """Of this node alone, whatever other runs of the tests do."""
        return f"interpose-test-{self.folder.name}"

    def request(
        self,
        *args: str,
        name: str = "c1",
        memory: int | None = None,
        namespaces: dict[str, str] | None = None,
        **options: Any,
    ) -> StartRequest:
        """A container with a bundle of its own; options are those of StartRequest."""
        tty = bool(options.get("tty"))
        bundle = write_bundle(
            self.folder / "bundles" / name,
            self.rootfs,
            process(*args, terminal=tty),
            cgroup=self.cgroup(name),
            memory=memory,
            namespaces=namespaces,
        )
        self.started.append(name)
        return StartRequest(
            id=name,
            command=self.oci.run_command(name, bundle, tty=tty),
            log_path=str(self.log(name)),
            exit_file=str(self.folder / f"{name}.exit"),
            **options,
        )

    async def run(self, *args: str, **options: Any) -> int:
        """Start a container; its pid."""
        return await self.shim.run(self.request(*args, **options))

    def command(self, *args: str, name: str = "c1", **options: Any) -> ExecRequest:
        """A process in a container; options are those of ExecRequest."""
        tty = bool(options.get("tty"))
        return ExecRequest(
            container_id=name,
            command=self.oci.exec_command(name, tty=tty),
            process=process(*args, terminal=tty),
            **options,
        )

    async def exec(self, *args: str, **options: Any) -> ShimExecResult:
        """Run a command to its end."""
        return await self.shim.exec_sync(self.command(*args, **options))

    async def ended(self, name: str = "c1") -> ShimExit:
        """Wait until we are told that a container ended."""
        await eventually(lambda: name in self.exits, f"the end of {name}")
        return self.exits[name]

    async def clean(self) -> None:
        """End everything that was started."""
        if hasattr(self, "shim"):
            for name in self.started:
                await self.oci.delete(name, force=True)
            if living_shim(self.paths) is not None:
                await self.shim.stop()
            await self.shim.close()
        await asyncio.to_thread(self._remove_cgroups)

    def _remove_cgroups(self) -> None:
        for place in (_CGROUPS, *_CGROUPS.glob("*/")):
            folder = place / self._cgroup
            if folder.is_dir() and not any(entry.is_dir() for entry in folder.iterdir()):
                folder.rmdir()


def why_not(executor: str) -> str | None:
    """Why this executor cannot be used here, or None."""
    return missing_programs("busybox", *(("runc",) if executor == "runc" else ()), root=executor == "runc")


@asynccontextmanager
async def shim_node(folder: Path, executor: str) -> AsyncIterator[ShimNode]:
    """A node in this folder, not launched yet."""
    node = ShimNode(folder, find_executor(executor, folder / "oci"), folder / "rootfs")
    await asyncio.to_thread(busybox_rootfs, node.rootfs)
    try:
        yield node
    finally:
        await node.clean()
