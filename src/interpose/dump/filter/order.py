"""Calls in the order in which they began, out of a stream of calls in the order in which they ended.

Pure, and bounded: so many calls are held back, and so many bytes of them. A call that took so long that more than that
ended meanwhile comes too late, and is counted.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from interpose.dump.model.call import Flow

HELD: Final = 20_000  # calls
HELD_BYTES: Final = 128 << 20


class BeginOrder:
    """Sorts calls. `late` of them have come behind others that began after them."""

    def __init__(self, *, held: int = HELD, held_bytes: int = HELD_BYTES) -> None:
        self._held = held
        self._held_bytes = held_bytes
        self._heap: list[tuple[int, int, Flow]] = []
        self._bytes = 0
        self._last: int | None = None
        self.late = 0

    def sorted(self, flows: Iterable[Flow]) -> Iterator[Flow]:
        """The same calls, those that began first first; of those that began together as they came."""
        for place, flow in enumerate(flows):
            heappush(self._heap, (flow.time, place, flow))
            self._bytes += _bytes(flow)
            while len(self._heap) > self._held or self._bytes > self._held_bytes:
                yield self._next()
        while self._heap:
            yield self._next()

    def _next(self) -> Flow:
        time, _, flow = heappop(self._heap)
        self._bytes -= _bytes(flow)
        self.late += self._last is not None and time < self._last
        self._last = time if self._last is None else max(time, self._last)
        return flow


def _bytes(flow: Flow) -> int:
    return sum(len(message.body) for message in flow.messages)
