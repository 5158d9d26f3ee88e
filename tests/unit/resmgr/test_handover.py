"""What a relay leaves to its successor crosses a socket as plain values."""

import json
from collections.abc import AsyncIterator

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key
from interpose.resmgr.handover import read_estate, write_estate
from interpose.resmgr.state.state import Entry, State
from tests.support.policy.node import PolicyNode

ENTRY = Entry(
    key=Key("p", "app", 1), container_id="", grant=Grant(exclusive=CpuSet.parse("2")), amounts=Amounts(milli=1000)
)
STATE = State(policy="static", fingerprint="f", entries=(ENTRY,))


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """A node with one container in the books, and one that is being made."""
    node = PolicyNode()
    node.add("db", 2000)
    await node.start()
    (held,) = node.books.ledger.held.values()
    request = held.request
    node.books.ledger.allocate(type(request)(key=Key("p", "app", 1), namespace="n", pod="x", qos=request.qos))
    yield node
    await node.close()


async def test_books_and_creates_in_flight_cross(node: PolicyNode) -> None:
    """Confirmed containers are not among what is pending."""
    estate = read_estate(json.loads(json.dumps(write_estate(STATE, node.books))))
    assert estate is not None
    assert estate.state == STATE
    (pending,) = estate.pending
    assert (pending.key, pending.title, pending.qos.value) == (Key("p", "app", 1), "n/x/app", "Guaranteed")


@pytest.mark.parametrize(
    "memory",
    [
        None,
        {},
        [],
        {"state": "x", "pending": []},
        {"state": "\ud800", "pending": []},
        {"state": 1, "pending": []},
    ],
)
def test_what_cannot_be_understood_is_nothing(memory: object) -> None:
    """A predecessor of another version may leave anything."""
    assert read_estate(memory) is None


async def test_a_damaged_create_spoils_the_whole(node: PolicyNode) -> None:
    """The runtime is asked instead."""
    for key, value in (("qos", "best"), ("attempt", "one"), ("pod_id", None)):
        plain = json.loads(json.dumps(write_estate(STATE, node.books)))
        plain["pending"][0][key] = value
        assert read_estate(plain) is None
