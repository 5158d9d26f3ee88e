"""A client of the Docker API that does for a pod what the dockershim of a kubelet does, in its words and its order.

    with DockerClient(socket) as client:
        pod = ShimPod(client, "web", cgroup_parent="/kubepods/burstable/pod1")
        pod.run()
        pod.create()
        pod.start()

It blocks; a test on a loop calls it in a thread. Requests are written by hand and kept in `sent`, so that a test knows
the very bytes.
"""

from __future__ import annotations

import http.client
import json
import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

from interpose.testing.eventually import WAIT_LIMIT

PAUSE: Final = "localhost/pause:latest"
BUSYBOX: Final = "localhost/busybox:latest"
TYPE_LABEL: Final = "io.kubernetes.docker.type"
SANDBOX_LABEL: Final = "io.kubernetes.sandbox.id"
ANNOTATION: Final = "annotation."
SLEEP: Final = ("/bin/sleep", "1000000000")
_OK: Final = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `body` is decoded, heads of chunks are gone."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """What an error says."""
        return str(self.document["message"])


class DockerError(Exception):
    """dockerd, or somebody in front of it, refused."""

    def __init__(self, what: str, answer: Answer) -> None:
        super().__init__(f"{what}: {answer.status} {answer.body.decode(errors='replace').strip()}")
        self.status = answer.status
        self.message = answer.message


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=WAIT_LIMIT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_LIMIT)
        self.sock.connect(str(self._path))


class DockerClient:
    """One connection that is kept, as the library in a kubelet keeps it. `prefix` is `/v1.41` or nothing."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self.path = path
        self.prefix = prefix
        self.sent: list[tuple[str, str, bytes]] = []
        self._connection = _UnixConnection(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the next request makes another one."""
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        document: Any = None,
        *,
        kind: str = "application/json",
    ) -> Answer:
        """One call, whatever the answer says. A document may be given as bytes, and be of another kind."""
        target = f"{self.prefix}{path}" + (f"?{urlencode(query)}" if query else "")
        body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
        headers = {"User-Agent": "Go-http-client/1.1"} | ({"Content-Type": kind} if body else {})
        self.sent.append((method, target, body))
        try:
            self._connection.request(method, target, body or None, headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        return Answer(status=response.status, headers=dict(response.getheaders()), body=content)

    def call(self, method: str, path: str, query: dict[str, str] | None = None, document: Any = None) -> Answer:
        """The same; what is no success (or 304: it is so already) is an error."""
        answer = self.request(method, path, query, document)
        if answer.status not in _OK and answer.status != http.client.NOT_MODIFIED:
            raise DockerError(f"{method} {path}", answer)
        return answer


@dataclass(slots=True, kw_only=True)
class ShimContainer:
    """A container of a pod: what it is made with, and its id once it is."""

    name: str = "main"
    attempt: int = 0
    command: tuple[str, ...] = SLEEP
    image: str = BUSYBOX
    envs: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=lambda: {"CpuShares": 512, "CpuPeriod": 100_000})
    oom_score_adj: int = 500
    id: str = ""


class ShimPod:
    """A pod in the network of the node. What is not right yet may be changed before the call that sends it."""

    def __init__(
        self,
        client: DockerClient,
        name: str,
        *,
        cgroup_parent: str,
        namespace: str = "lab",
        uid: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        self.client = client
        self.name = name
        self.namespace = namespace
        self.uid = uid or uuid.uuid4().hex
        self.cgroup_parent = cgroup_parent
        self.labels = labels or {}
        self.annotations = annotations or {}
        self.attempt = 0
        self.sandbox_resources: dict[str, Any] = {"CpuShares": 2}
        self.main = ShimContainer()
        self.sandbox_id = ""

    # -- names and labels

    def docker_name(self, container: str = "POD", attempt: int | None = None) -> str:
        """The name that Docker knows it by."""
        number = self.attempt if attempt is None else attempt
        return f"k8s_{container}_{self.name}_{self.namespace}_{self.uid}_{number}"

    def _labels(self, kind: str, container: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, str]:
        return {
            "io.kubernetes.pod.name": self.name,
            "io.kubernetes.pod.namespace": self.namespace,
            "io.kubernetes.pod.uid": self.uid,
            "io.kubernetes.container.name": container,
            TYPE_LABEL: kind,
            **labels,
            **{f"{ANNOTATION}{key}": value for key, value in annotations.items()},
        }

    # -- the documents

    def sandbox_document(self) -> dict[str, Any]:
        """What a sandbox is made with."""
        return {
            "Hostname": "",
            "Image": PAUSE,
            "Labels": self._labels("podsandbox", "POD", self.labels, self.annotations),
            "HostConfig": {
                "NetworkMode": "host",
                "IpcMode": "shareable",
                "CgroupParent": self.cgroup_parent,
                "OomScoreAdj": -998,
                "MemorySwap": 0,
                "SecurityOpt": ["seccomp=unconfined"],
                **self.sandbox_resources,
            },
        }

    def container_document(self, container: ShimContainer) -> dict[str, Any]:
        """What a container is made with. Swap is as large as memory: a kubelet allows none."""
        labels = {
            **container.labels,
            SANDBOX_LABEL: self.sandbox_id,
            "io.kubernetes.container.logpath": f"/var/log/pods/{self.uid}/{container.name}/{container.attempt}.log",
        }
        resources = dict(container.resources)
        if resources.get("Memory"):
            resources.setdefault("MemorySwap", resources["Memory"])
        return {
            "Entrypoint": list(container.command),
            "Cmd": None,
            "Env": [f"{key}={value}" for key, value in container.envs.items()],
            "Image": container.image,
            "OpenStdin": False,
            "StdinOnce": False,
            "Tty": False,
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": self._labels("container", container.name, labels, container.annotations),
            "HostConfig": {
                "NetworkMode": f"container:{self.sandbox_id}",
                "IpcMode": f"container:{self.sandbox_id}",
                "CgroupParent": self.cgroup_parent,
                "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
                "OomScoreAdj": container.oom_score_adj,
                "SecurityOpt": ["seccomp=unconfined"],
                **resources,
            },
        }

    # -- what a kubelet wants

    def run(self) -> None:
        """RunPodSandbox: make it, start it, look at it."""
        answer = self.client.call(
            "POST", "/containers/create", {"name": self.docker_name()}, document=self.sandbox_document()
        )
        self.sandbox_id = answer.document["Id"]
        self.client.call("POST", f"/containers/{self.sandbox_id}/start")
        self.client.call("GET", f"/containers/{self.sandbox_id}/json")

    def create(self, container: ShimContainer | None = None) -> ShimContainer:
        """CreateContainer: the main one, or another."""
        one = container or self.main
        name = self.docker_name(one.name, one.attempt)
        document = self.container_document(one)
        one.id = self.client.call("POST", "/containers/create", {"name": name}, document).document["Id"]
        return one

    def start(self, container: ShimContainer | None = None) -> None:
        """StartContainer, and a look at it."""
        one = container or self.main
        self.client.call("POST", f"/containers/{one.id}/start")
        self.client.call("GET", f"/containers/{one.id}/json")

    def update(self, container: ShimContainer | None = None, **resources: Any) -> Answer:
        """UpdateContainerResources, in Docker's names; those that are not named are zero, as in a kubelet's request."""
        nothing = {"CpuShares": 0, "Memory": 0, "CpuPeriod": 0, "CpuQuota": 0, "CpusetCpus": "", "CpusetMems": ""}
        one = container or self.main
        return self.client.call("POST", f"/containers/{one.id}/update", document=nothing | resources)

    def inspect(self, container: ShimContainer | None = None) -> Any:
        """What dockerd says of a container."""
        return self.client.call("GET", f"/containers/{(container or self.main).id}/json").document

    def inspect_sandbox(self) -> Any:
        """What dockerd says of the sandbox."""
        return self.client.call("GET", f"/containers/{self.sandbox_id}/json").document

    def stop(self, container: ShimContainer | None = None, seconds: int = 0) -> None:
        """StopContainer."""
        self.client.call("POST", f"/containers/{(container or self.main).id}/stop", {"t": str(seconds)})

    def remove_container(self, container: ShimContainer | None = None) -> None:
        """RemoveContainer: with its volumes, by force."""
        one = container or self.main
        self.client.call("DELETE", f"/containers/{one.id}", {"force": "1", "v": "1"})
        one.id = ""

    def stop_sandbox(self) -> None:
        """StopPodSandbox."""
        self.client.call("POST", f"/containers/{self.sandbox_id}/stop", {"t": "0"})

    def remove_sandbox(self) -> None:
        """RemovePodSandbox: first what is left of its containers, then itself."""
        wanted = json.dumps({"label": [f"{SANDBOX_LABEL}={self.sandbox_id}"]})
        for row in self.client.call("GET", "/containers/json", {"all": "1", "filters": wanted}).document:
            self.client.call("DELETE", f"/containers/{row['Id']}", {"force": "1", "v": "1"})
        self.client.call("DELETE", f"/containers/{self.sandbox_id}", {"force": "1", "v": "1"})
        self.sandbox_id = ""

    def remove(self) -> None:
        """Everything of the pod, by the names: also what was made without us being told its id."""
        wanted = json.dumps({"label": [f"io.kubernetes.pod.uid={self.uid}"]})
        rows = self.client.call("GET", "/containers/json", {"all": "1", "filters": wanted}).document
        for row in sorted(rows, key=lambda one: one["Labels"].get(TYPE_LABEL) == "podsandbox"):
            self.client.request("DELETE", f"/containers/{quote(row['Id'])}", {"force": "1", "v": "1"})
        self.sandbox_id = ""
