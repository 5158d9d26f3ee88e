"""How wide the columns of the list are, and what fits."""

from typing import Any

import pytest
from rich.cells import cell_len

from interpose.dump.live.call_list import CallList, fit, widths
from interpose.dump.live.row import COLUMNS
from interpose.dump.model.frames import Begin


@pytest.mark.parametrize("total", [80, 100, 101, 120, 250])
def test_columns_fill_the_line(total: int) -> None:
    """With a blank behind each; the subject takes what the others leave."""
    found = widths(total)
    assert len(found) == len(COLUMNS)
    assert sum(found) + sum(1 for width in found if width) == total


def test_a_line_that_is_too_short_still_has_columns() -> None:
    """Nothing is negative."""
    assert min(widths(10)) >= 0


@pytest.mark.parametrize(
    ("text", "width", "options", "expected"),
    [
        ("abc", 5, {}, "abc  "),
        ("abc", 5, {"right": True}, "  abc"),
        ("abcdef", 4, {}, "abc…"),
        ("namespace/pod:container", 12, {"middle": True}, "name…ntainer"),
        ("日本語日本語", 5, {"middle": True}, "日本…"),
        ("abc", 0, {}, ""),
    ],
)
def test_texts_are_made_to_fit(text: str, width: int, options: dict[str, bool], expected: str) -> None:
    """To the cell."""
    assert fit(text, width, **options) == expected
    assert cell_len(expected) == width


async def test_the_cursor_is_kept_in_sight(start: Any) -> None:
    """In a list that is longer than the screen, in both directions."""
    frames = [Begin(number=number, time=0, path=f"/a/Call{number}") for number in range(1, 101)]
    async with start(frames, size=(80, 20)) as live:
        await live.until(lambda: "Call100" in live.text(), "the newest call")
        await live.press("g")
        await live.until(lambda: "Call1 " in live.text() and "Call100" not in live.text(), "the first call")
        await live.press("pagedown", "pagedown")
        assert live.model.at > 20
        await live.until(lambda: f"Call{live.model.at + 1} " in live.text(), "the cursor")
        assert live.app.screen.query_one(CallList).scroll_offset.y > 0


async def test_a_flood_of_calls_is_taken(start: Any) -> None:
    """More than the list keeps, while keys are answered."""
    async with start() as live:
        for batch in range(40):
            live.source.say([Begin(number=batch * 500 + one, time=0, path="/a/b") for one in range(500)])
        await live.press("question_mark", "q")
        await live.until(lambda: live.model.calls == 20_000, "all calls")
        assert live.model.call_count == 5000
        assert live.model.forgotten == 15_000
