"""What is seen: list, call, prompt and status line, and how they learn of what comes. `screen` has the keys.

Everything that comes goes through one tick, ten times a second, and stops when its share of time is used up: however
many calls there are, keys are answered. A filter that takes too long for a single call is taken back.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Static

from interpose.core.model.text import printable
from interpose.dump.decode.api import MessageDecoder
from interpose.dump.filter.language import Filter, parse_filter
from interpose.dump.filter.regex_timeout import RegexTimeout, RegexTimeoutError
from interpose.dump.live.call_list import CallList, ListHead
from interpose.dump.live.detail_view import DetailView, TabLine
from interpose.dump.live.feed import Feed
from interpose.dump.live.feed_events import Connected, Frames, Lost
from interpose.dump.live.model import CallRow, LiveModel
from interpose.dump.live.prompt import Prompt
from interpose.dump.live.status_line import StatusPart, banner, status
from interpose.dump.live.tabs import Tab, clipboard_text, decodable_part, lines
from interpose.dump.model.call import Assembler, CallEvent, Flow
from interpose.dump.model.frames import Frame, MessageSide
from interpose.dump.model.subject import Subjects
from interpose.dump.output.formats import FlowTexts
from interpose.dump.output.json import flow_document
from interpose.errors import ConfigError


class Pipeline:
    """Redacted frames in, events out. What is known about pods survives a connection, calls in flight do not."""

    def __init__(self) -> None:
        self._subjects = Subjects()
        self.restart()
        self.facts: Mapping[str, Any] = {}  # of the newest header

    def restart(self) -> None:
        """The frames that come are those of another connection."""
        self._assembler = Assembler(self._subjects.identify, self._subjects.learn)

    def context(self) -> dict[str, Any]:
        """What is known about pods and containers, for a recording that begins now."""
        return self._subjects.context()

    def feed(self, frames: Sequence[Frame]) -> list[CallEvent]:
        """The events of these frames, with the subjects of their calls."""
        events = self._assembler.feed_all(frames)
        if self._assembler.header is not None:
            self.facts = self._assembler.header.facts
        return events


_SLOW: Final = 1.0  # seconds between two looks at a call that is open and goes on
_TABS: Final = tuple(Tab)


class CallPane(Vertical):
    """Shows the call it was given last; made anew only if something changed."""

    def __init__(self, decoder: MessageDecoder, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="call")
        self._decoder = decoder
        self._clock = clock
        self._row: CallRow | None = None
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
        return self.query_one(DetailView)

    def opened(self, row: CallRow) -> None:
        """Somebody opens a call: it is drawn in any case, and not with a diff that says nothing."""
        self._drawn = ()
        if self.tab is Tab.DIFF and not row.flow.changed:
            self.tab = Tab.REQUEST

    def show(self, row: CallRow) -> None:
        """This call, as it is now."""
        self._row = row
        which = (row.serial, self.tab)
        state = (*which, self._unfolded, row.flow.end is None, row.messages, len(row.flow.messages), row.cut)
        goes_on = self._drawn[:3] == state[:3] and row.open
        if state == self._drawn or (goes_on and self._clock() - self._drawn_at < _SLOW):
            return
        document = flow_document(decodable_part(row.flow), self._decoder)
        title = printable(f"{row.flow.name} {row.flow.subject}".rstrip())
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

    def copy(self, row: CallRow, tab: Tab) -> str:
        """The text of a tab for the clipboard."""
        return clipboard_text(flow_document(decodable_part(row.flow), self._decoder), tab)


TICK: Final = 0.1  # seconds
REDACTION: Final = "redaction"  # in the facts of a header
SHARE: Final = 0.05  # seconds of a tick for what came; the rest is for keys and drawing
SLOWEST: Final = 0.5  # seconds that a filter may think about one call
_SPLIT: Final = 30  # lines of a terminal from which on list and call are seen together


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveViewParts:
    """What a live view is made of."""

    feed: Feed
    decoder: MessageDecoder
    model: LiveModel
    redaction: str | None = "default"  # the rules; None: as the recording was made
    filter_text: str = ""
    now: Callable[[], int] = time.time_ns


class Board(Screen[None]):
    """The widgets of the live view and the model they show."""

    AUTO_FOCUS = ""  # keys are those of the screen unless somebody is asked something
    COMPONENT_CLASSES: ClassVar[set[str]] = {"status--quiet", "status--good", "status--warning", "status--bad"}
    DEFAULT_CSS = """
    Board > .status--quiet { color: $text-muted; }
    Board > .status--good { color: $text-success; }
    Board > .status--warning { color: $text-warning; text-style: bold; }
    Board > .status--bad { color: $text-error; text-style: bold; }
    Board #banner { height: auto; background: $error; color: $text; text-style: bold; padding: 0 1;
        display: none; }
    Board #banner.said { display: block; }
    Board #calls { height: 1fr; }
    Board #call { height: 2fr; display: none; }
    Board.reading #call { display: block; }
    Board.reading.small #calls { display: none; }
    Board #status { height: 1; background: $panel; }
    """

    def __init__(self, view: LiveViewParts) -> None:
        super().__init__()
        self._view = view
        self._model = view.model
        self._pipeline = Pipeline()
        self._texts = FlowTexts(view.decoder)
        self._filter_text = ""
        self._regex_timeout = RegexTimeout(SLOWEST)
        self._slow = ""  # the last filter that took too long
        self._lost: Lost | None = None
        self._was_connected = False
        self._banner_text = ""
        self._unsaved = False  # marks that nobody wrote to a file

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Static(id="banner")
        with Vertical(id="calls"):
            yield ListHead(self._model)
            yield CallList(self._model, self._now)
        yield CallPane(self._view.decoder)
        yield Prompt()
        yield Static(id="status")

    def on_mount(self) -> None:
        if self._view.filter_text:
            self._set_filter(self._view.filter_text)
        self._show_banner()
        self.set_interval(TICK, self.tick)

    def on_resize(self) -> None:
        """A small terminal shows list or call, a large one both."""
        self.set_class(self.size.height < _SPLIT, "small")
        self.call_after_refresh(self._show_list, follow_cursor=True)

    # -- what comes

    @property
    def _live(self) -> bool:
        return self._view.feed.source.returns

    def _now(self) -> int:
        # In a recording time goes on with its last frame.
        return self._view.now() if self._live else self._model.newest

    def tick(self) -> None:
        """Take what came, as far as time allows, and show it."""
        until = time.monotonic() + SHARE

        def enough() -> bool:
            return time.monotonic() >= until

        for event in self._view.feed.events():
            if isinstance(event, Frames):
                self._model.add_events(self._pipeline.feed(event.frames), time.monotonic())
            elif isinstance(event, Connected):
                self._connected()
            elif isinstance(event, Lost):
                self._lost = event
                self._model.cut_off()
            if enough():
                break
        self._show_banner()
        changed = self._refresh(enough)
        if changed:
            self._show_list(follow_cursor=self._model.follow)
        elif self.query_one(CallList).running():
            self.query_one(CallList).refresh()
        self._show_status()
        if self._reading:
            self._show_call()

    def _refresh(self, enough: Callable[[], bool]) -> bool:
        changed = self._model.refresh(enough)
        if self._slow and self._slow == self._filter_text:
            self._take_back_filter()
            changed = self._model.refresh(enough)
        return changed

    def _connected(self) -> None:
        if self._was_connected:
            self._model.cut_off()
        self._was_connected = True
        self._pipeline.restart()
        self._lost = None

    # -- what is seen

    @property
    def _pane(self) -> CallPane:
        return self.query_one(CallPane)

    @property
    def _reading(self) -> bool:
        return self.has_class("reading")

    def _show_list(self, *, follow_cursor: bool) -> None:
        self.query_one(ListHead).refresh()
        self.query_one(CallList).show(follow_cursor=follow_cursor)

    def _moved(self) -> None:
        until = time.monotonic() + SHARE
        self._refresh(lambda: time.monotonic() >= until)
        self._show_list(follow_cursor=True)
        self._show_status()
        if self._reading:
            self._show_call()

    def _show_banner(self) -> None:
        text = banner(self._lost, redacted=self._facts().get(REDACTION) != "none", anything=self._was_connected)
        if text != self._banner_text:
            self._banner_text = text
            line = self.query_one("#banner", Static)
            line.set_class(bool(text), "said")
            line.update(Text(text))

    def _facts(self) -> dict[str, Any]:
        """What the source says about itself, and what was done with what it sent."""
        redaction = self._view.redaction
        return {**self._pipeline.facts, **({} if redaction is None else {REDACTION: redaction})}

    def _show_status(self) -> None:
        parts = status(
            self._model,
            source=self._view.feed.source.name,
            filter_text=self._filter_text,
            now=time.monotonic(),
            live=self._live,
        )
        line = Text(" ", no_wrap=True, overflow="ellipsis")
        for number, part in enumerate(parts):
            line.append("  " if number else "")
            line.append(part.text, self._part_style(part))
        self.query_one("#status", Static).update(line)

    def _part_style(self, part: StatusPart) -> Style | str:
        name = f"status--{part.role}"
        if name not in self.COMPONENT_CLASSES:
            return ""
        style = self.get_component_rich_style(name)
        return Style(color=style.color, bold=style.bold)

    def _show_call(self) -> None:
        row = self._model.selected
        if row is None:
            self._close_call()
        else:
            self._pane.show(row)

    def _close_call(self) -> None:
        self.remove_class("reading")
        self.call_after_refresh(self._show_list, follow_cursor=True)

    # -- the filter

    def _wrong_filter(self, text: str) -> str:
        try:
            parse_filter(text, now=self._view.now())
        except ConfigError as error:
            return "\n".join(error.problems)
        if self._slow and text.strip() == self._slow:
            return f"this filter takes too long, so all calls are shown: {self._slow}"
        return ""

    def _set_filter(self, text: str) -> None:
        text = text.strip()
        self._filter_text = text
        if text:
            wanted = parse_filter(text, now=self._view.now())
            self._model.set_wanted(lambda flow: self._matches(wanted, text, flow))
        else:
            self._model.set_wanted(None)

    def _matches(self, wanted: Filter, text: str, flow: Flow) -> bool:
        if text == self._slow:
            return True
        try:
            with self._regex_timeout.limited():
                return wanted.matches(flow, self._text_of)
        except RegexTimeoutError:
            self._slow = text
            return True

    def _text_of(self, flow: Flow, sides: tuple[MessageSide, ...]) -> str:
        # A large message takes its time to be read, which is no fault of the filter.
        with self._regex_timeout.suspended():
            return self._texts(flow, sides)

    def _take_back_filter(self) -> None:
        self.notify(self._wrong_filter(self._slow), severity="warning", markup=False)
        self._set_filter("")
        self.query_one(Prompt).check_again()
