"""One call: a line with its tabs, and the text of the tab that is open. Draws only the lines that are seen."""

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from interpose.dump.live.tabs import DetailLine, Tab, Tint, spans


class TabLine(Widget):
    """The tabs, and the call that they belong to."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"tab--open", "tab--title"}
    DEFAULT_CSS = """
    TabLine { height: 1; background: $panel; color: $text-muted; }
    TabLine > .tab--open { background: $primary; color: $text; text-style: bold; }
    TabLine > .tab--title { color: $text; text-style: bold; }
    """

    class Clicked(Message):
        """Somebody clicked on a tab."""

        def __init__(self, tab: Tab) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self) -> None:
        super().__init__()
        self._tab = Tab.REQUEST
        self._title = ""
        self._changed = False

    def show(self, tab: Tab, title: str, *, changed: bool) -> None:
        """Show the tabs of another call, or another tab."""
        self._tab, self._title, self._changed = tab, title, changed
        self.refresh()

    def _label(self, tab: Tab) -> str:
        return f" {tab}{'*' if tab is Tab.DIFF and self._changed else ''} "

    def render(self) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        for tab in Tab:
            line.append(
                self._label(tab),
                self.get_component_rich_style("tab--open") if tab is self._tab else "",
            )
        line.append("  ")
        line.append(self._title, self.get_component_rich_style("tab--title"))
        return line

    def on_click(self, event: events.Click) -> None:
        """Open the tab that was clicked."""
        end = 0
        for tab in Tab:
            end += len(self._label(tab))
            if event.x < end:
                self.post_message(self.Clicked(tab))
                return


class DetailView(ScrollView, can_focus=False):
    """The text of a tab, broken to the width of the screen, with the places that were searched for."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"detail--{tint}" for tint in Tint} | {"detail--match", "detail--here"}
    DEFAULT_CSS = """
    DetailView { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size: 0 1; padding: 0 0 0 1; }
    DetailView > .detail--heading { color: $text-accent; text-style: bold; }
    DetailView > .detail--note { color: $text-muted; text-style: italic; }
    DetailView > .detail--added { color: $text-success; background: $success 20%; }
    DetailView > .detail--removed { color: $text-error; background: $error 20%; }
    DetailView > .detail--hunk { color: $text-accent; }
    DetailView > .detail--fold { color: $text-warning; text-style: italic; }
    DetailView > .detail--key { color: $text-primary; }
    DetailView > .detail--number { color: $text-warning; }
    DetailView > .detail--text { color: $text; }
    DetailView > .detail--redacted { color: $text-error; text-style: italic; }
    DetailView > .detail--match { background: $warning 50%; }
    DetailView > .detail--here { background: $warning; color: $background; text-style: bold; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[DetailLine] = ()
        self._rows: list[tuple[int, int, int]] = []  # line, and which part of it
        self._width = 0
        self._pattern: re.Pattern[str] | None = None
        self._found: list[int] = []  # lines
        self._here = -1  # place in _found

    # -- what is shown

    def show(self, lines: Sequence[DetailLine], *, from_top: bool) -> None:
        """Another text; the same place of it unless it is of another call or tab."""
        self._lines = lines
        self._break()
        self._find()
        if from_top:
            self._here = -1
            self.scroll_to(y=0, animate=False)
        self.refresh()

    def _break(self) -> None:
        self._width = width = max(self.scrollable_content_region.width, 1)
        self._rows = []
        for number, line in enumerate(self._lines):
            if cell_len(line.text) <= width:
                self._rows.append((number, 0, len(line.text)))
                continue
            begin = 0
            for piece in chop_cells(line.text, width):
                self._rows.append((number, begin, begin + len(piece)))
                begin += len(piece)
        self.virtual_size = Size(width, len(self._rows))

    def on_resize(self) -> None:
        """Break the lines again for the new width."""
        if self.scrollable_content_region.width != self._width:
            self._break()
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """A line of the screen."""
        at, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if not 0 <= at < len(self._rows):
            return Strip.blank(width, self.rich_style)
        number, begin, end = self._rows[at]
        text = self._styled(number)[begin:end]
        return Strip(text.render(self.app.console), cell_len(text.plain)).adjust_cell_length(width, self.rich_style)

    def _styled(self, number: int) -> Text:
        line = self._lines[number]
        text = Text(line.text, style=self.rich_style, no_wrap=True, end="")
        for begin, end, tint in spans(line):
            text.stylize(self.get_component_rich_style(f"detail--{tint}"), begin, end)
        if self._pattern is not None:
            here = bool(self._found) and self._here >= 0 and self._found[self._here] == number
            style = self.get_component_rich_style("detail--here" if here else "detail--match")
            for match in self._pattern.finditer(line.text):
                text.stylize(style, *match.span())
        return text

    # -- searching

    def search(self, wanted: str) -> int:
        """Look for a text, in any case of its letters; in how many lines it is."""
        self._pattern = re.compile(re.escape(wanted), re.IGNORECASE) if wanted else None
        self._here = -1
        self._find()
        self.step(1)
        self.refresh()
        return len(self._found)

    def _find(self) -> None:
        pattern = self._pattern
        self._found = (
            [] if pattern is None else [at for at, line in enumerate(self._lines) if pattern.search(line.text)]
        )
        self._here = min(self._here, len(self._found) - 1)

    def step(self, by: int) -> tuple[int, int]:
        """To the next place, or the one before; which it is, and of how many."""
        if self._found:
            self._here = (self._here + by) % len(self._found) if self._here >= 0 else 0
            line = self._found[self._here]
            row = next(at for at, (number, _begin, _end) in enumerate(self._rows) if number == line)
            top, height = self.scroll_offset.y, self.scrollable_content_region.height
            if not top <= row < top + height:
                self.scroll_to(y=max(row - height // 2, 0), animate=False)
            self.refresh()
        return self._here + 1, len(self._found)
