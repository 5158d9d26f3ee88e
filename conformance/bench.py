"""What a point works with: pods and containers in a few words, and everything it made removed at the end.

Pods are in the node's network unless a point is about networks: that is quick and needs nothing of the machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import grpc

from conformance.checks.images import IMAGE
from conformance.world import DEADLINE
from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.cri import message_classes
from tests.support.lab.pods import CGROUPS, remove_groups
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.world import World

FOREVER = ("/bin/sleep", "1000000000")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log in the format of CRI."""

    time: str
    stream: str
    tag: str
    text: str


class Bench:
    """For one point. The `with` block removes what the point made; a removal that fails is a failure of the point."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = world.client
        self.shelf = world.shelf
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def later(self, act: Callable[..., object], *args: Any) -> None:
        """To be done at the end, the last one first."""
        self._stack.callback(act, *args)

    # -- calls

    def call(self, method: str, **fields: Any) -> Any:
        """The reply of a call; grpc.RpcError otherwise."""
        return self.world.call(method, **fields)

    def code(self, method: str, **fields: Any) -> str:
        """The status of a call by its name."""
        return self.status(method, **fields)[0]

    def status(self, method: str, **fields: Any) -> tuple[str, str]:
        """Status and details of a call."""
        outcome = self.client.outcome(method, message_classes(method)[0](**fields), timeout=DEADLINE)
        return outcome.code, outcome.details

    def stream(self, method: str, **fields: Any) -> Any:
        """A server-streaming call in flight."""
        request, _ = message_classes(method)
        return self.client.stream(method, request(**fields), timeout=DEADLINE)

    # -- pods

    def pod(self, **options: Any) -> Pod:
        """A pod that is ready; options are those of `Pod`."""
        return Pod(self, **options).run()

    @property
    def home(self) -> Pod:
        """The pod that stays: in the node's network, with containers of many points. They must not stop it."""
        lent = self.world.home
        if lent is None:
            return self.pod()
        pod = Pod(self, lent=True)
        pod.id, pod.cgroup = lent.id, lent.cgroup
        pod.config.CopyFrom(lent.config)
        return pod

    def container(self, *command: str, **fields: Any) -> Container:
        """A container that runs in the pod that stays."""
        return self.home.run_container(*command, **fields)

    # -- things on the machine

    def folder(self) -> Path:
        """An empty folder that containers may be given; everybody may look into it."""
        made = Path(tempfile.mkdtemp(dir=self.world.folder))
        made.chmod(0o755)
        self.later(shutil.rmtree, made, True)
        return made

    def mount(self, *words: str) -> None:
        """Mount something; the last word is where, and is unmounted at the end."""
        machine("mount", *words)
        self.later(
            lambda: subprocess.run(["umount", "-l", words[-1]], capture_output=True, check=False, timeout=WAIT_LIMIT)
        )


class Pod:
    """A sandbox. `fields` are those of its configuration, `security` those of its security context.

    `network` and `pid` are namespace modes. A pod in a network of its own may have a hostname.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        network: int = cri.NODE,
        pid: int = cri.CONTAINER,
        ipc: int = cri.POD,
        security: dict[str, Any] | None = None,
        linux: dict[str, Any] | None = None,
        attempt: int = 0,
        handler: str = "",
        lent: bool = False,
        **fields: Any,
    ) -> None:
        self._bench = bench
        self._lent = lent
        self._handler = handler
        self.id = ""
        uid = uuid.uuid4().hex
        self.cgroup = bench.world.pod_cgroup(uid)
        options = cri.NamespaceOption(network=network, pid=pid, ipc=ipc)  # type: ignore[arg-type]
        context = cri.LinuxSandboxSecurityContext(namespace_options=options)
        context.MergeFrom(cri.LinuxSandboxSecurityContext(**security or {}))
        self.config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=f"pod-{uid[:8]}", uid=uid, namespace="conformance", attempt=attempt),
            labels={"point": uid},
            annotations={"kept.as/it-is": "yes"},
            linux=cri.LinuxPodSandboxConfig(cgroup_parent=self.cgroup, security_context=context, **linux or {}),
        )
        self.config.MergeFrom(cri.PodSandboxConfig(**fields))

    def run(self) -> Self:
        """Create and start it; it is removed at the end."""
        bench = self._bench
        if not self.config.log_directory:
            self.config.log_directory = str(bench.folder())
        bench.later(stop_slice if bench.world.systemd else remove_groups, self.cgroup)
        self.id = bench.call("RunPodSandbox", config=self.config, runtime_handler=self._handler).pod_sandbox_id
        bench.later(self._away)
        return self

    def again(self, attempt: int) -> Pod:
        """Another sandbox of the same pod."""
        other = Pod(self._bench)
        other.config.CopyFrom(self.config)
        other.config.metadata.attempt = attempt
        return other.run()

    def _away(self) -> None:
        for verb in ("Stop", "Remove"):
            code, words = self._bench.status(f"{verb}PodSandbox", pod_sandbox_id=self.id)
            assert code in ("OK", "NOT_FOUND"), f"{verb}PodSandbox at the end: {code} {words}"

    def status(self, *, verbose: bool = False) -> Any:
        """The whole answer of PodSandboxStatus."""
        return self._bench.call("PodSandboxStatus", pod_sandbox_id=self.id, verbose=verbose)

    @property
    def ip(self) -> str:
        """The address of the pod, by its status."""
        return str(self.status().status.network.ip)

    def stop(self) -> None:
        self._bench.call("StopPodSandbox", pod_sandbox_id=self.id)

    def remove(self) -> None:
        self._bench.call("RemovePodSandbox", pod_sandbox_id=self.id)

    # -- containers

    def configure(
        self,
        *command: str,
        name: str = "",
        image: str = IMAGE,
        security: dict[str, Any] | None = None,
        resources: dict[str, Any] | None = None,
        attempt: int = 0,
        **fields: Any,
    ) -> Any:
        """The configuration of a container; without a command it is the image's. Namespaces are the pod's."""
        name = name or f"c-{uuid.uuid4().hex[:8]}"
        options = self.config.linux.security_context.namespace_options
        context = cri.LinuxContainerSecurityContext(namespace_options=options)
        context.MergeFrom(cri.LinuxContainerSecurityContext(**security or {}))
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name, attempt=attempt),
            image=cri.ImageSpec(image=image),
            command=command,
            labels={"point": self.config.metadata.uid, "name": name},
            annotations={"kept.as/it-is": "yes"},
            log_path=f"{name}-{attempt}.log",
            linux=cri.LinuxContainerConfig(
                resources=cri.LinuxContainerResources(**resources or {}), security_context=context
            ),
        )
        config.MergeFrom(cri.ContainerConfig(**fields))
        return config

    def create(self, *command: str, **options: Any) -> Container:
        """A container that was created; options are those of `configure`. Forever asleep without a command."""
        config = self.configure(*(command or FOREVER), **options)
        return self.create_configured(config)

    def create_configured(self, config: Any) -> Container:
        """The same with a configuration."""
        answer = self._bench.call("CreateContainer", pod_sandbox_id=self.id, config=config, sandbox_config=self.config)
        if self._lent:
            self._bench.later(lambda: self._bench.call("RemoveContainer", container_id=answer.container_id))
        return Container(self._bench, self, config, answer.container_id)

    def run_container(self, *command: str, **options: Any) -> Container:
        """A container that runs."""
        return self.create(*command, **options).start()

    def output(self, *command: str, **options: Any) -> str:
        """What a container writes to stdout that ends by itself, with 0; something it must be."""
        container = self.run_container(*command, **options)
        ended = container.ended()
        assert ended.exit_code == 0, f"exit code {ended.exit_code}: {container.text('stderr')}"
        return str(eventually(container.text, "the log"))


class Container:
    """A container that was created."""

    def __init__(self, bench: Bench, pod: Pod, config: Any, container_id: str) -> None:
        self._bench = bench
        self.pod = pod
        self.config = config
        self.id = container_id

    def start(self) -> Self:
        self._bench.call("StartContainer", container_id=self.id)
        return self

    def stop(self, timeout: int = 0) -> None:
        self._bench.call("StopContainer", container_id=self.id, timeout=timeout)

    def remove(self) -> None:
        self._bench.call("RemoveContainer", container_id=self.id)

    def status(self) -> Any:
        return self._bench.call("ContainerStatus", container_id=self.id).status

    def info(self) -> Any:
        """The document of a verbose ContainerStatus."""
        return json.loads(self._bench.call("ContainerStatus", container_id=self.id, verbose=True).info["info"])

    def exec(self, *command: str, timeout: int = 60) -> Any:
        """The whole answer of ExecSync."""
        return self._bench.call("ExecSync", container_id=self.id, cmd=command, timeout=timeout)

    def says(self, *command: str) -> str:
        """What a command in it writes to stdout; it must end with 0."""
        answer = self.exec(*command)
        assert answer.exit_code == 0, f"{command}: exit code {answer.exit_code}: {answer.stderr.decode()}"
        return str(answer.stdout.decode())

    def shell(self, line: str) -> str:
        """The same for a line of shell."""
        return self.says("/bin/sh", "-c", line)

    def ended(self) -> Any:
        """Its status once it has ended by itself."""

        def look() -> Any:
            status = self.status()
            return status if status.state == cri.CONTAINER_EXITED else None

        return wait_for(look, what="a container to end", every=0.01)

    def log(self) -> list[LogLine]:
        """The lines of its log."""
        path = Path(self.pod.config.log_directory) / self.config.log_path
        lines = path.read_text().splitlines() if path.exists() else []
        return [LogLine(*line.split(" ", 3)) for line in lines]

    def text(self, stream: str = "stdout") -> str:
        """The text that the container wrote to a stream, by its log."""
        return "".join(line.text + ("\n" if line.tag == "F" else "") for line in self.log() if line.stream == stream)

    def cgroup_file(self, controller: str, name: str) -> Path:
        """A control file of it: one tree for each controller in cgroup v1, one for all in v2."""
        tree = CGROUPS / controller if (CGROUPS / controller).is_dir() else CGROUPS
        return cgroup_of(tree, self.pod.cgroup, self.id) / name


def cgroup_of(tree: Path, parent: str, name: str) -> Path:
    """A cgroup by its id: a directory of that name, or a scope of systemd with it in its name."""
    above = tree / parent.strip("/")
    return next(above.glob(f"*{name}*"), above / name)


def stop_slice(directory: str) -> None:
    """systemd keeps a slice until it is told."""
    subprocess.run(["systemctl", "stop", Path(directory).name], capture_output=True, timeout=WAIT_LIMIT, check=False)


def machine(*words: str) -> str:
    """What a program on the machine itself says; it must end well."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def code_of(error: grpc.RpcError) -> str:
    """The status of a call that failed, by its name."""
    return str(error.code().name)


def eventually(condition: Callable[[], Any], what: str) -> Any:
    return wait_for(condition, what=what, every=0.01)
