"""The live view as people use it: keys in, screen out."""

import json
from pathlib import Path
from typing import Any

from textual import events

from interpose._pb import cri_pb2 as cri
from interpose.dump.live.model import Order
from interpose.dump.model.frames import Context, Dropped, End, Frame, Header
from interpose.dump.model.subject import Subjects
from interpose.dump.recording.reader import Recording
from interpose.testing.recordings import Script, story_frames

CHANGED_CREATE = 7  # its number in the story


async def go_to(live: Any, number: int) -> None:
    """The cursor to a call."""
    at = next(at for at, row in enumerate(live.model.view) if row.flow.number == number)
    live.model.go(at)
    await live.press("k", "j")
    assert live.model.at == at


async def test_calls_are_listed(start: Any) -> None:
    """Method, subject, status and marks of every call."""
    async with start(story_frames()) as live:
        text = live.text()
        assert "CreateContainer" in text
        assert "shop/web-0:app" in text
        assert "DEADLINE_EXCEEDED" in text
        assert "following" in live.seen()[-1]
        assert any(line.startswith(" *") for line in live.seen())


async def test_the_cursor_moves(start: Any) -> None:
    """By letters, arrows and pages, to both ends."""
    async with start(story_frames()) as live:
        last = len(live.model.view) - 1
        for keys, at in (
            (["g"], 0),
            (["j", "down"], 2),
            (["k", "up"], 0),
            (["G"], last),
            (["pageup"], 0),
            (["pagedown"], last),
            (["home"], 0),
            (["end"], last),
        ):
            await live.press(*keys)
            assert live.model.at == at, keys


async def test_a_call_opens_and_closes(start: Any) -> None:
    """Enter opens, q and Esc close; the list is seen again."""
    async with start(story_frames()) as live:
        await go_to(live, CHANGED_CREATE)
        await live.press("enter")
        await live.until(lambda: "interpose/grant" not in live.text() and "image:" in live.text(), "the request")
        await live.press("q")
        assert "image:" not in live.text()
        await live.press("enter", "escape")
        assert "image:" not in live.text()
        assert live.app.is_running


async def test_tabs_turn(start: Any) -> None:
    """Request, reply, diff, info, and round again."""
    async with start(story_frames()) as live:
        await go_to(live, CHANGED_CREATE)
        await live.press("enter", "tab")
        await live.until(lambda: "container_id:" in live.text(), "the reply")
        await live.press("tab")
        await live.until(lambda: "interpose/grant: cpus=2-3" in live.text(), "the diff")
        assert "changed by koordlet" in live.text()
        await live.press("tab")
        await live.until(lambda: "/runtime.v1.RuntimeService/CreateContainer" in live.text(), "the facts")
        await live.press("shift+tab")
        await live.until(lambda: "interpose/grant" in live.text(), "the diff again")
        await live.press("l", "right")
        await live.until(lambda: "request," in live.text(), "the request")


async def test_the_next_call_is_read_without_closing(start: Any) -> None:
    """] and [ go through the list."""
    async with start(story_frames()) as live:
        await go_to(live, CHANGED_CREATE)
        await live.press("enter", "right_square_bracket")
        await live.until(lambda: "StartContainer shop/web-0:app" in live.text(), "the next call")
        await live.press("left_square_bracket", "left_square_bracket")
        await live.until(lambda: "PullImage shop/web-0" in live.text(), "the call before")


async def test_a_filter_works_while_it_is_typed(start: Any) -> None:
    """Mistakes are said below it; Enter keeps it, Esc brings the old one back."""
    async with start(story_frames()) as live:
        everything = len(live.model.view)
        await live.press("f")
        await live.type("~m Create")
        await live.until(lambda: len(live.model.view) == 3, "only three calls")
        await live.type("~m Create (")
        await live.until(lambda: "^" in live.text(), "what is wrong with it")
        await live.press("enter")
        assert len(live.model.view) == 3
        await live.type("~m Create")
        await live.press("enter")
        await live.until(lambda: "filter: ~m Create" in live.seen()[-1], "the filter in the status line")
        await live.press("f")
        await live.type("")
        await live.until(lambda: len(live.model.view) == everything, "all calls")
        await live.press("escape")
        await live.until(lambda: len(live.model.view) == 3, "the old filter")


async def test_letters_of_an_answer_are_no_keys(start: Any) -> None:
    """Whoever types `q` or `z` into the filter means a letter."""
    async with start(story_frames()) as live:
        await live.press("f")
        await live.press("q", "z", "m", "question_mark")
        assert live.app.is_running
        assert live.model.call_count > 0
        assert "qzm" in live.text()


async def test_a_filter_given_at_the_start_holds(start: Any) -> None:
    """From the command line."""
    async with start(story_frames(), filter_text="~s error") as live:
        await live.until(lambda: live.model.view and not live.model.unjudged, "the list")
        assert all(row.flow.failed for row in live.model.view)


async def test_pause_counts_what_waits(start: Any) -> None:
    """And lets it in afterwards."""
    async with start(story_frames()) as live:
        await live.press("space")
        before = len(live.model.view)
        live.source.say(story_frames()[1:])
        await live.until(lambda: f"paused, {before} waiting" in live.seen()[-1], "what waits")
        assert len(live.model.view) == before
        await live.press("space")
        assert len(live.model.view) == 2 * before


async def test_following_is_switched(start: Any) -> None:
    """The status line says so."""
    async with start(story_frames()) as live:
        await live.press("F")
        assert "following" not in live.seen()[-1]
        await live.press("F")
        assert "following" in live.seen()[-1]


async def test_the_list_is_sorted(start: Any) -> None:
    """By the next column, and the other way round."""
    async with start(story_frames()) as live:
        await live.press("o")
        assert live.model.order is Order.METHOD
        names = [row.flow.name for row in live.model.view]
        assert names == sorted(names)
        await live.press("O")
        assert [row.flow.name for row in live.model.view] == sorted(names, reverse=True)
        assert "by method, descending" in live.seen()[-1]


async def test_marks_and_clearing(start: Any) -> None:
    """m marks and goes on, U takes marks away, Z spares marked calls, z nothing."""
    async with start(story_frames()) as live:
        await live.press("g", "m", "m")
        assert [row.flow.number for row in live.model.marked()] == [1, 2]
        await live.press("U")
        assert live.model.marked() == []
        await live.press("g", "m", "Z")
        assert [row.flow.number for row in live.model.view] == [1]
        await live.press("z")
        assert live.model.view == []
        assert live.model.selected is None


async def test_clearing_closes_the_call(start: Any) -> None:
    """There is nothing to read any more."""
    async with start(story_frames()) as live:
        await live.press("enter", "z")
        await live.until(lambda: not live.app.screen.has_class("reading"), "the list")


async def test_keys_without_a_call_do_nothing(start: Any) -> None:
    """An empty list cannot be opened, copied or written."""
    async with start() as live:
        await live.press("enter", "y", "e", "w", "x", "slash", "n", "N", "tab", "m", "right_square_bracket")
        assert live.app.is_running
        assert not live.app.screen.has_class("reading")
        assert "no call to write" in live.text()


async def test_search_finds_places(start: Any) -> None:
    """The first is shown at once, n and N go on; also what was folded is found."""
    async with start(story_frames()) as live:
        await go_to(live, CHANGED_CREATE)
        await live.press("enter", "slash")
        await live.type("kubernetes")
        await live.press("enter")
        view = live.app.screen._pane.text
        assert view.step(0)[1] > 1
        await live.press("n")
        assert view.step(0)[0] == 2
        await live.press("N", "N")
        assert view.step(0)[0] == view.step(0)[1]
        await live.press("slash")
        await live.type("no such thing")
        await live.press("enter")
        await live.until(lambda: "is not in the request" in live.text(), "that it is not there")


async def test_unfolding_shows_long_lists(start: Any) -> None:
    """And folds them again."""
    async with start(story_frames()) as live:
        await live.press("enter", "x")
        assert live.app.screen._pane._unfolded
        await live.press("x")
        assert not live.app.screen._pane._unfolded


async def test_yaml_is_copied(start: Any) -> None:
    """To the clipboard of the terminal."""
    async with start(story_frames()) as live:
        await go_to(live, CHANGED_CREATE)
        await live.press("y")
        assert "config:\n" in live.app.clipboard
        await live.press("enter", "tab", "y")
        assert live.app.clipboard.startswith("container_id:")


async def test_marked_calls_are_exported(start: Any, tmp_path: Path) -> None:
    """In the form that the name of the file asks for."""
    async with start(story_frames()) as live:
        await live.press("g", "m", "m", "e")
        target = tmp_path / "some.jsonl"
        await live.type(str(target))
        await live.press("enter")
        await live.until(lambda: "wrote 2 calls" in live.text(), "that it was written")
        assert [json.loads(line)["number"] for line in target.read_text().splitlines()] == [1, 2]


async def test_a_wrong_name_of_a_file_is_said(start: Any) -> None:
    """And the question stays."""
    async with start(story_frames()) as live:
        await live.press("e")
        await live.type("")
        await live.press("enter")
        await live.until(lambda: "type the name of a file" in live.text(), "what is missing")
        await live.type("x.txt")
        await live.press("enter")
        await live.until(lambda: "the name must end in" in live.text(), "what is wrong")
        await live.press("escape")
        assert "the name must end in" not in live.text()


async def test_the_session_is_saved_as_a_recording(start: Any, tmp_path: Path) -> None:
    """All calls, also those the filter hides."""
    async with start(story_frames(), filter_text="~s error") as live:
        await live.press("w")
        target = tmp_path / "all.crirec"
        await live.type(str(target))
        await live.press("enter")
        await live.until(lambda: "wrote" in live.text(), "that it was written")
        recording = Recording(target)
        assert len(list(recording.flows())) == live.model.call_count
        assert recording.header.facts["redaction"] == "default"


async def test_help_shows_all_keys(start: Any) -> None:
    """And closes again."""
    async with start() as live:
        await live.press("question_mark")
        await live.until(lambda: "hold the list still" in live.text(), "the keys")
        await live.press("j", "k", "q")
        await live.until(lambda: "hold the list still" not in live.text(), "the list")
        assert live.app.is_running


async def test_q_in_the_list_ends(start: Any) -> None:
    """Esc does not."""
    async with start(story_frames()) as live:
        await live.press("escape")
        assert live.app.is_running
        await live.press("q")
        await live.until(lambda: not live.app.is_running, "the end")


async def test_marks_that_nobody_saved_are_asked_about(start: Any) -> None:
    """n goes on, y ends."""
    async with start(story_frames()) as live:
        await live.press("m", "q")
        await live.until(lambda: "are not saved" in live.text(), "the question")
        await live.press("n")
        assert live.app.is_running
        assert "are not saved" not in live.text()
        await live.press("q", "y")
        await live.until(lambda: not live.app.is_running, "the end")


async def test_control_c_ends_at_once(start: Any) -> None:
    """Also while something is asked."""
    async with start(story_frames()) as live:
        await live.press("m", "f", "ctrl+c")
        await live.until(lambda: not live.app.is_running, "the end")


async def test_a_small_terminal_shows_list_or_call(start: Any) -> None:
    """80 columns and 24 lines are enough."""
    async with start(story_frames(), size=(80, 24)) as live:
        assert all(len(line) <= 80 for line in live.seen())
        assert "shop/web-0:app" in live.text()
        await go_to(live, CHANGED_CREATE)
        await live.press("enter", "tab", "tab")
        await live.until(lambda: "interpose/grant" in live.text(), "the diff")
        assert "method" not in live.seen()[0]


async def test_resizing_keeps_everything_in_sight(start: Any) -> None:
    """From large to small and back, with a call open."""
    async with start(story_frames()) as live:
        await go_to(live, CHANGED_CREATE)
        await live.press("enter")
        await live.pilot.resize_terminal(80, 24)
        await live.until(lambda: live.app.screen.has_class("small") and "image:" in live.text(), "the call alone")
        await live.pilot.resize_terminal(140, 50)
        await live.until(lambda: "method" in live.seen()[0] and "image:" in live.text(), "both")


async def test_the_relay_goes_away_and_comes_back(start: Any) -> None:
    """A banner says so; what was seen stays, calls in flight are cut off."""
    async with start(story_frames()) as live:
        before = len(live.model.view)
        live.source.lose("connection refused")
        await live.until(lambda: live.source.reads >= 2, "another try")
        await live.until(lambda: "relay is gone, trying again: connection refused" in live.seen()[0], "the banner")
        assert len(live.model.view) == before
        assert "cut off" in live.text()
        live.source.say([Header(facts={"session": "another"}), *story_frames()[1:]])
        await live.until(lambda: len(live.model.view) == 2 * before, "the calls of the new relay")
        assert "relay is gone" not in live.text()


async def test_no_relay_yet(start: Any) -> None:
    """The screen waits."""
    async with start() as live:
        live.source.lose("no such socket")
        await live.until(lambda: "no relay yet: no such socket" in live.text(), "the banner")


async def test_a_recording_that_cannot_be_read_on_is_said(start: Any) -> None:
    """It is not tried again."""
    async with start(story_frames(), returns=False) as live:
        live.source.lose("the file is gone")
        await live.until(lambda: "cannot read on: the file is gone" in live.text(), "the banner")


async def test_the_end_of_a_recording_is_no_loss(start: Any) -> None:
    """Nothing is said about it."""
    async with start(story_frames(), returns=False) as live:
        live.source.lose("")
        await live.press("g")
        assert "gone" not in live.text()


async def test_secrets_are_announced_loudly(start: Any) -> None:
    """If nothing is redacted, here or in the recording."""
    async with start(redaction="none") as live:
        await live.until(lambda: "REDACTION IS OFF" in live.seen()[0], "the banner")
    async with start([Header(facts={"redaction": "none"}), *story_frames()[1:]], redaction=None) as live:
        await live.until(lambda: "REDACTION IS OFF" in live.seen()[0], "the banner")
    async with start(story_frames(), redaction=None) as live:
        assert "REDACTION IS OFF" not in live.text()


async def test_drops_are_shown(start: Any) -> None:
    """In the status line."""
    async with start(story_frames()) as live:
        live.source.say([Dropped(frames=12, size=100, time=1)])
        await live.until(lambda: "12 frames dropped" in live.seen()[-1], "the drops")


async def test_a_call_that_goes_on_is_drawn_anew(start: Any) -> None:
    """Who reads a call in flight sees it end."""
    frames = story_frames()
    async with start(frames) as live:
        open_row = next(row for row in live.model.view if row.open and row.flow.name == "StopContainer")
        await go_to(live, open_row.flow.number)
        await live.press("enter", "tab")
        await live.until(lambda: "no reply yet" in live.text(), "the reply that is missing")
        live.source.say([End(number=open_row.flow.number, elapsed=5_000_000, code=5, message="it is gone")])
        await live.until(lambda: "NOT_FOUND: it is gone" in live.text(), "the end")


async def test_a_click_selects_and_two_open(start: Any) -> None:
    """The mouse works, too."""
    async with start(story_frames()) as live:
        await live.pilot.click("CallList", offset=(20, 3))
        assert live.model.at == 3
        await live.pilot.click("CallList", offset=(20, 6), times=2)
        await live.until(lambda: live.app.screen.has_class("reading"), "the call")
        await live.pilot.click("TabLine", offset=(22, 0))
        await live.until(lambda: "interpose/grant" in live.text(), "the diff")


async def test_the_wheel_ends_following(start: Any) -> None:
    """Who looks back is not pulled away."""
    async with start(story_frames(), size=(100, 12)) as live:
        await live.pilot._post_mouse_events([events.MouseScrollUp], "CallList", button=0)
        await live.until(lambda: not live.model.follow, "the end of following")


def stubborn() -> list[Frame]:
    """A call in whose text an expression may get lost."""
    script = Script()
    script.call("ExecSync", cri.ExecSyncRequest(container_id="c", cmd=["a" * 60 + "!"]), cri.ExecSyncResponse())
    script.call("Version", cri.VersionRequest(), cri.VersionResponse())
    return script.frames


async def test_a_filter_that_takes_too_long_is_taken_back(start: Any) -> None:
    """Keys are answered, all calls are shown, and it is said why; another filter works."""
    async with start(stubborn()) as live:
        await live.press("f")
        await live.type("~t (a+)+$")
        await live.until(lambda: "this filter takes too long" in live.text(), "the reason")
        assert len(live.model.view) == 2
        await live.press("enter")
        assert "this filter takes too long" in live.text()
        await live.type("~m Version")
        await live.until(lambda: len(live.model.view) == 1, "one call")
        await live.press("enter")
        assert "filter: ~m Version" in live.seen()[-1]


async def test_a_saved_recording_knows_its_pods(start: Any, tmp_path: Path) -> None:
    """Also those whose calls are not in it; frames are in the order in which they came."""
    path = tmp_path / "a.crirec"
    async with start(story_frames()) as live:
        await go_to(live, CHANGED_CREATE + 1)
        await live.press("m", "e")
        await live.type(str(path))
        await live.press("enter")
        await live.until(lambda: "wrote 1 calls" in live.text(), "the file")
    recording = Recording(path)
    (context,) = [one for one in recording.frames() if isinstance(one, Context)]
    subjects = Subjects()
    subjects.learn(context.facts)
    (flow,) = recording.flows(subjects.identify)
    assert str(flow.subject) == "shop/web-0:app"


async def test_a_slash_filters_the_list_and_searches_a_call(start: Any) -> None:
    """What the key does in other programs with lists."""
    async with start(story_frames()) as live:
        before = len(live.model.view)
        await live.press("slash", *"CreateContainer", "enter")
        assert 0 < len(live.model.view) < before
        assert all("CreateContainer" in row.flow.path for row in live.model.view)
        await live.press("enter", "slash", *"image", "enter")
        await live.until(lambda: "search" not in live.text(), "the search")
        assert all("CreateContainer" in row.flow.path for row in live.model.view)
