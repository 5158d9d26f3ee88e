"""The dump worker: a process beside the relay that redacts, writes the dump and the recording.

It lives as long as the socket it reads from: it ends when the relay closes it or is gone, whichever way, and writes
what it has got until then. Signals that end a group of processes are the relay's business. Nothing it does, or fails
to do, can hold up a call: at worst the relay's queue runs full and frames are dropped there, which is counted.

Once a second it tells the relay on the same socket how it gets on, as a line of JSON.
"""

import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from interpose.config.dump_redaction import parse_redaction
from interpose.config.dump_rules import parse_rules
from interpose.dump.capture.intake import Intake
from interpose.dump.capture.sinks import DumpFile, DumpLog
from interpose.dump.capture.worker_config import WorkerConfig, read_config
from interpose.dump.decode.decode import Decoder
from interpose.dump.model.call import NO_SUBJECT
from interpose.dump.model.frames import Header
from interpose.dump.output.text import DumpLine, TextDump
from interpose.dump.recording.writer import RecordingWriter
from interpose.dump.redact.frames import Redactor
from interpose.errors import ConfigError
from interpose.log import setup

_log = logging.getLogger(__name__)

_READ: Final = 1 << 18
_SECOND: Final = 1.0
# Somebody may look at the file while it grows: for a person this is at once.
_MOMENT: Final = 0.05
_AGAIN: Final = 5.0
_NICE: Final = 5
_OOM_SCORE: Final = "500"


class DumpWorker:
    """Everything that is done with what comes."""

    def __init__(self, config: WorkerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._due = 0.0  # when opening the recording may be tried again
        self._refused = ""  # why it could not be opened
        rules = parse_rules(config.rules)
        self.intake = Intake(Redactor(parse_redaction(config.redact)).frame)
        self._text = TextDump(rules, Decoder(), count_period=config.count_period) if rules.enabled else None
        self._file = DumpFile(config.file, empty=config.empty_file) if config.file else None
        self._dump_log = DumpLog(config.log_format) if config.log else None
        self._recording: RecordingWriter | None = None
        self.frames = 0
        self.lines = 0

    def feed(self, data: bytes) -> None:
        """Redact and write the frames that these bytes complete."""
        for event in self.intake.feed(data):
            self.frames += 1
            if isinstance(event.frame, Header):
                self._record()
            elif self._recording is not None:
                subject = NO_SUBJECT if event.flow is None else event.flow.subject
                self._recording.write(event.frame, subject, event.wire)
            if self._text is not None:
                self._write(self._text.lines(event))

    def _record(self) -> None:
        """Open the recording, now or, if that fails, some seconds later."""
        config, header = self._config, self.intake.header
        if not config.record or header is None or self._recording is not None or self._clock() < self._due:
            return
        try:
            self._recording = RecordingWriter(
                config.record,
                header_facts={**header.facts, "redaction": config.redact},
                max_bytes=config.record_size,
                files=config.record_files,
                context=self.intake.subjects.context,
            )
            self._refused = ""
        except (ConfigError, OSError) as error:
            self._refused = f"{config.record}: {error}"
            self._due = self._clock() + _AGAIN

    def _write(self, lines: Sequence[DumpLine]) -> None:
        self.lines += len(lines)
        if self._file is not None:
            self._file.write(lines)
        if self._dump_log is not None:
            self._dump_log.write(lines)

    def flush(self) -> None:
        """Everything that was got is where it belongs."""
        self._record()
        if self._file is not None:
            self._file.flush()
        if self._recording is not None:
            self._recording.flush()

    def close(self) -> None:
        """Write what is waiting and close file and recording."""
        if self._file is not None:
            self._file.close()
        if self._recording is not None:
            self._recording.close()

    def report(self) -> dict[str, Any]:
        """Counters and the last error, sent to the relay."""
        file, recording = self._file, self._recording
        errors = [str(sink.error) for sink in (file, recording) if sink is not None and sink.error is not None]
        errors += [self._refused] if self._refused else []
        return {
            "frames": self.frames,
            "lines": self.lines,
            "recording": recording is not None,
            "lost": (0 if file is None else file.lost) + (0 if recording is None else recording.lost),
            "damaged": self.intake.stream.damaged,
            "error": "; ".join(errors),
        }


def serve(sock: socket.socket, worker: DumpWorker, clock: Callable[[], float] = time.monotonic) -> None:
    """Read until the relay is gone. What was read is written when nothing comes for a moment, or after a second."""
    told = clock()
    unwritten = False
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    while True:
        if poll.poll((_MOMENT if unwritten else _SECOND) * 1000):
            data = sock.recv(_READ)
            if not data:
                return
            worker.feed(data)
            unwritten = True
        elif unwritten:
            worker.flush()
            unwritten = False
        if clock() - told >= _SECOND:
            told = clock()
            worker.flush()
            _send_report(sock, worker)


def _send_report(sock: socket.socket, worker: DumpWorker) -> None:
    try:
        sock.send(json.dumps(worker.report()).encode() + b"\n", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return  # nobody listens now; what it was is in the next one


def _lower_priority() -> None:
    """Calls come first: others get the processor before us, and if memory runs out we go before the relay does."""
    try:
        os.nice(_NICE)
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    except OSError as error:
        _log.debug("Priority stays as it is", extra={"kv": {"err": str(error)}})


def main(arguments: list[str]) -> int:
    """`FD CONFIG`: the descriptor of a connected socket, and the configuration as JSON."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    config = read_config(arguments[1])
    setup("info", config.log_format)
    _lower_priority()
    with socket.socket(fileno=int(arguments[0])) as sock:
        worker = DumpWorker(config)
        try:
            serve(sock, worker)
        finally:
            worker.close()
            _send_report(sock, worker)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
