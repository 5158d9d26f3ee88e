"""Points, verdicts and findings as values.

A point is a sentence about the interface and a function that tries it. The function knows nothing of who is at the
other end: it returns if all is as the interface says, lets the status of a call that was refused pass, and fails an
assertion otherwise. What it is expected to come to is in the tables, not in the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.bench import Bench

Check = Callable[["Bench"], None]


class Kind(Enum):
    """What trying a point can come to."""

    PASSES = "passes"
    REFUSED = "refused"
    DIFFERS = "differs"
    UNTRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is expected of a runtime at a point. `code` is the gRPC status of a refusal; `why` is for readers."""

    kind: Kind
    code: str = ""
    why: str = ""


PASSES = Verdict(kind=Kind.PASSES)


def refused(code: str, why: str) -> Verdict:
    """It says no, with this status."""
    return Verdict(kind=Kind.REFUSED, code=code, why=why)


def differs(why: str) -> Verdict:
    """It does something else."""
    return Verdict(kind=Kind.DIFFERS, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What trying a point came to. `words` are those of the status, of the assertion, or of what is missing."""

    kind: Kind
    code: str = ""
    words: str = ""

    def fits(self, verdict: Verdict) -> bool:
        """Whether it is what the table says."""
        return self.kind is verdict.kind and self.code == verdict.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the machine must have for a point to mean anything. `usual`: the project's own test machines have it."""

    words: str
    met: Callable[[], bool]
    usual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing to try. `alone` ones look at all there is, so nothing else may go on meanwhile."""

    name: str
    check: Check
    ours: Verdict = PASSES
    need: Need | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Points about one thing. `about` says where the group comes from, `absent` why there is nothing to try."""

    name: str
    about: str
    points: tuple[Point, ...] = ()
    absent: str = ""


def point_id(group: Group, point: Point) -> str:
    """A short name that is good for command lines."""
    return "-".join(re.findall(r"[a-z0-9]+", f"{group.name} {point.name}".lower()))
