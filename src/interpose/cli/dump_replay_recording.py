"""The calls of a recording for a replay, those that a filter chooses."""

import time
from collections.abc import Callable, Iterator

import click

from interpose.dump.flow import Flow
from interpose.dump.reading import Recording, open_recording
from interpose.dump.subjects import Subjects

Wanted = Callable[[Flow], bool]


class Recorded:
    """A recording that can be read more than once."""

    def __init__(self, path: str) -> None:
        self._recording: Recording = open_recording([path])

    def flows(self) -> Iterator[Flow]:
        """Its calls, with whom they are about."""
        subjects = Subjects()
        return self._recording.flows(subjects.identify, subjects.learn)

    def tell_damage(self) -> None:
        """What could not be read, on stderr: a replay without it may be another story."""
        for damage in self._recording.damage:
            click.echo(f"warning: {damage}", err=True)


def wanted_by(expression: str) -> Wanted:
    """A filter; ConfigError if it cannot be understood."""
    if not expression:
        return lambda _flow: True
    # Looking into messages is heavy, and next to nobody filters.
    from interpose.dump.decode import Decoder
    from interpose.dump.filters import parse_filter
    from interpose.dump.outputs import FlowTexts

    chosen = parse_filter(expression, now=time.time_ns())
    texts = FlowTexts(Decoder())
    return lambda flow: chosen.matches(flow, texts)
