"""Where commands about recordings write: the terminal, a pipe or a file; and how they end without noise.

Invariant: a file is replaced when everything is in it, never before; and it is never one that is being read. A new one
is for its owner alone, as recordings are.
"""

import io
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

import click

_ROLES: Final[dict[str, dict[str, object]]] = {
    "dim": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "open": {"fg": "yellow"},
    "mark": {"fg": "cyan"},
    "title": {"bold": True},
}
_FANCY: Final = "▁█…µ"
_ASCII: Final = {ord("…"): "~", ord("µ"): "u"}
_INTERRUPTED: Final = 130
_EVERY: Final = 0.5  # seconds between words about progress


def styled(text: str, role: str) -> str:
    """A text in the colours of its role; as it is if the role has none."""
    look = _ROLES.get(role)
    return text if look is None else click.style(text, **look)  # type: ignore[arg-type]


class OutputSink:
    """Takes text. `width` is that of the terminal, 0 if it is none."""

    def __init__(self, stream: TextIO, path: str = "") -> None:
        self._stream = stream
        self._path = path
        terminal = stream.isatty()
        self.width = shutil.get_terminal_size().columns if terminal else 0
        self.colour = terminal and not os.environ.get("NO_COLOR")
        self._encoding = stream.encoding or "ascii"
        self.ascii_only = not _can_write(self._encoding, _FANCY)
        self._every_piece = terminal

    def write(self, text: str) -> None:
        """Some text; on a terminal at once."""
        if not text.isascii():
            text = text.translate(_ASCII) if self.ascii_only else text
            text = text.encode(self._encoding, "backslashreplace").decode(self._encoding)
        with _named(self._path):
            self._stream.write(text)
            if self._every_piece:
                self._stream.flush()

    def flush(self) -> None:
        """What was written is on its way."""
        with _named(self._path):
            self._stream.flush()


def _can_write(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def output_sink(path: str, reading: Sequence[str] = ()) -> Iterator[OutputSink]:
    """The sink for a path; empty or - is standard output. Files that are being read are refused."""
    if path in ("", "-"):
        sink = OutputSink(sys.stdout)
        yield sink
        sink.flush()
        return
    target = Path(path)
    for other in reading:
        if other != "-" and target.exists() and Path(other).exists() and target.samefile(other):
            raise click.UsageError(f"--output {path}: is the recording that is read")
    with _replacing(target, path) as stream:
        yield OutputSink(stream, path)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """The system's no becomes an error that names the file; without one, standard output."""
    try:
        yield
    except OSError as error:
        if not path:
            _forget_stdout()
            if isinstance(error, BrokenPipeError):
                raise
        name = f"--output {path}" if path else "standard output"
        raise click.ClickException(f"{name}: cannot be written: {error.strerror}") from None


@contextmanager
def _replacing(target: Path, path: str) -> Iterator[TextIO]:
    """A file beside the target that takes its place at the end. What is no plain file (/dev/null) is written to."""
    if target.exists() and not target.is_file():
        with _named(path):
            stream = target.open("w", encoding="utf-8", errors="backslashreplace")
        with _closing(stream, path):
            yield stream
        return
    place = target.resolve()
    with _named(path):
        descriptor, beside = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    if place.exists():
        os.chmod(descriptor, stat.S_IMODE(place.stat().st_mode))  # noqa: PTH101 - by descriptor
    try:
        stream = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")
        with _closing(stream, path):
            yield stream
        with _named(path):
            Path(beside).replace(place)
    except BaseException:
        with suppress(OSError):
            Path(beside).unlink()
        raise


@contextmanager
def _closing(stream: TextIO, path: str) -> Iterator[None]:
    """Everything is written at the end. What could not be before is not tried again, that would hide the reason."""
    try:
        yield
        with _named(path):
            stream.flush()
    finally:
        with suppress(OSError):
            stream.close()


@contextmanager
def quiet_end(code: list[int], *, interrupted: int = _INTERRUPTED) -> Iterator[None]:
    """A reader that went away and Ctrl-C are no errors; `code` gets the exit code."""
    try:
        yield
    except BrokenPipeError:
        _forget_stdout()
    except KeyboardInterrupt:
        code.append(interrupted)


def _forget_stdout() -> None:
    """The interpreter flushes at its end, into a pipe that nobody reads."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class Progress:
    """Says on a terminal how far a long export is; says nothing elsewhere, or if the output itself is to be seen."""

    def __init__(self, *, shown: bool) -> None:
        self._enabled = shown and sys.stderr.isatty()
        self._due = time.monotonic() + _EVERY
        self._text_on_screen = False

    def tick(self, calls: int) -> None:
        """So many calls were read."""
        if not self._enabled or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY
        self._text_on_screen = True
        click.echo(f"\r{calls} calls read", nl=False, err=True)

    def done(self) -> None:
        """Remove the progress line from the terminal."""
        if self._text_on_screen:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._text_on_screen = False
