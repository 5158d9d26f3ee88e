"""A machine as boxes in boxes, drawn with characters: every CPU is a cell, cells between bars are one core.

The picture fits the width it is given: boxes stand side by side as long as there is room, and where not even one box
fits, CPUs are listed in rows. Without colour it says the same: what colours show is a mark behind the CPU as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from interpose.cli.render.machine import CpuOwners, MachinePart, cores_in, parts_of, remarks, summary
from interpose.cli.render.text import amount, or_dash, padded, sentence, visible_width
from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import CoreKind, Topology

_PER_ROW: Final = (16, 8, 6, 4, 3, 2, 1)  # cores side by side that are tried
_BORDER: Final = 4  # columns a box needs besides what is in it
_RESET: Final = "\x1b[0m"


class _Mark(NamedTuple):
    """How a CPU is marked."""

    sign: str
    colour: str  # the number in an escape sequence


_ISOLATED: Final = _Mark("*", "33")
_EFFICIENCY: Final = _Mark("°", "36")
_SHARED: Final = _Mark("·", "2")
_NONE: Final = _Mark(" ", "")
_SIGNS: Final = {"isolated": "* "}
_OWNER_COLOURS: Final = ("42;30", "44;37", "45;37", "46;30", "43;30", "41;37")


def picture(
    topology: Topology, width: int, *, colour: bool = False, owners: CpuOwners | None = None, titled: bool = True
) -> str:
    """The picture with its title and legend."""
    drawing = _Drawing(topology, colour, owners)
    parts = parts_of(topology)
    tries = [drawing.flow(parts, width, per_row) for per_row in _PER_ROW]
    fitting = [lines for lines in tries if max(map(visible_width, lines), default=0) <= width]
    # Of all that fit, the lowest; of those, the one with most cores side by side.
    lines = min(fitting, key=len) if fitting else list(drawing.rows(parts, width, ""))
    title = (f"{or_dash(topology.name)}: " if topology.name else "") + summary(topology)
    head = [*sentence(title, "", width), ""] if titled else []
    return "\n".join([*head, *lines, *drawing.legend(width)])


class _Drawing:
    """The cells of one machine and how they are coloured."""

    def __init__(self, topology: Topology, colour: bool, owners: CpuOwners | None) -> None:
        self._topology = topology
        self._colour = colour
        self._owners = owners
        self._marks = _marks(topology, owners)
        self._digits = len(str(max(topology.by_id, default=0)))

    def flow(self, parts: Sequence[MachinePart], width: int, per_row: int) -> list[str]:
        """Boxes side by side as long as there is room, then in the next row."""
        rows: list[list[list[str]]] = []
        room = 0
        for part in parts:
            box = self._box(part, width, per_row)
            if rows and visible_width(box[0]) + 1 <= room:
                rows[-1].append(box)
            else:
                rows.append([box])
                room = width + 1
            room -= visible_width(box[0]) + 1
        return [line for row in rows for line in _beside(row)]

    def rows(self, parts: Sequence[MachinePart], width: int, indent: str) -> Iterator[str]:
        """The same without boxes, for narrow terminals."""
        for part in parts:
            yield from sentence(_title(part), indent, width)
            inner = indent + "  "
            if part.parts:
                yield from self.rows(part.parts, width, inner)
                continue
            cores = self._cores(part.cpus)
            per_row = max((width - len(inner) + 1) // (visible_width(cores[0]) + 1), 1) if cores else 1
            yield from ((inner + " ".join(row)).rstrip() for row in _chunks(cores, per_row))

    def legend(self, width: int) -> Iterator[str]:
        """Lines that say what the marks mean."""
        notes = [f"{_SIGNS.get(what, '')}{what}: {cpus}" for what, cpus in remarks(self._topology)]
        if _EFFICIENCY in self._marks.values():
            notes.append(f"{_EFFICIENCY.sign} efficiency core")
        if notes:
            yield ""
            yield from (line for note in notes for line in sentence(note, "", width))
        if self._owners is not None:
            yield ""
            yield from self._owned(self._owners, width)

    def _owned(self, owners: CpuOwners, width: int) -> Iterator[str]:
        for place, owner in enumerate(owners.owners):
            sign = self._paint(owner.letter, _OWNER_COLOURS[place % len(_OWNER_COLOURS)])
            rest = sentence(f"{owner.title}: {owner.cpus}", "  ", width)
            yield sign + rest[0][1:]
            yield from rest[1:]
        if owners.sharing:
            yield f"{_SHARED.sign} shared by {amount(owners.sharing, 'container')}"
        if not owners.owners and not owners.sharing:
            yield "no container has CPUs assigned"

    def _box(self, part: MachinePart, width: int, per_row: int) -> list[str]:
        if part.parts:
            lines = self.flow(part.parts, width - _BORDER, per_row)
        else:
            lines = ["│".join(row) for row in _chunks(self._cores(part.cpus), per_row)]
        title = _title(part)
        wide = max([len(title) + 1, *map(visible_width, lines)])
        top = f"╭─ {title} " + "─" * (wide - len(title) - 1) + "╮"
        return [top, *(f"│ {padded(line, wide)} │" for line in lines), "╰" + "─" * (wide + 2) + "╯"]

    def _cores(self, cpus: CpuSet) -> list[str]:
        """The cells of each core, all as wide as the widest."""
        cores = [" ".join(map(self._cell, threads)) for threads in cores_in(self._topology, cpus)]
        wide = max(map(visible_width, cores), default=0)
        return [padded(core, wide) for core in cores]

    def _cell(self, cpu: int) -> str:
        mark = self._marks.get(cpu, _NONE)
        return self._paint(f"{cpu:>{self._digits}}{mark.sign}", mark.colour)

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}{_RESET}" if self._colour and colour else text


def _marks(topology: Topology, owners: CpuOwners | None) -> Mapping[int, _Mark]:
    """Marks by CPU; who has it counts more than what it is."""
    marks = {cpu.id: _EFFICIENCY for cpu in topology.cpus if cpu.kind is CoreKind.EFFICIENCY}
    marks |= dict.fromkeys(topology.isolated, _ISOLATED)
    if owners is not None:
        marks |= dict.fromkeys(owners.shared, _SHARED)
        for cpu, (place, owner) in owners.by_cpu().items():
            marks[cpu] = _Mark(owner.letter, _OWNER_COLOURS[place % len(_OWNER_COLOURS)])
    return marks


def _title(part: MachinePart) -> str:
    return part.title + (f" ({', '.join(part.facts)})" if part.facts else "")


def _chunks(cells: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (cells[start : start + size] for start in range(0, len(cells), size))


def _beside(boxes: Sequence[list[str]]) -> Iterator[str]:
    """Boxes next to each other, their tops in one line."""
    height = max(map(len, boxes))
    for line in range(height):
        cells = [padded(box[line] if line < len(box) else "", visible_width(box[0])) for box in boxes]
        yield " ".join(cells).rstrip()
