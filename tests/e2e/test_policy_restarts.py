"""The relay or the runtime goes and comes back while containers run under the policy static: nobody is moved.

CPUs 0 and 1, CPU 0 is reserved: one container can have CPU 1 alone. Values are those of the kernel.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc
import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod, PolicyRelay
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

STATIC = ("--policy", "static", "--reserved-resources", "cpu=1")


@pytest.fixture
def relay(containerd: Containerd, scratch: Path) -> Iterator[PolicyRelay]:
    """A relay of this test, in front of the shared containerd."""
    with PolicyRelay(scratch, containerd.socket, *STATIC) as running:
        yield running


def assert_kept(relay: PolicyRelay, web: PolicyPod, db: PolicyPod) -> None:
    """`db` has CPU 1 alone, in the kernel and in the books."""
    assert (db.cpus, db.runs_on, web.cpus, web.runs_on) == ("1", "1", "0", "0")
    assert relay.exclusive() == {"db": "1"}


def test_a_killed_relay_knows_who_has_what(relay: PolicyRelay, kubepods: Kubepods) -> None:
    """With its state file, without it, and with a damaged one, which is kept aside; a resize is not forgotten."""
    with CriClient(relay.socket) as client, PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web:
        with PolicyPod(client, kubepods, "db") as db:
            for spoil in (lambda: None, relay.state_file.unlink, lambda: relay.state_file.write_text("{")):
                wait_for(relay.state_file.exists, what="the state file")
                relay.kill()
                assert (db.cpus, web.cpus) == ("1", "0")
                spoil()
                relay.start()
                assert_kept(relay, web, db)
            kept = [file for file in relay.state_file.parent.iterdir() if file.name.startswith(relay.state_file.name)]
            assert any(file.read_text() == "{" for file in kept)
            with pytest.raises(grpc.RpcError, match="1 wanted, 0 free"), PolicyPod(client, kubepods, "second"):
                pass
            db.resize(500)
            wait_for(lambda: not relay.policy()["state_file"]["dirty"], what="the state file to be written")
            relay.kill()
            relay.start()
            assert db.cpus == "0-1"
            web.wait_cpus("0-1")
            assert relay.exclusive() == {}
            db.resize(1000)
            assert_kept(relay, web, db)
        web.wait_cpus("0-1")


def test_what_happened_without_a_relay_is_caught_up_on(
    relay: PolicyRelay, containerd: Containerd, kubepods: Kubepods
) -> None:
    """One that ended meanwhile holds nothing any more; one that came past us shares like the others."""
    with (
        CriClient(containerd.socket) as runtime,
        CriClient(relay.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
        PolicyPod(client, kubepods, "db") as db,
    ):
        relay.kill()
        with PolicyPod(runtime, kubepods, "past", 100, BURSTABLE) as past:
            assert past.cpus == "0-1"
            relay.start()
            past.wait_cpus("0")
            assert_kept(relay, web, db)
            relay.kill()
            db.exit(runtime)
            relay.start()
            for pod in (web, past):
                pod.wait_cpus("0-1")


def test_a_successor_takes_over_while_pods_come(relay: PolicyRelay, kubepods: Kubepods) -> None:
    """No create fails, nobody gets a CPU that somebody has alone, and the successor knows all of them."""

    def make(number: int) -> PolicyPod:
        pod = PolicyPod(client, kubepods, f"web{number}", 100, BURSTABLE)
        return pod.__enter__()

    with CriClient(relay.socket) as client, PolicyPod(client, kubepods, "db") as db, ThreadPoolExecutor(3) as pool:
        coming = [pool.submit(make, number) for number in range(6)]
        wait_for(lambda: any(one.done() for one in coming), what="the first pod")
        relay.take_over()
        pods = [one.result() for one in coming]
        try:
            relay.wait_ready()
            assert [(pod.cpus, pod.born) for pod in pods] == [("0", "0")] * len(pods)
            assert (db.cpus, db.runs_on) == ("1", "1")
            assert relay.exclusive() == {"db": "1"}
            wait_for(lambda: relay.policy()["containers"] == len(pods) + 1, what="all in the books")
            db.stop()
            for pod in pods:
                pod.wait_cpus("0-1")
        finally:
            for pod in pods:
                pod.remove()


def test_a_create_in_flight_survives_a_successor(own_containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """The runtime has it and does not answer while one relay gives way to the next: it is counted all the same."""
    own_containerd.add_images()
    with (
        PolicyRelay(scratch, own_containerd.socket, *STATIC) as relay,
        CriClient(relay.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
        ThreadPoolExecutor(2) as pool,
    ):
        db = PolicyPod(client, kubepods, "db")
        try:
            db.run()
            own_containerd.child.pause()
            made = pool.submit(db.create)
            wait_for(lambda: relay.policy()["containers"] == 2, what="the create to be on its way")
            successor = pool.submit(relay.take_over)
            wait_for(lambda: "Relay is draining" in relay.log.read_text(), what="the old relay to drain")
            assert not made.done()
            own_containerd.child.resume()
            made.result()
            successor.result()
            relay.wait_ready()
            db.start()
            assert (db.cpus, db.born) == ("1", "1")
            web.wait_cpus("0")
            assert relay.exclusive() == {"db": "1"}
            db.stop()
            web.wait_cpus("0-1")
        finally:
            own_containerd.child.resume()
            db.remove()


def test_containerd_restarts(own_containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """Containers outlive it, and so does what they have; what it missed while it was away is done afterwards."""
    own_containerd.add_images()
    with (
        PolicyRelay(scratch, own_containerd.socket, *STATIC) as relay,
        CriClient(relay.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
    ):
        with PolicyPod(client, kubepods, "db") as db:
            own_containerd.kill()
            assert client.outcome("ListContainers", timeout=WAIT_LIMIT).code == "UNAVAILABLE"
            own_containerd.start()
            wait_for(lambda: client.outcome("Status").code == "OK", what="the runtime to be back")
            assert_kept(relay, web, db)
            db.resize(500)
            assert db.cpus == "0-1"
            web.wait_cpus("0-1")
            db.resize(1000)
            assert_kept(relay, web, db)
        web.wait_cpus("0-1")


def test_a_resize_around_the_relay_waits_for_room(
    relay: PolicyRelay, containerd: Containerd, kubepods: Kubepods
) -> None:
    """The container keeps what it has, is shown as without room, and gets its CPU when another container ends."""

    def state() -> str:
        return str(next(row["state"] for row in relay.policy()["assignments"] if "/db/" in row["container"]))

    with (
        CriClient(relay.socket) as client,
        CriClient(containerd.socket) as direct,
        PolicyPod(client, kubepods, "db", 500) as db,
    ):
        with PolicyPod(client, kubepods, "cache") as cache:
            assert (cache.cpus, db.cpus, state()) == ("1", "0", "in step")
            db.client = direct
            db.resize(1000)
            wait_for(lambda: state() == "without room", what="the resize to be seen")
            assert (cache.cpus, db.cpus) == ("1", "0")
            assert "\ninterpose_policy_without_room 1.0" in relay.metrics()
            relay.kill()
            relay.start()
            wait_for(lambda: state() == "without room", what="the resize to be known after a restart")
            assert (cache.cpus, db.cpus) == ("1", "0")
        db.wait_cpus("1")
        wait_for(lambda: state() == "in step", what="the resize to be granted")
        assert "\ninterpose_policy_without_room 0.0" in relay.metrics()
        db.client = client
