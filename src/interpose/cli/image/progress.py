"""Progress of an image that is pulled or imported: a line for each layer that changes in place, or lines."""

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
        self._layers: dict[str, PullProgress] = {}
        self._drawn = 0  # lines
        self._next = 0.0

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *_: object) -> None:
        if self._in_place and self._layers:
            self._draw()

    def on_progress(self, progress: "PullProgress") -> None:
        """Show how far a layer is."""
        self._layers[progress.part] = progress
        if not self._in_place:
            if progress.phase in ("done", "exists"):
                self._stream.write(line(progress, 0) + "\n")
        elif self._clock() >= self._next:
            self._next = self._clock() + _EVERY
            self._draw()

    def _draw(self) -> None:
        screen = shutil.get_terminal_size()
        layers = list(self._layers.values())[-(screen.lines - 1) :]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        text = "".join(f"\x1b[2K{line(progress, screen.columns)}\n" for progress in layers)
        self._stream.write(up + text)
        self._stream.flush()
        self._drawn = len(layers)


def line(progress: "PullProgress", width: int) -> str:
    """The progress of a layer on one line; a width of 0 is no limit."""
    name = or_dash(
        progress.part.removeprefix("sha256:").partition("/")[0][:12]
    )  # an archive names its layers as it likes
    text = f"layer {name}  {_WORDS[progress.phase]}"
    if progress.phase == "downloading" and progress.total:
        amounts = f"{format_size(progress.done)} of {format_size(progress.total)}"
        full = min(_BAR, _BAR * progress.done // progress.total)
        text = f"layer {name}  [{'=' * full}{' ' * (_BAR - full)}] {amounts}"
    elif progress.phase in ("done", "exists"):
        text += f", {format_size(progress.total)}"
    return cut_middle(text, width) if width else text
