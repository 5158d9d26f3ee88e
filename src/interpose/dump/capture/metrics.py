"""What the seeing side of a relay has taken, and what it had to leave out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interpose.dump.capture.queue import FrameQueue, Losses
from interpose.metrics import Family, Sample

_TEXTS = {
    "frames": "Frames taken for readers of dumps.",
    "bytes": "Bytes of frames taken for readers of dumps.",
    "frames_dropped": "Frames that a reader of dumps was too slow for.",
    "bodies_dropped": "Messages whose body was left out because a reader of dumps was too slow.",
}


def dump_families(losses: Losses, queues: Sequence[FrameQueue], report: Mapping[str, Any]) -> Iterable[Family]:
    """Metric families of the dumper for one scrape."""
    totals = losses.totals(queues)
    for field, text in _TEXTS.items():
        samples = [Sample(value, {"reader": name}) for (name, what), value in sorted(totals.items()) if what == field]
        yield Family(f"interpose_dump_{field}_total", "counter", text, samples)
    names = sorted({name for name, _ in totals} | {queue.name for queue in queues})
    yield Family(
        "interpose_dump_queue_bytes",
        "gauge",
        "Bytes that wait for readers of dumps.",
        [Sample(sum(queue.waiting for queue in queues if queue.name == name), {"reader": name}) for name in names],
    )
    yield Family(
        "interpose_dump_readers",
        "gauge",
        "Current readers of dumps: the dump writer and clients attached to the admin socket.",
        [Sample(sum(queue.name == name for queue in queues), {"reader": name}) for name in names],
    )
    yield Family(
        "interpose_dump_write_losses_total",
        "counter",
        "Lines and frames that the dump writer failed to write to its files.",
        [Sample(int(report.get("lost", 0)))],
    )
