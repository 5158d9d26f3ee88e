"""What the two lines around the list say. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interpose.core.model.text import printable
from interpose.dump.live.feed_events import Lost
from interpose.dump.live.model import LiveModel, Order

SECRETS: Final = "REDACTION IS OFF: secrets are on this screen and in everything that is saved from it"


class StatusRole(StrEnum):
    """How a part of a line is meant."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class StatusPart:
    """Some words of a line."""

    text: str
    role: StatusRole = StatusRole.PLAIN


def status(model: LiveModel, *, source: str, filter_text: str, now: float, live: bool) -> list[StatusPart]:
    """The line at the bottom: where calls come from, which are shown, how they come."""
    parts = [StatusPart(printable(source))]
    at = model.at + 1 if model.view else 0
    parts.append(StatusPart(f"{at}/{len(model.view)}" + (f" of {model.call_count}" if filter_text else "")))
    if filter_text:
        rest = f" (looking at {model.unjudged} more)" if model.unjudged else ""
        parts.append(StatusPart(f"filter: {printable(filter_text)}{rest}", StatusRole.WARNING))
    if model.paused:
        missed = f", {model.missed} missed" if model.missed else ""
        parts.append(StatusPart(f"paused, {model.waiting} waiting{missed}", StatusRole.WARNING))
    elif model.follow:
        parts.append(StatusPart("following", StatusRole.GOOD))
    if model.order is not Order.TIME or model.descending:
        parts.append(StatusPart(f"by {model.order}{', descending' if model.descending else ''}"))
    if live:
        parts.append(StatusPart(f"{model.rate(now):.1f} calls/s"))
    parts += [
        StatusPart(text, role)
        for count, text, role in (
            (model.errors, f"{model.errors} failed", StatusRole.BAD),
            (model.dropped, f"{model.dropped} frames dropped", StatusRole.BAD),
            (model.forgotten, f"{model.forgotten} older calls forgotten", StatusRole.QUIET),
            (model.missed and not model.paused, f"{model.missed} missed while paused", StatusRole.QUIET),
        )
        if count
    ]
    parts.append(StatusPart("? help", StatusRole.QUIET))
    return parts


def banner(lost: Lost | None, *, redacted: bool, anything: bool) -> str:
    """The line at the top; empty if there is nothing to be said."""
    said = [] if redacted else [SECRETS]
    if lost is not None and lost.again_in is not None:
        said.append(
            f"relay is gone, trying again: {printable(lost.why)}"
            if anything
            else f"no relay yet: {printable(lost.why)}"
        )
    elif lost is not None:
        said.append(f"cannot read on: {printable(lost.why)}")
    return "; ".join(said)
