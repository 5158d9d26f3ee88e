"""CFS quotas under the policies static and static-plus in front of a real containerd, on CPUs 0 and 1.

CPU 0 is reserved, so one container can have CPU 1 alone. Values are those of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import PolicyRelay
from tests.support.lab.processes import wait_for
from tests.support.lab.quota_pods import QuotaPod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

RESERVED = ("--reserved-resources", "cpu=1")
LIFTED = (-1, 10_000, -1)
ASKED = (100_000, 10_000, 110_000)


@pytest.fixture
def relay(containerd: Containerd, scratch: Path) -> Iterator[PolicyRelay]:
    """A relay of this test, in front of the shared containerd."""
    with PolicyRelay(scratch, containerd.socket, "--policy", "static", *RESERVED) as running:
        yield running


@pytest.fixture
def client(relay: PolicyRelay) -> Iterator[CriClient]:
    """A kubelet."""
    with CriClient(relay.socket) as connected:
        yield connected


@pytest.mark.parametrize("policy", ["static", "static-plus"])
def test_a_cpu_of_its_own_is_never_throttled(
    containerd: Containerd, scratch: Path, kubepods: Kubepods, policy: str
) -> None:
    """No quota on it and on its pod from the start, the sidecar keeps its own; and back when the CPU is taken away."""
    with (
        PolicyRelay(scratch, containerd.socket, "--policy", policy, *RESERVED) as relay,
        CriClient(relay.socket) as client,
        QuotaPod(client, kubepods, "db") as db,
    ):
        assert (db.cpus, db.quotas) == ("1", LIFTED)
        db.periods(5)
        assert db.throttled() == 0
        # So little that one turn on a CPU exceeds it: on a busy machine it would not get more than half of one.
        db.kubelet_resize(10)
        wait_for(lambda: db.quotas == (1_000, 10_000, 11_000), what="the quotas to be back")
        wait_for(lambda: db.throttled() > 0, what="it to be throttled")
        db.kubelet_resize(1000)
        wait_for(lambda: db.quotas == LIFTED, what="the quotas to be lifted again")
        assert db.cpus == "1"
        throttled = db.throttled()
        db.periods(5)
        assert db.throttled() == throttled


def test_the_kubelet_sees_what_it_asked_for(client: CriClient, kubepods: Kubepods, relay: PolicyRelay) -> None:
    """Explained to people, and owned by the policy."""
    with QuotaPod(client, kubepods, "db") as db:
        # containerd before 1.7 reports no resources: then there is nothing for the kubelet to repair.
        assert db.reported in (0, 100_000)
        row = next(row for row in relay.policy()["assignments"] if row["container"] == "lab/db/main")
        assert row["quota"] == -1
        wait_for(
            lambda: [row["state"] for row in relay.policy()["assignments"]] == ["in step"] * 2, what="all to be in step"
        )


def test_what_the_kubelet_writes_meanwhile_counts(client: CriClient, kubepods: Kubepods, relay: PolicyRelay) -> None:
    """The quota of the pod is lifted again, and what was written there last is put back when the policy ends."""
    with QuotaPod(client, kubepods, "db") as db:
        db.write_quota(200_000)
        db.update(memory_limit_in_bytes=200 << 20)
        wait_for(lambda: db.quotas == LIFTED, what="the quota to be lifted again")
        relay.kill()
        relay.start("--policy", "none")
        wait_for(lambda: db.quotas == (100_000, 10_000, 200_000), what="the quotas to be put back")


def test_a_killed_relay_puts_back_what_it_lifted(client: CriClient, kubepods: Kubepods, relay: PolicyRelay) -> None:
    """After a start with the policy nothing changes; with the option off, all is as the kubelet asked for."""
    with QuotaPod(client, kubepods, "db") as db:
        relay.kill()
        assert db.quotas == LIFTED
        relay.start()
        assert db.quotas == LIFTED
        relay.kill()
        document = relay.state_file.parent.parent / "policy.yaml"
        document.write_text("policy: {static: {DisableCPUQuotaWithExclusiveCPUs: false}}\n")
        relay.start("--policy-config", str(document))
        wait_for(lambda: db.quotas == ASKED, what="the quotas to be put back")
        assert db.cpus == "1"
