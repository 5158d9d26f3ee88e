"""`interpose dump record`: record what passes a running relay, from outside, for as long as wanted."""

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

import click

from interpose.cli.common.admin_client import admin_option
from interpose.cli.dump.attach import DumpConnection, attach
from interpose.config.dump_redaction import parse_redaction
from interpose.config.values import duration, size
from interpose.dump.capture.intake import Intake
from interpose.dump.model.call import NO_SUBJECT, CallEventKind
from interpose.dump.model.frames import Header
from interpose.dump.recording.writer import RecordingWriter
from interpose.dump.redact.frames import Redactor

_SECOND = 1.0
# For a relay to send what has passed until now.
_CLOSE_TIMEOUT = 2.0
_DEFAULT = "interpose.crirec"
_LOUD = "redaction is off: the recording holds credentials, values of the environment, tokens and output of commands"


class _Session:
    """What is written, and when it is enough."""

    def __init__(self, file: str, redact: str, max_bytes: int, files: int, calls: int | None) -> None:
        self._file = file
        self._redact = redact
        self._max_bytes = max_bytes
        self._files = files
        self._wanted = calls
        self._intake = Intake(Redactor(parse_redaction(redact)).frame)
        self._writer: RecordingWriter | None = None
        self.calls = 0
        self.dropped = 0

    def feed(self, data: bytes) -> bool:
        """Bytes of frames; True when enough calls have ended."""
        for event in self._intake.feed(data):
            if isinstance(event.frame, Header):
                self._begin(event.frame)
            elif self._writer is not None:
                subject = NO_SUBJECT if event.flow is None else event.flow.subject
                self._writer.write(event.frame, subject, event.wire)
            self.calls += event.kind is CallEventKind.END
            self.dropped = self._intake.assembler.dropped
            if self._wanted is not None and self.calls >= self._wanted:
                return True
        return False

    def _begin(self, header: Header) -> None:
        if self._writer is None:
            self._writer = RecordingWriter(
                self._file,
                header_facts={**header.facts, "redaction": self._redact},
                max_bytes=self._max_bytes,
                files=self._files,
                context=self._intake.subjects.context,
            )

    def flush(self) -> None:
        """Readable up to here. A disk that does not take it ends the recording, with the reason."""
        if self._writer is not None:
            self._writer.flush()
            if self._writer.error is not None:
                raise click.ClickException(f"{self._file}: {self._writer.error.strerror or self._writer.error}")

    def close(self) -> None:
        """In order, with its index."""
        if self._writer is not None:
            self._writer.close()


@click.command("record")
@click.option("-w", "--write", "file", metavar="FILE", default=_DEFAULT, show_default=True, help="The recording.")
@click.option("--socket", metavar="ADDRESS", help="The same as --admin.")
@click.option(
    "--dump", "rules", metavar="SPEC", multiple=True, help="Calls to record, as --dump of the relay; else all."
)
@click.option("--for", "seconds", metavar="TIME", help="Stop after this time: 30s, 10m.")
@click.option("--calls", metavar="N", type=click.IntRange(1), help="Stop after so many calls have ended.")
@click.option("--size", "file_size", metavar="SIZE", default="64MiB", show_default=True, help="Size of one file.")
@click.option("--files", type=click.IntRange(1, 1000), default=4, show_default=True, help="Files to keep, the newest.")
@click.option(
    "--redact", metavar="RULES", default="default", show_default=True, help="What to hide; see --dump-redact."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@admin_option
def record(
    file: str,
    admin: str,
    rules: tuple[str, ...],
    seconds: str | None,
    calls: int | None,
    file_size: str,
    files: int,
    redact: str,
    quiet: bool,
    socket: str | None,
) -> None:
    """Record what passes a running relay, until Ctrl-C.

    The relay is found by its admin socket. It goes on as it is: nothing is restarted, and if this command is too slow,
    calls are left out of the recording (and counted), never held up.

    \b
    Examples:
      interpose dump record
      interpose dump record --for 10m -w incident.crirec
      interpose dump record --dump 'reset,full:.*Container' --calls 100
    """
    admin = socket or admin
    until = None if seconds is None else time.monotonic() + duration(0.0, 1e9).parse(seconds, "--for")
    max_bytes = size(64 << 10, 1 << 40).parse(file_size, "--size")
    session = _Session(file, redact, max_bytes, files, calls)
    if redact.strip() == "none":
        click.secho(f"warning: {_LOUD}", err=True, fg="red", bold=True)
    progress = _progress(session, file) if sys.stderr.isatty() and not quiet else _no_progress
    with attach(admin, rules) as attached:
        if not quiet:
            click.echo(f"recording what passes {admin} to {file}, end with Ctrl-C", err=True)
        ended_by = _record(attached, session, until, progress)
    session.close()
    if not quiet:
        lost = f", {session.dropped} frames were dropped" if session.dropped else ""
        click.echo(f"{session.calls} calls in {file}{lost} ({ended_by})", err=True)
    if ended_by == _GONE:
        raise click.ClickException(f"the relay behind {admin} is gone")


_GONE = "the relay closed the connection"


def _record(attached: DumpConnection, session: _Session, until: float | None, progress: Callable[[], None]) -> str:
    """Why it ended. The first signal waits for what has passed until now, the second for nothing."""
    stopped: list[str] = []
    deadline = until

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal deadline
        if stopped:
            attached.close()
        else:
            stopped.append(signal.Signals(number).name)
            deadline = time.monotonic() + _CLOSE_TIMEOUT
            attached.finish()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    flushed = time.monotonic()
    try:
        while True:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return stopped[0] if stopped else "the time is over"
            if now - flushed >= _SECOND:
                flushed = now
                session.flush()
                progress()
            data = attached.read(_SECOND if deadline is None else min(_SECOND, deadline - now))
            if data and session.feed(data):
                return "as many calls as were wanted"
            if data == b"":
                return stopped[0] if stopped else _GONE
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _no_progress() -> None:
    """Progress callback that prints nothing."""


def _progress(session: _Session, file: str) -> Callable[[], None]:
    def show() -> None:
        lost = f", {session.dropped} frames dropped" if session.dropped else ""
        click.echo(f"\r{session.calls} calls in {file}{lost}\x1b[K", nl=False, err=True)

    return show
