"""Who has which CPUs, as letters for pictures: from the assignments that a relay tells or a simulation ends with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from interpose.cli.render.text import plain
from interpose.core.model.cpuset import EMPTY, CpuSet

LETTERS: Final = ascii_uppercase + ascii_lowercase
MORE: Final = "+"  # the letter of all that come after the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A container with CPUs of its own."""

    letter: str
    title: str
    cpus: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Who has what."""

    owners: tuple[Owner, ...] = ()
    shared: CpuSet = EMPTY  # CPUs of containers that have none of their own
    sharing: int = 0  # how many these are

    def by_cpu(self) -> Mapping[int, tuple[int, Owner]]:
        """Owner and its place in the list, by CPU."""
        return {cpu: (place, owner) for place, owner in enumerate(self.owners) for cpu in owner.cpus}


def owners_of(assignments: Sequence[Mapping[str, Any]]) -> Owners:
    """Owners in the order of the assignments. What cannot be read as CPUs is left out."""
    owners: list[Owner] = []
    shared, sharing = EMPTY, 0
    for one in assignments:
        own = _cpus(one.get("exclusive"))
        rest = _cpus(one.get("cpus")) - own
        if own:
            letter = LETTERS[len(owners)] if len(owners) < len(LETTERS) else MORE
            owners.append(Owner(letter=letter, title=plain(one.get("container")), cpus=own))
        if rest:
            shared |= rest
            sharing += 1
    return Owners(owners=tuple(owners), shared=shared, sharing=sharing)


def _cpus(text: object) -> CpuSet:
    try:
        return CpuSet.parse(text) if isinstance(text, str) else EMPTY
    except ValueError:
        return EMPTY
