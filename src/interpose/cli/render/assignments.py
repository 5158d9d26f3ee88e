"""Who has which CPUs, as tables: for `simulate`, which also shows why, and for `explain` and `status`.

Records and assignments come as the plain values that the admin socket carries too; a key that is missing is a dash.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from interpose.cli.render.pool_tree import pool_tree_lines
from interpose.cli.render.text import WIDTH, amount, cpu_amount, flat, group, groups, or_dash, sentence, table, words
from interpose.core.model.cpuset import CpuSet

NOT_LISTED: Final = "it is not known yet which containers run: the runtime has not listed them since the relay started"
_COLUMNS: Final = ("CONTAINER", "QOS", "CPU", "CPUS", "MEMS", "SHARES")
_CPUS: Final = _COLUMNS.index("CPUS")
_UNBOUNDED: Final = 1 << 16


def assignments_text(assignments: Sequence[Mapping[str, Any]], width: int = WIDTH) -> str:
    """A table of containers and their CPUs, one line each."""
    if not assignments:
        return "No container has been assigned anything."
    states = any(assignment.get("state") for assignment in assignments)
    rows = [[*_COLUMNS, "STATE"] if states else [*_COLUMNS]]
    rows += [_row(assignment, assignment) + ([state_text(assignment)] if states else []) for assignment in assignments]
    return "\n".join(flat(table(rows, width=width, lists=(_CPUS,))))


def state_text(about: Mapping[str, Any]) -> str:
    """The state of a container; where only the runtime says that it has what is wanted, so."""
    return or_dash(about.get("state")) + (", by the runtime" if about.get("confirmed_by") == "runtime" else "")


def simulation_text(outcome: Mapping[str, Any], *, verbose: bool = False, width: int = WIDTH) -> str:
    """What a simulation came to: each container with what it ends up with and why, then the pools."""
    records = groups(outcome.get("records"))
    now = {assignment.get("container"): assignment for assignment in groups(outcome.get("assignments"))}
    shown = [record for record in records if record.get("action") != "release"]
    released = {record.get("container") for record in records if record.get("action") == "release"}
    title = f"Policy {or_dash(outcome.get('policy'))} on {or_dash(outcome.get('machine'))}"
    lines = [*sentence(title, "", width), ""]
    rows = [list(_COLUMNS), *(_outcome_row(record, now, released) for record in shown)]
    tabled = table(rows, width=width, lists=(_CPUS,))
    lines += tabled[0]
    for record, row in zip(shown, tabled[1:], strict=True):
        lines += [*row, *_reason_lines(record, verbose, width)]
    pools = pool_tree_lines(outcome, width) if verbose else []
    pools = pools or pools_lines(group(outcome.get("pools")), width)
    lines += ["", *pools] if pools else []
    refused = sum(1 for record in shown if record.get("refusal"))
    if refused:
        lines += ["", f"{amount(refused, 'container')} refused"]
    return "\n".join(lines)


def pools_lines(pools: Mapping[str, Any], width: int = WIDTH) -> list[str]:
    """The table of the CPU pools as lines."""
    rows = [("POOL", "SIZE", "CPUS"), *((or_dash(name), _size(cpus), or_dash(cpus)) for name, cpus in pools.items())]
    return flat(table(rows, width=width, lists=(2,))) if pools else []


def candidates_lines(candidates: Sequence[Mapping[str, Any]], indent: str, width: int = WIDTH) -> list[str]:
    """The ways there were; the one that was taken has an arrow. Reasons stand below where they do not fit beside."""
    rows = [["   CANDIDATE", "CPUS", "SCORE", "WHY"]]
    for candidate in candidates:
        name = ("-> " if candidate.get("chosen") else "   ") + or_dash(candidate.get("name"))
        rows.append([name, *(or_dash(candidate.get(key)) for key in ("cpus", "score", "why"))])
    wide = flat(table(rows, width=_UNBOUNDED, indent=indent))
    if max(map(len, wide)) <= width:
        return wide
    tabled = table([row[:-1] for row in rows], width=width, indent=indent, lists=(1,))
    lines = tabled[0]
    for (*_, why), row in zip(rows[1:], tabled[1:], strict=True):
        lines += [*row, *(sentence(why, indent + " " * 7, width) if why != "-" else [])]
    return lines


def _row(about: Mapping[str, Any], assigned: Mapping[str, Any]) -> list[str]:
    return [
        or_dash(about.get("container")),
        or_dash(about.get("qos")),
        cpu_amount(about.get("cpu_milli")),
        *(or_dash(assigned.get(key)) for key in ("cpus", "mems", "shares")),
    ]


def _outcome_row(record: Mapping[str, Any], now: Mapping[Any, Mapping[str, Any]], released: set[Any]) -> list[str]:
    title = record.get("container")
    request = group(record.get("request"))
    about = {"container": title, "qos": request.get("qos"), "cpu_milli": request.get("cpu_milli")}
    if record.get("refusal"):
        return _row(about, {"cpus": "refused"})
    if title in released:
        had = group(record.get("assignment"))
        return _row(about, {**had, "cpus": f"ended ({or_dash(had.get('cpus'))})"})
    return _row(about, now.get(title, group(record.get("assignment"))))


def _reason_lines(record: Mapping[str, Any], verbose: bool, width: int) -> Iterator[str]:
    refusal = group(record.get("refusal"))
    reason = refusal.get("message") or record.get("reason")
    if reason:
        yield from sentence(or_dash(reason), "    ", width)
    if not verbose:
        return
    candidates = groups(record.get("candidates"))
    if candidates:
        yield from candidates_lines(candidates, "      ", width)
    changed = words(record.get("changed"))
    if changed:
        yield from sentence(f"changes what {', '.join(changed)} may use", "      ", width)


def _size(cpus: object) -> str:
    try:
        return str(len(CpuSet.parse(str(cpus or ""))))
    except ValueError:
        return "-"
