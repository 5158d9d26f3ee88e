"""What is booked of pods that ask for CPUs as a whole, beyond what their containers ask for themselves.

Such a pod counts once: for what its containers ask for, and for the rest, which its containers carry in their pools.
The first one carries all of it; when another one comes that asks for CPUs itself, the rest is smaller by that. Law: the
containers of a pod book no more than the pod asks for, unless they ask for more themselves. Amounts are thousandths of
a CPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from interpose.core.policy.request import Amounts, Key

_NOBODY: Final[Mapping[Key, "PodBooking"]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBooking:
    """What a container books of its pod."""

    total: int  # what the pod asks for
    own: int = 0  # what the container asks for itself
    rest: int = 0  # what it carries of the rest

    @property
    def milli(self) -> int:
        """The sum of both amounts."""
        return self.own + self.rest


class PodBookings:
    """The bookings of all pods that ask for CPUs as a whole, by their containers."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[Key, PodBooking]] = {}

    def of_pod(self, pod_id: str) -> Mapping[Key, PodBooking]:
        """The bookings of a pod, the oldest first."""
        return self._pods.get(pod_id, _NOBODY)

    def put(self, key: Key, booking: PodBooking) -> None:
        """Set the booking of a container."""
        self._pods.setdefault(key.pod_id, {})[key] = booking

    def drop(self, key: Key) -> None:
        """Forget the booking of a container, if it has one."""
        bookings = self._pods.get(key.pod_id, {})
        bookings.pop(key, None)
        if not bookings:
            self._pods.pop(key.pod_id, None)

    def rest_for(self, key: Key, pod: Amounts, own: int, held: int | None) -> int:
        """What a container is to carry of the rest if it asks for `own` itself.

        One that is there already books as much as before, and what its pod asks for more: it should not have to move.
        Nor should one that carried `held` before a restart; None: it is a new one.
        """
        left = max(0, pod.milli - own - self._elsewhere(key))
        if (before := self.of_pod(key.pod_id).get(key)) is not None:
            return min(left, max(0, before.milli - own + pod.milli - before.total))
        return left if held is None else min(left, held)

    def reduced(self, key: Key, pod: Amounts, own: int) -> dict[Key, int]:
        """The rests of other containers as they are to be once this one asks for `own`: those that become smaller."""
        excess, found = own + self._elsewhere(key) - pod.milli, {}
        for other, booking in self.of_pod(key.pod_id).items():
            taken = min(excess, booking.rest)
            if other != key and taken > 0:
                found[other] = booking.rest - taken
                excess -= taken
        return found

    def unbooked(self, pod_id: str) -> int:
        """What a pod asks for and none of its containers books."""
        bookings = self.of_pod(pod_id).values()
        total = min((booking.total for booking in bookings), default=0)
        return max(0, total - sum(booking.milli for booking in bookings))

    def _elsewhere(self, key: Key) -> int:
        return sum(booking.milli for other, booking in self.of_pod(key.pod_id).items() if other != key)
