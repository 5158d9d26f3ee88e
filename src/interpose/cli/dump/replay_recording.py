"""The calls of a recording for a replay, and a filter that chooses among them."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

import click

from interpose.cli.dump.filter_options import FilterArgumentError
from interpose.dump.decode.decode import Decoder
from interpose.dump.filter.language import Filter, parse_filter
from interpose.dump.model.call import Flow
from interpose.dump.model.subject import Subjects
from interpose.dump.output.formats import FlowTexts
from interpose.dump.recording.reader import open_recording
from interpose.dump.replay.selection import RecordedCall, recorded_calls
from interpose.errors import ConfigError

_LARGE: Final = 32 << 20  # bytes that take more than a moment


class ReplayRecording:
    """Files with what is to be replayed; the older files of a rotated recording belong to it unless `alone`."""

    def __init__(self, files: Sequence[str], words: Sequence[str], *, alone: bool = False) -> None:
        """`words` are a filter. ConfigError about files, FilterArgumentError about the filter."""
        self.name = ", ".join(files)
        self._filter = _filter(" ".join(words))
        self._texts = FlowTexts(Decoder())
        self._recording = open_recording(files, alone=alone)

    def calls(self) -> Iterator[RecordedCall]:
        """All calls, with whom they are about and where they are. Says so if that will take a while."""
        size = sum(file.size for file in self._recording.files)
        if size >= _LARGE:
            click.echo(f"Reading {self.name} ({size >> 20} MiB) ...", err=True)
        subjects = Subjects()
        return recorded_calls(self._recording.frames(), subjects.identify, subjects.learn)

    def wanted(self, flow: Flow) -> bool:
        """Whether the filter chooses a call."""
        return self._filter.matches(flow, self._texts)

    def print_damage(self) -> None:
        """What could not be read, on stderr: a replay without it may be another story."""
        for damage in self._recording.damage:
            click.echo(f"warning: {damage}", err=True)


def _filter(text: str) -> Filter:
    try:
        return parse_filter(text, now=time.time_ns())
    except ConfigError as error:
        raise FilterArgumentError("\n".join(error.problems)) from None
