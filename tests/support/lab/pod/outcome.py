"""What came of pods on a runtime, as documents that can be compared with those of another runtime.

States and last words are the runtime's own; what processes may and see is read from the kernel by somebody outside, so
that the manifests need no programs for it. Ids, addresses, paths and times are replaced by words.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tests.support.lab.cri import CriClient

CGROUPS: Final = Path("/sys/fs/cgroup")
_POD_NAME: Final = "io.kubernetes.pod.name"
# Of a process: what it is and may. The masks are the kernel's own text.
_STATUS: Final = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list")
_CAPABILITIES: Final = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_CONTROL: Final = {
    "cpu": ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.swappiness", "memory.oom_control"),
    "cpuset": ("cpuset.cpus", "cpuset.mems"),
    "pids": ("pids.max",),
    "devices": ("devices.list",),
    "hugetlb": ("hugetlb.2MB.limit_in_bytes",),
}
_FILES: Final = ("etc/hosts", "etc/hostname", "etc/resolv.conf")
_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TERMINATION_LOG: Final = re.compile(r"(/containers/[a-z-]+/)[0-9a-f]{8}\b", re.ASCII)


class Outcomes:
    """All pods of a runtime. `words`: texts that differ from runtime to runtime (paths), and what stands for them.

    A process is started in all containers of the pods in `execs`.
    """

    def __init__(self, client: CriClient, subnet: str, words: dict[str, str], execs: Collection[str] = ()) -> None:
        self._client = client
        self._execs = execs
        self._address = re.compile(rf"(?<![0-9.]){re.escape(subnet)}[0-9]+(?![0-9.])", re.ASCII)
        self._words = words

    def read(self) -> dict[str, Any]:
        """A document for each pod, by its name."""
        boxes: dict[str, list[Any]] = {}
        for box in self._client.call("ListPodSandbox").items:
            boxes.setdefault(box.metadata.name, []).append(box)
        containers: dict[str, list[Any]] = {}
        for one in self._client.call("ListContainers").containers:
            containers.setdefault(one.labels[_POD_NAME], []).append(one)
        return {name: self._pod(of, containers.get(name, [])) for name, of in boxes.items()}

    # -- parts

    def _pod(self, boxes: list[Any], containers: list[Any]) -> dict[str, Any]:
        newest = max(boxes, key=lambda box: box.metadata.attempt)
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=newest.id, verbose=True)
        answer = self._client.call("PodSandboxStatus", request)
        parent = json.loads(answer.info["info"])["config"]["linux"]["cgroup_parent"]
        statuses = [self._status(one.id) for one in containers]
        pids = {one.id: json.loads(info["info"])["pid"] for one, info in statuses if one.state == cri.CONTAINER_RUNNING}
        document = {
            "sandbox": _sandbox(answer.status, len(boxes)),
            "containers": {
                f"{one.metadata.name}/{one.metadata.attempt}": self._container(one, pids.get(one.id, 0), pids)
                for one, _ in statuses
            },
            "cgroup": _control(parent) if pids else {},
        }
        uid = newest.metadata.uid
        return json.loads(self._plain(json.dumps(document).replace(uid, "UID")))  # type: ignore[no-any-return]

    def _status(self, container: str) -> tuple[Any, Any]:
        request = cri.ContainerStatusRequest(container_id=container, verbose=True)
        answer = self._client.call("ContainerStatus", request)
        return answer.status, answer.info

    def _plain(self, text: str) -> str:
        for word, stands in self._words.items():
            text = text.replace(word, stands)
        text = _TERMINATION_LOG.sub(r"\1LOG", text)
        return _HEX.sub("ID", self._address.sub("ADDRESS", text))

    def _container(self, one: Any, pid: int, pids: dict[str, int]) -> dict[str, Any]:
        ended = one.state == cri.CONTAINER_EXITED
        return {
            "state": cri.ContainerState.Name(one.state),
            "exit code": one.exit_code if ended else None,
            "reason": one.reason,
            "message": one.message,
            "labels": dict(one.labels),
            "annotations": dict(one.annotations),
            "image": one.image.image,
            "mounts": [_mount(mount) for mount in sorted(one.mounts, key=lambda mount: mount.container_path)],
            "times": _times(one),
            "log": _log(Path(one.log_path)),
            "process": _process(pid, [other for other in pids.values() if other != pid]) if pid else {},
            "exec": self._exec(one.id) if pid and one.labels[_POD_NAME] in self._execs else {},
        }

    def _exec(self, container: str) -> dict[str, Any]:
        """What a process is and may that is started in a container later."""
        request = cri.ExecSyncRequest(container_id=container, cmd=["cat", "/proc/self/status"])
        answer = self._client.call("ExecSync", request)
        return {"exit code": answer.exit_code, **_facts(answer.stdout.decode())}


def _sandbox(status: Any, count: int) -> dict[str, Any]:
    options = status.linux.namespaces.options
    return {
        "state": cri.PodSandboxState.Name(status.state),
        "attempt": status.metadata.attempt,
        "count": count,
        "address": status.network.ip,
        "namespaces": {kind: cri.NamespaceMode.Name(getattr(options, kind)) for kind in ("network", "pid", "ipc")},
        "labels": dict(status.labels),
        "annotations": dict(status.annotations),
    }


def _mount(mount: Any) -> str:
    words = [mount.container_path, mount.host_path, "read-only" if mount.readonly else ""]
    return " ".join([*words, cri.MountPropagation.Name(mount.propagation)])


def _times(one: Any) -> list[str]:
    """Which are known."""
    return [name for name in ("created_at", "started_at", "finished_at") if getattr(one, name)]


def _log(path: Path) -> dict[str, list[str]]:
    """Without times, by stream: which of two streams is written first is up to the machine."""
    found: dict[str, list[str]] = {}
    for line in path.read_bytes().decode("latin-1").split("\n")[:-1] if path.exists() else ():
        _, stream, rest = line.split(" ", 2)
        found.setdefault(stream, []).append(rest)
    return found


# -- the kernel's words


def _process(pid: int, others: list[int]) -> dict[str, Any]:
    here = Path(f"/proc/{pid}")
    environ = (here / "environ").read_bytes().decode().split("\0")
    return {
        **_facts((here / "status").read_text()),
        "oom_score_adj": (here / "oom_score_adj").read_text().strip(),
        "limits": sorted(" ".join(line.split()) for line in (here / "limits").read_text().splitlines()[1:]),
        "cwd": _link(here / "cwd"),
        "env": sorted(filter(None, environ)),
        "namespaces": {kind: _shared(pid, others, kind) for kind in _NAMESPACES},
        "mounts": sorted(_mounted(here)),
        "devices": sorted(_devices(here / "root/dev")),
        "files": {name: text for name in _FILES if (text := _text(here / "root" / name)) is not None},
        "cgroup": _control(_group(here)),
        "cgroups": sorted(_below(here)),
    }


def _facts(status: str) -> dict[str, str]:
    rows = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return {name: rows[name].strip() for name in (*_STATUS, *_CAPABILITIES)}


def _shared(pid: int, others: list[int], kind: str) -> str:
    """With whom a namespace is shared."""
    own, node, *rest = (_link(Path(f"/proc/{of}/ns/{kind}")) for of in (pid, "self", *others))
    if own == node:
        return "the node's"
    return "the pod's" if own in rest else "its own"


def _link(path: Path) -> str:
    return str(path.readlink())


def _mounted(here: Path) -> Iterator[str]:
    """Where something is mounted, of what kind, and how."""
    for line in (here / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        place, options, *tags = before.split()[4:]
        kind, _, inner = after.split(" ", 2)
        tag = tags[0].partition(":")[0] if tags else "private"
        # Sizes depend on the machine's memory, inode counts too.
        of_kind = [word for word in inner.split(",") if kind == "tmpfs" and word.startswith(("size=", "mode="))]
        yield " ".join([place, kind, ",".join(sorted(options.split(","))), tag, *of_kind])


def _devices(folder: Path) -> Iterator[str]:
    for path in folder.iterdir():
        found = path.lstat()
        target = f" -> {path.readlink()}" if path.is_symlink() else ""
        yield f"{path.name} {found.st_mode:o} {found.st_uid} {found.st_gid} {found.st_rdev:x}{target}"


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text()
    return None


def _groups(here: Path) -> dict[str, str]:
    rows = (line.split(":", 2) for line in (here / "cgroup").read_text().splitlines())
    return {name or "unified": path for _, names, path in rows for name in names.split(",")}


def _group(here: Path) -> str:
    return _groups(here)["cpu"]


def _below(here: Path) -> Iterator[str]:
    """In which hierarchies it is in which cgroup."""
    for controller, path in _groups(here).items():
        yield f"{controller} {path}"


def _control(group: str) -> dict[str, str]:
    """What a cgroup is allowed; cgroup v1."""
    found = {}
    for controller, names in _CONTROL.items():
        for name in names:
            text = _text(CGROUPS / controller / group.strip("/") / name)
            if text is not None:
                found[name] = text.strip()
    return found
