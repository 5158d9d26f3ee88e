"""`interpose dump show` and `follow`: the calls of a recording, chosen by filters, in the form somebody needs."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import click

from interpose.cli.dump_choice import FILTER_HELP, STDIN, choice_options, chosen, split_arguments
from interpose.cli.dump_output import Progress, Sink, opened, quiet_end, styled
from interpose.cli.dump_source import FileSource, Source, StreamSource, open_source
from interpose.config.dump_rules import parse_rules
from interpose.dump.decode import Decoder
from interpose.dump.filters import EVERYTHING, Filter
from interpose.dump.flow import Event, Flow
from interpose.dump.frames import Frame
from interpose.dump.framestream import Damage
from interpose.dump.outputs import OUTPUTS, FlowTexts, View
from interpose.dump.page.render import LIMIT
from interpose.dump.reading import follow as follow_file
from interpose.dump.redaction import Redactor, parse_redaction
from interpose.dump.subjects import Subjects
from interpose.dump.text import TextDump
from interpose.dump.viewing import Viewing, replayed

TEXT: Final = "text"
FORMS: Final = ("list", TEXT, *(name for name in OUTPUTS if name != "list"))
# Those that can be written while a recording grows.
GROWING: Final = ("list", TEXT, "detail", "yaml", "jsonl")
_TO_FILE: Final = ("html", "svg")
_SHOWN_DAMAGE: Final = 10
_EVERYTHING_IN_FULL: Final = ("reset,full:*",)

_FORM_HELP: Final = (
    "list: a line per call. text: the lines of a text dump. detail: calls whole. yaml, jsonl: a document per call. "
    "har: for browsers and proxies. html: a page. latency: how long calls took. svg: the same, drawn."
)
_EXAMPLES: Final = """\b
Examples:
  interpose dump show calls.crirec
  interpose dump show calls.crirec --number 12
  interpose dump show calls.crirec '~m Create & ~ns shop & ~d >100ms'
  interpose dump show calls.crirec --status error -o yaml
  interpose dump show calls.crirec -o html --output calls.html
  interpose dump show calls*.crirec -o latency"""
_FOLLOW_EXAMPLES: Final = """\b
Examples:
  interpose dump follow calls.crirec
  interpose dump follow calls.crirec 'status=error | duration>1s'
  interpose dump follow calls.crirec --pod web -o text"""


def _epilog(examples: str) -> str:
    return f"{examples}\n\n{FILTER_HELP}"


@click.command("show", epilog=_epilog(_EXAMPLES))
@click.argument("arguments", metavar="FILE... [FILTER]...", nargs=-1)
@click.option("-o", "--format", "form", type=click.Choice(FORMS), help=f"{_FORM_HELP} [default: list, or detail]")
@click.option("--output", metavar="FILE", default="", help="Write to this file. [default: standard output]")
@click.option("--number", metavar="NUMBERS", help="Calls with these numbers, whole: 12, 5-9.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N of the calls.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIMIT,
    show_default=True,
    metavar="N",
    help="Calls on a page of -o html.",
)
@choice_options
@click.option("--all-files", is_flag=True, help="Read the older files of a rotated recording, too.")
@click.option(
    "--redact", metavar="RULES", default="none", help="Hide more before showing: default, strict, env:GLOB ..."
)
@click.option("--strict", is_flag=True, help="End with 1 if the recording is damaged.")
def show(
    arguments: Sequence[str],
    form: str | None,
    output: str,
    number: str | None,
    last: int | None,
    limit: int,
    all_files: bool,
    redact: str,
    strict: bool,
    **choice: Any,
) -> int:
    """Show the calls of a recording, or some of them.

    FILE is a recording (.crirec), or - for a stream on standard input. Calls are listed in the order in which they
    ended; those that never did come last.
    """
    files, words = split_arguments(arguments)
    form = form or ("detail" if number else "list")
    wanted = chosen([*words, *([f"~n {number!r}"] if number else [])], choice)
    if form in _TO_FILE and not output and _on_terminal():
        raise click.UsageError(f"-o {form} is for a file: add --output FILE, or redirect")
    hide = _hiding(redact)
    source = open_source(files, all_files=all_files)
    code: list[int] = []
    with quiet_end(code), opened(output, files) as sink:
        showing = _Showing(wanted, hide, form, sink, limit)
        progress = Progress(shown=sink.width == 0)
        flows = None
        if number and number.isdecimal() and hide is None and not words and isinstance(source, FileSource):
            flows = _found(source, int(number), showing)
        pieces = showing.pieces(source, files, last=last, flows=flows)
        for piece in pieces:
            sink.write(piece)
            progress.tick(showing.viewing.seen)
        progress.done()
        sink.flush()
        showing.remarks()
    _report(source.damage, source.damaged)
    return code[0] if code else int(strict and source.damaged > 0)


@click.command("follow", epilog=_epilog(_FOLLOW_EXAMPLES))
@click.argument("arguments", metavar="FILE [FILTER]...", nargs=-1)
@click.option(
    "-o",
    "--format",
    "form",
    type=click.Choice(GROWING),
    default="list",
    show_default=True,
    help="list: a line per call. text: messages as they come. detail: calls whole. yaml, jsonl: a document per call.",
)
@click.option("--from-start", is_flag=True, help="Begin with what is in the file already.")
@choice_options
@click.option(
    "--redact", metavar="RULES", default="none", help="Hide more before showing: default, strict, env:GLOB ..."
)
def follow(arguments: Sequence[str], form: str, from_start: bool, redact: str, **choice: Any) -> int:
    """Show calls as a recording grows, each when it ends. Goes on with the next file when the recording is rotated.

    FILE is a recording (.crirec), or - for a stream on standard input. Ctrl-C ends it.
    """
    files, words = split_arguments(arguments)
    if len(files) > 1:
        raise click.UsageError(f"one recording can be followed, not {len(files)}")
    wanted = chosen(words, choice)
    hide = _hiding(redact)
    code: list[int] = []
    with quiet_end(code, interrupted=0), opened("") as sink:
        showing = _Showing(wanted, hide, form, sink)
        if files == [STDIN]:
            frames = StreamSource(sys.stdin.buffer).frames()
        else:
            frames = follow_file(files[0], beginning=from_start, damaged=_say_damage)
        for piece in showing.growing(frames, files):
            sink.write(piece)
            sink.flush()
    return 0


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def _hiding(rules: str) -> Callable[[Frame], Frame] | None:
    redaction = parse_redaction(rules, "--redact")
    return None if redaction.nothing else Redactor(redaction).frame


def _found(source: FileSource, number: int, showing: "_Showing") -> Iterator[Flow]:
    """One call, by the index: without reading the others if there is one."""
    subjects = Subjects()
    source.recording.entries(subjects.identify, subjects.learn)
    flow = source.recording.flow(number, subjects.identify)
    if flow is not None:
        yield from showing.viewing.chosen(flow)


class _Showing:
    """Frames to text."""

    def __init__(
        self, wanted: Filter, hide: Callable[[Frame], Frame] | None, form: str, sink: Sink, limit: int = LIMIT
    ) -> None:
        self._wanted = wanted
        self._form = form
        self._sink = sink
        self._limit = limit
        self._decoder = Decoder()
        self._texts = FlowTexts(self._decoder)
        self.viewing = Viewing(wanted, self._texts, hide=hide)

    def pieces(
        self, source: Source, files: Sequence[str], *, last: int | None, flows: Iterator[Flow] | None
    ) -> Iterator[str]:
        """Everything, once."""
        if self._form == TEXT:
            if flows is None and last is None:
                return self._text(self.viewing.events(source.frames()))
            flows = self.viewing.flows(source.frames()) if flows is None else flows
            return self._text(chain.from_iterable(map(replayed, _last(flows, last))))
        facts = dict(source.facts)
        if self._form == "html" and isinstance(source, FileSource):
            facts = _with_damage(facts, source)
        flows = self.viewing.flows(source.frames()) if flows is None else flows
        return OUTPUTS[self._form](_last(flows, last), self._view(facts, files))

    def growing(self, frames: Iterable[Frame], files: Sequence[str]) -> Iterator[str]:
        """As frames come; calls that do not end are not shown."""
        if self._form == TEXT:
            return self._text(self.viewing.events(frames, unfinished=False))
        return OUTPUTS[self._form](self.viewing.flows(frames, unfinished=False), self._view({}, files))

    def remarks(self) -> None:
        """What has to be said besides, on stderr."""
        viewing = self.viewing
        if viewing.shown == 0:
            filtered = self._wanted != EVERYTHING
            click.echo(f"no call matches {self._wanted}" if filtered else "there are no calls in it", err=True)
        if self._texts.cut:
            click.echo("texts longer than a MiB were searched to there only", err=True)
        if viewing.dropped:
            click.echo(f"{viewing.dropped} frames never got into the recording: it was too slow", err=True)

    def _text(self, events: Iterable[Event]) -> Iterator[str]:
        dump = TextDump(parse_rules(_EVERYTHING_IN_FULL), self._decoder)
        for event in events:
            lines = dump.lines(event)
            if lines:
                yield "".join(f"{line.in_file}\n" for line in lines)

    def _view(self, facts: dict[str, Any], files: Sequence[str]) -> View:
        return View(
            decoder=self._decoder,
            width=self._sink.width,
            style=styled if self._sink.colour else None,
            ascii_only=self._sink.ascii_only,
            title=", ".join("standard input" if one == STDIN else one.rpartition("/")[2] for one in files),
            filter_text=str(self._wanted),
            limit=self._limit,
            facts=facts,
        )


def _last(flows: Iterable[Flow], count: int | None) -> Iterable[Flow]:
    return flows if count is None else deque(flows, maxlen=count)


def _with_damage(facts: dict[str, Any], source: FileSource) -> dict[str, Any]:
    """A page says at its top what is missing, so everything is read once before."""
    for _frame in source.frames():
        pass
    return facts | {"damage": [str(one) for one in source.damage]} if source.damage else facts


def _say_damage(damage: Damage) -> None:
    click.echo(f"damaged: {damage}", err=True)


def _report(damage: Sequence[Damage], damaged: int) -> None:
    for one in damage[:_SHOWN_DAMAGE]:
        _say_damage(one)
    if damaged > _SHOWN_DAMAGE:
        click.echo(f"damaged: {damaged - _SHOWN_DAMAGE} more places", err=True)
