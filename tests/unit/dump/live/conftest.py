"""A live view on a source that says what a test wants."""

import queue
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from interpose.dump.decode.decode import Decoder
from interpose.dump.live.app import LiveApp
from interpose.dump.live.board import LiveViewParts
from interpose.dump.live.feed import Deliver, Feed, SourceLostError
from interpose.dump.live.model import LiveModel
from interpose.dump.model.frames import Frame
from interpose.testing.eventually import eventually

T = TypeVar("T")


class FakeSource:
    """Delivers what it is told, goes away when it is told, and remembers how often it was read."""

    def __init__(self, *, returns: bool = True) -> None:
        self.name = "fake"
        self.returns = returns
        self.reads = 0
        self._said: queue.Queue[Sequence[Frame] | str] = queue.Queue()

    def say(self, frames: Sequence[Frame]) -> None:
        """These come next."""
        self._said.put(list(frames))

    def lose(self, why: str) -> None:
        """It goes away; without a reason it just ends."""
        self._said.put(why)

    def read(self, deliver: Deliver, stop: Callable[[], bool]) -> None:
        self.reads += 1
        while not stop():
            said = self._said.get()
            if not isinstance(said, str):
                deliver(said)
            elif said:
                raise SourceLostError(said)
            else:
                return

    def interrupt(self) -> None:
        self._said.put("")


@dataclass
class Live:
    """A running view."""

    source: FakeSource
    model: LiveModel
    app: LiveApp
    pilot: Pilot[None]

    async def until(self, condition: Callable[[], T], what: str) -> T:
        """Let the screen work until this holds."""
        try:
            return await eventually(condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    async def press(self, *keys: str) -> None:
        """One key after the other, each with its effect."""
        for key in keys:
            await self.pilot.press(key)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """An answer in place of what is in the prompt; the screen hears of it as of letters, but faster."""
        self.app.screen.query_one(Input).value = text
        await self.pilot.pause()

    def seen(self) -> list[str]:
        """The lines of the screen."""
        width, height = self.app.size
        strips = self.app.screen._compositor.render_strips()
        return [strip.crop(0, width).text.rstrip() for strip in strips[:height]]

    def text(self) -> str:
        """The same as one."""
        return "\n".join(self.seen())


class Start(Protocol):
    """Start a view; `frames` are there when it is handed out."""

    def __call__(
        self,
        frames: Sequence[Frame] = ...,
        *,
        size: tuple[int, int] = ...,
        returns: bool = ...,
        **options: Any,
    ) -> AbstractAsyncContextManager[Live]: ...


@pytest.fixture
def start() -> Start:
    @asynccontextmanager
    async def started(
        frames: Sequence[Frame] = (),
        *,
        size: tuple[int, int] = (120, 40),
        returns: bool = True,
        **options: Any,
    ) -> AsyncIterator[Live]:
        source, model = FakeSource(returns=returns), LiveModel()
        if frames:
            source.say(frames)
        view = LiveViewParts(
            feed=Feed(source, lambda: lambda frame: frame, delays=(0.0,)), decoder=Decoder(), model=model, **options
        )
        app = LiveApp(view)
        async with app.run_test(size=size, notifications=True) as pilot:
            live = Live(source, model, app, pilot)
            if frames:
                await live.until(lambda: model.calls and model.view, "calls in the list")
            yield live

    return started
