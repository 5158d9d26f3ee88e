"""The state of a container between two commands: a folder with a document, and a mark in its processes.

Every process of a container has its id in the environment it was started with. That finds processes which left their
session, and those of a start that was interrupted before the state was written.
"""

import json
import os
import signal
import time

from interpose.node.runtime.shim.atomic_file import replace_file

MARK = "INTERPOSE_CONTAINER"
_KILL_TIMEOUT = 10.0
_PAUSE = 0.01


class StateError(Exception):
    """The container is not in the state that the command needs; in runc's words."""


class PlainState:
    """The state folder of a container."""

    def __init__(self, root: str, container: str) -> None:
        self.container = container
        self._folder = os.path.join(root, container)  # noqa: PTH118
        self._file = os.path.join(self._folder, "state.json")  # noqa: PTH118

    def create(self) -> None:
        """Reserve the id; StateError if it is in use."""
        os.makedirs(os.path.dirname(self._folder), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
        try:
            os.mkdir(self._folder, 0o700)  # noqa: PTH102
        except FileExistsError:
            raise StateError(f"container with id {self.container} exists already") from None

    def write(self, value: dict[str, object]) -> None:
        """Write the state document of the container."""
        replace_file(self._file, json.dumps(value))

    def read(self) -> dict[str, object]:
        """The state document; empty if the start was interrupted. StateError if there is no such container."""
        if not os.path.isdir(self._folder):  # noqa: PTH112
            raise StateError(f"container {self.container} does not exist")
        try:
            with open(self._file) as file:  # noqa: PTH123
                value = json.load(file)
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def pid(self) -> int:
        """The pid of the first process if it lives, else 0."""
        value = self.read()
        pid = value.get("pid")
        known = value.get("started")
        # A process that exited before the state was written has no start time.
        if not isinstance(pid, int) or not known or start_time(pid) != known:
            return 0
        return pid

    def processes(self) -> list[int]:
        """All processes with the mark of the container."""
        mark = f"{MARK}={self.container}".encode()
        names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
        return [int(name) for name in names if mark in _environment(name) and start_time(int(name))]

    def kill_all(self, number: int) -> None:
        """Signal all processes of the container."""
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def kill_and_wait(self) -> None:
        """Kill all processes of the container until none is left; StateError if one stays."""
        deadline = time.monotonic() + _KILL_TIMEOUT
        while self.processes():
            self.kill_all(signal.SIGKILL)
            if time.monotonic() > deadline:
                raise StateError(f"processes of container {self.container} cannot be killed")
            time.sleep(_PAUSE)

    def remove(self) -> None:
        """Remove the state folder; the id is free again."""
        for path in (self._file, f"{self._file}.tmp"):
            try:
                os.unlink(path)  # noqa: PTH108
            except FileNotFoundError:
                continue
        os.rmdir(self._folder)  # noqa: PTH106


def start_time(pid: int) -> str:
    """The start time of a process: with its pid its identity. Empty if it has exited."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _environment(pid: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return file.read().split(b"\0")
    except OSError:
        return []
