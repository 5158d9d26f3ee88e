"""Frames to text: what `interpose dump show` and `follow` write, in the form, order and number that is wanted."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import click

from interpose.cli.dump.filter_options import STDIN
from interpose.cli.dump.output import OutputSink, styled
from interpose.cli.dump.source import DumpSource, FileSource
from interpose.config.dump_rules import parse_rules
from interpose.dump.decode.decode import Decoder
from interpose.dump.filter.language import MATCH_ALL, Filter
from interpose.dump.filter.order import BeginOrder
from interpose.dump.filter.select import CallSelector, events_of
from interpose.dump.model.call import CallEvent, Flow
from interpose.dump.model.frames import Frame
from interpose.dump.output.formats import OUTPUTS, FlowTexts, OutputContext
from interpose.dump.output.text import TextDump
from interpose.dump.page.render import LIMIT

TEXT: Final = "text"
_EVERYTHING_IN_FULL: Final = ("reset,full:*",)


class CallPrinter:
    """Turns the frames of a source into output."""

    def __init__(
        self,
        wanted: Filter,
        hide: Callable[[Frame], Frame] | None,
        form: str,
        sink: OutputSink,
        *,
        limit: int = LIMIT,
        last: int | None = None,
        by_begin: bool = False,
    ) -> None:
        self._wanted = wanted
        self._hides = hide is not None
        self._form = form
        self._sink = sink
        self._limit = limit
        self._last = last
        self._order = BeginOrder() if by_begin else None
        self._decoder = Decoder()
        self._texts = FlowTexts(self._decoder)
        self.selector = CallSelector(wanted, self._texts, hide=hide)

    def pieces(self, source: DumpSource, files: Sequence[str], flows: Iterable[Flow] | None) -> Iterator[str]:
        """Everything, once; `flows` are those that were found without reading the others."""
        if self._form == TEXT and flows is None and self._last is None and self._order is None:
            return self._text(self.selector.events(source.frames()))
        facts = dict(source.facts)
        if self._hides and facts.get("redaction") == "none":
            facts["redaction"] = "when it was shown"
        if self._form == "html" and isinstance(source, FileSource):
            facts = _with_damage(facts, source)
        if flows is None:
            flows = self.selector.flows(source.frames())
        else:
            flows = chain.from_iterable(map(self.selector.select, flows))
        if self._last is not None:
            flows = deque(flows, maxlen=self._last)
        if self._order is not None:
            flows = self._order.sorted(flows)
        if self._form == TEXT:
            return self._text(chain.from_iterable(map(events_of, flows)))
        return OUTPUTS[self._form](flows, self._view(facts, files))

    def growing(self, frames: Iterable[Frame], files: Sequence[str]) -> Iterator[str]:
        """As frames come; calls that do not end are not shown."""
        if self._form == TEXT:
            return self._text(self.selector.events(frames, unfinished=False))
        return OUTPUTS[self._form](self.selector.flows(frames, unfinished=False), self._view({}, files, growing=True))

    def remarks(self, source: DumpSource, *, numbers: bool) -> None:
        """What has to be said besides, on stderr. `numbers`: whether calls were chosen by number."""
        for remark in self._remarks(source, numbers=numbers):
            click.echo(remark, err=True)

    def _remarks(self, source: DumpSource, *, numbers: bool) -> Iterator[str]:
        files = source.recording.files if isinstance(source, FileSource) else []
        if self.selector.shown_calls == 0 and not (files and all(file.size == 0 for file in files)):
            yield f"no call matches {self._wanted}" if self._wanted != MATCH_ALL else "there are no calls in it"
        sessions = {file.session for file in files}
        if numbers and len(sessions) > 1 and self.selector.shown_calls:
            yield f"{len(sessions)} relay processes wrote it, and each counts from 1: ~since and ~until tell them apart"
        if self._texts.cut:
            yield "texts longer than a MiB were searched to there only"
        if self.selector.dropped:
            yield f"{self.selector.dropped} frames never got into the recording: it was too slow"
        if self._order is not None and self._order.late:
            yield f"{self._order.late} calls took so long that they stand behind some that began after them"

    def _text(self, events: Iterable[CallEvent]) -> Iterator[str]:
        dump = TextDump(parse_rules(_EVERYTHING_IN_FULL), self._decoder)
        for event in events:
            lines = dump.lines(event)
            if lines:
                yield "".join(f"{line.in_file}\n" for line in lines)

    def _view(self, facts: dict[str, Any], files: Sequence[str], *, growing: bool = False) -> OutputContext:
        return OutputContext(
            decoder=self._decoder,
            width=self._sink.width,
            style=styled if self._sink.colour else None,
            ascii_only=self._sink.ascii_only,
            growing=growing,
            title=", ".join("standard input" if file == STDIN else file.rpartition("/")[2] for file in files),
            filter_text=str(self._wanted),
            limit=self._limit,
            facts=facts,
        )


def _with_damage(facts: dict[str, Any], source: FileSource) -> dict[str, Any]:
    """A page says at its top what is missing, so everything is read once before."""
    for _frame in source.frames():
        pass
    return facts | {"damage": [str(damage) for damage in source.damage]} if source.damage else facts
