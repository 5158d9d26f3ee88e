"""A container runtime in one file: a container is an ordinary process of this machine, an image is a name.

It isolates nothing and forgets everything when it ends; it shows what a runtime has to answer. See README.md.
"""

import argparse
import asyncio
import os
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from interpose.cri.messages import cri
from interpose.cri.server import handlers
from interpose.host.unix_sockets import bind_unix
from interpose.net.grpc.server import LocalServer
from interpose.net.grpc.status import Code, RpcError
from interpose.tasks import TaskBag


@dataclass
class Sandbox:
    config: cri.PodSandboxConfig
    id: str = field(default_factory=lambda: secrets.token_hex(32))
    created_at: int = field(default_factory=time.time_ns)
    state: int = cri.SANDBOX_READY


@dataclass
class Container:
    config: cri.ContainerConfig
    sandbox: Sandbox
    id: str = field(default_factory=lambda: secrets.token_hex(32))
    created_at: int = field(default_factory=time.time_ns)
    state: int = cri.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    process: asyncio.subprocess.Process | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def log_path(self) -> str:
        return str(Path(self.sandbox.config.log_directory, self.config.log_path))


class TinyRuntime:
    """A `cri.caller.Caller`: the name of a method and its request in, its answer out, every failure an RpcError."""

    def __init__(self) -> None:
        self.methods = {
            "Version": self.version,
            "Status": self.status,
            "RunPodSandbox": self.run_pod_sandbox,
            "StopPodSandbox": self.stop_pod_sandbox,
            "RemovePodSandbox": self.remove_pod_sandbox,
            "PodSandboxStatus": self.pod_sandbox_status,
            "ListPodSandbox": self.list_pod_sandbox,
            "CreateContainer": self.create_container,
            "StartContainer": self.start_container,
            "StopContainer": self.stop_container,
            "RemoveContainer": self.remove_container,
            "ContainerStatus": self.container_status,
            "ListContainers": self.list_containers,
            "ExecSync": self.exec_sync,
            "ImageStatus": self.image_status,
            "PullImage": self.pull_image,
        }  # all others answer UNIMPLEMENTED, by which clients know that we do not have them
        self.sandboxes = {}
        self.containers = {}
        self.images = set()
        self.tasks = TaskBag()

    async def call(self, method, request, *, timeout=None):  # whoever serves us keeps the deadline, by cancelling
        if method not in self.methods:
            raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method}")
        return await self.methods[method](request)

    def stream(self, method, request, *, timeout=None):
        raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method}")

    # -- who we are

    async def version(self, _request):
        # The kubelet insists on "0.1.0"; the API version is filled in by whoever serves us.
        return cri.VersionResponse(version="0.1.0", runtime_name="tiny", runtime_version="1", runtime_api_version="v1")

    async def status(self, _request):
        ready = [cri.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=ready))

    # -- sandboxes: what the containers of a pod share. Here that is nothing but a record.

    async def run_pod_sandbox(self, request):
        if not request.config.metadata.uid:
            raise RpcError(Code.INVALID_ARGUMENT, "config.metadata.uid: must not be empty")
        sandbox = Sandbox(config=request.config)
        self.sandboxes[sandbox.id] = sandbox
        return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    async def stop_pod_sandbox(self, request):  # may be repeated, and what is gone is stopped
        if (sandbox := self.sandboxes.get(request.pod_sandbox_id)) is not None:
            for container in self.containers_of(sandbox):
                await self.stop(container, grace=0)
            sandbox.state = cri.SANDBOX_NOTREADY
        return cri.StopPodSandboxResponse()

    async def remove_pod_sandbox(self, request):
        await self.stop_pod_sandbox(request)
        if (sandbox := self.sandboxes.pop(request.pod_sandbox_id, None)) is not None:
            for container in self.containers_of(sandbox):
                del self.containers[container.id]
        return cri.RemovePodSandboxResponse()

    async def pod_sandbox_status(self, request):
        one = found(self.sandboxes, request.pod_sandbox_id)
        return cri.PodSandboxStatusResponse(
            status=cri.PodSandboxStatus(network=cri.PodSandboxNetworkStatus(ip="127.0.0.1"), **facts(one))
        )

    async def list_pod_sandbox(self, request):
        wanted = [one for one in self.sandboxes.values() if fits(request.filter, one, one.id)]
        return cri.ListPodSandboxResponse(items=[cri.PodSandbox(**facts(one)) for one in wanted])

    # -- containers

    async def create_container(self, request):
        config = request.config
        if config.image.image not in self.images:
            raise RpcError(Code.NOT_FOUND, f"image {config.image.image} is not here")
        if not (config.command or config.args):
            raise RpcError(Code.INVALID_ARGUMENT, "config.command: images have none here, so it must not be empty")
        container = Container(config=config, sandbox=found(self.sandboxes, request.pod_sandbox_id))
        self.containers[container.id] = container
        return cri.CreateContainerResponse(container_id=container.id)

    async def start_container(self, request):
        container = found(self.containers, request.container_id)
        if container.state != cri.CONTAINER_CREATED:
            raise RpcError(Code.FAILED_PRECONDITION, "container was started already")
        config = container.config
        try:
            container.process = await asyncio.create_subprocess_exec(
                *config.command,
                *config.args,
                cwd=config.working_dir or "/",
                env={"PATH": "/usr/bin:/bin", **{one.key: one.value.decode() for one in config.envs}},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # what it starts is ended with it
                limit=1 << 24,  # of one line
            )
        except OSError as error:
            raise RpcError(Code.UNKNOWN, f"failed to start container: {error}") from error
        container.state, container.started_at = cri.CONTAINER_RUNNING, time.time_ns()
        self.tasks.spawn(self.follow(container), name=f"container {container.id}")
        return cri.StartContainerResponse()

    async def follow(self, container):
        """Write what it writes, in the form that the kubelet and all tools read, and note how it ended."""
        path = Path(container.log_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as log:  # noqa: ASYNC230 - the disk is fast enough for an example
            async for line in container.process.stdout:
                now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
                log.write(f"{now} stdout F ".encode() + line.rstrip(b"\n") + b"\n")
        code = await container.process.wait()
        container.exit_code = code if code >= 0 else 128 - code  # as a shell tells of signals
        container.state, container.finished_at = cri.CONTAINER_EXITED, time.time_ns()
        container.ended.set()

    async def stop_container(self, request):
        if (container := self.containers.get(request.container_id)) is not None:
            await self.stop(container, grace=request.timeout)
        return cri.StopContainerResponse()

    async def stop(self, container, grace):
        if container.state != cri.CONTAINER_RUNNING:
            return
        with suppress(ProcessLookupError):
            os.killpg(container.process.pid, signal.SIGTERM if grace > 0 else signal.SIGKILL)
        try:
            await asyncio.wait_for(container.ended.wait(), grace or None)
        except TimeoutError:
            await self.stop(container, grace=0)

    async def remove_container(self, request):
        if (container := self.containers.get(request.container_id)) is not None:
            await self.stop(container, grace=0)
            self.containers.pop(container.id, None)
        return cri.RemoveContainerResponse()

    async def container_status(self, request):
        one = found(self.containers, request.container_id)
        reason = {cri.CONTAINER_EXITED: "Error" if one.exit_code else "Completed"}.get(one.state, "")
        return cri.ContainerStatusResponse(
            status=cri.ContainerStatus(
                started_at=one.started_at,
                finished_at=one.finished_at,
                exit_code=one.exit_code,
                reason=reason,
                log_path=one.log_path,
                mounts=one.config.mounts,
                **facts(one),
                **image_facts(one),
            )
        )

    async def list_containers(self, request):
        wanted = [
            one
            for one in self.containers.values()
            if fits(request.filter, one, one.id) and request.filter.pod_sandbox_id in ("", one.sandbox.id)
        ]
        return cri.ListContainersResponse(
            containers=[
                cri.Container(pod_sandbox_id=one.sandbox.id, **facts(one), **image_facts(one)) for one in wanted
            ]
        )

    async def exec_sync(self, request):
        if found(self.containers, request.container_id).state != cri.CONTAINER_RUNNING:
            raise RpcError(Code.FAILED_PRECONDITION, "container is not running")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*request.cmd, stdout=pipe, stderr=pipe)
        try:
            out, err = await asyncio.wait_for(process.communicate(), request.timeout or None)
        except TimeoutError:
            process.kill()
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{request.cmd[0]} took too long") from None
        return cri.ExecSyncResponse(stdout=out, stderr=err, exit_code=process.returncode)

    # -- images

    async def image_status(self, request):
        name = request.image.image
        if name not in self.images:
            return cri.ImageStatusResponse()  # not there: that is no error
        return cri.ImageStatusResponse(image=cri.Image(id=name, repo_tags=[name], size=1))

    async def pull_image(self, request):
        self.images.add(request.image.image)
        return cri.PullImageResponse(image_ref=request.image.image)

    def containers_of(self, sandbox):
        return [one for one in self.containers.values() if one.sandbox is sandbox]


def found(objects, object_id):
    if object_id not in objects:
        raise RpcError(Code.NOT_FOUND, f"{object_id}: not found")
    return objects[object_id]


def facts(one):
    """What lists and statuses of both kinds have. Labels and annotations come back as they were sent."""
    return {
        "id": one.id,
        "metadata": one.config.metadata,
        "state": one.state,
        "created_at": one.created_at,
        "labels": one.config.labels,
        "annotations": one.config.annotations,
    }


def image_facts(one):
    return {"image": one.config.image, "image_ref": one.config.image.image}


def fits(wanted, one, object_id):
    """Whether an object is one that a list was asked for; an empty filter wants all."""
    return (
        wanted.id in ("", object_id)
        and (not wanted.HasField("state") or wanted.state.state == one.state)
        and wanted.label_selector.items() <= dict(one.config.labels).items()
    )


async def main(path):
    runtime = TinyRuntime()
    bound = bind_unix(path, mode=0o600)  # whoever may write to it may run programs as us
    server = LocalServer(handlers(runtime, methods=runtime.methods))
    await server.start(bound.sock)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    for sandbox in list(runtime.sandboxes.values()):
        await runtime.remove_pod_sandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id))
    await server.close()
    bound.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--socket", default="/var/run/interpose/tiny.sock")
    asyncio.run(main(parser.parse_args().socket))
