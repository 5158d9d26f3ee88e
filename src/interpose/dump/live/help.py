"""All keys, and how to write filters; made of the tables."""

from collections.abc import Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from interpose.dump.live.keys import GROUPS, MARKS


def help_text(filters: Sequence[tuple[str, str]]) -> Table:
    """The help page: all keys and all terms of filters."""
    groups = [(group.title, [(key.label, key.text) for key in group.keys]) for group in GROUPS]
    groups += [("marks", list(MARKS)), ("filters", list(filters))]
    page = Table.grid(padding=(0, 2))
    page.add_column(justify="right", no_wrap=True)
    page.add_column()
    for number, (title, rows) in enumerate(groups):
        if number:
            page.add_row("", "")
        page.add_row("", Text(title, "bold yellow"))
        for left, right in rows:
            page.add_row(Text(left, "bold"), Text(right))
    return page


class HelpScreen(ModalScreen[None]):
    """Above everything; q, Esc, Enter or ? close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("q,escape,enter,question_mark", "dismiss", "close"),
        ("j", "scroll_down", "down"),
        ("k", "scroll_up", "up"),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen VerticalScroll { width: 84; max-width: 100%; height: 90%; background: $surface; border: round $primary;
        padding: 0 1; }
    """

    def __init__(self, filters: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._filters = filters

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = "interpose dump live"
            page.border_subtitle = "q closes"
            yield Static(help_text(self._filters))

    def action_scroll_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down(animate=False)

    def action_scroll_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up(animate=False)
