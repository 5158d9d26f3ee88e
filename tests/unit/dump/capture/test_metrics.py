"""Metrics of the dump."""

from interpose.dump.capture.metrics import dump_families
from interpose.dump.capture.queue import FrameQueue, Losses
from interpose.relay.api import Interest


def test_families() -> None:
    """By reader; what the dump worker reports is there, too."""
    queue = FrameQueue("scribe", lambda _name: Interest.NONE, limit=100, wall=lambda: 0)
    queue.put(b"123")
    found = {
        family.name: {tuple(sample.labels.values()): getattr(sample, "value", None) for sample in family.samples}
        for family in dump_families(Losses(), [queue], {"lost": 4})
    }
    assert found == {
        "interpose_dump_frames_total": {("scribe",): 1},
        "interpose_dump_bytes_total": {("scribe",): 3},
        "interpose_dump_frames_dropped_total": {("scribe",): 0},
        "interpose_dump_bodies_dropped_total": {("scribe",): 0},
        "interpose_dump_queue_bytes": {("scribe",): 3},
        "interpose_dump_readers": {("scribe",): 1},
        "interpose_dump_write_losses_total": {(): 4},
    }
