"""Calls in the order in which they began."""

from interpose.dump.filter.order import BeginOrder
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Flags, Message, MessageSide


def flow(number: int, time: int, size: int = 0) -> Flow:
    """A call that began then, with a request of this size."""
    request = Message(number=number, at=0, side=MessageSide.REQUEST, size=size, body=b"x" * size)
    return Flow(
        number=number,
        time=time,
        path="/a/B",
        origin="client",
        pid=0,
        uid=0,
        flags=Flags.NONE,
        metadata=(),
        messages=[request],
    )


def numbers(order: BeginOrder, *flows: Flow) -> list[int]:
    """Which calls come when."""
    return [one.number for one in order.sorted(flows)]


def test_what_began_first_comes_first() -> None:
    """Of those that began together, what ended first."""
    order = BeginOrder()
    assert numbers(order, flow(1, 30), flow(2, 10), flow(3, 20), flow(4, 10)) == [2, 4, 3, 1]
    assert order.late == 0


def test_a_call_that_took_very_long_comes_late() -> None:
    """Only so many others wait for it; it is counted."""
    order = BeginOrder(held=2)
    assert numbers(order, flow(1, 30), flow(2, 10), flow(3, 40), flow(4, 50), flow(5, 5)) == [2, 1, 5, 3, 4]
    assert order.late == 1


def test_large_calls_are_not_held_for_long() -> None:
    """What is held has so many bytes at most."""
    order = BeginOrder(held_bytes=25)
    assert numbers(order, flow(1, 30, 10), flow(2, 20, 10), flow(3, 10, 10), flow(4, 1, 30)) == [3, 4, 2, 1]
    assert order.late == 1
