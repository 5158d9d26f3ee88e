"""A relay in Docker mode in the test's own event loop: a fake Docker, a directory for registrations, an HTTP client.

The wiring is that of the product (`cli.relay.docker_front`, `cli.relay.interception`), so what a test sees here is what
a node sees. A second stack over the same Docker and folder is a restart.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from interpose.cli.relay.docker_front import DockerFront
from interpose.cli.relay.interception import Interception
from interpose.cli.relay.interceptors import Interceptors
from interpose.cli.relay.policy import make_policy_service
from interpose.cli.relay.sockets import Endpoints
from interpose.config.relay.settings import PolicySettings, RelaySettings
from interpose.core.topology.topology import Topology
from interpose.host.unix_sockets import bind_unix
from interpose.net.grpc.transport import Hub
from interpose.relay.docker.proxy import DockerRelay
from interpose.testing.eventually import eventually
from interpose.testing.hookserver import register
from tests.support.docker.fake.containers import Container
from tests.support.docker.fake.server import FakeDocker
from tests.support.policy.sysfs_tree import write_sysfs

MEMORY = 256 << 20


class Answer(NamedTuple):
    """What a client got."""

    status: int
    document: Any
    raw: bytes


class DockerCaller:
    """Calls of Docker's API, each on a connection of its own."""

    def __init__(self, path: Path, version: str = "/v1.41") -> None:
        self._path = path
        self._version = version

    async def __call__(self, method: str, target: str, document: Any = None) -> Answer:
        """Send a request; a document may be bytes."""
        body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
        head = f"{method} {self._version}{target} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        elif method == "POST":
            head += "Content-Length: 0\r\n"
        reader, updater = await asyncio.open_unix_connection(str(self._path))
        try:
            updater.write(head.encode() + b"\r\n" + body)
            raw = await reader.read()
        finally:
            updater.close()
            await updater.wait_closed()
        answer = raw.partition(b"\r\n\r\n")[2]
        if b"transfer-encoding: chunked" in raw.partition(b"\r\n\r\n")[0].lower():
            answer = _unchunked(answer)
        return Answer(int(raw.split(b" ", 2)[1]), json.loads(answer) if answer.strip() else None, raw)


def _unchunked(data: bytes) -> bytes:
    whole = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        if not (length := int(size, 16)):
            return whole
        whole, data = whole + data[:length], data[length + 2 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerPod:
    """A pod as dockershim makes it."""

    name: str = "web"
    namespace: str = "shop"
    uid: str = "u-1"
    parent: str = "/kubepods/besteffort/podu-1"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def _labels(self, kind: str) -> dict[str, str]:
        return {
            "io.kubernetes.pod.name": self.name,
            "io.kubernetes.pod.namespace": self.namespace,
            "io.kubernetes.pod.uid": self.uid,
            "io.kubernetes.docker.type": kind,
        }

    def sandbox(self) -> tuple[str, dict[str, Any]]:
        """Where and with what it is created."""
        labels = {
            **self._labels("podsandbox"),
            "io.kubernetes.container.name": "POD",
            **self.labels,
            **{f"annotation.{key}": value for key, value in self.annotations.items()},
        }
        body = {
            "Hostname": self.name,
            "Image": "localhost/pause",
            "Labels": labels,
            "HostConfig": {"CgroupParent": self.parent, "CpuShares": 2, "OomScoreAdj": -998, "NetworkMode": "none"},
            "NetworkingConfig": None,
        }
        return f"/containers/create?name=k8s_POD_{self.name}_{self.namespace}_{self.uid}_0", body

    def container(
        self,
        sandbox: str,
        name: str = "app",
        *,
        attempt: int = 0,
        host: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> tuple[str, dict[str, Any]]:
        """The same of a container in it."""
        labels = {
            **self._labels("container"),
            "io.kubernetes.container.name": name,
            "io.kubernetes.sandbox.id": sandbox,
            "io.kubernetes.container.logpath": f"/var/log/pods/{self.uid}/{name}/{attempt}.log",
            "annotation.io.kubernetes.container.hash": "5a2b",
            **{f"annotation.{key}": value for key, value in (annotations or {}).items()},
        }
        body = {
            "Image": "localhost/busybox",
            "Env": [f"{key}={value}" for key, value in (env or {}).items()],
            "Entrypoint": ["/bin/sleep", "1000"],
            "Labels": labels,
            "HostConfig": {
                "CgroupParent": self.parent,
                "CpuShares": 102,
                "OomScoreAdj": 999,
                "NetworkMode": f"container:{sandbox}",
                **(host or {}),
            },
        }
        target = f"/containers/create?name=k8s_{name}_{self.name}_{self.namespace}_{self.uid}_{attempt}"
        return target, body


class DockerStack:
    """The parts of a running relay."""

    def __init__(
        self, folder: Path, docker: FakeDocker, front: DockerFront, parts: Interception, call: DockerCaller
    ) -> None:
        self.folder = folder
        self.docker = docker
        self.front = front
        self.parts = parts
        self.call = call

    @property
    def relay(self) -> DockerRelay:
        """The relay."""
        return cast("DockerRelay", self.front.relay)

    @property
    def directory(self) -> Path:
        """Where hook servers register."""
        return Path(self.parts.registrations.directory)

    @property
    def built(self) -> Interceptors:
        """The interceptors; only there once something was registered, or with a policy."""
        if self.parts.built is None:
            raise LookupError("there is neither a hook server nor a policy")
        return self.parts.built

    async def register(self, name: str, endpoint: Path, **more: Any) -> None:
        """Register a hook server and wait until it is in force."""
        register(self.directory, name, endpoint, **more)
        await eventually(
            lambda: self.parts.built is not None and name in {one.name for one in self.built.plugins.all},
            f"{name} to be in force",
        )

    async def ok(self, method: str, target: str, document: Any = None) -> Any:
        """A call that works."""
        answer = await self.call(method, target, document)
        assert answer.status < 400, answer
        return answer.document

    async def run(self, pod: DockerPod) -> str:
        """Create and start a sandbox, as dockershim does: its id."""
        sandbox = str((await self.ok("POST", *pod.sandbox()))["Id"])
        await self.ok("POST", f"/containers/{sandbox}/start")
        return sandbox

    async def create(self, pod: DockerPod, sandbox: str, name: str = "app", **more: Any) -> str:
        """Create a container in it: its id."""
        return str((await self.ok("POST", *pod.container(sandbox, name, **more)))["Id"])

    def made(self, container_id: str) -> Container:
        """What Docker has."""
        return self.docker.engine.containers[container_id]


@asynccontextmanager
async def docker_stack(
    folder: Path,
    docker: FakeDocker,
    *,
    settings: RelaySettings | None = None,
    topology: Topology | None = None,
    policy: Mapping[str, Any] | None = None,
) -> AsyncIterator[DockerStack]:
    """A relay inside the block, in front of a Docker that is served already; `policy` are fields of the settings."""
    settings = replace(settings or RelaySettings(), backend="docker")
    directory = folder / "hookserver.d"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    settings = replace(settings, hooks=replace(settings.hooks, dir=str(directory)))
    hub = Hub()
    part = None
    if policy is not None:
        if topology is not None:
            write_sysfs(topology, folder / "host")
        chosen = PolicySettings(state_dir=str(folder / "state"), host_root=str(folder / "host"), **policy)
        settings = replace(settings, policy=chosen)
        part = make_policy_service(settings, _Said({f"policy.{name}": "test" for name in policy}), hub)
    front = DockerFront(settings, Endpoints(runtime=str(docker.path), image=str(docker.path)))
    bound = bind_unix(str(folder / "relay.sock"))
    parts = Interception(settings, front.relay, front.end_event_streams, hub, front.backends["runtime"], part)
    parts.load()
    await front.listen(bound.sock)
    parts.start()
    try:
        if part is not None:
            await eventually(part.interceptor.tracker.ready.is_set, "running containers to be taken over")
        yield DockerStack(folder, docker, front, parts, DockerCaller(folder / "relay.sock"))
    finally:
        await parts.close()
        bound.close()
        await front.close()


class _Said(dict[str, str]):
    """Where settings come from: the test, or nowhere."""

    def __missing__(self, key: str) -> str:
        return "default"
