"""A container in a balloon, and what a grant remembers of it: by that a restart finds the balloon again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.balloon import Balloon
from interpose.core.policy.balloons.container_wishes import ContainerWishes
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Request

_BALLOON: Final = "balloon"
_CPUS: Final = "cpus"  # of the balloon, of its parts with slashes between
_PICKED: Final = "components"  # those of a composite that were chosen among several
_COUNTED: Final = "counted"  # what is counted of its pod, if that is less than its containers request
_MAX_DIGITS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedContainer:
    """A container and the number of its balloon among those of its type."""

    request: Request
    wishes: ContainerWishes
    index: int

    @property
    def balloon(self) -> str:
        """The name of its balloon."""
        return f"{self.wishes.kind.name}[{self.index}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonRecord:
    """A balloon as a grant remembers it."""

    type: str
    index: int
    cpus: tuple[CpuSet, ...]  # of its parts
    picked: tuple[str, ...]
    counted: int | None


def grant_details(balloon: Balloon, counted: int | None = None) -> Mapping[str, str]:
    """What the grant of a container in a balloon remembers."""
    details = {_BALLOON: balloon.name, _CPUS: "/".join(str(part.cpus) for part in balloon.parts)}
    if balloon.picked:
        details[_PICKED] = ",".join(balloon.picked)
    if counted is not None:
        details[_COUNTED] = str(counted)
    return details


def read_record(grant: Grant) -> BalloonRecord | None:
    """The balloon that a grant remembers; None if it is none of ours."""
    details = grant.details
    name, bracket, rest = details.get(_BALLOON, "").partition("[")
    number = rest.removesuffix("]")
    counted = details.get(_COUNTED, "")
    if not bracket or not _is_number(number) or (counted and not _is_number(counted)):
        return None
    try:
        cpus = tuple(CpuSet.parse(text) for text in details.get(_CPUS, "").split("/"))
    except ValueError:
        return None
    picked = details.get(_PICKED, "")
    return BalloonRecord(
        type=name,
        index=int(number),
        cpus=cpus,
        picked=tuple(picked.split(",")) if picked else (),
        counted=int(counted) if counted else None,
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
