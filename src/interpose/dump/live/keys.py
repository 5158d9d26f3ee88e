"""The keys of the live view: one table for the screen, its help and the manual.

Pure. `action` is a method of the screen; where the screen has several parts, the method knows which is meant.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class KeyBinding:
    """Keys as the terminal names them, what they do, and how both are shown."""

    keys: str
    action: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Keys that belong together in the help."""

    title: str
    keys: tuple[KeyBinding, ...]


GROUPS: Final = (
    KeyGroup(
        "moving, in the list or in a call",
        (
            KeyBinding("j,down", "down", "j ↓", "down"),
            KeyBinding("k,up", "up", "k ↑", "up"),
            KeyBinding("pagedown,ctrl+f", "page_down", "PgDn", "a page down"),
            KeyBinding("pageup,ctrl+b", "page_up", "PgUp", "a page up"),
            KeyBinding("g,home", "first", "g", "to the beginning"),
            KeyBinding("G,end", "last", "G", "to the end"),
        ),
    ),
    KeyGroup(
        "the list",
        (
            KeyBinding("enter", "open", "Enter", "open the call"),
            KeyBinding("f", "filter", "f /", "show only some calls (see below)"),
            KeyBinding("F", "follow", "F", "follow the newest call, or no longer"),
            KeyBinding("space", "pause", "space", "hold the list still, or go on"),
            KeyBinding("o", "order", "o", "sort by the next column"),
            KeyBinding("O", "reverse", "O", "sort the other way round"),
            KeyBinding("m", "mark", "m", "mark the call, or no longer"),
            KeyBinding("U", "unmark_all", "U", "take all marks away"),
            KeyBinding("z", "clear", "z", "clear the list"),
            KeyBinding("Z", "clear_unmarked", "Z", "clear all but marked calls"),
        ),
    ),
    KeyGroup(
        "a call",
        (
            KeyBinding("tab,right,l", "next_tab", "Tab →", "next tab: request, reply, diff, info"),
            KeyBinding("shift+tab,left,h", "previous_tab", "⇧Tab ←", "previous tab"),
            KeyBinding("right_square_bracket", "next_call", "]", "next call of the list"),
            KeyBinding("left_square_bracket", "previous_call", "[", "previous call"),
            KeyBinding("x", "unfold", "x", "unfold long lists, or fold them"),
            KeyBinding("slash", "search", "/", "search in the text"),
            KeyBinding("n", "next_match", "n", "next place"),
            KeyBinding("N", "previous_match", "N", "previous place"),
            KeyBinding("y", "copy", "y", "copy what is shown, as YAML"),
        ),
    ),
    KeyGroup(
        "everywhere",
        (
            KeyBinding("e", "export", "e", "write the call that is open, else marked calls, else those shown"),
            KeyBinding("w", "save", "w", "write all calls as a recording"),
            KeyBinding("question_mark", "help", "?", "this page"),
            KeyBinding("escape", "cancel", "Esc", "back"),
            KeyBinding("q", "back", "q", "back; in the list, end"),
            KeyBinding("ctrl+c", "quit_now", "^C", "end at once"),
        ),
    ),
)

MARKS: Final = (
    ("●", "marked"),
    ("*", "changed on the way"),
    ("+", "made by the relay itself"),
    ("α", "API version v1alpha2"),
)
