"""The text of a call on the screen."""

from textual.app import App, ComposeResult

from interpose.dump.live.detail_view import DetailView, TabLine
from interpose.dump.live.tabs import DetailLine, Tab, Tint


class Shown(App[None]):
    """Only the text."""

    def __init__(self) -> None:
        super().__init__()
        self.view = DetailView()
        self.tabs = TabLine()

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield self.view

    def seen(self) -> list[str]:
        return [self.view.render_line(y).text.rstrip() for y in range(self.view.size.height)]


async def test_long_lines_are_broken() -> None:
    """And broken anew when the terminal changes."""
    app = Shown()
    async with app.run_test(size=(22, 10)) as pilot:
        app.view.show([DetailLine("x" * 30 + "end", Tint.YAML), DetailLine("日本" * 8)], from_top=True)
        await pilot.pause()
        assert "".join(app.seen()[:2]) == "x" * 30 + "end"
        assert "".join(app.seen()[2:4]) == "日本" * 8
        await pilot.resize_terminal(60, 10)
        await pilot.pause()
        assert app.seen()[0] == "x" * 30 + "end"


async def test_search_goes_round() -> None:
    """In any case of letters; what is searched for is a text, no pattern."""
    app = Shown()
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.show(
            [DetailLine(f"line {number} {'A.b' if number % 40 == 0 else 'aXb'}") for number in range(100)],
            from_top=True,
        )
        await pilot.pause()
        assert app.view.search("a.B") == 3
        assert app.view.step(1) == (2, 3)
        assert app.view.scroll_offset.y > 0
        assert "line 40 A.b" in app.seen()
        assert app.view.step(1) == (3, 3)
        assert app.view.step(1) == (1, 3)
        assert app.view.step(-1) == (3, 3)
        assert app.view.search("") == 0
        assert app.view.step(1) == (0, 0)


async def test_another_text_begins_at_its_top() -> None:
    """The same text stays where it is, and so do places that were found."""
    app = Shown()
    async with app.run_test(size=(40, 10)) as pilot:
        text = [DetailLine(f"line {number}") for number in range(100)]
        app.view.show(text, from_top=True)
        await pilot.pause()
        app.view.search("line 50")
        app.view.show(text, from_top=False)
        assert app.view.scroll_offset.y > 0
        assert app.view.step(0) == (1, 1)
        app.view.show(text[:5], from_top=True)
        assert app.view.scroll_offset.y == 0
        assert app.view.step(1) == (0, 0)


async def test_tabs_behind_the_last_cannot_be_clicked() -> None:
    """The title is no tab."""
    app = Shown()
    async with app.run_test(size=(80, 10)) as pilot:
        app.tabs.show(Tab.INFO, "title", changed=False)
        await pilot.click("TabLine", offset=(60, 0))
        assert "title" in app.tabs.render().plain
