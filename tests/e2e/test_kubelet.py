"""A real kubelet over our runtime, and over a relay in front of it; no API server, its pods are files.

It runs where `INTERPOSE_KUBELET` names a kubelet. That has fixed places (`/var/log/pods` and others) and sweeps them,
so it and the runtime are in a mount namespace where these are folders of the test, and pods below a cgroup of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import tempfile
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.cri import CriClient
from tests.support.lab.pod.run import IMAGE, pod_image, write_cni
from tests.support.lab.pods import remove_groups
from tests.support.lab.processes import Child, wait_for
from tests.support.lab.relay import Relay
from tests.support.lab.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

KUBELET: Final = os.environ.get("INTERPOSE_KUBELET", "")
PORT: Final = 20250
CGROUPS: Final = Path("/sys/fs/cgroup")
ITS_PLACES: Final = ("/var/log/pods", "/var/log/containers", "/var/lib/kubelet")
SYSCTLS: Final = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
NO_END: Final = "trap 'echo told > /notes/end; exit 0' TERM; echo begun; while :; do sleep 0.1; done"


def container(*command: str, **more: Any) -> dict[str, Any]:
    """One that uses the image of the lab."""
    return {"name": "main", "image": IMAGE, "command": list(command), **more}


def pods(notes: Path) -> dict[str, dict[str, Any]]:
    """Specs by the names of pods."""
    volumes = [{"name": "notes", "hostPath": {"path": str(notes)}}, {"name": "work", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "notes", "mountPath": "/notes"}, {"name": "work", "mountPath": "/data", "subPath": "part"}]
    probe = {"exec": {"command": ["test", "-e", "/data/made"]}, "periodSeconds": 1}
    limits = {"limits": {"cpu": "100m", "memory": "32Mi"}}
    first = container("touch", "/data/made", volumeMounts=mounts) | {"name": "first"}
    main = container("sh", "-c", NO_END, volumeMounts=mounts, readinessProbe=probe, resources=limits)
    return {
        "whole": {"initContainers": [first], "containers": [main], "volumes": volumes},
        "job": {"restartPolicy": "Never", "containers": [container("sh", "-c", "exit 5")]},
        "again": {
            "containers": [
                container(
                    "sh",
                    "-c",
                    "test -e /notes/once || { touch /notes/once; exit 3; }; exec sleep 1000",
                    volumeMounts=mounts[:1],
                )
            ],
            "volumes": volumes[:1],
            "terminationGracePeriodSeconds": 1,
        },
        "nothing": {"restartPolicy": "Never", "containers": [container("/no/such/program")]},
        "node": {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container("sleep", "1000")]},
    }


class Node:
    """A kubelet with its runtime."""

    def __init__(self, folder: Path, runtime: Runtime, socket: Path, inside: tuple[str, ...]) -> None:
        self.folder = folder
        self.runtime = runtime
        self.socket = socket
        self.notes = folder / "notes"
        self.manifests = folder / "manifests"
        self._inside = inside
        self._child: Child | None = None
        for one in (self.notes, self.manifests):
            one.mkdir()

    def start(self) -> None:
        """Start the kubelet and wait until it serves."""
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": PORT,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "staticPodPath": str(self.manifests),
            "fileCheckFrequency": "1s",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.folder.name}",
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
        }
        (self.folder / "kubelet.json").write_text(json.dumps(config))
        flags = {
            "config": self.folder / "kubelet.json",
            "root-dir": self.folder / "kubelet",
            "cert-dir": self.folder / "certs",
            "volume-plugin-dir": self.folder / "plugins",
            "container-runtime-endpoint": f"unix://{self.socket}",
            "hostname-override": "lab",
        }
        known = subprocess.run(
            [KUBELET, "--help"], capture_output=True, text=True, timeout=WAIT_LIMIT, check=True
        ).stdout
        if "--container-runtime " in known:  # until 1.26
            flags["container-runtime"] = "remote"
        argv = [*self._inside, KUBELET, *(f"--{key}={value}" for key, value in flags.items())]
        self._child = Child(argv, log=self.folder / "kubelet.log")
        self._child.wait_until(self._serves, what="the kubelet to serve", every=0.5)

    def stop(self) -> None:
        """End the kubelet; pods go on."""
        if self._child is not None:
            self._child.stop()

    def ask(self, path: str, method: str = "GET") -> str:
        """What its own server answers."""
        request = urllib.request.Request(f"https://127.0.0.1:{PORT}{path}", method=method)
        context = ssl._create_unverified_context()
        with urllib.request.urlopen(request, timeout=WAIT_LIMIT, context=context) as answer:
            text: str = answer.read().decode()
        return text

    def status(self, pod: str) -> dict[str, Any]:
        """What the kubelet thinks of a pod: the phase, and states with reasons and codes."""
        found = [one for one in json.loads(self.ask("/pods"))["items"] or () if one["metadata"]["name"] == f"{pod}-lab"]
        return found[0]["status"] if found else {}

    def main(self, pod: str) -> dict[str, Any]:
        """The status of the container of this name."""
        return next(iter(self.status(pod).get("containerStatuses", ())), {})

    def wait_ready(self, pod: str) -> None:
        """Until its container is."""
        wait_for(lambda: self.main(pod).get("ready"), what=f"pod {pod} to be ready", every=0.5)

    def group(self, pod: str, file: str) -> str:
        """A control file of its container."""
        name = self.main(pod)["containerID"].rpartition("/")[2]
        (found,) = (CGROUPS / file.partition(".")[0] / self.folder.name).rglob(name)
        return (found / file).read_text().strip()

    def left(self) -> int:
        """How many sandboxes and containers the runtime has."""
        with CriClient(self.socket) as client:
            return len(client.call("ListPodSandbox").items) + len(client.call("ListContainers").containers)

    def _serves(self) -> bool:
        try:
            return self.ask("/healthz") == "ok"
        except OSError:
            return False


@contextmanager
def own_places(folder: Path) -> Iterator[tuple[str, ...]]:
    """What to put before a command line, so that the kubelet's places are folders of this test."""
    done = folder / "mounted"
    steps = ["mount --make-rprivate /", "mount --make-rshared /"]
    with ExitStack() as stack:
        for place in ITS_PLACES:
            mine = folder / place.strip("/").replace("/", "-")
            mine.mkdir()
            if not Path(place).exists():
                Path(place).mkdir(parents=True)
                stack.callback(Path(place).rmdir)
            steps.append(f"mount --bind {mine} {place}")
        script = "; ".join([*steps, f"touch {done}", "exec sleep 10000"])
        holder = stack.enter_context(Child(["unshare", "-m", "sh", "-ec", script], log=folder / "mounts.log"))
        holder.wait_until(done.exists, what="the mount namespace")
        yield ("nsenter", f"--mount=/proc/{holder.pid}/ns/mnt")


class InsideRuntime(Runtime):
    """Our runtime in that namespace: it shares volumes and logs with the kubelet."""

    inside: tuple[str, ...] = ()

    def argv(self) -> list[str]:
        return [*self.inside, *super().argv()]


@pytest.fixture(scope="module", params=["runtime", "relay"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A kubelet that keeps the pods of this file."""
    if reason := Runtime.missing() or ("" if KUBELET else "INTERPOSE_KUBELET names none"):
        pytest.skip(f"no kubelet: {reason}")
    if (CGROUPS / "cgroup.controllers").exists():
        pytest.skip("cgroups are read as those of v1")
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    settings = {Path("/proc/sys", name): Path("/proc/sys", name).read_text() for name in SYSCTLS}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(lambda: [path.write_text(text) for path, text in settings.items()])
        stack.callback(remove_groups, f"/{folder.name}")
        runtime = InsideRuntime(folder / "r")
        runtime.inside = stack.enter_context(own_places(folder))
        write_cni(runtime.cni, "10.138.0.0/24", folder / "leases")
        stack.enter_context(runtime)
        runtime.import_archives([pod_image(folder)])
        socket = runtime.socket
        if request.param == "relay":
            (folder / "relay").mkdir()
            socket = stack.enter_context(Relay(folder / "relay", runtime.socket)).socket
        for controller in (one for one in CGROUPS.iterdir() if one.name != "unified"):
            (controller / folder.name).mkdir()
        for file in ("cpuset.cpus", "cpuset.mems"):
            (CGROUPS / "cpuset" / folder.name / file).write_text((CGROUPS / "cpuset" / file).read_text())
        one = Node(folder, runtime, socket, runtime.inside)
        for name, spec in pods(one.notes).items():
            document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            (one.manifests / f"{name}.json").write_text(json.dumps(document))
        stack.callback(one.stop)
        one.start()
        yield one


def test_pods_become_what_they_are_to_be(node: Node) -> None:
    """Init container, volumes, probe, network; exit codes with their reasons; what failed is started again."""
    for pod in ("whole", "node", "again"):
        node.wait_ready(pod)
    assert node.status("whole")["podIP"].startswith("10.138.")
    assert node.main("again")["lastState"]["terminated"]["exitCode"] == 3
    for pod, wanted in {"job": (5, "Error"), "nothing": (128, "StartError")}.items():
        end = node.main(pod)["state"]["terminated"]
        assert (end["exitCode"], end["reason"]) == wanted


def test_limits_are_in_the_cgroup(node: Node) -> None:
    """Below that of the pod, which the kubelet made."""
    node.wait_ready("whole")
    files = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")
    assert [node.group("whole", file) for file in files] == ["102", "10000", str(32 << 20)]


def test_its_own_server_reaches_containers(node: Node) -> None:
    """Commands, logs and figures."""
    node.wait_ready("whole")
    assert node.ask("/run/default/whole-lab/main?cmd=ls+/data", "POST") == "made\n"
    assert node.ask("/containerLogs/default/whole-lab/main") == "begun\n"
    seen = {one["podRef"]["name"]: one["containers"] for one in json.loads(node.ask("/stats/summary"))["pods"]}
    (figures,) = seen["whole-lab"]
    assert figures["memory"]["workingSetBytes"] > 0


def test_containers_outlive_kubelet_and_runtime(node: Node) -> None:
    """One after the other ends, the runtime also without a word."""
    node.wait_ready("whole")
    before = node.main("whole")
    node.stop()
    node.runtime.kill()
    node.runtime.start()
    node.start()
    node.wait_ready("whole")
    assert node.main("whole")["containerID"] == before["containerID"]


def test_without_manifests_nothing_is_left(node: Node) -> None:
    """Containers are told to end first; the kubelet removes what ended once a minute."""
    for file in node.manifests.iterdir():
        file.unlink()
    wait_for(lambda: not node.left(), what="the runtime to be empty", every=1)
    assert (node.notes / "end").read_text() == "told\n"
    assert node.runtime.leftovers() == {}
