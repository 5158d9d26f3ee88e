"""The webhook as a process: its command lines, its signals, what it prints."""

import re
import signal
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import Child, wait_for
from tests.support.net.certificates import CERTIFICATE, KEY, Authority, write_pair

AUTHORITY = Authority()
PROGRAM = (sys.executable, "-c", "from interpose.cli.main import main; main()", "webhook")
DROP_IN = (sys.executable, "-c", "from interpose.cli.compat.cri_resmgr_webhook import main; main()")
READY = re.compile(
    r'"Webhook is ready".* listen="(?:\[::\]|127\.0\.0\.1|0\.0\.0\.0):(\d+)" metrics="(?:none|.*:(\d+))"'
)


@pytest.fixture
def pair(scratch: Path) -> Path:
    """A folder with a certificate and its key."""
    write_pair(scratch, AUTHORITY.issue())
    return scratch


def ports(child: Child) -> tuple[str, str]:
    """Where it listens, and where it tells about itself, as its log says."""
    found = child.wait_until(lambda: READY.findall(child.log_tail()), what="the webhook to be ready")
    listen, about = found[0]
    return listen, about


def ask(port: str, path: str, *, plain: bool = False) -> tuple[int, str]:
    """A GET by a client that trusts the authority."""
    context = None if plain else ssl.create_default_context(cadata=AUTHORITY.pem)
    url = f"{'http' if plain else 'https'}://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, context=context, timeout=WAIT_LIMIT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_serves_until_it_is_told_to_stop(pair: Path, spawn: Callable[..., Child]) -> None:
    """SIGTERM: first not ready and still there, then gone with exit code 0. A second one ends the waiting."""
    child = spawn(
        *PROGRAM,
        *("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--shutdown-delay", "5m"),
        *("--tls-cert", pair / CERTIFICATE, "--tls-key", pair / KEY),
    )
    port, plain = ports(child)
    assert ask(port, "/readyz") == (200, "ok")
    assert ask(plain, "/readyz", plain=True) == (200, "ok")
    child.signal(signal.SIGTERM)
    wait_for(lambda: ask(plain, "/readyz", plain=True)[0] == 503, what="it not to be ready")
    assert ask(port, "/livez") == (200, "ok")
    child.signal(signal.SIGTERM)
    assert child.wait() == 0


def test_a_second_signal_cuts_what_is_under_way(pair: Path, spawn: Callable[..., Child]) -> None:
    """Whoever sends it does not want to wait for a client that has stopped."""
    files = ("--tls-cert", pair / CERTIFICATE, "--tls-key", pair / KEY)
    child = spawn(*PROGRAM, "--listen", "127.0.0.1:0", "--shutdown-delay", "0", "--grace", "5m", *files)
    port, _ = ports(child)
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    with socket.create_connection(("127.0.0.1", int(port))) as raw:
        stuck = context.wrap_socket(raw, server_hostname="127.0.0.1")
        stuck.sendall(b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        wait_for(lambda: "in_flight 2" in ask(port, "/metrics")[1], what="the request to be under way")
        child.signal(signal.SIGTERM)
        wait_for(lambda: not _listens(port), what="it to take no more")
        child.signal(signal.SIGTERM)
        assert child.wait() == 0
        stuck.close()


def _listens(port: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(port))).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_new_certificate_is_read_without_a_signal(pair: Path, spawn: Callable[..., Child]) -> None:
    """The log says so, and the metric counts it."""
    files = ("--tls-cert", pair / CERTIFICATE, "--tls-key", pair / KEY)
    child = spawn(*PROGRAM, "--listen", "127.0.0.1:0", "--shutdown-delay", "0", *files)
    port, _ = ports(child)
    write_pair(pair, AUTHORITY.issue())
    child.wait_until(lambda: "Certificate reloaded" in child.log_tail(), what="the new certificate")
    assert 'interpose_webhook_certificate_reloads_total{result="loaded"} 1.0' in ask(port, "/metrics")[1]


def test_the_drop_in_has_the_flags_of_the_old_program(pair: Path, spawn: Callable[..., Child]) -> None:
    """On all addresses."""
    env = {"INTERPOSE_WEBHOOK_SHUTDOWN_DELAY": "0"}
    child = spawn(*DROP_IN, "-port", "0", f"-cert-file={pair / CERTIFICATE}", "-key-file", pair / KEY, env=env)
    port, _ = ports(child)
    assert ask(port, "/readyz") == (200, "ok")
    assert child.stop() == 0


def test_without_a_certificate_it_does_not_start(scratch: Path, spawn: Callable[..., Child]) -> None:
    """The message names the file; the exit code is that of settings that cannot be used."""
    child = spawn(*PROGRAM, "--listen", "127.0.0.1:0", "--tls-cert", scratch / "none.crt")
    assert child.wait() == 78
    assert f"error: file {scratch}/none.crt: cannot be read: No such file or directory" in child.log_tail()
