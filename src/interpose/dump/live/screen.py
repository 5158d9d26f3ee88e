"""What each key does. Pictures are the board's, state is the model's; this joins them."""

import asyncio
import time
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from interpose.dump.filter.terms import TERMS
from interpose.dump.live.board import Board
from interpose.dump.live.call_list import CallList
from interpose.dump.live.help import HelpScreen
from interpose.dump.live.keys import GROUPS
from interpose.dump.live.model import CallRow
from interpose.dump.live.prompt import Prompt, PromptRequest
from interpose.dump.live.save import RECORDING, SaveRequest, file_path, name_problem, save, snapshot
from interpose.dump.live.tabs import Tab
from interpose.dump.model.call import Flow


class LiveScreen(Board):
    """The screen with its key bindings; each action is one key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, key.action, key.text, show=False) for group in GROUPS for key in group.keys
    ]

    # -- moving

    def action_down(self) -> None:
        self._move(1)

    def action_up(self) -> None:
        self._move(-1)

    def action_page_down(self) -> None:
        self._move(self._page())

    def action_page_up(self) -> None:
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
        if self._reading:
            self._pane.text.scroll_home(animate=False)
        else:
            self._model.go(0)
            self._moved()

    def action_last(self) -> None:
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
        self._model.unmark_all()
        self._unsaved = False
        self._moved()

    def action_clear(self) -> None:
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
            PromptRequest(
                title="filter:",
                answer=before,
                hint="~m METHOD  ~p POD  ~c CONTAINER  ~s error  ~d >100ms  ~h  ~t TEXT  ! & | ( )",
                check=self._wrong_filter,
                typed=self._set_filter,
                done=self._set_filter,
                given_up=lambda: self._set_filter(before),
            )
        )

    # -- a call

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        if self._reading and not self.query_one(Prompt).asking:
            self._pane.turn(by)

    def action_next_call(self) -> None:
        """The next call of the list."""
        self._model.move(1)
        self._moved()

    def action_previous_call(self) -> None:
        self._model.move(-1)
        self._moved()

    def action_unfold(self) -> None:
        """Show long lists whole, or no longer."""
        if self._reading:
            self._pane.unfold()

    def action_search(self) -> None:
        """Ask for a text; in the list, for a filter, as in other programs with lists."""
        if self._reading:
            self.query_one(Prompt).ask(PromptRequest(title="search:", done=self._search))
        else:
            self.action_filter()

    def _search(self, text: str) -> None:
        if not self._pane.search(text) and text:
            self.notify(f"{text!r} is not in the {self._pane.tab}", severity="warning", markup=False)

    def action_next_match(self) -> None:
        self._pane.text.step(1)

    def action_previous_match(self) -> None:
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

    def _chosen(self) -> tuple[list[CallRow], str]:
        if self._reading and self._model.selected is not None:
            return [self._model.selected], f"call {self._model.selected.flow.number}"
        if marked := self._model.marked():
            return marked, f"{len(marked)} marked calls"
        return list(self._model.view), f"{len(self._model.view)} calls"

    def _ask_file(self, title: str, name: str, rows: list[CallRow], forms: tuple[str, ...]) -> None:
        flows = [snapshot(row.flow) for row in sorted(rows, key=lambda row: row.serial)]
        self.query_one(Prompt).ask(
            PromptRequest(
                title=title,
                answer=name,
                hint="" if forms else "the name ends in .html, .jsonl, .yaml, .har or .crirec",
                check=lambda text: name_problem(text, forms),
                done=lambda text: self._write(file_path(text), flows),
            )
        )

    def _write(self, path: Path, flows: list[Flow]) -> None:
        self.run_worker(self._written(path, flows), name=f"write {path.name}")

    async def _written(self, path: Path, flows: list[Flow]) -> None:
        source = self._view.feed.source.name
        saved = SaveRequest(
            flows=flows,
            facts=self._facts(),
            title=source,
            decoder=self._view.decoder,
            context=self._pipeline.context(),
        )
        try:
            await asyncio.to_thread(save, path, saved)
        except OSError as error:
            self.notify(f"cannot write {path}: {error.strerror or error}", severity="error", markup=False)
            return
        self._unsaved = False
        self.notify(f"wrote {len(flows)} calls to {path}", markup=False)

    # -- everywhere

    def action_help(self) -> None:
        filters = [(f"~{term.letter} {term.argument}".strip(), term.meaning) for term in TERMS]
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
                PromptRequest(
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
        self.app.exit()
