"""The keys of the live view: one table for the screen, its help and the manual.

Pure. `action` is a method of the screen; where the screen has several parts, the method knows which is meant.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """Keys as the terminal names them, what they do, and how both are shown."""

    keys: str
    action: str
    shown: str
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Keys that belong together in the help."""

    title: str
    keys: tuple[Key, ...]


GROUPS: Final = (
    Group(
        "moving, in the list or in a call",
        (
            Key("j,down", "down", "j ↓", "down"),
            Key("k,up", "up", "k ↑", "up"),
            Key("pagedown,ctrl+f", "page_down", "PgDn", "a page down"),
            Key("pageup,ctrl+b", "page_up", "PgUp", "a page up"),
            Key("g,home", "first", "g", "to the beginning"),
            Key("G,end", "last", "G", "to the end"),
        ),
    ),
    Group(
        "the list",
        (
            Key("enter", "open", "Enter", "open the call"),
            Key("f", "filter", "f /", "show only some calls (see below)"),
            Key("F", "follow", "F", "follow the newest call, or no longer"),
            Key("space", "pause", "space", "hold the list still, or go on"),
            Key("o", "order", "o", "sort by the next column"),
            Key("O", "reverse", "O", "sort the other way round"),
            Key("m", "mark", "m", "mark the call, or no longer"),
            Key("U", "unmark_all", "U", "take all marks away"),
            Key("z", "clear", "z", "clear the list"),
            Key("Z", "clear_unmarked", "Z", "clear all but marked calls"),
        ),
    ),
    Group(
        "a call",
        (
            Key("tab,right,l", "next_tab", "Tab →", "next tab: request, reply, diff, info"),
            Key("shift+tab,left,h", "previous_tab", "⇧Tab ←", "previous tab"),
            Key("right_square_bracket", "next_call", "]", "next call of the list"),
            Key("left_square_bracket", "previous_call", "[", "previous call"),
            Key("x", "unfold", "x", "unfold long lists, or fold them"),
            Key("slash", "search", "/", "search in the text"),
            Key("n", "next_match", "n", "next place"),
            Key("N", "previous_match", "N", "previous place"),
            Key("y", "copy", "y", "copy what is shown, as YAML"),
        ),
    ),
    Group(
        "everywhere",
        (
            Key("e", "export", "e", "write the call that is open, else marked calls, else those shown"),
            Key("w", "save", "w", "write all calls as a recording"),
            Key("question_mark", "help", "?", "this page"),
            Key("escape", "cancel", "Esc", "back"),
            Key("q", "back", "q", "back; in the list, end"),
            Key("ctrl+c", "quit_now", "^C", "end at once"),
        ),
    ),
)

MARKS: Final = (
    ("●", "marked"),
    ("*", "changed on the way"),
    ("+", "made by the relay itself"),
    ("α", "API version v1alpha2"),
)
