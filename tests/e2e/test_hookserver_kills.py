"""kill -9 of the real hook server at many moments, and a start after it: no value is lost, none is counted twice.

Both ways: behind a relay, and beside the runtime. Moments are picked by what the journal says: values are noted before
they are written, so the moments around a note are those at which something could be lost.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from interpose.core.model.cgroup import scaled_quota
from tests.support.lab.hookserver import HookServer, node_state
from tests.support.lab.processes import Child
from tests.support.lab.qos_pods import BE, BE_ASKED, LS, LS_ASKED, RATIO, Kubepods, QosPod, be_pod, ls_pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.cri import CriClient
    from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e


class Node(NamedTuple):
    """A hook server, not started, and the client with which pods are made."""

    server: HookServer
    client: CriClient
    kubepods: Kubepods

    def pods(self, stack: ExitStack, name: str = "") -> tuple[QosPod, QosPod]:
        """A BE and an LS pod, until the stack ends. They are made side by side."""
        made = (
            be_pod(self.client, self.kubepods, f"batch{name}"),
            ls_pod(self.client, self.kubepods, f"web{name}"),
        )
        for pod in made:
            stack.callback(pod.remove)
        with ThreadPoolExecutor(len(made)) as threads:
            list(threads.map(QosPod.__enter__, made))
        return made


@pytest.fixture(params=["proxy", "standalone"])
def node(
    request: pytest.FixtureRequest, scratch: Path, hooked_relay: Relay, containerd: Containerd, kubepods: Kubepods
) -> Iterator[Node]:
    """Behind a relay, or alone."""
    from tests.support.lab.cri import CriClient

    proxy = request.param == "proxy"
    socket = hooked_relay.socket if proxy else containerd.socket
    options = ("--mode", request.param, "--cpu-normalization")
    registrations = hooked_relay.hooks_dir if proxy else None
    server = HookServer(scratch, socket, kubepods=kubepods.name, registrations=registrations, options=options)
    server.tell(node_state(ratio=RATIO))
    with CriClient(socket) as client:
        yield Node(server, client, kubepods)
    hooked_relay.wait_hooks(qos=None)


def kill_after(child: Child, server: HookServer, notes: int) -> None:
    """Kill it the moment the journal has changed so often, or when there is nothing more to wait for."""
    deadline = time.monotonic() + 1.0
    size = _size(server)
    while notes and child.running and time.monotonic() < deadline:
        if (now := _size(server)) != size:
            size, notes = now, notes - 1
    child.kill()


def _size(server: HookServer) -> int:
    return server.journal.stat().st_size if server.journal.exists() else 0


def is_right(batch: QosPod, web: QosPod, ratio: float = RATIO) -> bool:
    """Everything is as it shall be on CPUs that are so fast."""
    quota = scaled_quota(100_000, ratio)
    be, ls = (BE[0], quota, BE[2]), (LS[0], quota, LS[2])
    return (batch.values, batch.pod_values, web.values, web.pod_values) == (be, be, ls, LS_ASKED)


def assert_original(batch: QosPod, web: QosPod) -> None:
    """Everything is as a kubelet made it."""
    assert (batch.values, batch.pod_values) == (BE_ASKED, BE_ASKED)
    assert (web.values, web.pod_values) == (LS_ASKED, LS_ASKED)


def restored(server: HookServer) -> None:
    """Put everything back."""
    done = server.single("--restore")
    assert (done.returncode, done.stderr) == (0, "")


def test_killed_while_pods_are_created(node: Node) -> None:
    """Pods come to life all the same, get their values from the next one, and go back to what was asked for."""
    server, pods = node.server, []
    with ExitStack() as stack, server, ThreadPoolExecutor(1) as threads:
        for notes in (0, 5):
            making = threads.submit(node.pods, stack, f"-{notes}")
            kill_after(server.child, server, notes)
            pods.append(making.result())
            server.start()
            server.soon(f"values after {notes} notes", lambda: all(is_right(*one) for one in pods))
        server.stop()
        restored(server)
        for one in pods:
            assert_original(*one)


def test_killed_while_a_rule_changes(node: Node) -> None:
    """The next one gets every value to the new rule, from what was asked for and not from what was half done."""
    server = node.server
    with ExitStack() as stack, server:
        batch, web = node.pods(stack)
        server.soon("values of new pods", lambda: is_right(batch, web))
        for notes, ratio in enumerate((1.5, 1.1, 1.2)):
            server.tell(node_state(ratio=ratio))
            kill_after(server.child, server, notes)
            server.start()
            server.soon(f"ratio {ratio} after {notes} notes", lambda ratio=ratio: is_right(batch, web, ratio))  # type: ignore[misc]
        server.stop()
        restored(server)
        assert_original(batch, web)


def test_killed_while_it_restores(node: Node) -> None:
    """What was not put back yet is put back by the next one; a start in between sets everything again."""
    server = node.server
    with ExitStack() as stack, server:
        batch, web = node.pods(stack)
        server.soon("values of new pods", lambda: is_right(batch, web))
        server.stop()
        for notes in (0, 4):
            kill_after(Child(server.argv("--restore"), log=server.log), server, notes)
            if notes == 2:
                server.start()
                server.soon("values set again", lambda: is_right(batch, web))
                server.stop()
        restored(server)
        assert_original(batch, web)
