"""Events are written while things happen, and never in the way of them."""

from pathlib import Path

import pytest

from interpose.node.pods.clock import Clocks
from interpose.node.pods.events.file import event_file, read_events
from interpose.node.pods.events.recorder import EventRecorder
from interpose.node.pods.sync.result import SILENT, ProgressEvent, ProgressPhase
from tests.support.node.managed_node import pod

PULLING = ProgressEvent(pod="default/web", phase=ProgressPhase.PULLING, container="main", detail="b:1")


class Heard:
    """Who is told of steps."""

    def __init__(self) -> None:
        self.news: list[ProgressEvent] = []

    def on_progress(self, news: ProgressEvent) -> None:
        self.news.append(news)


def recorder(tmp_path: Path) -> EventRecorder:
    return EventRecorder(lambda uid: str(tmp_path / uid), Clocks(now=lambda: 7, elapsed=lambda: 0.0))


async def test_who_is_told_is_told_and_it_is_recorded(tmp_path: Path) -> None:
    """In the folder of the pod; what is no event is only told."""
    events, heard, web = recorder(tmp_path), Heard(), pod()
    await events.begin(web, "node-1")
    recorded = events.recording(web.uid, heard)
    passing = ProgressEvent(pod="default/web", phase=ProgressPhase.CREATING)
    for news in (PULLING, passing, PULLING):
        recorded.on_progress(news)
    await events.flush()
    assert heard.news == [PULLING, passing, PULLING]
    found = read_events(str(tmp_path / web.uid))
    assert [(one.reason, one.count, one.last) for one in found] == [("Scheduled", 1, 7), ("Pulling", 2, 7)]


async def test_what_happens_later_is_written_later(tmp_path: Path) -> None:
    """Of other pods, too; waiting for nothing is over at once."""
    events = recorder(tmp_path)
    await events.flush()
    for uid in ("1", "2"):
        await events.begin(pod(uid=uid), "node-1")
        events.record(uid, PULLING)
        await events.flush()
    assert [len(read_events(str(tmp_path / uid))) for uid in ("1", "2")] == [2, 2]


async def test_what_cannot_be_written_is_told_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once, and nothing fails."""
    events = recorder(tmp_path)
    (tmp_path / "1").mkdir()
    event_file(str(tmp_path / "1")).mkdir()
    for _ in range(3):
        events.recording("1", SILENT).on_progress(PULLING)
        await events.flush()
    assert [one.message for one in caplog.records] == ["Cannot write pod events"]


async def test_a_disk_that_takes_nothing_fills_no_memory(tmp_path: Path) -> None:
    """What is too much is left out."""
    events, web = recorder(tmp_path), pod()
    await events.begin(web, "node-1")
    for _ in range(5000):
        events.record(web.uid, PULLING)
    await events.flush()
    assert read_events(str(tmp_path / web.uid))[1].count == 1000
