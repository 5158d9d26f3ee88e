"""Metrics and health on an address that others can reach, for every daemon of a node; the agent's are in test_agent."""

import urllib.request
from collections.abc import Callable
from pathlib import Path

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.kube.agent_stack import fetch
from tests.support.lab.hookserver import HookServer
from tests.support.lab.processes import Child
from tests.support.lab.relay import program


def test_a_hook_server_can_be_scraped(
    fake_node: Callable[..., Path], hookserver: Callable[..., HookServer], unused_tcp_port: int
) -> None:
    """Beside its admin socket."""
    fake_node()
    address = f"127.0.0.1:{unused_tcp_port}"
    server = hookserver("--mode", "standalone", "--metrics-listen", address)
    server.start()
    status, text = fetch(f"{address}/metrics")
    assert status == 200
    assert "interpose_build_info" in text
    assert fetch(f"{address}/readyz")[0] == 200
    assert fetch(f"{address}/v1/values")[0] == 404


def test_a_relay_can_be_scraped_without_an_admin_socket(
    spawn: Callable[..., Child], scratch: Path, unused_tcp_port: int
) -> None:
    """By any name of the machine: the check of the Host header is for the admin socket alone."""
    argv = [program(), "relay", "--listen", scratch / "relay.sock", "--runtime-endpoint", scratch / "none.sock"]
    child = spawn(*argv, "--admin-listen", "none", "--metrics-listen", f":{unused_tcp_port}")
    child.wait_until(lambda: "Relay is listening" in child.log_tail(), what="all sockets")
    request = urllib.request.Request(
        f"http://127.0.0.1:{unused_tcp_port}/livez", headers={"host": "node-1.example.com"}
    )
    with urllib.request.urlopen(request, timeout=WAIT_LIMIT) as answer:
        assert answer.read() == b"ok"
    status, text = fetch(f"127.0.0.1:{unused_tcp_port}/readyz")
    assert status == 503
    assert "backend-runtime failed" in text


def test_a_port_in_use_ends_the_start(spawn: Callable[..., Child], scratch: Path, unused_tcp_port: int) -> None:
    """Two relays never share one in silence; the message names the address, the sockets are gone."""
    listen = f"127.0.0.1:{unused_tcp_port}"
    argv = [program(), "relay", "--runtime-endpoint", scratch / "none.sock", "--metrics-listen", listen]
    first = spawn(*argv, "--listen", scratch / "a.sock", "--admin-listen", scratch / "a-admin.sock")
    first.wait_until(lambda: "Relay is listening" in first.log_tail(), what="all sockets")
    second = spawn(*argv, "--listen", scratch / "b.sock", "--admin-listen", scratch / "b-admin.sock")
    assert second.wait() == 1
    assert f"cannot listen on {listen}" in second.log_tail()
    assert not (scratch / "b.sock").exists()
