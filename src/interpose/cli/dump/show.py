"""`interpose dump show` and `follow`: the calls of a recording, chosen by filters, in the form somebody needs."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from interpose.cli.dump.filter_options import (
    FILTER_HELP,
    STDIN,
    alone_option,
    build_filter,
    choice_options,
    parse_numbers,
    split_arguments,
)
from interpose.cli.dump.output import Progress, output_sink, quiet_end
from interpose.cli.dump.show_calls import TEXT, CallPrinter
from interpose.cli.dump.source import FileSource, StreamSource, open_source
from interpose.dump.filter.language import MATCH_ALL, all_of
from interpose.dump.filter.terms import in_ranges, number_ranges
from interpose.dump.model.call import Flow
from interpose.dump.model.frame_reader import Damage
from interpose.dump.model.frames import Frame
from interpose.dump.output.formats import OUTPUTS
from interpose.dump.page.render import LIMIT
from interpose.dump.recording.reader import find_calls
from interpose.dump.recording.reader import follow as follow_file
from interpose.dump.redact.frames import Redactor, parse_redaction

FORMS: Final = ("list", TEXT, *(name for name in OUTPUTS if name != "list"))
# Those that can be written while a recording grows.
GROWING: Final = ("list", TEXT, "detail", "yaml", "jsonl")
_TO_FILE: Final = ("html", "svg")
_SHOWN_DAMAGE: Final = 10

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
@click.option("-w", "--output", metavar="FILE", default="", help="Write to this file. [default: standard output]")
@click.option("--number", metavar="NUMBERS", help="Calls with these numbers, whole: 12, 5-9, 1,4.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N of the calls.")
@click.option(
    "--sort",
    type=click.Choice(["end", "begin"]),
    default="end",
    show_default=True,
    help="The order of calls: that in which they ended, with those that did not at the end, or in which they began.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIMIT,
    show_default=True,
    metavar="N",
    help="Calls on a page of -o html.",
)
@choice_options
@alone_option
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
    sort: str,
    limit: int,
    alone: bool,
    redact: str,
    strict: bool,
    **choice: Any,
) -> int:
    """Show the calls of a recording, or some of them.

    FILE is a recording (.crirec); the older files of a rotated one (calls.000001.crirec, ...) are found beside it. Or -
    for a stream on standard input.
    """
    files, words = split_arguments(arguments)
    form = form or ("detail" if number else "list")
    choice_made = build_filter(words, choice)
    wanted = all_of([choice_made, *([parse_numbers(number)] if number else [])])
    if form in _TO_FILE and not output and _on_terminal():
        raise click.UsageError(f"-o {form} is for a file: add --output FILE, or redirect")
    hide = _hiding(redact)
    source = open_source(files, alone=alone)
    code: list[int] = []
    reading = [str(file.path) for file in source.recording.files] if isinstance(source, FileSource) else []
    with quiet_end(code), output_sink(output, reading) as sink:
        showing = CallPrinter(wanted, hide, form, sink, limit=limit, last=last, by_begin=sort == "begin")
        progress = Progress(shown=sink.width == 0)
        flows = None
        # What is damaged is found by reading everything, and what is hidden, too.
        if hide is None and not strict and isinstance(source, FileSource):
            flows = _found(source, number, last if choice_made == MATCH_ALL else None)
        for piece in showing.pieces(source, files, flows):
            sink.write(piece)
            progress.tick(showing.selector.seen_calls)
        progress.done()
        sink.flush()
        showing.remarks(source, numbers=number is not None)
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
@click.option("--from-start", is_flag=True, help="Begin with what is in the recording already.")
@choice_options
@alone_option
@click.option(
    "--redact", metavar="RULES", default="none", help="Hide more before showing: default, strict, env:GLOB ..."
)
def follow(arguments: Sequence[str], form: str, from_start: bool, alone: bool, redact: str, **choice: Any) -> int:
    """Show calls as a recording grows, each when it ends. Goes on with the next file when the recording is rotated.

    FILE is a recording (.crirec), or - for a stream on standard input. Ctrl-C ends it.
    """
    files, words = split_arguments(arguments)
    if len(files) > 1:
        raise click.UsageError(f"one recording can be followed, not {len(files)}")
    wanted = build_filter(words, choice)
    hide = _hiding(redact)
    code: list[int] = []
    with quiet_end(code, interrupted=0), output_sink("") as sink:
        showing = CallPrinter(wanted, hide, form, sink)
        if files == [STDIN]:
            frames = StreamSource(sys.stdin.buffer).frames()
        else:
            frames = follow_file(files[0], beginning=from_start, alone=alone, on_damage=_say_damage)
        for piece in showing.growing(frames, files):
            sink.write(piece)
            sink.flush()
    return 0


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def _hiding(rules: str) -> Callable[[Frame], Frame] | None:
    redaction = parse_redaction(rules, "--redact")
    return None if redaction.nothing else Redactor(redaction).frame


def _found(source: FileSource, number: str | None, last: int | None) -> Iterator[Flow] | None:
    """Calls by the index, without reading the others; None if everything has to be read."""
    if number is None:
        return None if last is None else find_calls(source.recording, lambda _: True, last)
    ranges = number_ranges(number)
    return find_calls(source.recording, lambda number: in_ranges(number, ranges), last)


def _say_damage(damage: Damage) -> None:
    click.echo(f"damaged: {damage}", err=True)


def _report(damage: Sequence[Damage], damaged: int) -> None:
    for spot in damage[:_SHOWN_DAMAGE]:
        _say_damage(spot)
    if damaged > _SHOWN_DAMAGE:
        click.echo(f"damaged: {damaged - _SHOWN_DAMAGE} more places", err=True)
