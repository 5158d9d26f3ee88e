"""What is seen while an image comes."""

import io

import pytest

from interpose.cli.image.progress import ProgressLines, line
from interpose.node.runtime.images.types import PullPhase, PullProgress

LAYER = "sha256:" + "ab" * 32


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.mark.parametrize(
    ("news", "text"),
    [
        (PullProgress(part=LAYER, phase=PullPhase.WAITING), "layer abababababab  waiting"),
        (
            PullProgress(part=LAYER, phase=PullPhase.DOWNLOADING, done=512, total=1024),
            "layer abababababab  [==========          ] 512 B of 1 KiB",
        ),
        (PullProgress(part=LAYER, phase=PullPhase.DOWNLOADING, done=512), "layer abababababab  downloading"),
        (PullProgress(part=LAYER, phase=PullPhase.UNPACKING, total=5), "layer abababababab  unpacking"),
        (PullProgress(part="abc/layer.tar", phase=PullPhase.DONE, total=2048), "layer abc  done, 2 KiB"),
        (PullProgress(part=LAYER, phase=PullPhase.EXISTS, total=1), "layer abababababab  is there already, 1 B"),
    ],
)
def test_news_are_a_line(news: PullProgress, text: str) -> None:
    """Of which layer, and how far it is."""
    assert line(news, 0) == text
    assert len(line(news, 12)) <= 12


def test_without_a_terminal_only_the_end_is_told() -> None:
    """A log has a line for each layer."""
    stream = io.StringIO()
    with ProgressLines(stream) as progress:
        for phase in (PullPhase.WAITING, PullPhase.UNPACKING, PullPhase.DONE):
            progress.on_progress(PullProgress(part=LAYER, phase=phase, total=1))
    assert stream.getvalue() == "layer abababababab  done, 1 B\n"


def test_on_a_terminal_lines_change_in_place() -> None:
    """Not more often than somebody can see, and the last picture is the truth."""
    stream, now = Terminal(), [0.0]
    with ProgressLines(stream, clock=lambda: now[0]) as progress:
        progress.on_progress(PullProgress(part="a", phase=PullPhase.WAITING))
        first = stream.getvalue()
        progress.on_progress(PullProgress(part="b", phase=PullPhase.WAITING))
        assert stream.getvalue() == first
        now[0] = 1.0
        progress.on_progress(PullProgress(part="a", phase=PullPhase.UNPACKING))
        assert stream.getvalue()[len(first) :].startswith("\x1b[1A\x1b[2Klayer a  unpacking\n")
        progress.on_progress(PullProgress(part="a", phase=PullPhase.DONE))
    assert stream.getvalue().endswith("\x1b[2A\x1b[2Klayer a  done, 0 B\n\x1b[2Klayer b  waiting\n")


def test_nothing_is_drawn_of_nothing() -> None:
    """The terminal stays as it was."""
    stream = Terminal()
    with ProgressLines(stream):
        pass
    assert stream.getvalue() == ""


def test_the_name_of_a_layer_cannot_move_a_cursor() -> None:
    """An archive may come from anybody."""
    assert line(PullProgress(part="\x1b[2Jx", phase=PullPhase.WAITING), 0) == "layer ?[2Jx  waiting"
