"""The state of the fake Docker and what changes it. Errors are `DockerError` with dockerd's own texts.

A container's process is its state: it runs until somebody stops or kills it, or `exited` says it ended by itself.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from interpose.testing.changes import Changes
from tests.support.docker.fake import documents, godocs
from tests.support.docker.fake.containers import EXITED, RUNNING, Container, Exec, Image, made
from tests.support.docker.fake.errors import DockerError, no_such_container

_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
_SIGNALS: Final = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15, "WINCH": 28}
_DEADLY: Final = frozenset({1, 2, 3, 9, 15})
_KILL: Final = 9
_MINIMUM_MEMORY: Final = 6 << 20
# Fields that an update changes; zero, empty and null leave them as they are.
UPDATED: Final = (
    "BlkioWeight",
    "CpuShares",
    "NanoCpus",
    "CpuPeriod",
    "CpuQuota",
    "CpuRealtimePeriod",
    "CpuRealtimeRuntime",
    "CpusetCpus",
    "CpusetMems",
    "KernelMemory",
    "Memory",
    "MemoryReservation",
    "MemorySwap",
    "PidsLimit",
)


def default_images() -> tuple[Image, ...]:
    """The two that real dockerds of tests have."""
    return tuple(
        Image(id=f"sha256:{_hash(tag)}", tags=(tag,), labels=(("role", role),))
        for tag, role in (("localhost/pause:latest", "pause"), ("localhost/busybox:latest", "test"))
    )


class Engine:
    """All containers. `changes` is notified of everything that happens to them."""

    def __init__(self, *, now: Callable[[], float], images: Iterable[Image] = ()) -> None:
        self.containers: dict[str, Container] = {}
        self.execs: dict[str, Exec] = {}
        self.images = list(images) or list(default_images())
        self.events: list[dict[str, Any]] = []
        self.changes = Changes()
        self._now = now
        self._count = 0

    # -- finding

    def find(self, ref: str) -> Container:
        """By id, by name, or by the beginning of an id that fits one only."""
        if found := self.containers.get(ref):
            return found
        for container in self.containers.values():
            if container.name == ref.removeprefix("/"):
                return container
        fitting = [one for one in self.containers.values() if ref and one.id.startswith(ref)]
        if len(fitting) > 1:
            raise DockerError(400, f"Multiple IDs found with provided prefix: {ref}")
        if not fitting:
            raise no_such_container(ref)
        return fitting[0]

    def find_exec(self, ref: str) -> Exec:
        """By id."""
        if ref not in self.execs:
            raise DockerError(404, f"No such exec instance: {ref}")
        return self.execs[ref]

    def find_image(self, reference: str) -> Image:
        """By its id or its name."""
        named = reference if ":" in reference else f"{reference}:latest"
        for image in self.images:
            if named in image.tags or reference == image.id:
                return image
        raise DockerError(404, f"No such image: {named}")

    # -- the life of a container

    def create(self, name: str, body: bytes) -> Container:
        """A container that does not run yet."""
        if name and not _NAME.fullmatch(name.removeprefix("/")):
            raise DockerError(400, f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")
        image = self.find_image(str(godocs.field(godocs.parse(body), "Image", "")))
        new_id = self._new_id()
        name = name.removeprefix("/") or f"fake_{new_id[:8]}"
        self._claim(name)
        container = made(new_id, name, body, image, self._now())
        _check_memory(container.host["Memory"])
        self.containers[new_id] = container
        self._happened(container, "create")
        return container

    def start(self, container: Container) -> bool:
        """False if it runs already."""
        if container.running:
            return False
        self._count += 1
        container.status, container.pid, container.exit_code = RUNNING, 10_000 + self._count, 0
        container.started = self._now()
        self._happened(container, "start")
        return True

    def exited(self, ref: str, code: int = 0) -> None:
        """The process ends by itself, or was ended."""
        container = self.find(ref)
        container.status, container.pid, container.exit_code = EXITED, 0, code
        container.finished = self._now()
        container.exits += 1
        self._happened(container, "die", exitCode=str(code))
        if container.host["AutoRemove"]:
            self._forget(container)

    def stop(self, container: Container) -> bool:
        """False if it does not run."""
        if not container.running:
            return False
        self._happened(container, "kill", signal="15")
        self.exited(container.id, 143)
        self._happened(container, "stop")
        return True

    def kill(self, container: Container, ref: str, signal: str) -> None:
        """Send a signal; most of them end the process."""
        number = signal_number(signal)
        if not container.running:
            raise DockerError(409, f"Cannot kill container: {ref}: Container {container.id} is not running")
        self._happened(container, "kill", signal=str(number))
        if number in _DEADLY:
            self.exited(container.id, 128 + number)

    def restart(self, container: Container) -> None:
        """Stop it if it runs, then start it."""
        self.stop(container)
        self.start(container)
        self._happened(container, "restart")

    def update(self, container: Container, body: bytes) -> None:
        """Change resources; what the request leaves out, or names as zero, stays."""
        document = godocs.parse(body)
        wanted = {key: godocs.field(document, key) for key in UPDATED}
        memory, swap = wanted["Memory"] or 0, wanted["MemorySwap"] or 0
        _check_memory(memory)
        if memory > container.host["MemorySwap"] > 0 and swap == 0:
            raise DockerError(
                409,
                f"Cannot update container {container.id}: Memory limit should be smaller than already set memoryswap "
                "limit, update the memoryswap at the same time",
            )
        container.host.update({key: value for key, value in wanted.items() if value})
        self._happened(container, "update")

    def rename(self, container: Container, name: str) -> None:
        """Under another name; the old one is free."""
        self._claim(name)
        old, container.name = container.name, name
        self._happened(container, "rename", oldName=f"/{old}")

    def remove(self, container: Container, *, force: bool) -> None:
        """A running one only by force."""
        if container.running:
            if not force:
                raise DockerError(
                    409,
                    f"You cannot remove a running container {container.id}. "
                    "Stop the container before attempting removal or force remove",
                )
            self._happened(container, "kill", signal=str(_KILL))
            self.exited(container.id, 128 + _KILL)
        self._forget(container)

    def crash(self) -> None:
        """dockerd goes down and everything that ran with it. The files stay, nobody is told."""
        for container in self.containers.values():
            if container.running:
                container.status, container.pid, container.exit_code = EXITED, 0, 255
                container.exits += 1
                container.finished = self._now()
        self.changes.notify()

    # -- output and processes inside

    def write(self, container: Container, data: bytes, stream: int = 1) -> None:
        """Output of the container's process: logs and attached clients have it."""
        container.logs.append((stream, data))
        self.changes.notify()

    def make_exec(self, container: Container, body: bytes) -> Exec:
        """A process to run in a container that runs."""
        document = godocs.parse(body)
        if not container.running:
            raise DockerError(409, f"Container {container.id} is not running")
        argv = godocs.words(godocs.field(document, "Cmd"))
        if not argv:
            raise DockerError(400, "No exec command specified")
        flags = {
            key: bool(godocs.field(document, name, False))
            for key, name in (
                ("tty", "Tty"),
                ("stdin", "AttachStdin"),
                ("stdout", "AttachStdout"),
                ("stderr", "AttachStderr"),
            )
        }
        one = Exec(id=self._new_id(), container=container, argv=argv, **flags)
        self.execs[one.id] = one
        container.execs.append(one.id)
        self._happened(container, f"exec_create: {' '.join(argv)}", execID=one.id)
        return one

    def begin_exec(self, one: Exec) -> None:
        """It runs."""
        self._count += 1
        one.begun, one.running, one.pid = True, True, 10_000 + self._count
        self._happened(one.container, f"exec_start: {' '.join(one.argv)}", execID=one.id)

    def end_exec(self, one: Exec, code: int) -> None:
        """It ended."""
        one.running, one.exit_code = False, code
        self._happened(one.container, "exec_die", execID=one.id, exitCode=str(code))

    # -- within

    def _claim(self, name: str) -> None:
        for container in self.containers.values():
            if container.name == name:
                raise DockerError(
                    409,
                    f'Conflict. The container name "/{name}" is already in use by container "{container.id}". '
                    "You have to remove (or rename) that container to be able to reuse that name.",
                )

    def _forget(self, container: Container) -> None:
        container.removed = True
        self.containers.pop(container.id, None)
        for ref in container.execs:
            self.execs.pop(ref, None)
        self._happened(container, "destroy")

    def _happened(self, container: Container, action: str, **more: str) -> None:
        self.events.append(documents.event(container, action, self._now(), more))
        self.changes.notify()

    def _new_id(self) -> str:
        self._count += 1
        return _hash(f"{self._count}")


def signal_number(text: str) -> int:
    """The number of a signal by its name or number; nothing is KILL."""
    if not text:
        return _KILL
    if text.isdigit():
        return int(text)
    number = _SIGNALS.get(text.upper().removeprefix("SIG"))
    if number is None:
        raise DockerError(400, f"Invalid signal: {text}")
    return number


def _check_memory(amount: int) -> None:
    if 0 < amount < _MINIMUM_MEMORY:
        raise DockerError(400, "Minimum memory limit allowed is 6MB")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
