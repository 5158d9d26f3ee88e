"""A machine as a drawing: one SVG file that needs nothing else, made of the same parts as the picture in the terminal.

`layout` places everything and knows no SVG; `svg_text` writes it down. Invariant: what belongs to a part lies inside
of it, and things side by side do not overlap.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from interpose.cli.render.machine import CpuOwner, CpuOwners, MachinePart, cores_in, parts_of, remarks, summary
from interpose.cli.render.text import amount, or_dash, wrapped
from interpose.core.topology.topology import CoreKind, Topology

# Sizes in pixels.
PAGE: Final = 1480
_MARGIN: Final = 20
_CELL_WIDTH: Final = 34
_CELL_HEIGHT: Final = 24
_GAP: Final = 6  # between cores
_CORE_PADDING: Final = 2
_PADDING: Final = 10  # of a part
_TITLE: Final = 24  # height of a part's title
_LETTER: Final = 7.8  # width of a letter of a title, on average and rather too much
_LINE: Final = 22  # of the legend
_PER_ROW: Final = (16, 8, 6, 4, 3, 2, 1)

_FONT: Final = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'
_PART_FILLS: Final = ("#e8edf3", "#f4f7fa", "#fcfdfe", "#ffffff")
_OWNER_FILLS: Final = (
    "#8fd19e", "#8ebcf0", "#f2b880", "#c9a7eb", "#f29c9c", "#7fd6d2", "#e6d36c", "#b8c26a", "#e3a1c8", "#a9b7c6",
)  # fmt: skip
_PLAIN: Final = "#ffffff"
_SHARED: Final = "#dfe5ec"
_EFFICIENCY: Final = "#d4eef7"
_ISOLATED: Final = "#d9730d"  # the frame of a cell
_FRAME: Final = "#9aa7b5"


@dataclass(frozen=True, slots=True, kw_only=True)
class SvgShape:
    """Something drawn. A CPU has its number as text."""

    kind: str  # part, core or cpu
    x: float
    y: float
    width: float
    height: float
    text: str = ""
    depth: int = 0  # of a part: how many parts it is in
    cpu: int = -1

    def moved(self, x: float, y: float) -> "SvgShape":
        """The same shape at another place."""
        return replace(self, x=self.x + x, y=self.y + y)


def layout(topology: Topology) -> list[SvgShape]:
    """Everything but title and legend, from the corner at 0, 0; outer things before what is in them."""
    parts = parts_of(topology)
    tries = [_flow(topology, parts, per_row, PAGE - 2 * _MARGIN, 0) for per_row in _PER_ROW]
    fitting = [shapes for shapes in tries if _extent(shapes)[0] <= PAGE - 2 * _MARGIN]
    return min(fitting or tries[-1:], key=lambda shapes: _extent(shapes)[1])


def svg_text(topology: Topology, owners: CpuOwners | None = None) -> str:
    """The text of the SVG file."""
    shapes = layout(topology)
    wide, high = _extent(shapes)
    title = or_dash(topology.name) if topology.name else "Topology"
    legend = list(_legend(topology, owners))
    texts = [title, summary(topology)]
    width = max(wide, *(len(text) * _LETTER for text in (*texts, *(text for _, _, text in legend)))) + 2 * _MARGIN
    top = 2 * _MARGIN + 40
    below = top + high + _MARGIN
    height = below + len(legend) * _LINE + _MARGIN
    extent = f'width="{_n(width)}" height="{_n(height)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {extent} viewBox="0 0 {_n(width)} {_n(height)}" {_FONT}>',
            f"<title>{escape(title)}: {escape(summary(topology))}</title>",
            f'<rect {extent} fill="#ffffff"/>',
            _text(_MARGIN, _MARGIN + 16, title, size=18, weight="bold"),
            _text(_MARGIN, _MARGIN + 38, summary(topology), size=13, fill="#4a5663"),
            *_drawn(topology, [shape.moved(_MARGIN, top) for shape in shapes], owners),
            *(line for index, entry in enumerate(legend) for line in _entry(entry, below + index * _LINE)),
            "</svg>",
            "",
        ]
    )


# -- placing


def _flow(topology: Topology, parts: Sequence[MachinePart], per_row: int, width: float, depth: int) -> list[SvgShape]:
    """Parts from left to right, then in the next row; all of one row are as high as the highest."""
    placed: list[SvgShape] = []
    row: list[list[SvgShape]] = []
    x = y = 0.0
    for part in parts:
        shapes = _part(topology, part, per_row, width, depth)
        if row and x + shapes[0].width > width:
            placed += _evened(row)
            y += max(shapes[0].height for shapes in row) + _PADDING
            x, row = 0.0, []
        row.append([shape.moved(x, y) for shape in shapes])
        x += shapes[0].width + _PADDING
    return placed + _evened(row)


def _evened(row: Sequence[list[SvgShape]]) -> list[SvgShape]:
    highest = max((shapes[0].height for shapes in row), default=0)
    return [shape for shapes in row for shape in (replace(shapes[0], height=highest), *shapes[1:])]


def _part(topology: Topology, part: MachinePart, per_row: int, width: float, depth: int) -> list[SvgShape]:
    """A part and what is in it, from its own corner."""
    if part.parts:
        inside = _flow(topology, part.parts, per_row, width - 2 * _PADDING, depth + 1)
    else:
        inside = list(_cores(topology, part, per_row))
    wide, high = _extent(inside)
    text = part.title + (f" ({', '.join(part.facts)})" if part.facts else "")
    frame = SvgShape(
        kind="part",
        x=0,
        y=0,
        width=max(wide, len(text) * _LETTER) + 2 * _PADDING,
        height=_TITLE + high + _PADDING,
        text=text,
        depth=depth,
    )
    return [frame, *(shape.moved(_PADDING, _TITLE) for shape in inside)]


def _cores(topology: Topology, part: MachinePart, per_row: int) -> Iterator[SvgShape]:
    cores = cores_in(topology, part.cpus)
    wide = max(map(len, cores), default=0) * _CELL_WIDTH + 2 * _CORE_PADDING
    high = _CELL_HEIGHT + 2 * _CORE_PADDING
    for index, threads in enumerate(cores):
        x, y = index % per_row * (wide + _GAP), index // per_row * (high + _GAP)
        yield SvgShape(kind="core", x=x, y=y, width=wide, height=high)
        for place, cpu in enumerate(threads):
            yield SvgShape(
                kind="cpu",
                x=x + _CORE_PADDING + place * _CELL_WIDTH,
                y=y + _CORE_PADDING,
                width=_CELL_WIDTH,
                height=_CELL_HEIGHT,
                text=str(cpu),
                cpu=cpu,
            )


def _extent(shapes: Sequence[SvgShape]) -> tuple[float, float]:
    return (
        max((shape.x + shape.width for shape in shapes), default=0),
        max((shape.y + shape.height for shape in shapes), default=0),
    )


# -- writing


def _drawn(topology: Topology, shapes: Sequence[SvgShape], owners: CpuOwners | None) -> Iterator[str]:
    by_cpu = owners.by_cpu() if owners is not None else {}
    for shape in shapes:
        if shape.kind == "part":
            fill = _PART_FILLS[min(shape.depth, len(_PART_FILLS) - 1)]
            yield _rect(shape, fill=fill, stroke=_FRAME, radius=6)
            yield _text(shape.x + _PADDING, shape.y + 17, shape.text, size=12, weight="bold")
        elif shape.kind == "core":
            yield _rect(shape, fill="#c6d0da", stroke="none", radius=3)
        else:
            yield from _cpu(topology, shape, owners, by_cpu)


def _cpu(
    topology: Topology, shape: SvgShape, owners: CpuOwners | None, by_cpu: Mapping[int, tuple[int, CpuOwner]]
) -> Iterator[str]:
    cpu = topology.by_id[shape.cpu]
    fill = _EFFICIENCY if cpu.kind is CoreKind.EFFICIENCY else _PLAIN
    about = f"CPU {cpu.id}: package {cpu.package}, NUMA node {cpu.node}, core {cpu.core}"
    label = shape.text
    if owners is not None and cpu.id in owners.shared:
        fill, about = _SHARED, about + ", shared"
    if cpu.id in by_cpu:
        place, owner = by_cpu[cpu.id]
        fill, about = _OWNER_FILLS[place % len(_OWNER_FILLS)], f"{about}, {owner.title}"
        label += owner.letter
    if cpu.id in topology.isolated:
        about += ", isolated"
    yield f"<g><title>{escape(about)}</title>"
    isolated = cpu.id in topology.isolated
    inner = replace(shape.moved(1, 1), width=shape.width - 2, height=shape.height - 2)
    yield _rect(inner, fill=fill, stroke=_ISOLATED if isolated else "none", radius=2, stroke_width=2)
    yield _text(shape.x + shape.width / 2, shape.y + 16.5, label, size=11, anchor="middle") + "</g>"


def _legend(topology: Topology, owners: CpuOwners | None) -> Iterator[tuple[str, str, str]]:
    """Fill, frame and text of each entry; no fill is an entry without a sample."""
    if any(cpu.kind is CoreKind.EFFICIENCY for cpu in topology.cpus):
        yield _EFFICIENCY, _FRAME, "efficiency core"
    for what, cpus in remarks(topology):
        lines = wrapped(f"{what}: {cpus}", PAGE // 10)
        yield (_PLAIN, _ISOLATED, lines[0]) if what == "isolated" else ("", "", lines[0])
        yield from (("", "", line) for line in lines[1:])
    if owners is None:
        return
    for place, owner in enumerate(owners.owners):
        lines = wrapped(f"{owner.letter}  {owner.title}: {owner.cpus}", PAGE // 10)
        yield _OWNER_FILLS[place % len(_OWNER_FILLS)], _FRAME, lines[0]
        yield from (("", "", line) for line in lines[1:])
    if owners.sharing:
        yield _SHARED, _FRAME, f"shared by {amount(owners.sharing, 'container')}"


def _entry(entry: tuple[str, str, str], y: float) -> Iterator[str]:
    fill, frame, text = entry
    if fill:
        sample = SvgShape(kind="sample", x=_MARGIN, y=y, width=22, height=14)
        yield _rect(sample, fill=fill, stroke=frame, radius=2, stroke_width=2 if frame == _ISOLATED else 1)
    yield _text(_MARGIN + 32, y + 12, text, size=12)


def _rect(shape: SvgShape, *, fill: str, stroke: str, radius: int, stroke_width: int = 1) -> str:
    return (
        f'<rect x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}" '
        f'rx="{radius}" fill="{fill}" stroke="{stroke}" stroke-width="{stroke_width}"/>'
    )


def _text(
    x: float, y: float, text: str, *, size: int, weight: str = "normal", fill: str = "#1d2733", anchor: str = "start"
) -> str:
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
