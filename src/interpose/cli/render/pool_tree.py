"""The pools of a policy as a tree in plain text, each with its containers, and as owners of CPUs for pictures.

Pools and assignments come as the plain values of the admin socket; a key that is missing is a dash. A pool whose parent
is not there is shown at the top.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from interpose.cli.render.machine import CpuOwners, owners_of
from interpose.cli.render.text import WIDTH, amount, cpu_amount, flat, group, groups, or_dash, sentence, strided, table
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.text import cut_middle


class _Column(NamedTuple):
    """A column: its title and the key in a pool that it shows."""

    title: str
    key: str


_CPUS: Final = (
    _Column("CPUS", "cpus"),
    _Column("OWN", "own"),
    _Column("IDLE", "idle"),
    _Column("ISOLATED", "isolated"),
)
_NO_POOL: Final = {"name": "in no pool"}
_MARK: Final = "* "  # before a container
_LEAST_TITLE: Final = 12  # columns a container's title keeps at least


def pools_text(answer: object, width: int = WIDTH) -> str:
    """The pools of the policy in force: CPUs, memory nodes, what is granted and what is free, containers."""
    about = group(answer)
    pools, assignments = groups(about.get("pool_details")), groups(about.get("assignments"))
    title = f"Policy {or_dash(about.get('policy'))}"
    if not pools:
        return f"{title} has no pools."
    counts = f"{title}: {amount(len(pools), 'pool')}, {amount(len(assignments), 'container')}"
    return "\n".join([*sentence(counts, "", width), "", *pool_tree_lines(about, width)])


def pool_tree_lines(about: Mapping[str, Any], width: int = WIDTH) -> list[str]:
    """The tree without its title as lines; none if there are no pools."""
    pools, assignments = groups(about.get("pool_details")), groups(about.get("assignments"))
    if not pools:
        return []
    used = {column.key for column in _CPUS if any(pool.get(column.key) for pool in pools)} | {"cpus"}
    used |= {"own"} if any(assignment.get("exclusive") for assignment in assignments) else set()
    columns = [column for column in _CPUS if column.key in used]
    header = ("POOL", *(column.title for column in columns), "MEMS", "GRANTED", "FREE")
    by_title = {str(assignment.get("container")): assignment for assignment in assignments}
    names = width * 2 // 5  # what names may take of a line
    rows = [header, *_rows(_Nodes.of(pools, by_title), columns, by_title, names)]
    lists = tuple(range(1, 2 + len(columns)))
    return flat(table(rows, width=width, lists=lists))


def owners_of_pools(answer: object) -> CpuOwners:
    """Pools as owners of CPUs: each CPU is that of the innermost pool that it is in."""
    inner: dict[int, int] = {}
    pools = groups(group(answer).get("pool_details"))
    for place, pool in enumerate(pools):
        cpus = CpuSet.union(_cpus(pool.get(key)) for key in ("cpus", "own", "isolated"))
        inner |= dict.fromkeys(cpus, place)
    members: dict[int, list[int]] = {}
    for cpu, place in inner.items():
        members.setdefault(place, []).append(cpu)
    return owners_of(
        [
            {"container": pool.get("name"), "exclusive": str(CpuSet.of(members[place]))}
            for place, pool in enumerate(pools)
            if place in members
        ]
    )


class _Nodes(NamedTuple):
    """Pools by the pools that they are inside of, and containers by pool."""

    top: Sequence[Mapping[str, Any]]
    children: Mapping[str, Sequence[Mapping[str, Any]]]

    @classmethod
    def of(cls, pools: Sequence[Mapping[str, Any]], containers: Iterable[str]) -> "_Nodes":
        top: list[Mapping[str, Any]] = []
        children: dict[str, list[Mapping[str, Any]]] = {}
        earlier: set[str] = set()
        for pool in pools:
            # What is inside of itself, or of a pool that comes later, would never be reached.
            parent = str(pool.get("parent"))
            (children.setdefault(parent, []) if parent in earlier else top).append(pool)
            earlier.add(str(pool.get("name")))
        placed = {title for pool in pools for title in _titles(pool)}
        lost = [title for title in containers if title not in placed]
        return cls([*top, {**_NO_POOL, "containers": lost}] if lost else top, children)


def _rows(
    nodes: _Nodes, columns: Sequence[_Column], assignments: Mapping[str, Mapping[str, Any]], names: int
) -> Iterator[tuple[str, ...]]:
    def below(pools: Sequence[Mapping[str, Any]], prefix: str) -> Iterator[tuple[str, ...]]:
        for pool in pools:
            last = pool is pools[-1]
            yield (
                f"{prefix}{'└─' if last else '├─'} {or_dash(pool.get('name'))}",
                *(_shown(pool.get(column.key)) for column in columns),
                or_dash(pool.get("mems")),
                cpu_amount(pool.get("granted_milli")),
                "0" if pool.get("free_milli") == 0 else cpu_amount(pool.get("free_milli")),
            )
            inner = prefix + ("   " if last else "│  ")
            children = nodes.children.get(str(pool.get("name")), ())
            mark = inner + ("│ " if children else "  ") + _MARK
            for title in _titles(pool):
                shown = cut_middle(or_dash(title), max(names - len(mark), _LEAST_TITLE))
                yield _container(mark + shown, columns, assignments.get(title, {}))
            yield from below(children, inner)

    return below(nodes.top, "")


def _container(name: str, columns: Sequence[_Column], assignment: Mapping[str, Any]) -> tuple[str, ...]:
    """What a container has; as granted counts what it asks for besides its own CPUs."""
    own, asked = _cpus(assignment.get("exclusive")), assignment.get("cpu_milli")
    has = {"cpus": str(_cpus(assignment.get("cpus")) - own), "own": str(own)}
    return (
        name,
        *(_shown(has.get(column.key)) for column in columns),
        or_dash(assignment.get("mems")),
        cpu_amount(max(0, asked - 1000 * len(own)) if isinstance(asked, int) else None),
        "",
    )


def _titles(pool: Mapping[str, Any]) -> Sequence[str]:
    titles = pool.get("containers")
    return [str(title) for title in titles] if isinstance(titles, list) else []


def _shown(cpus: object) -> str:
    return strided(found) if (found := _cpus(cpus)) else or_dash(cpus)


def _cpus(text: object) -> CpuSet:
    try:
        return CpuSet.parse(text) if isinstance(text, str) else EMPTY
    except ValueError:
        return EMPTY
