"""What the two lines around the list say. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interpose.dump.live.model import LiveModel, Order
from interpose.dump.live.news import Lost
from interpose.dump.output.humanize import plain

SECRETS: Final = "REDACTION IS OFF: secrets are on this screen and in everything that is saved from it"


class Role(StrEnum):
    """How a part of a line is meant."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Part:
    """Some words of a line."""

    text: str
    role: Role = Role.PLAIN


def status(model: LiveModel, *, source: str, filter_text: str, now: float, live: bool) -> list[Part]:
    """The line at the bottom: where calls come from, which are shown, how they come."""
    parts = [Part(plain(source))]
    at = model.at + 1 if model.view else 0
    parts.append(Part(f"{at}/{len(model.view)}" + (f" of {model.kept}" if filter_text else "")))
    if filter_text:
        rest = f" (looking at {model.unjudged} more)" if model.unjudged else ""
        parts.append(Part(f"filter: {plain(filter_text)}{rest}", Role.WARNING))
    if model.paused:
        missed = f", {model.missed} missed" if model.missed else ""
        parts.append(Part(f"paused, {model.waiting} waiting{missed}", Role.WARNING))
    elif model.follow:
        parts.append(Part("following", Role.GOOD))
    if model.order is not Order.TIME or model.descending:
        parts.append(Part(f"by {model.order}{', descending' if model.descending else ''}"))
    if live:
        parts.append(Part(f"{model.rate(now):.1f} calls/s"))
    parts += [
        Part(text, role)
        for count, text, role in (
            (model.errors, f"{model.errors} failed", Role.BAD),
            (model.dropped, f"{model.dropped} frames dropped", Role.BAD),
            (model.forgotten, f"{model.forgotten} older calls forgotten", Role.QUIET),
            (model.missed and not model.paused, f"{model.missed} missed while paused", Role.QUIET),
        )
        if count
    ]
    parts.append(Part("? help", Role.QUIET))
    return parts


def banner(lost: Lost | None, *, redacted: bool, anything: bool) -> str:
    """The line at the top; empty if there is nothing to be said."""
    said = [] if redacted else [SECRETS]
    if lost is not None and lost.again_in is not None:
        said.append(
            f"relay is gone, trying again: {plain(lost.why)}" if anything else f"no relay yet: {plain(lost.why)}"
        )
    elif lost is not None:
        said.append(f"cannot read on: {plain(lost.why)}")
    return "; ".join(said)
