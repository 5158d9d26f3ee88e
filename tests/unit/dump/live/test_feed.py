"""The thread that frames come from."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from interpose.dump.live.feed import WAITING_BATCHES, Deliver, Feed, SourceLostError
from interpose.dump.live.feed_events import Connected, Ended, FeedEvent, Frames, Lost
from interpose.dump.model.frames import Dropped, Frame
from interpose.testing.eventually import WAIT_LIMIT, eventually


def frame(number: int) -> Frame:
    return Dropped(frames=number, size=0, time=0)


class Scripted:
    """Each read does the next thing of a script; the last one waits until it is interrupted."""

    name = "scripted"

    def __init__(self, *reads: Sequence[Frame] | Exception, returns: bool = True) -> None:
        self.returns = returns
        self.reads = list(reads)
        self.interrupted = threading.Event()

    def read(self, deliver: Deliver, stop: Callable[[], bool]) -> None:
        if not self.reads:
            self.interrupted.wait(WAIT_LIMIT)
            return
        said = self.reads.pop(0)
        if isinstance(said, Exception):
            raise said
        deliver(said)

    def interrupt(self) -> None:
        self.interrupted.set()


async def heard(feed: Feed, count: int) -> list[FeedEvent]:
    """The first news."""
    event: list[FeedEvent] = []

    def enough() -> bool:
        event.extend(feed.events())
        return len(event) >= count

    await eventually(enough, f"{count} news")
    return event


async def test_frames_are_handed_on() -> None:
    """After the news that they come from a new beginning; then the end."""
    feed = Feed(Scripted([frame(1), frame(2)], returns=False), lambda: lambda one: one)
    feed.start()
    assert await heard(feed, 3) == [Connected(), Frames([frame(1), frame(2)]), Ended()]
    feed.stop()


async def test_every_frame_is_redacted() -> None:
    """By a redactor of its own for each connection."""
    made: list[list[Frame]] = []

    def refine() -> Callable[[Frame], Frame]:
        seen: list[Frame] = []
        made.append(seen)

        def one(it: Frame) -> Frame:
            seen.append(it)
            return frame(99)

        return one

    feed = Feed(Scripted([frame(1)], [frame(2)]), refine, delays=(0.0,))
    feed.start()
    event = await heard(feed, 6)
    feed.stop()
    assert [one.frames for one in event if isinstance(one, Frames)] == [[frame(99)], [frame(99)]]
    assert made[:2] == [[frame(1)], [frame(2)]]


async def test_a_source_that_returns_is_tried_again() -> None:
    """Later each time nothing came, soon again after something came."""
    reads: list[Any] = [SourceLostError("no"), SourceLostError("still no"), [frame(1)], SourceLostError("gone")]
    feed = Feed(Scripted(*reads), lambda: lambda one: one, delays=(0.0, 0.001, 0.002))
    feed.start()
    assert await heard(feed, 6) == [
        Lost("no", 0.001),
        Lost("still no", 0.002),
        Connected(),
        Frames([frame(1)]),
        Lost("it closed the connection", 0.0),
        Lost("gone", 0.001),
    ]
    feed.stop()


async def test_a_source_that_does_not_return_is_lost_for_good() -> None:
    """With its reason."""
    feed = Feed(Scripted(SourceLostError("damaged"), returns=False), lambda: lambda one: one)
    feed.start()
    assert await heard(feed, 1) == [Lost("damaged", None)]
    feed.stop()


async def test_a_bug_is_said_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It does not look like silence."""
    feed = Feed(Scripted(ValueError("oops"), returns=False), lambda: lambda one: one)
    feed.start()
    assert await heard(feed, 1) == [Lost("ValueError: oops", None)]
    feed.stop()
    assert "The source of frames failed" in caplog.text


async def test_a_screen_that_is_behind_holds_the_source_up() -> None:
    """What waits is bounded, and the thread ends nevertheless when it is told."""

    class Endless(Scripted):
        delivered = 0

        def read(self, deliver: Deliver, stop: Callable[[], bool]) -> None:
            while not stop():
                deliver([frame(self.delivered)])
                self.delivered += 1

    source = Endless()
    feed = Feed(source, lambda: lambda one: one)
    feed.start()
    await eventually(lambda: source.delivered >= WAITING_BATCHES - 1, "a full queue")
    feed.stop(within=WAIT_LIMIT)
    assert source.delivered <= WAITING_BATCHES + 1
    assert not feed._thread.is_alive()


def test_a_feed_that_never_began_can_be_stopped() -> None:
    """The screen may fail before."""
    feed = Feed(Scripted(), lambda: lambda one: one)
    feed.stop()
    assert list(feed.events()) == []
