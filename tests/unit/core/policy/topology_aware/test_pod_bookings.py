"""What containers book of pods that ask for CPUs as a whole."""

import pytest

from interpose.core.policy.request import Amounts, Key
from interpose.core.policy.topology_aware.pod_bookings import PodBooking, PodBookings

A, B, C = (Key("pod", name) for name in "abc")
POD = Amounts(milli=4000)


def bookings(**booked: tuple[int, int]) -> PodBookings:
    """Containers of a pod that asks for 4 CPUs: what each asks for itself, and its part of the rest."""
    found = PodBookings()
    for name, (own, rest) in booked.items():
        found.put(Key("pod", name), PodBooking(total=4000, own=own, rest=rest))
    return found


@pytest.mark.parametrize(
    ("booked", "own", "rest"),
    [
        ({}, 500, 3500),
        ({}, 4000, 0),
        ({}, 5000, 0),  # no less than nothing
        ({"b": (1000, 0)}, 500, 2500),
        ({"b": (1000, 3000)}, 500, 0),
    ],
)
def test_a_new_container_carries_what_nobody_books(booked: dict[str, tuple[int, int]], own: int, rest: int) -> None:
    """The first one all but what it asks for itself."""
    assert bookings(**booked).rest_for(A, POD, own, None) == rest


def test_a_container_from_before_a_restart_carries_what_it_did() -> None:
    """Less, if its pod does not ask for so much any more."""
    assert bookings().rest_for(A, POD, 500, 1000) == 1000
    assert bookings().rest_for(A, POD, 3500, 1000) == 500


@pytest.mark.parametrize(
    ("pod", "own", "rest"),
    [
        (4000, 1000, 500),  # as before, although nobody books 1500 of it
        (4000, 500, 1000),
        (4000, 2000, 0),
        (5000, 1000, 1500),
        (3000, 1000, 0),
        (9000, 1000, 5500),
    ],
)
def test_a_container_that_runs_books_as_much_as_before(pod: int, own: int, rest: int) -> None:
    """And what its pod asks for more, or less."""
    held = bookings(a=(1000, 500), b=(1000, 0))
    assert held.rest_for(A, Amounts(milli=pod), own, None) == rest


def test_others_carry_less_by_what_a_container_asks_for() -> None:
    """As many of them as have to."""
    held = bookings(a=(0, 1000), b=(0, 3000), c=(0, 0))
    assert held.reduced(C, POD, 500) == {A: 500}
    assert held.reduced(C, POD, 2500) == {A: 0, B: 1500}
    assert held.reduced(C, POD, 9000) == {A: 0, B: 0}
    assert held.reduced(B, POD, 3000) == {}  # what it carries itself is no matter of others
    assert bookings().reduced(A, POD, 9000) == {}


def test_what_is_not_booked() -> None:
    """By the least that the containers say of their pod."""
    held = bookings(a=(1000, 500), b=(1000, 0))
    assert held.unbooked("pod") == 1500
    held.put(B, PodBooking(total=3000, own=1000))
    assert held.unbooked("pod") == 500
    assert held.unbooked("other") == 0


def test_who_is_gone_books_nothing() -> None:
    """Nothing is left of a pod without containers."""
    held = bookings(a=(1000, 0))
    held.drop(B)
    assert set(held.of_pod("pod")) == {A}
    held.drop(A)
    held.drop(A)
    assert not held.of_pod("pod")
