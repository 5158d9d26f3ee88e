"""What is seen while an image comes: a line for each layer that changes in place, or lines one below the other."""

import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from interpose.cli.render.text import or_dash
from interpose.core.model.humanize import format_size
from interpose.core.model.text import cut_middle

if TYPE_CHECKING:
    from interpose.node.runtime.images.types import PullProgress

_EVERY = 0.1  # seconds between two pictures
_BAR = 20
_WORDS = {
    "waiting": "waiting",
    "downloading": "downloading",
    "unpacking": "unpacking",
    "done": "done",
    "exists": "is there already",
}


class ProgressLines:
    """Shows progress on a stream; with a terminal in place, else a line when a layer is there."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._in_place = stream.isatty()
        self._news: dict[str, PullProgress] = {}
        self._drawn = 0  # lines
        self._next = 0.0

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *_: object) -> None:
        if self._in_place and self._news:
            self._draw()

    def tell(self, news: "PullProgress") -> None:
        """News of a layer."""
        self._news[news.part] = news
        if not self._in_place:
            if news.phase in ("done", "exists"):
                self._stream.write(line(news, 0) + "\n")
        elif self._clock() >= self._next:
            self._next = self._clock() + _EVERY
            self._draw()

    def _draw(self) -> None:
        screen = shutil.get_terminal_size()
        shown = list(self._news.values())[-(screen.lines - 1) :]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        text = "".join(f"\x1b[2K{line(news, screen.columns)}\n" for news in shown)
        self._stream.write(up + text)
        self._stream.flush()
        self._drawn = len(shown)


def line(news: "PullProgress", width: int) -> str:
    """News of a layer on one line; 0: as wide as it is."""
    name = or_dash(news.part.removeprefix("sha256:").partition("/")[0][:12])  # an archive names its layers as it likes
    text = f"layer {name}  {_WORDS[news.phase]}"
    if news.phase == "downloading" and news.total:
        full = min(_BAR, _BAR * news.done // news.total)
        text = (
            f"layer {name}  [{'=' * full}{' ' * (_BAR - full)}] {format_size(news.done)} of {format_size(news.total)}"
        )
    elif news.phase in ("done", "exists"):
        text += f", {format_size(news.total)}"
    return cut_middle(text, width) if width else text
