"""`interpose config` and running processes: what they have is what they were told, and by whom."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.hookserver import HookServer
from tests.support.lab.relay import Relay, program, relay_argv


def config(*words: object) -> "subprocess.CompletedProcess[str]":
    """Run the real command."""
    command = [str(program()), "config", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_LIMIT)


def settings(*words: object) -> dict[str, Any]:
    """What it shows, by key."""
    done = config("show", "-o", "json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["settings"]
    return found


def test_a_relay_tells_its_settings_with_their_origins(
    start_runtime: Callable[..., Any], start_relay: Callable[..., Relay], scratch: Path
) -> None:
    """Flags, lines of its file, and defaults; the same as without the process."""
    start_runtime()
    path = scratch / "relay.yaml"
    path.write_text("apiVersion: interpose/v1\nkind: RelayConfig\nprocess: {grace: 5s}\nhooks: {enabled: false}\n")
    relay = start_relay("--config", str(path), "--max-streams", "500")

    running = settings("relay", "--running", "--admin", relay.admin)

    assert running["process.grace"] == {"value": "5s", "origin": f"file {path}:3"}
    assert running["limits.max_streams"] == {"value": "500", "origin": "flag --max-streams"}
    assert running["limits.resets"]["origin"] == "default"
    places = relay_argv(relay.socket, scratch / "runtime.sock", relay.admin)[2:]
    planned = settings("relay", "--", "--config", path, "--max-streams", "500", *places)
    assert {key: one for key, one in running.items() if one != planned[key]} == {}


def test_a_change_of_the_file_is_seen_before_a_restart(
    start_runtime: Callable[..., Any], start_relay: Callable[..., Relay], scratch: Path
) -> None:
    """By comparing the process with the file."""
    start_runtime()
    relay = start_relay("--no-hooks", "--grace", "5s")
    path = scratch / "relay.yaml"
    sockets = f"listen: {relay.socket}\nruntime_endpoint: {scratch}/runtime.sock\nadmin: {{listen: {relay.admin}}}\n"
    folders = f"hooks: {{enabled: false, dir: {scratch}/hookserver.d}}\npolicy: {{state_dir: {scratch}/state}}\n"
    path.write_text(f"apiVersion: interpose/v1\nkind: RelayConfig\n{sockets}{folders}")

    done = config("diff", f"running:{relay.admin}", path)

    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[2:] == ["process.grace", "  - 5s  (flag --grace)", "  + 30s  (default)"]


def test_a_hook_server_tells_its_settings(fake_node: Callable[..., Any], hookserver: Callable[..., HookServer]) -> None:
    """And is not taken for a relay."""
    fake_node(pods=1)
    running = hookserver()
    running.start()
    found = settings("hookserver", "--running", "--admin", running.admin)
    assert found["listen"]["origin"] == "flag --listen"
    done = config("show", "relay", "--running", "--admin", running.admin)
    assert (done.returncode, "is 'interpose hookserver', not 'interpose relay'" in done.stderr) == (1, True)


def test_nobody_there_is_told() -> None:
    """With the address that was asked."""
    done = config("show", "hookserver", "--running", "--admin", "/no/such.sock")
    assert (done.returncode, "/no/such.sock" in done.stderr) == (1, True)
