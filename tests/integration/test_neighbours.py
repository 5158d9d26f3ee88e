"""Every attack of the table on a relay process with a neighbour: nobody else is hurt, and nothing is left of it.

What is asserted is state, not speed: no call of the neighbour fails however long it took, memory stays within its
bound, and when the attackers have gone so have their connections and calls.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interpose.cli.common.admin_client import ask
from tests.support.hostile.attacks import ATTACKS, AttackRow
from tests.support.hostile.trial import attack, backend, neighbour
from tests.support.hostile.workmeter import judge, work_of
from tests.support.lab.load.peak_memory import PeakMemory
from tests.support.lab.relay import Relay

# What a relay may have in memory whatever clients do, as docs/operations.md says.
MEMORY = 150_000_000
SECONDS = 1.0
SENT = 200_000
FORKED = ("connection-updates", "stream-updates", "one-byte-data", "small-data-nobody-takes", "unread-replies")
COUNTED = [row for row in ATTACKS if not row.timed]


@pytest.fixture
def relay(scratch: Path) -> Iterator[Relay]:
    """A relay in front of a backend that does what paths say."""
    with backend(scratch) as runtime, Relay(scratch, runtime) as relay:
        yield relay


def status(relay: Relay) -> Any:
    """What the relay says about itself."""
    return ask(str(relay.admin), "GET", "/v1/status")


@pytest.mark.parametrize("row", ATTACKS, ids=lambda row: row.name)
def test_a_neighbour_is_not_hurt(relay: Relay, row: AttackRow) -> None:
    """From three connections, which come back when they are cut."""
    with PeakMemory(relay.child) as peak, neighbour(relay.socket, fresh=row.about_connections) as beside:
        attack(relay.socket, row, connections=3, seconds=SECONDS)
    account = beside.account
    assert account is not None
    assert (account.refused, account.lost, account.unanswered) == (0, 0, 0)
    assert peak.bytes < MEMORY
    relay.child.wait_until(
        lambda: status(relay)["clients"] == 0 and status(relay)["calls"]["in_flight"] == 0,
        what="connections and calls of the attackers to be gone",
    )


@pytest.mark.parametrize("row", [row for row in ATTACKS if row.name in FORKED], ids=lambda row: row.name)
def test_a_neighbour_is_not_hurt_by_many_processes(relay: Relay, row: AttackRow) -> None:
    """One connection each: shares do not grow by forking, and the neighbour never shares a connection to the backend
    with the crowd."""
    with PeakMemory(relay.child) as peak, neighbour(relay.socket) as beside:
        attack(relay.socket, row, connections=1, seconds=SECONDS, processes=6)
    account = beside.account
    assert account is not None
    assert (account.refused, account.lost, account.unanswered) == (0, 0, 0)
    assert peak.bytes < MEMORY


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row.name)
def test_work_is_bounded(row: AttackRow) -> None:
    """Counted in lines of the engine: by the bytes that came, and in steps that let others in between."""
    meter, peer = work_of(row.attack, SENT)
    judge(meter, peer.sent)
