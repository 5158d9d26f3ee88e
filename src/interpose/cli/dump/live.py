"""`interpose dump live`: calls as they pass, full screen."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from interpose.cli.common.admin_client import admin_option

if TYPE_CHECKING:
    from interpose.dump.live.feed import FeedSource, Refine

_PARTS = ("rich", "textual")
_NONE = "none"


@click.command("live")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("-f", "--filter", "filter_text", metavar="FILTER", default="", help="Show only some calls; f changes it.")
@click.option("--only", metavar="RULE", multiple=True, help="Let the relay send only some calls, as --dump does.")
@click.option(
    "--redact",
    metavar="RULES",
    default=None,
    help="What is hidden: default, strict, none, or a list. [default: default; of FILE: nothing more than there]",
)
@click.option(
    "--keep", metavar="N", type=click.IntRange(1, 1_000_000), default=5000, show_default=True, help="Calls in memory."
)
@click.option("--wait", is_flag=True, help="Begin also if there is no relay yet.")
@admin_option
def live(
    *,
    file: Path | None,
    filter_text: str,
    only: tuple[str, ...],
    redact: str | None,
    keep: int,
    wait: bool,
    admin: str,
) -> None:
    """Look at calls as they pass a relay, full screen; or at those of the recording FILE, which may still grow.

    Nothing the relay does depends on it: if this screen is slow, it misses calls and says how many. If the relay is
    restarted, it comes back. ? shows all keys.

    \b
    Examples:
      interpose dump live
      interpose dump live -f '~s error | ~d >1s'             only what failed or was slow
      interpose dump live --only 'reset,full:.*Container'    let the relay send nothing else
      interpose dump live calls.crirec                       a recording
    """
    if others := [name for name, stream in _streams().items() if not stream.isatty()]:
        raise click.UsageError(
            f"a full screen needs a terminal, which {' and '.join(others)} {'is' if len(others) == 1 else 'are'} not; "
            "use `interpose dump follow FILE`, or `interpose dump record`"
        )
    try:
        import interpose.dump.live.app  # noqa: F401 - whether it can be
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _PARTS:
            raise
        raise click.ClickException(
            f"the live view needs {missing}, which is not installed: pip install 'interpose[ui]'"
        ) from None
    if file is not None and only:
        raise click.UsageError("--only asks a relay; use --filter with a recording")
    _run(file, filter_text=filter_text, only=only, redact=redact, keep=keep, wait=wait, admin=admin)


def _streams() -> Mapping[str, IO[str]]:
    return {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}  # the screen is drawn on the last


def _run(
    file: Path | None,
    *,
    filter_text: str,
    only: tuple[str, ...],
    redact: str | None,
    keep: int,
    wait: bool,
    admin: str,
) -> None:
    from interpose.dump.decode.decode import Decoder
    from interpose.dump.filter.language import parse_filter
    from interpose.dump.live.app import LiveApp
    from interpose.dump.live.board import LiveViewParts
    from interpose.dump.live.feed import Feed
    from interpose.dump.live.model import LiveModel

    rules = redact if redact is not None else "default" if file is None else _NONE
    refine = _redaction(rules)
    parse_filter(filter_text, now=0)  # a mistake is said before the screen is cleared
    source = _relay(admin, only, wait=wait) if file is None else _recording(file)
    view = LiveViewParts(
        feed=Feed(source, refine),
        decoder=Decoder(),
        model=LiveModel(keep=keep),
        redaction=None if file is not None and rules == _NONE else rules,
        filter_text=filter_text,
    )
    LiveApp(view).run()


def _redaction(rules: str) -> "Callable[[], Refine]":
    from interpose.dump.redact.frames import Redactor, parse_redaction

    redaction = parse_redaction(rules, "--redact")
    return lambda: Redactor(redaction).frame


def _recording(file: Path) -> "FeedSource":
    from interpose.dump.live.sources import RecordingSource
    from interpose.dump.recording.reader import Recording

    _ = Recording(file).header  # what is not a recording is said before the screen is cleared
    return RecordingSource(file)


def _relay(admin: str, only: tuple[str, ...], *, wait: bool) -> "FeedSource":
    from interpose.cli.dump.attach import attach
    from interpose.dump.live.feed import SourceLostError
    from interpose.dump.live.sources import RelaySource

    first = [] if wait else [attach(admin, only)]

    def again() -> Iterable[bytes]:
        if first:
            return first.pop()
        try:
            return attach(admin, only)
        except click.ClickException as error:
            raise SourceLostError(error.message) from None

    return RelaySource(admin, again)
