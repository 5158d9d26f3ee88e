"""`interpose runtime` as a process, with ordinary processes for containers: no root is needed."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click import ClickException

from interpose._pb import cri_pb2 as cri
from interpose.cli.common.admin_client import ask
from tests.support.lab.cri import CriClient
from tests.support.lab.processes import Child

PROGRAM = (sys.executable, "-c", "from interpose.cli.main import main; main()")


@pytest.fixture
def places(scratch: Path) -> dict[str, Path]:
    """Where everything of it is."""
    return {name: scratch / name for name in ("cri.sock", "admin.sock", "root", "state", "cni")}


def _runtime(places: dict[str, Path]) -> tuple[str, ...]:
    return (
        *PROGRAM,
        *("runtime", "--listen", str(places["cri.sock"]), "--admin-listen", str(places["admin.sock"])),
        *("--root", str(places["root"]), "--state", str(places["state"]), "--cni-conf-dir", str(places["cni"])),
        *("--executor", "plain"),
    )


def _answers(places: dict[str, Path]) -> bool:
    try:
        return bool(ask(str(places["admin.sock"]), "GET", "/v1/status", who="runtime")["serving"])
    except (OSError, ClickException):
        return False


def _started(spawn: Callable[..., Child], places: dict[str, Path]) -> Child:
    child = spawn(*_runtime(places))
    child.wait_until(lambda: _answers(places), what="the runtime to serve")
    return child


def test_it_tells_about_itself(places: dict[str, Path], spawn: Callable[..., Child]) -> None:
    """Who it is over CRI in both versions; what it does not isolate, health and metrics over the admin socket."""
    _started(spawn, places)
    with CriClient(places["cri.sock"]) as client:
        version = client.call("Version", cri.VersionRequest())
        assert (version.runtime_name, version.version) == ("interpose", "0.1.0")
    status = ask(str(places["admin.sock"]), "GET", "/v1/status", who="runtime")
    assert status["executor"].startswith("plain")
    assert status["not_isolated"]
    metrics = _text(places["admin.sock"], "/metrics")
    assert 'interpose_runtime_operations_total{method="Version"' in metrics
    assert _text(places["admin.sock"], "/readyz").endswith("ok")


def test_a_second_one_does_not_start(places: dict[str, Path], spawn: Callable[..., Child]) -> None:
    """Neither on the same socket nor with the same folders; the first one goes on."""
    first = _started(spawn, places)
    second = spawn(*_runtime(places))
    assert second.wait() == 1
    assert str(places["cri.sock"]) in second.log_tail()
    elsewhere = {**places, "cri.sock": places["cri.sock"].with_name("b.sock"), "admin.sock": places["root"] / "a.sock"}
    third = spawn(*_runtime(elsewhere))
    assert third.wait() != 0
    assert str(first.pid) in third.log_tail()
    assert _answers(places)


def test_it_ends_when_told_to_and_leaves_no_socket(places: dict[str, Path], spawn: Callable[..., Child]) -> None:
    """SIGTERM is a clean end, and the next one starts on the same folders."""
    child = _started(spawn, places)
    child.signal(signal.SIGTERM)
    assert child.wait() == 0
    assert not places["cri.sock"].exists()
    assert not places["admin.sock"].exists()
    _started(spawn, places)


def test_a_mistake_in_the_settings_is_named(places: dict[str, Path], spawn: Callable[..., Child]) -> None:
    """EX_CONFIG, before anything is made."""
    child = spawn(*_runtime(places), "--executor", "kata")
    assert child.wait() == 78
    assert "flag --executor: 'kata' is neither one of auto, runc, crun, plain nor an absolute path" in child.log_tail()
    assert not places["root"].exists()


def test_the_relay_can_have_it_inside(places: dict[str, Path], spawn: Callable[..., Child], scratch: Path) -> None:
    """--embedded: calls to the relay are answered by the runtime in the same process."""
    environment = {
        **os.environ,
        "INTERPOSE_RUNTIME_ROOT": str(places["root"]),
        "INTERPOSE_RUNTIME_STATE": str(places["state"]),
        "INTERPOSE_RUNTIME_CNI_CONF_DIR": str(places["cni"]),
        "INTERPOSE_RUNTIME_EXECUTOR": "plain",
    }
    options = ("--listen", str(places["cri.sock"]), "--admin-listen", "none", "--hooks-dir", str(scratch / "hooks"))
    child = spawn(*PROGRAM, "relay", "--embedded", *options, env=environment)
    child.wait_listening(places["cri.sock"])
    with CriClient(places["cri.sock"]) as client:
        assert client.call("Version", cri.VersionRequest()).runtime_name == "interpose"
    child.signal(signal.SIGTERM)
    assert child.wait() == 0


def _text(path: Path, target: str) -> str:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        sock.sendall(f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode()
