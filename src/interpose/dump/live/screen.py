"""The screen: list, call, prompt and status line, and what each key does.

Everything that comes goes through one tick, ten times a second, and stops when its share of time is used up: however
many calls there are, keys are answered.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Static

from interpose.dump.decoded import Decodes
from interpose.dump.filters import parse_filter
from interpose.dump.filterterms import QUESTIONS
from interpose.dump.flow import Flow
from interpose.dump.live.call_list import CallList, ListHead
from interpose.dump.live.call_pane import CallPane
from interpose.dump.live.feed import Connected, Feed, Frames, Lost
from interpose.dump.live.help_screen import HelpScreen
from interpose.dump.live.keys import GROUPS
from interpose.dump.live.model import LiveModel, Row
from interpose.dump.live.pipeline import Pipeline
from interpose.dump.live.prompt import Prompt, Question
from interpose.dump.live.saving import RECORDING, Saved, named, problem, save, still
from interpose.dump.live.status_line import Part, banner, status
from interpose.dump.live.tabs import Tab
from interpose.dump.outputs import FlowTexts
from interpose.errors import ConfigError

TICK: Final = 0.1  # seconds
SHARE: Final = 0.05  # seconds of a tick for what came; the rest is for keys and drawing
_SPLIT: Final = 30  # lines of a terminal from which on list and call are seen together


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a live view is made of."""

    feed: Feed
    decoder: Decodes
    model: LiveModel
    redacted: bool = True
    filter_text: str = ""
    now: Callable[[], int] = time.time_ns


class LiveScreen(Screen[None]):
    """Everything that is seen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, key.action, key.text, show=False) for group in GROUPS for key in group.keys
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"status--quiet", "status--good", "status--warning", "status--bad"}
    DEFAULT_CSS = """
    LiveScreen > .status--quiet { color: $text-muted; }
    LiveScreen > .status--good { color: $text-success; }
    LiveScreen > .status--warning { color: $text-warning; text-style: bold; }
    LiveScreen > .status--bad { color: $text-error; text-style: bold; }
    LiveScreen #banner { height: auto; background: $error; color: $text; text-style: bold; padding: 0 1;
        display: none; }
    LiveScreen #banner.said { display: block; }
    LiveScreen #calls { height: 1fr; }
    LiveScreen #call { height: 2fr; display: none; }
    LiveScreen.reading #call { display: block; }
    LiveScreen.reading.small #calls { display: none; }
    LiveScreen #status { height: 1; background: $panel; }
    """

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self._model = view.model
        self._pipeline = Pipeline()
        self._texts = FlowTexts(view.decoder)
        self._filter_text = ""
        self._lost: Lost | None = None
        self._heard = False
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
        """Begin."""
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

        for news in self._view.feed.news():
            if isinstance(news, Frames):
                self._model.take(self._pipeline.feed(news.frames), time.monotonic())
            elif isinstance(news, Connected):
                self._connected()
            elif isinstance(news, Lost):
                self._lost = news
                self._model.cut_off()
                self._show_banner()
            if enough():
                break
        changed = self._model.refresh(enough)
        if changed:
            self._show_list(follow_cursor=self._model.follow)
        elif self.query_one(CallList).running():
            self.query_one(CallList).refresh()
        self._show_status()
        if self._reading:
            self._show_call()

    def _connected(self) -> None:
        if self._heard:
            self._model.cut_off()
        self._heard = True
        self._pipeline.restart()
        self._lost = None
        self._show_banner()

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
        self._model.refresh()
        self._show_list(follow_cursor=True)
        self._show_status()
        if self._reading:
            self._show_call()

    def _show_banner(self) -> None:
        text = banner(self._lost, redacted=self._view.redacted, anything=self._heard)
        line = self.query_one("#banner", Static)
        line.set_class(bool(text), "said")
        line.update(Text(text))

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

    def _part_style(self, part: Part) -> Style | str:
        name = f"status--{part.role}"
        return self.get_component_rich_style(name, partial=True) if name in self.COMPONENT_CLASSES else ""

    def _show_call(self) -> None:
        row = self._model.selected
        if row is None:
            self._close_call()
        else:
            self._pane.show(row)

    def _close_call(self) -> None:
        self.remove_class("reading")
        self.call_after_refresh(self._show_list, follow_cursor=True)

    # -- moving

    def action_down(self) -> None:
        """A line down."""
        self._move(1)

    def action_up(self) -> None:
        """A line up."""
        self._move(-1)

    def action_page_down(self) -> None:
        """A page down."""
        self._move(self._page())

    def action_page_up(self) -> None:
        """A page up."""
        self._move(-self._page())

    def _page(self) -> int:
        part = self._pane.text if self._reading else self.query_one(CallList)
        return max(part.size.height - 1, 1)

    def _move(self, by: int) -> None:
        if self._reading:
            self._pane.text.scroll_relative(y=by, animate=False)
        else:
            self._model.move(by)
            self._moved()

    def action_first(self) -> None:
        """To the beginning."""
        if self._reading:
            self._pane.text.scroll_home(animate=False)
        else:
            self._model.go(0)
            self._moved()

    def action_last(self) -> None:
        """To the end."""
        if self._reading:
            self._pane.text.scroll_end(animate=False)
        else:
            self._model.go_last()
            self._moved()

    @on(CallList.Clicked)
    def _clicked(self, event: CallList.Clicked) -> None:
        self._model.go(event.at)
        self._moved()
        if event.twice:
            self.action_open()

    @on(CallList.Scrolled)
    def _scrolled(self) -> None:
        if self._model.follow:
            self._model.toggle_follow()

    # -- the list

    def action_open(self) -> None:
        """Open the selected call."""
        if self._model.selected is not None:
            self.add_class("reading")
            # A call that one reads does not run away.
            self._model.follow = False
            self._pane.opened(self._model.selected)
            self.call_after_refresh(self._moved)

    def action_follow(self) -> None:
        """Stay with the newest call."""
        self._model.toggle_follow()
        self._moved()

    def action_pause(self) -> None:
        """Hold the list still."""
        self._model.toggle_pause()
        self._moved()

    def action_order(self) -> None:
        """Sort by the next column."""
        self._model.next_order()
        self._moved()

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self._model.reverse()
        self._moved()

    def action_mark(self) -> None:
        """Mark, and go on to the next one: marking several is one key each."""
        self._model.toggle_mark()
        self._unsaved = bool(self._model.marked())
        if not self._reading and not self._model.follow:
            self._model.move(1)
        self._moved()

    def action_unmark_all(self) -> None:
        """Take all marks away."""
        self._model.unmark_all()
        self._unsaved = False
        self._moved()

    def action_clear(self) -> None:
        """Empty the list."""
        self._model.clear()
        self._unsaved = False
        self._moved()

    def action_clear_unmarked(self) -> None:
        """Empty the list but for marked calls."""
        self._model.clear(but_marked=True)
        self._moved()

    def action_filter(self) -> None:
        """Ask for a filter; it works while it is typed."""
        before = self._filter_text
        self.query_one(Prompt).ask(
            Question(
                title="filter:",
                answer=before,
                hint="~m METHOD  ~p POD  ~c CONTAINER  ~s error  ~d >100ms  ~h changed  ~t TEXT  ! & | ( )   ? has all",
                check=self._wrong_filter,
                typed=self._set_filter,
                done=self._set_filter,
                given_up=lambda: self._set_filter(before),
            )
        )

    def _wrong_filter(self, text: str) -> str:
        try:
            parse_filter(text, now=self._view.now())
        except ConfigError as error:
            return "\n".join(error.problems)
        return ""

    def _set_filter(self, text: str) -> None:
        text = text.strip()
        self._filter_text = text
        if text:
            wanted, texts = parse_filter(text, now=self._view.now()), self._texts
            self._model.set_wanted(lambda flow: wanted.matches(flow, texts))
        else:
            self._model.set_wanted(None)

    # -- a call

    def action_next_tab(self) -> None:
        """The next tab."""
        self._turn(1)

    def action_previous_tab(self) -> None:
        """The previous tab."""
        self._turn(-1)

    def _turn(self, by: int) -> None:
        if self._reading and not self.query_one(Prompt).asking:
            self._pane.turn(by)

    def action_next_call(self) -> None:
        """The next call of the list."""
        self._model.move(1)
        self._moved()

    def action_previous_call(self) -> None:
        """The previous call."""
        self._model.move(-1)
        self._moved()

    def action_unfold(self) -> None:
        """Show long lists whole, or no longer."""
        if self._reading:
            self._pane.unfold()

    def action_search(self) -> None:
        """Ask for a text."""
        if self._reading:
            self.query_one(Prompt).ask(Question(title="search:", done=self._search))

    def _search(self, text: str) -> None:
        if not self._pane.search(text) and text:
            self.notify(f"{text!r} is not in the {self._pane.tab}", severity="warning", markup=False)

    def action_next_match(self) -> None:
        """The next place."""
        self._pane.text.step(1)

    def action_previous_match(self) -> None:
        """The previous place."""
        self._pane.text.step(-1)

    def action_copy(self) -> None:
        """Copy to the clipboard of the terminal; in the list, the request."""
        row = self._model.selected
        if row is None:
            return
        tab = self._pane.tab if self._reading else Tab.REQUEST
        text = self._pane.copy(row, tab)
        self.app.copy_to_clipboard(text)
        self.notify(f"copied: {tab} of call {row.flow.number}, {len(text)} characters", markup=False)

    # -- files

    def action_export(self) -> None:
        """Write some calls to a file whose name says in which form."""
        rows, what = self._chosen()
        if not rows:
            self.notify("there is no call to write", severity="warning")
            return
        self._ask_file(f"write {what} to:", "calls.html", rows, ())

    def action_save(self) -> None:
        """Write everything that is in memory as a recording."""
        rows = list(self._model.rows())
        if not rows:
            self.notify("there is no call to write", severity="warning")
            return
        name = f"live-{time.strftime('%Y%m%d-%H%M%S')}{RECORDING}"
        self._ask_file(f"save all {len(rows)} calls to:", name, rows, (RECORDING,))

    def _chosen(self) -> tuple[list[Row], str]:
        if self._reading and self._model.selected is not None:
            return [self._model.selected], f"call {self._model.selected.flow.number}"
        if marked := self._model.marked():
            return marked, f"{len(marked)} marked calls"
        return list(self._model.view), f"{len(self._model.view)} calls"

    def _ask_file(self, title: str, name: str, rows: list[Row], forms: tuple[str, ...]) -> None:
        flows = [still(row.flow) for row in sorted(rows, key=lambda row: row.serial)]
        self.query_one(Prompt).ask(
            Question(
                title=title,
                answer=name,
                hint="" if forms else "the name ends in .html, .jsonl, .yaml, .har or .crirec",
                check=lambda text: problem(text, forms),
                done=lambda text: self._write(named(text), flows),
            )
        )

    def _write(self, path: Path, flows: list[Flow]) -> None:
        self.run_worker(self._written(path, flows), name=f"write {path.name}")

    async def _written(self, path: Path, flows: list[Flow]) -> None:
        source = self._view.feed.source.name
        saved = Saved(flows=flows, facts=self._pipeline.facts, title=source, decoder=self._view.decoder)
        try:
            await asyncio.to_thread(save, path, saved)
        except OSError as error:
            self.notify(f"cannot write {path}: {error.strerror or error}", severity="error", markup=False)
            return
        self._unsaved = False
        self.notify(f"wrote {len(flows)} calls to {path}", markup=False)

    # -- everywhere

    def action_help(self) -> None:
        """All keys."""
        filters = [(f"~{one.letter} {one.argument}".strip(), one.meaning) for one in QUESTIONS]
        self.app.push_screen(HelpScreen([*filters, ("! & | ( )", "not, and, or, groups")]))

    def action_cancel(self) -> None:
        """Give up what is asked, or close the call; never ends."""
        if self.query_one(Prompt).asking or self._reading:
            self.action_back()

    def action_back(self) -> None:
        """Give up what is asked, close the call, or end."""
        prompt = self.query_one(Prompt)
        if prompt.asking:
            prompt.give_up()
        elif self._reading:
            self._close_call()
        elif self._unsaved and self._live:
            prompt.ask(
                Question(
                    title="marked calls are not saved; end? (y/n)",
                    typed=self._answered,
                    done=self._answered,
                )
            )
        else:
            self.app.exit()

    def _answered(self, text: str) -> None:
        if text.lower().startswith("y"):
            self.app.exit()
        elif text:
            self.query_one(Prompt).give_up()

    def action_quit_now(self) -> None:
        """End at once."""
        self.app.exit()
