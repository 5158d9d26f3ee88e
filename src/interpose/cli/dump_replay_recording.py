"""The calls of a recording for a replay, and a filter that chooses among them."""

import time
from collections.abc import Iterator, Sequence

import click

from interpose.dump.decode import Decoder
from interpose.dump.filters import Filter, parse_filter
from interpose.dump.flow import Flow
from interpose.dump.outputs import FlowTexts
from interpose.dump.reading import open_recording
from interpose.dump.subjects import Subjects
from interpose.errors import ConfigError


class Recorded:
    """Files with what is to be replayed; the older files of a rotated recording belong to it."""

    def __init__(self, files: Sequence[str], words: Sequence[str]) -> None:
        """`words` are a filter. ConfigError about files, UsageError about the filter."""
        self.name = ", ".join(files)
        self._filter = _filter(" ".join(words))
        self._texts = FlowTexts(Decoder())
        self._recording = open_recording(files)

    def flows(self) -> Iterator[Flow]:
        """All calls, with whom they are about."""
        subjects = Subjects()
        return self._recording.flows(subjects.identify, subjects.learn)

    def wanted(self, flow: Flow) -> bool:
        """Whether the filter chooses a call."""
        return self._filter.matches(flow, self._texts)

    def tell_damage(self) -> None:
        """What could not be read, on stderr: a replay without it may be another story."""
        for damage in self._recording.damage:
            click.echo(f"warning: {damage}", err=True)


def _filter(text: str) -> Filter:
    try:
        return parse_filter(text, now=time.time_ns())
    except ConfigError as error:
        raise click.UsageError("\n".join(error.problems)) from None
