"""The line at the bottom where people type: a question, their answer, and what is wrong with it while they type."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequest:
    """What is asked. `check` says what is wrong with an answer; such an answer is not taken."""

    title: str
    answer: str = ""
    hint: str = ""
    check: Callable[[str], str] = lambda _text: ""
    typed: Callable[[str], None] = lambda _text: None  # told of every answer that is not wrong, while it is typed
    done: Callable[[str], None]
    given_up: Callable[[], None] = lambda: None


class Prompt(Vertical):
    """Hidden until something is asked."""

    DEFAULT_CSS = """
    Prompt { height: auto; max-height: 8; display: none; background: $surface; padding: 0 1; }
    Prompt.asking { display: block; }
    Prompt Horizontal { height: 1; }
    Prompt #title { width: auto; color: $text-accent; text-style: bold; padding: 0 1 0 0; }
    Prompt Input { height: 1; border: none; padding: 0; width: 1fr; background: $surface; }
    Prompt Input:focus { border: none; }
    Prompt #wrong { color: $text-error; height: auto; }
    Prompt #wrong.hint { color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._question: PromptRequest | None = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(id="title")
            yield Input(id="answer", select_on_focus=False)
        yield Static(id="wrong")

    @property
    def asking(self) -> bool:
        """Whether a question is open."""
        return self._question is not None

    def ask(self, question: PromptRequest) -> None:
        """Ask; what was asked before is given up."""
        self.give_up()
        self._question = question
        self.query_one("#title", Static).update(Text(question.title))
        field = self.query_one(Input)
        with self.prevent(Input.Changed):
            field.value = question.answer
        field.cursor_position = len(question.answer)
        self._say(question.check(question.answer) if question.answer else "")
        self.add_class("asking")
        field.focus()

    def check_again(self) -> None:
        """Something was found out about the answer while it is typed."""
        if self._question is not None:
            self._say(self._question.check(self.query_one(Input).value))

    def give_up(self) -> None:
        """Nobody wants to know any more."""
        question = self._question
        self._close()
        if question is not None:
            question.given_up()

    def _close(self) -> None:
        self._question = None
        self.remove_class("asking")
        self.screen.set_focus(None)

    def _say(self, wrong: str) -> None:
        hint = self._question.hint if self._question is not None else ""
        line = self.query_one("#wrong", Static)
        line.set_class(not wrong, "hint")
        line.update(Text(wrong or hint))
        line.display = bool(wrong or hint)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if self._question is not None:
            wrong = self._question.check(event.value)
            self._say(wrong if event.value else "")
            if not wrong:
                self._question.typed(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        question = self._question
        if question is None:
            return
        if wrong := question.check(event.value):
            self._say(wrong)
            return
        self._close()
        question.done(event.value)
