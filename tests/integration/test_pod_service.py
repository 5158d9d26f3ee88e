"""`interpose pod run --watch` as a service: what systemd, probes, Prometheus and people hear of it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose.cli.common.admin_client import ask
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.kube.agent_stack import fetch
from tests.support.lab.processes import wait_for
from tests.support.node.pod_commands import PodCommands, pod_commands

PROGRAM = [sys.executable, "-c", "from interpose.cli.main import main; main()"]


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        yield made


Asks = Callable[..., tuple[int, str]]


@pytest.fixture
def where(scratch: Path) -> Path:
    """Where it answers."""
    return scratch / "admin.sock"


@contextmanager
def service(commands: PodCommands, where: Path, *options: str, **env: str) -> Iterator["subprocess.Popen[str]"]:
    """A manager of one manifest; killed at the end, if it still runs."""
    files = ["-f", str(commands.folder / "web.json"), "--watch", "--admin-listen", str(where)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("INTERPOSE_")}
    argv = [*PROGRAM, "pod", "run", *files, *commands.reach(), *options]
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**clean, **env})
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=WAIT_LIMIT)


def until(condition: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    wait_for(condition, what=what, every=0.02)


def status(where: Path) -> Any:
    return ask(str(where), "GET", "/v1/status")


def test_health_status_and_metrics(commands: PodCommands, where: Path, admin: Asks) -> None:
    """The pod with its phase, calls to the runtime, a manifest that cannot be used."""
    manifest = commands.manifest()
    with service(commands, where) as child:
        until(lambda: where.exists() and any(one["ready"] for one in status(where)["pods"]), "the pod to be ready")
        told = status(where)
        assert [(one["name"], one["phase"], one["restarts"]) for one in told["pods"]] == [("default/web", "Running", 0)]
        assert told["runtime"] == {"endpoint": str(commands.socket), "up": True, "error": ""}
        assert told["pid"] == child.pid
        assert admin("/readyz")[0] == 200
        metrics = admin("/metrics")[1]
        for line in (
            'interpose_pods{phase="Running"} 1.0',
            "interpose_pods_ready 1.0",
            "interpose_pods_runtime_up 1.0",
            'interpose_pods_containers_waiting{reason="CrashLoopBackOff"} 0.0',
            "interpose_pods_manifests_unusable 0.0",
            'interpose_runtime_operations_total{method="CreateContainer"} 1.0',
        ):
            assert line in metrics
        manifest.write_text("{")
        until(lambda: status(where)["problems"], "the problem")
        assert "interpose_pods_manifests_unusable 1.0" in admin("/metrics")[1]
        child.send_signal(signal.SIGTERM)
        assert child.wait(WAIT_LIMIT) == 0
    assert not where.exists()


def test_without_a_runtime_it_is_alive_and_not_ready(commands: PodCommands, where: Path, admin: Asks) -> None:
    """And says whom it waits for; then it keeps its pods."""
    commands.manifest()
    elsewhere = commands.socket.rename(commands.socket.with_name("elsewhere.sock"))
    with service(commands, where):
        until(lambda: where.exists() and admin("/livez")[0] == 200, "it to answer")
        until(lambda: "No such file or directory" in status(where)["runtime"]["error"], "the reason")
        assert admin("/readyz")[0] == 503
        assert "interpose_pods_runtime_up 0.0" in admin("/metrics")[1]
        elsewhere.rename(commands.socket)
        until(lambda: admin("/readyz")[0] == 200, "the runtime")


def test_systemd_hears_of_its_life(commands: PodCommands, where: Path, scratch: Path) -> None:
    """Ready before the runtime is there, how many pods it keeps, still alive, stopping."""
    commands.manifest()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(scratch / "notify"))
        systemd.settimeout(WAIT_LIMIT)
        heard: list[str] = []

        def hears(words: str) -> bool:
            heard.append(systemd.recv(4096).decode())
            return words in heard[-1]

        env = {"NOTIFY_SOCKET": str(scratch / "notify"), "WATCHDOG_USEC": "2000000"}
        with service(commands, where, **env) as child:
            until(lambda: hears("READY=1"), "READY")
            until(lambda: hears("STATUS=keeping 1 pod, 1 ready"), "the pods")
            until(lambda: hears("WATCHDOG=1"), "the watchdog")
            child.send_signal(signal.SIGTERM)
            until(lambda: hears("STOPPING=1"), "STOPPING")
            assert child.wait(WAIT_LIMIT) == 0


def test_others_may_read_health_and_metrics_only(commands: PodCommands, where: Path, unused_tcp_port: int) -> None:
    """On an address of its own; no names of pods are there."""
    commands.manifest()
    address = f"127.0.0.1:{unused_tcp_port}"
    with service(commands, where, "--metrics-listen", address):
        until(where.exists, "the admin socket")
        until(lambda: status(where)["pods"], "the pod")
        code, text = fetch(f"{address}/metrics")
        assert code == 200
        assert "default/web" not in text
        assert fetch(f"{address}/v1/status")[0] == 404


def test_a_socket_that_somebody_has_is_told(commands: PodCommands, where: Path) -> None:
    """With the process that has it; nothing is started."""
    commands.manifest()
    with service(commands, where) as first:
        until(where.exists, "the admin socket")
        other = [*PROGRAM, "pod", "run", "-f", str(commands.folder / "web.json"), "--watch", *commands.reach()]
        places = ["--root", str(commands.folder / "other"), "--admin-listen", str(where)]
        second = subprocess.run([*other, *places], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
        assert second.returncode == 1
        assert f"in use by PID {first.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        assert status(where)["pid"] == first.pid
