"""A real local runtime in this process, all of it in a scratch folder: for tests with real containers.

`LocalNode.leftovers` says what is left of it on the machine once everything was removed: mounts, cgroups, processes.
"""

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interpose.cri.messages import cri
from interpose.cri.server import handlers
from interpose.net.grpc.server import LocalServer, serve
from interpose.node.runtime.images.store import LocalImageStore
from interpose.node.runtime.service.runtime import LocalRuntime
from interpose.node.runtime.service.wiring import RuntimeOptions, open_runtime
from interpose.testing.pods import container_config, pod_config
from tests.support.lab.images import FOREVER, TEST_IMAGE, ImageSpec, archive, layer

APPLETS = (
    *("cat", "echo", "env", "false", "head", "hostname", "id", "ls", "mkdir", "nc", "sh", "sleep", "stat", "tail"),
    *("true", "wc", "yes", "kill", "ps", "touch", "stty", "dd"),
)


def busybox() -> str | None:
    """The static busybox of this machine."""
    return shutil.which("busybox")


class LocalNode:
    """A runtime, served on `socket`. Leaving it is the end of the process, not of the containers."""

    def __init__(self, folder: Path, executor: str = "auto", **options: Any) -> None:
        self.folder = folder
        self.socket = folder / "runtime.sock"
        self.cgroup = f"/interpose-test-{folder.name}"
        self.options = RuntimeOptions(
            root=folder / "root",
            state=folder / "state",
            executor=executor,
            **{"cni_conf_dir": str(folder / "cni"), **options},
        )
        self._runtime: LocalRuntime | None = None
        self._server: LocalServer | None = None

    @property
    def runtime(self) -> LocalRuntime:
        """While it is entered."""
        assert self._runtime is not None
        return self._runtime

    async def __aenter__(self) -> Self:
        await self._import()
        self._runtime = open_runtime(self.options)
        await self._runtime.start()
        self.socket.unlink(missing_ok=True)  # of a process that was killed
        self._server = await serve(self.socket, handlers(self._runtime, methods=self._runtime.METHODS))
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.close()
        self.socket.unlink(missing_ok=True)
        await self.runtime.close()

    async def _import(self) -> None:
        tar = self.folder / "image.tar"
        if not _write_image(tar):
            return
        store = LocalImageStore(self.options.root / "images", durable=False)
        store.load()
        await store.import_file(tar)
        await store.close()

    # -- calls

    async def call(self, method: str, **fields: Any) -> Any:
        """Any call, in this process."""
        return await self.runtime.call(method, getattr(cri, f"{method}Request")(**fields))

    def pod(self, name: str = "web", **options: Any) -> cri.PodSandboxConfig:
        """The configuration of a pod here."""
        config = pod_config(name, **options)
        config.log_directory = str(self.folder / "logs" / name)
        config.linux.cgroup_parent = f"{self.cgroup}/pod{config.metadata.uid}"
        return config

    def container(self, pod: cri.PodSandboxConfig, *command: str, name: str = "main") -> cri.ContainerConfig:
        """The configuration of a container here."""
        config = container_config(pod, name)
        config.image.image = TEST_IMAGE
        for field in ("command", "args", "mounts", "envs"):
            config.ClearField(field)
        config.command.extend(command)
        config.log_path = f"{name}.log"
        return config

    async def start(self, pod: cri.PodSandboxConfig, sandbox_id: str, config: cri.ContainerConfig) -> str:
        """A container that runs."""
        answer = await self.call("CreateContainer", pod_sandbox_id=sandbox_id, config=config, sandbox_config=pod)
        await self.call("StartContainer", container_id=answer.container_id)
        return str(answer.container_id)

    async def status(self, container_id: str) -> cri.ContainerStatus:
        """Of a container."""
        status: cri.ContainerStatus = (await self.call("ContainerStatus", container_id=container_id)).status
        return status

    async def remove_all(self) -> None:
        """All pods."""
        for one in (await self.call("ListPodSandbox")).items:
            await self.call("RemovePodSandbox", pod_sandbox_id=one.id)

    def log(self, pod: str = "web", name: str = "main") -> list[str]:
        """The lines of a container's log."""
        path = self.folder / "logs" / pod / f"{name}.log"
        return path.read_text().splitlines() if path.exists() else []

    def leftovers(self) -> dict[str, list[str]]:
        """What is left on the machine; empty if all is well."""
        here = str(self.folder)
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if here in line]
        cgroups = [
            str(place / self.cgroup.strip("/"))
            for place in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir())
            if (place / self.cgroup.strip("/")).is_dir()
        ]
        processes = [pid for pid in os.listdir("/proc") if pid.isdigit() and here in _command(pid)]  # noqa: PTH208
        folders = [
            str(path) for kind in ("sandboxes", "containers", "oci") for path in (self.options.state / kind).iterdir()
        ]
        found = {"mounts": mounts, "cgroups": cgroups, "processes": processes, "folders": folders}
        return {kind: what for kind, what in found.items() if what}


def _write_image(tar: Path) -> bool:
    """Whether there was none."""
    if tar.exists():
        return False
    program = busybox()
    assert program is not None
    spec = ImageSpec(reference=TEST_IMAGE, command=FOREVER)
    tar.write_bytes(archive(spec, layer(Path(program).read_bytes(), APPLETS)))
    return True


def _command(pid: str) -> str:
    if int(pid) == os.getpid():
        return ""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
