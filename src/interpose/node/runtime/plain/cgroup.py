"""The cgroup of a container: directories, limits, and processes.

Below a root that is no cgroup file system the same files are written as plain ones and no process is moved. A kernel's
cgroups come with files; those in such a folder come with copies of the files in `.new` at the top of the hierarchy, if
there is one. Without write access nothing is done at all.
"""

import errno
import os
import time

_V1 = {
    "cpu": {
        "shares": ("cpu", "cpu.shares"),
        "period": ("cpu", "cpu.cfs_period_us"),
        "quota": ("cpu", "cpu.cfs_quota_us"),
    }
    | {"cpus": ("cpuset", "cpuset.cpus"), "mems": ("cpuset", "cpuset.mems")},
    "memory": {"limit": ("memory", "memory.limit_in_bytes"), "swap": ("memory", "memory.memsw.limit_in_bytes")},
    "pids": {"limit": ("pids", "pids.max")},
}
_TRIES, _PAUSE = 100, 0.01
NEW = ".new"
_CONTROLLERS = ("cpuset", "cpu", "cpuacct", "memory", "pids", "freezer")


class Cgroup:
    """A cgroup by its path below the root; an empty path: no cgroup."""

    def __init__(self, root: str, path: str) -> None:
        self._path = path.strip("/")
        self._root = root.rstrip("/")
        self._usable = bool(self._path) and ".." not in path.split("/") and os.access(self._root, os.W_OK)
        self._v2 = not any(os.path.isdir(f"{self._root}/{name}") for name in _CONTROLLERS)  # noqa: PTH112

    def make(self, resources: "dict[str, object]") -> None:
        """Create the cgroup with its limits; OSError if a limit cannot be set."""
        for controller in self._controllers():
            path = self._base(controller)
            for part in self._path.split("/"):
                parent, path = path, f"{path}/{part}"
                if not os.path.isdir(path):  # noqa: PTH112
                    if self._v2 and os.path.exists(f"{parent}/cgroup.subtree_control"):  # noqa: PTH110
                        _try_write(f"{parent}/cgroup.subtree_control", "+cpu +cpuset +memory +pids")
                    make_directory(self._base(controller), path)
                    if controller == "cpuset":
                        _inherit(parent, path)
        self.limit(resources)

    def limit(self, resources: "dict[str, object]") -> None:
        """Set limits. A refused one is retried after the others: the memory limit cannot exceed that with swap."""
        later = []
        for path, value in self._limits(resources).items():
            try:
                _write(path, value)
            except OSError:
                later.append((path, value))
        for path, value in later:
            _write(path, value)

    def _limits(self, resources: "dict[str, object]") -> dict[str, str]:
        """The files of existing controllers, with their values."""
        found = {}
        if self._usable:
            for name, value in (v2_files(resources) if self._v2 else v1_files(resources)).items():
                controller, _, file = ("", "", name) if self._v2 else name.partition("/")
                if os.path.isdir(self._base(controller)):  # noqa: PTH112
                    found[f"{self._base(controller)}/{self._path}/{file}"] = value
        return found

    def join(self) -> None:
        """Move this process into the cgroup, with its future children."""
        for controller in self._controllers():
            base = self._base(controller)
            if os.path.exists(f"{base}/cgroup.procs"):  # noqa: PTH110
                _write(f"{base}/{self._path}/cgroup.procs", str(os.getpid()))

    def remove(self) -> None:
        """Remove the cgroup if it is empty. Plain files are removed with their folder."""
        for controller in self._controllers():
            path = f"{self._base(controller)}/{self._path}"
            if os.path.isdir(path) and not os.path.exists(f"{path}/cgroup.procs"):  # noqa: PTH110, PTH112
                for name in os.listdir(path):  # noqa: PTH208
                    if os.path.isfile(f"{path}/{name}"):  # noqa: PTH113
                        os.unlink(f"{path}/{name}")  # noqa: PTH108
            _remove(path)

    def _controllers(self) -> list[str]:
        if not self._usable:
            return []
        return [""] if self._v2 else [name for name in _CONTROLLERS if os.path.isdir(self._base(name))]  # noqa: PTH112

    def _base(self, controller: str) -> str:
        return f"{self._root}/{controller}" if controller else self._root


def v1_files(resources: "dict[str, object]") -> dict[str, str]:
    """The v1 files of resources: controller/file to value."""
    files = {}
    for section, keys in _V1.items():
        values = resources.get(section)
        for key, (controller, name) in keys.items():
            value = values.get(key) if isinstance(values, dict) else None
            if value not in (None, "", 0):
                files[f"{controller}/{name}"] = "max" if name == "pids.max" and value == -1 else str(value)
    return files


def v2_files(resources: "dict[str, object]") -> dict[str, str]:
    """The v2 files of resources: file to value."""
    files: dict[str, str] = {}
    sections = (resources.get(name) for name in ("cpu", "memory", "pids"))
    cpu, memory, pids = (section if isinstance(section, dict) else {} for section in sections)
    if shares := cpu.get("shares"):
        files["cpu.weight"] = str(1 + ((int(shares) - 2) * 9999) // 262142)
    if quota := cpu.get("quota"):
        files["cpu.max"] = f"{'max' if int(quota) < 0 else quota} {cpu.get('period') or 100000}"
    for key in ("cpus", "mems"):
        if cpu.get(key):
            files[f"cpuset.{key}"] = str(cpu[key])
    if limit := memory.get("limit"):
        files["memory.max"] = "max" if int(limit) < 0 else str(limit)
    if limit := pids.get("limit"):
        files["pids.max"] = "max" if int(limit) < 0 else str(limit)
    unified = resources.get("unified")
    files.update({str(k): str(v) for k, v in unified.items()} if isinstance(unified, dict) else {})
    return files


def make_directory(base: str, path: str) -> None:
    """Create a cgroup of a hierarchy with the files that new ones have, in one step."""
    new = f"{base}/{NEW}"
    if not os.path.isdir(new):  # noqa: PTH112
        os.mkdir(path, 0o755)  # noqa: PTH102
        return
    staged = f"{new}.{os.getpid()}.{os.urandom(4).hex()}"
    os.mkdir(staged, 0o755)  # noqa: PTH102
    names = os.listdir(new)  # noqa: PTH208
    for name in names:
        with open(f"{new}/{name}") as file:  # noqa: PTH123
            _write(f"{staged}/{name}", file.read())
    try:
        os.rename(staged, path)  # noqa: PTH104
    except OSError as error:
        for name in names:
            os.unlink(f"{staged}/{name}")  # noqa: PTH108
        os.rmdir(staged)  # noqa: PTH106
        if error.errno != errno.ENOTEMPTY:
            raise
        raise FileExistsError(errno.EEXIST, "exists", path) from None


def _remove(path: str) -> None:
    """Remove a directory; the kernel needs a moment after the last process has exited."""
    for _ in range(_TRIES):
        try:
            os.rmdir(path)  # noqa: PTH106
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
            time.sleep(_PAUSE)
        else:
            return


def _inherit(parent: str, path: str) -> None:
    """Copy the cpuset of the parent: a new one of v1 is empty, and takes no process."""
    for name in ("cpuset.mems", "cpuset.cpus"):
        if os.path.exists(f"{parent}/{name}"):  # noqa: PTH110
            with open(f"{parent}/{name}") as file:  # noqa: PTH123
                _try_write(f"{path}/{name}", file.read().strip())


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:  # noqa: PTH123
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, f"failed to write {text!r} to {path}: {error.strerror}") from None


def _try_write(path: str, text: str) -> None:
    try:
        _write(path, text)
    except OSError:
        return
