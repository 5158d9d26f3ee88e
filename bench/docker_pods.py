"""Containers as dockershim makes them, one call at a time: what is timed when calls are intercepted.

All proxies take turns after a few containers each, so that a busy moment of the machine hits all of them alike. A
container is made, started and removed; its sandbox is made before and removed after, and never started.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.docker_workloads import LIFE
from bench.measure import Sample
from bench.podload import turns
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.workloads import Workload
    from tests.support.lab.processes import Child

TIMEOUT = 60.0
# Containers until the next one's turn.
TURN = 6
NAMESPACE = "production"
CGROUPS = "/interpose-bench/burstable"
# As many as service links give a container in a namespace of some ten services.
VARIABLES = [f"SERVICE_{number:02}_PORT_8080_TCP=tcp://10.96.12.{number}:8080" for number in range(60)]


class DockerConnection(http.client.HTTPConnection):
    """HTTP over a unix socket; the connection is kept, as dockershim keeps its."""

    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(str(self._path))


class Target:
    """One socket: its connection, and by call what was measured there."""

    def __init__(self, path: Path, child: Child | None) -> None:
        self._path = path
        self._child = child
        self._connection = DockerConnection(path)
        self.durations: dict[str, list[float]] = {call: [] for call in LIFE}  # microseconds
        self.cpu: dict[str, float] = dict.fromkeys(LIFE, 0.0)

    def timed(self, call: str, method: str, target: str, body: bytes = b"") -> dict[str, Any]:
        """Make a call; how long it took and what it cost the process in the middle are kept."""
        processor = self._processor()
        begin = time.perf_counter()
        answer = self.ask(method, target, body)
        self.durations[call].append((time.perf_counter() - begin) * 1e6)
        self.cpu[call] += self._processor() - processor
        return answer

    def ask(self, method: str, target: str, body: bytes = b"") -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} if body else {}
        self._connection.request(method, f"/v1.41{target}", body or None, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise LabError(f"{method} {target} through {self._path}: {answer.status} {text[:300]!r}")
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def forget(self) -> None:
        """What was measured so far was the warm-up."""
        for call in LIFE:
            self.durations[call].clear()
            self.cpu[call] = 0.0

    def close(self) -> None:
        self._connection.close()

    def _processor(self) -> float:
        return 0.0 if self._child is None else self._child.cpu_seconds()


def live(target: Target, image: str, pod: str) -> None:
    """One pod with one container, from the first call to the last."""
    name, uid = f"{pod}_{NAMESPACE}_{pod}", pod
    made = target.timed(
        "sandbox", "POST", f"/containers/create?name=k8s_POD_{name}_0", create_body(image, "podsandbox", pod, uid)
    )
    sandbox = made["Id"]
    made = target.timed(
        "create",
        "POST",
        f"/containers/create?name=k8s_main_{name}_0",
        create_body(image, "container", pod, uid, sandbox=sandbox),
    )
    container = made["Id"]
    target.timed("start", "POST", f"/containers/{container}/start")
    target.timed("remove", "DELETE", f"/containers/{container}?force=1&v=1")
    target.ask("DELETE", f"/containers/{sandbox}?force=1&v=1")


def create_body(image: str, kind: str, pod: str, uid: str, sandbox: str = "") -> bytes:
    """What dockershim sends to make a sandbox, or a container in one."""
    labels = {
        "io.kubernetes.docker.type": kind,
        "io.kubernetes.container.name": "main" if sandbox else "POD",
        "io.kubernetes.pod.name": pod,
        "io.kubernetes.pod.namespace": NAMESPACE,
        "io.kubernetes.pod.uid": uid,
    }
    host: dict[str, Any] = {"NetworkMode": "host", "CgroupParent": f"{CGROUPS}/pod{uid}"}
    if sandbox:
        labels |= {
            "io.kubernetes.sandbox.id": sandbox,
            "io.kubernetes.container.logpath": f"/var/log/pods/{NAMESPACE}_{pod}_{uid}/main/0.log",
            "annotation.io.kubernetes.container.hash": "83a9d4ca",
            "annotation.io.kubernetes.container.restartCount": "0",
            "annotation.io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
            "annotation.io.kubernetes.container.terminationMessagePolicy": "File",
            "annotation.io.kubernetes.pod.terminationGracePeriod": "30",
        }
        host |= {"CpuPeriod": 100_000, "CpuQuota": 50_000, "CpuShares": 256, "Memory": 256 << 20, "OomScoreAdj": 900}
    else:
        labels |= {
            "app.kubernetes.io/name": "bench",
            "pod-template-hash": "6d4cf56db6",
            "koordinator.sh/qosClass": "LS",
            "annotation.kubernetes.io/config.source": "api",
            "annotation.prometheus.io/scrape": "true",
        }
        host |= {"CpuShares": 2}
    document = {
        "Hostname": "",
        "User": "0",
        "AttachStdin": False,
        "Tty": False,
        "OpenStdin": False,
        "Env": VARIABLES if sandbox else [],
        "Cmd": ["sleep", "3600"],
        "Image": image,
        "Volumes": None,
        "WorkingDir": "",
        "Entrypoint": None,
        "OnBuild": None,
        "Labels": labels,
        "HostConfig": host,
        "NetworkingConfig": None,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def remove_cgroups(root: Path = Path("/sys/fs/cgroup")) -> None:
    """Remove the groups of the pods in every tree: dockerd makes them and leaves them there."""
    for tree in root.iterdir():
        top = tree / CGROUPS.split("/")[1]
        for path in sorted((*top.rglob("*"), top), reverse=True) if top.is_dir() else ():
            with contextlib.suppress(OSError):
                path.rmdir()


def life_samples(
    loads: Sequence[Workload], sockets: Mapping[str, tuple[Path, Child | None]], image: str, round_: int
) -> list[Sample]:
    """One run at all these sockets, by contestant: a sample for each of them and each call."""
    prefix, numbers = f"bench-{time.time_ns():x}", itertools.count()
    with contextlib.ExitStack() as stack:
        targets = {name: Target(path, child) for name, (path, child) in sockets.items()}
        for target in targets.values():
            stack.callback(target.close)
            live(target, image, f"{prefix}-{next(numbers)}")
            target.forget()
        order = list(targets.values())
        for turn, count in enumerate(turns(loads[0].calls, TURN)):
            first = turn % len(order)
            for target in (*order[first:], *order[:first]):
                for _ in range(count):
                    live(target, image, f"{prefix}-{next(numbers)}")
    return [_sample(name, load, round_, target, sockets[name][1]) for load in loads for name, target in targets.items()]


def _sample(name: str, load: Workload, round_: int, target: Target, child: Child | None) -> Sample:
    call = load.name.partition("@")[0]
    durations = target.durations[call]
    cuts = statistics.quantiles(durations, n=100, method="inclusive")
    return Sample(
        contestant=name,
        workload=load.name,
        round=round_,
        rate=len(durations) / sum(durations) * 1e6,
        p50=cuts[49],
        p99=cuts[98],
        cpu=None if child is None else target.cpu[call] / len(durations) * 1e6,
        rss=None if child is None else child.rss_bytes(),
    )
