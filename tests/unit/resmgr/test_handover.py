"""What a relay leaves to its successor crosses a socket as plain values."""

import json
from collections.abc import AsyncIterator

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key
from interpose.resmgr.handover import decode_handover, encode_handover
from interpose.resmgr.state.state import SavedEntry, State
from tests.support.policy.node import PolicyNode

ENTRY = SavedEntry(
    key=Key("p", "app", 1), container_id="", grant=Grant(exclusive=CpuSet.parse("2")), amounts=Amounts(milli=1000)
)
STATE = State(policy="static", fingerprint="f", entries=(ENTRY,))


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """A node with one container in the books, and one that is being made."""
    node = PolicyNode()
    node.add("db", 2000)
    await node.start()
    (held,) = node.tracker.allocations.by_key.values()
    request = held.request
    node.tracker.allocations.allocate(type(request)(key=Key("p", "app", 1), namespace="n", pod="x", qos=request.qos))
    yield node
    await node.close()


async def test_books_and_creates_in_flight_cross(node: PolicyNode) -> None:
    """Confirmed containers are not among what is pending."""
    handover = decode_handover(json.loads(json.dumps(encode_handover(STATE, node.tracker))))
    assert handover is not None
    assert handover.state == STATE
    (pending,) = handover.pending
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
    assert decode_handover(memory) is None


async def test_a_damaged_create_spoils_the_whole(node: PolicyNode) -> None:
    """The runtime is asked instead."""
    for key, value in (("qos", "best"), ("attempt", "one"), ("pod_id", None)):
        plain = json.loads(json.dumps(encode_handover(STATE, node.tracker)))
        plain["pending"][0][key] = value
        assert decode_handover(plain) is None
