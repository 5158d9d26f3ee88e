"""Where commands about recordings write."""

import errno
import io
import os
import sys
from pathlib import Path

import click
import pytest

from interpose.cli.dump.output import OutputSink, Progress, output_sink, quiet_end, styled


class Stream(io.StringIO):
    """A stream with an encoding, on a terminal or not."""

    def __init__(self, encoding: str = "utf-8", *, terminal: bool = False) -> None:
        super().__init__()
        self._encoding = encoding
        self._terminal = terminal
        self.flushed = 0

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What it writes."""
        return self._encoding

    def isatty(self) -> bool:
        """Whether somebody looks."""
        return self._terminal

    def flush(self) -> None:
        """Counted."""
        self.flushed += 1


def test_a_terminal_has_a_width_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless they are not wanted; what is written is seen at once."""
    monkeypatch.setenv("COLUMNS", "123")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Stream(terminal=True)
    sink = OutputSink(stream)
    sink.write("a")
    assert (sink.width, sink.colour, stream.flushed) == (123, True, 1)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not OutputSink(stream).colour


def test_a_pipe_has_neither() -> None:
    """And is flushed when somebody says so."""
    stream = Stream()
    sink = OutputSink(stream)
    sink.write("a")
    assert (sink.width, sink.colour, stream.flushed) == (0, False, 0)
    sink.flush()
    assert stream.flushed == 1


@pytest.mark.parametrize(
    ("encoding", "written"), [("utf-8", "1µs … ü"), ("ascii", "1us ~ \\xfc"), ("latin-1", "1us ~ ü")]
)
def test_what_cannot_be_written_is_written_otherwise(encoding: str, written: str) -> None:
    """Nothing fails because of a letter."""
    stream = Stream(encoding)
    sink = OutputSink(stream)
    sink.write("1µs … ü")
    assert stream.getvalue() == written
    assert sink.ascii_only is (encoding != "utf-8")


def test_roles_have_colours() -> None:
    """Some have none."""
    assert styled("a", "bad") == click.style("a", fg="red")
    assert styled("a", "") == "a"


@pytest.mark.parametrize("path", ["", "-"])
def test_no_path_is_standard_output(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A dash, too."""
    with output_sink(path) as sink:
        sink.write("text")
    assert capsys.readouterr().out == "text"


def _fail_behind(sink: OutputSink) -> None:
    sink.write("half")
    raise RuntimeError


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    """Not before, and not if something went wrong; its mode stays, and a new one is its owner's."""
    path = tmp_path / "out"
    with output_sink(str(path)) as sink:
        sink.write("ä")
        assert not path.exists()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(RuntimeError), output_sink(str(path)) as sink:
        _fail_behind(sink)
    assert path.read_text("utf-8") == "ä"
    with output_sink(str(path)) as sink:
        sink.write("new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o644)
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_written_to() -> None:
    """And is still there afterwards."""
    with output_sink("/dev/null") as sink:
        sink.write("text")
    assert Path("/dev/null").is_char_device()


def test_what_is_read_is_not_written(tmp_path: Path) -> None:
    """Not under another name either."""
    path, link = tmp_path / "a.crirec", tmp_path / "link"
    path.write_text("frames")
    link.symlink_to(path)
    with (
        pytest.raises(click.UsageError, match="is the recording that is read"),
        output_sink(str(link), ["-", str(path)]),
    ):
        pass
    assert path.read_text() == "frames"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With the reason."""
    no_such = pytest.raises(click.ClickException, match=r"--output .*/no/out: cannot be written: No such file")
    with no_such, output_sink(str(tmp_path / "no" / "out")):
        pass


@pytest.mark.parametrize("text", ["a", "a" * 100_000])
def test_a_full_disk_is_named(text: str) -> None:
    """Whether it is found full at once or at the end."""
    full = pytest.raises(click.ClickException, match=r"--output /dev/full: cannot be written: No space left")
    with full, output_sink("/dev/full") as sink:
        sink.write(text)


def test_standard_output_that_is_full_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not just the reason; a reader that went away is no error."""

    class Full(Stream):
        """Refuses."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self._error = OSError(number, os.strerror(number))

        def write(self, text: str) -> int:
            """Every text."""
            raise self._error

    monkeypatch.setattr("sys.stdout", Full(errno.ENOSPC))
    full = pytest.raises(click.ClickException, match=r"^standard output: cannot be written: No space left")
    with full, output_sink("") as sink:
        sink.write("text")
    monkeypatch.setattr("sys.stdout", Full(errno.EPIPE))
    with pytest.raises(BrokenPipeError), output_sink("") as sink:
        sink.write("text")


def test_other_failures_are_not_those_of_the_file(tmp_path: Path) -> None:
    """A recording that cannot be read is another story."""
    with pytest.raises(OSError, match="read"), output_sink(str(tmp_path / "out")):
        raise OSError("cannot read")


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_is_no_error() -> None:
    """It has an exit code of its own."""
    code: list[int] = []
    with quiet_end(code):
        _interrupted()
    with quiet_end(code, interrupted=0):
        _interrupted()
    assert code == [130, 0]


def test_a_reader_that_went_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the interpreter flushes at its end goes nowhere."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        code: list[int] = []
        with quiet_end(code):
            stream.write("text")
            stream.flush()
        assert code == []
        stream.flush()


def test_progress_is_shown_where_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then, and the line is taken back."""
    stream = Stream(terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress(shown=True)
    progress.tick(1)
    assert stream.getvalue() == ""
    now = 1.0
    progress.tick(20)
    progress.tick(30)
    assert stream.getvalue() == "\r20 calls read"
    progress.done()
    progress.done()
    assert stream.getvalue().count("\x1b[K") <= 1
    quiet = Progress(shown=False)
    now = 9.0
    quiet.tick(1)
    assert "1 calls" not in stream.getvalue()
