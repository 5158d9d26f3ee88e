"""The table of keys."""

from collections import Counter

from interpose.dump.live.keys import GROUPS
from interpose.dump.live.screen import LiveScreen

ALL = [key for group in GROUPS for key in group.keys]


def test_no_key_does_two_things() -> None:
    """Each key is in the table once."""
    counted = Counter(name for key in ALL for name in key.keys.split(","))
    assert [name for name, count in counted.items() if count > 1] == []


def test_every_key_does_something() -> None:
    """The screen has a method for each."""
    assert [key.action for key in ALL if not hasattr(LiveScreen, f"action_{key.action}")] == []
