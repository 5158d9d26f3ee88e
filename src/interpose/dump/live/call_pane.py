"""The part of the screen that shows one call: its tabs and the text of the one that is open."""

import time
from collections.abc import Callable
from typing import Any, Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from interpose.dump.decode.api import Decodes
from interpose.dump.live.detail_view import DetailView, TabLine
from interpose.dump.live.model import Row
from interpose.dump.live.tabs import Tab, copied, lines, seen_part
from interpose.dump.output.humanize import plain
from interpose.dump.output.json import flow_document

_SLOW: Final = 1.0  # seconds between two looks at a call that is open and goes on
_TABS: Final = tuple(Tab)


class CallPane(Vertical):
    """Shows the call it was given last; made anew only if something changed."""

    def __init__(self, decoder: Decodes, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="call")
        self._decoder = decoder
        self._clock = clock
        self._row: Row | None = None
        self._unfolded = False
        self._drawn: tuple[Any, ...] = ()
        self._drawn_at = 0.0
        self.tab = Tab.REQUEST

    def compose(self) -> ComposeResult:
        """The tabs above the text."""
        yield TabLine()
        yield DetailView()

    @property
    def text(self) -> DetailView:
        """The text."""
        return self.query_one(DetailView)

    def opened(self, row: Row) -> None:
        """Somebody opens a call: it is drawn in any case, and not with a diff that says nothing."""
        self._drawn = ()
        if self.tab is Tab.DIFF and not row.flow.changed:
            self.tab = Tab.REQUEST

    def show(self, row: Row) -> None:
        """This call, as it is now."""
        self._row = row
        which = (row.serial, self.tab)
        state = (*which, self._unfolded, row.flow.end is None, row.messages, len(row.flow.messages), row.cut)
        goes_on = self._drawn[:3] == state[:3] and row.open
        if state == self._drawn or (goes_on and self._clock() - self._drawn_at < _SLOW):
            return
        document = flow_document(seen_part(row.flow), self._decoder)
        title = plain(f"{row.flow.name} {row.flow.subject}".rstrip())
        self.query_one(TabLine).show(self.tab, title, changed=row.flow.changed)
        self.text.show(lines(document, self.tab, unfolded=self._unfolded), from_top=self._drawn[:2] != which)
        self._drawn, self._drawn_at = state, self._clock()

    def open_tab(self, tab: Tab) -> None:
        """Another tab of the same call."""
        self.tab = tab
        if self._row is not None:
            self.show(self._row)

    def turn(self, by: int) -> None:
        """The next tab, or the one before."""
        self.open_tab(_TABS[(_TABS.index(self.tab) + by) % len(_TABS)])

    @on(TabLine.Clicked)
    def _clicked(self, event: TabLine.Clicked) -> None:
        self.open_tab(event.tab)

    def unfold(self, *, whole: bool | None = None) -> None:
        """Show long lists whole, or no longer; without a word, the other of the two."""
        self._unfolded = not self._unfolded if whole is None else whole
        if self._row is not None:
            self.show(self._row)

    def search(self, text: str) -> int:
        """Look for a text, also where it is folded; in how many lines it is."""
        if text:
            self.unfold(whole=True)
        return self.text.search(text)

    def copy(self, row: Row, tab: Tab) -> str:
        """A tab as text."""
        return copied(flow_document(seen_part(row.flow), self._decoder), tab)
