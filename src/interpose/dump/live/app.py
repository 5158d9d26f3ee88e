"""The program of the live view: runs the feed around the screen."""

from textual.app import App
from textual.screen import Screen

from interpose.dump.live.board import LiveViewParts
from interpose.dump.live.screen import LiveScreen


class LiveApp(App[None]):
    """The full-screen application of `interpose dump live`."""

    TITLE = "interpose dump live"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, view: LiveViewParts) -> None:
        super().__init__()
        self._view = view

    def get_default_screen(self) -> Screen[None]:
        """The only one, but for the help."""
        return LiveScreen(self._view)

    def on_mount(self) -> None:
        self._view.feed.start()

    def on_unmount(self) -> None:
        self._view.feed.stop()
