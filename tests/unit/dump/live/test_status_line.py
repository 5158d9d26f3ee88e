"""What the lines around the list say."""

from interpose.dump.live.feed_events import Lost
from interpose.dump.live.model import LiveModel
from interpose.dump.live.status_line import SECRETS, banner, status
from interpose.dump.model.call import Assembler
from interpose.dump.model.frames import Begin, Dropped, End


def said(model: LiveModel, filter_text: str = "", *, live: bool = True) -> str:
    return " | ".join(part.text for part in status(model, source="s\x1b", filter_text=filter_text, now=0.0, live=live))


def test_an_empty_list() -> None:
    """Where it comes from, and where help is."""
    assert said(LiveModel()) == "s? | 0/0 | following | 0.0 calls/s | ? help"
    assert said(LiveModel(), live=False) == "s? | 0/0 | following | ? help"


def test_everything_at_once() -> None:
    """Filter, pause, order, and what was lost."""
    model = LiveModel(keep=2)
    frames = [Begin(number=number, time=0, path="/a/b") for number in (1, 2, 3)]
    model.add_events(
        Assembler().feed_all([*frames, End(number=3, elapsed=1, code=2), Dropped(frames=4, size=9, time=0)]), 0.0
    )
    model.refresh()
    model.toggle_pause()
    model.reverse()
    model.set_wanted(lambda flow: True)
    assert said(model, "~m x").split(" | ") == [
        "s?",
        "2/2 of 2",
        "filter: ~m x (looking at 2 more)",
        "paused, 0 waiting",
        "by time, descending",
        "0.6 calls/s",
        "1 failed",
        "4 frames dropped",
        "1 older calls forgotten",
        "? help",
    ]


def test_a_sorted_list_says_so() -> None:
    """Also if it is ascending; and who does not follow is not said to."""
    model = LiveModel()
    model.next_order()
    model.toggle_follow()
    model.refresh()
    assert "by method | " in said(model, "x")
    assert "following" not in said(model)


def test_the_banner() -> None:
    """Secrets, and a source that is gone."""
    assert banner(None, redacted=True, anything=True) == ""
    assert banner(None, redacted=False, anything=True) == SECRETS
    gone = Lost("connection\nrefused", 1.0)
    assert banner(gone, redacted=True, anything=True) == "relay is gone, trying again: connection?refused"
    assert banner(gone, redacted=True, anything=False) == "no relay yet: connection?refused"
    assert banner(Lost("broken", None), redacted=False, anything=True) == f"{SECRETS}; cannot read on: broken"


def test_what_found_no_room_while_paused_is_told() -> None:
    """Then and later."""
    model = LiveModel(keep=1)
    frames = [Begin(number=number, time=0, path="/a/b") for number in (1, 2, 3)]
    events = Assembler().feed_all(frames)
    model.add_events(events[:1], 0.0)
    model.toggle_pause()
    model.add_events(events[1:], 0.0)
    assert "paused, 0 waiting, 2 missed | " in said(model)
    assert "missed while paused" not in said(model)
    model.toggle_pause()
    assert "2 missed while paused | " in said(model)
