"""Counters over readers that come and go."""

from interpose.dump.capture.queue import FrameQueue, Losses
from interpose.relay.api import Interest


def queue(name: str) -> FrameQueue:
    """A reader."""
    return FrameQueue(name, lambda _name: Interest.NONE, limit=100, wall=lambda: 0)


def test_what_a_reader_that_left_had_stays() -> None:
    """By kind of reader; those that are there are added."""
    losses = Losses()
    gone, here = queue("attached"), queue("attached")
    gone.put(b"1234")
    gone.lose(7)
    here.bodies_lost = 2
    losses.add_closed(gone)
    assert losses.totals([here]) == {
        ("attached", "frames"): 1,
        ("attached", "bytes"): 4,
        ("attached", "frames_dropped"): 1,
        ("attached", "bodies_dropped"): 2,
    }
    assert losses.totals([])["attached", "frames"] == 1
