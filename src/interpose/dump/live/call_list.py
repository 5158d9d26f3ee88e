"""The list of calls. Draws only the lines that are seen, straight from the model."""

from collections.abc import Callable
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from interpose.dump.live.model import CallRow, LiveModel
from interpose.dump.live.row import COLUMNS, WIDE, Tone, cells, tone

_CUT_IN_THE_MIDDLE: Final = "subject"  # both ends of a name tell it from others


def widths(total: int) -> list[int]:
    """How wide each column is on a line of this width; 0: it is left out."""
    wide = total >= WIDE
    found = [column.width if wide else column.narrow for column in COLUMNS]
    free = next(index for index, column in enumerate(COLUMNS) if column.width == 0)
    blanks = sum(1 for width in found if width) + 1
    found[free] = max(total - sum(found) - blanks, 1)
    return found


def fit(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """A text in exactly so many cells."""
    length = cell_len(text)
    if length > width:
        if middle and width > 4 and text.isascii():
            tail = (width - 1) * 2 // 3
            return f"{text[: width - 1 - tail]}…{text[-tail:]}"
        return set_cell_size(text, max(width - 1, 0)) + "…" * (width > 0)
    blanks = " " * (width - length)
    return blanks + text if right else text + blanks


class ListHead(Widget):
    """The names of the columns and how they are sorted."""

    DEFAULT_CSS = "ListHead { height: 1; background: $panel; color: $text-muted; text-style: bold; padding-right: 1; }"

    def __init__(self, model: LiveModel) -> None:
        super().__init__()
        self._model = model

    def render_line(self, y: int) -> Strip:
        model, parts = self._model, []
        for column, width in zip(COLUMNS, widths(self.content_size.width), strict=True):
            if width:
                sorted_by = column.order is model.order
                name = column.name + ("▼" if model.descending else "▲") * sorted_by
                parts.append(fit(name, width, right=column.right) + " ")
        return Strip([Segment("".join(parts), self.rich_style)]).adjust_cell_length(
            self.content_size.width, self.rich_style
        )


class CallList(ScrollView, can_focus=False):
    """A scrolling list with one line per call."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"call--{tone}" for tone in Tone} | {
        "call--cursor",
        "call--faint",
        "call--ok",
        "call--mark",
    }
    DEFAULT_CSS = """
    CallList { height: 1fr; scrollbar-size: 0 1; overflow-x: hidden; overflow-y: scroll; }
    CallList > .call--error { color: $text-error; }
    CallList > .call--open { color: $text-warning; }
    CallList > .call--changed { color: $text-primary; }
    CallList > .call--quiet { color: $text-muted; }
    CallList > .call--faint { color: $text-muted; }
    CallList > .call--ok { color: $text-success; }
    CallList > .call--mark { color: $text-warning; text-style: bold; }
    CallList > .call--cursor { background: $primary 60%; text-style: bold; }
    """

    class Clicked(Message):
        """Somebody clicked on a line: once selects, twice opens."""

        def __init__(self, at: int, *, twice: bool) -> None:
            super().__init__()
            self.at = at
            self.twice = twice

    class Scrolled(Message):
        """Message that the mouse wheel was turned."""

    def __init__(self, model: LiveModel, now: Callable[[], int]) -> None:
        super().__init__()
        self._model = model
        self._now = now

    def show(self, *, follow_cursor: bool) -> None:
        """Draw again after the model changed."""
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._model.view))
        if follow_cursor:
            self.keep_cursor_in_sight()
        self.refresh()

    def keep_cursor_in_sight(self) -> None:
        """Scroll as little as possible."""
        at, top, height = self._model.at, self.scroll_offset.y, self.scrollable_content_region.height
        if at < top:
            self.scroll_to(y=at, animate=False)
        elif height and at >= top + height:
            self.scroll_to(y=at - height + 1, animate=False)

    def running(self) -> bool:
        """Whether a call is in sight whose clock runs."""
        top = self.scroll_offset.y
        return any(row.open for row in self._model.view[top : top + self.size.height])

    def render_line(self, y: int) -> Strip:
        """A line of the screen."""
        at, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if not 0 <= at < len(self._model.view):
            return Strip.blank(width, self.rich_style)
        row = self._model.view[at]
        base = self.rich_style
        if row is self._model.selected:
            base += self.get_component_rich_style("call--cursor")
        segments = []
        texts = cells(row, self._now(), wide=width >= WIDE)
        for column, cell, room in zip(COLUMNS, texts, widths(width), strict=True):
            if room:
                text = fit(cell, room, right=column.right, middle=column.name == _CUT_IN_THE_MIDDLE)
                style = self._style(column.name, row, plainly=row is self._model.selected)
                segments += [Segment(text, base + style), Segment(" ", base)]
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, column: str, row: CallRow, *, plainly: bool) -> Style:
        meant = tone(row)
        if plainly and meant is not Tone.ERROR and column != "":
            return Style()  # what is faint elsewhere cannot be read on the cursor
        if column == "":
            name = "mark"
        elif meant in (Tone.ERROR, Tone.QUIET):
            name = meant
        elif column == "status" and meant is not Tone.OPEN:
            name = "ok"
        elif column in ("UTC", "size", "msgs"):
            name = "faint"
        elif column in ("method", "status", "took"):
            name = meant
        else:
            name = Tone.PLAIN
        style = self.get_component_rich_style(f"call--{name}")
        return Style(color=style.color, bold=style.bold)  # the background is that of the line

    def on_click(self, event: events.Click) -> None:
        at = event.y + self.scroll_offset.y
        if at < len(self._model.view):
            self.post_message(self.Clicked(at, twice=event.chain > 1))

    def on_mouse_scroll_up(self) -> None:
        """The wheel turns away from the newest call."""
        self.post_message(self.Scrolled())
