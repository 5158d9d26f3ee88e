"""What a feed tells the screen. Pure: values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from interpose.dump.model.frames import Frame


@dataclass(frozen=True, slots=True)
class Frames:
    """A batch of frames from the source."""

    frames: Sequence[Frame]


@dataclass(frozen=True, slots=True)
class Connected:
    """What comes from now on comes from a new beginning."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The source is gone and why."""

    why: str
    again_in: float | None  # seconds; None: it is not tried again


@dataclass(frozen=True, slots=True)
class Ended:
    """The source has no further frames."""


FeedEvent: TypeAlias = Frames | Connected | Lost | Ended
