"""What policies would have decided about a recorded day: decisions along time, what they come to, policies compared.

Everything comes as the plain values that `-o json` prints; a key that is missing is a dash.

The occupancy picture shows exclusive CPUs along time: a line for CPUs with the same history, a column per time slice.

    CPU    09:00                  10:00
    0-1    ························
    2-3    ··AAAAAAAAA·············
           A  default/db/app  2-3

A column shows the container that had the CPU longest in it. Letters are given in the order of admission.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from interpose.cli.render.assignments import candidates_lines, pools_lines
from interpose.cli.render.machine import LETTERS, MORE
from interpose.cli.render.text import (
    WIDTH,
    amount,
    cpu_amount,
    flat,
    group,
    groups,
    or_dash,
    padded,
    sentence,
    strided,
    table,
)
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.text import cut_middle

_FEWEST: Final = 20  # columns
_LABEL: Final = 24  # the widest name of CPUs
_NOBODY: Final = "·"
_ASCII_NOBODY: Final = "."
_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400


def occupancy_text(
    stays: Sequence[Mapping[str, Any]],
    cpus: CpuSet,
    began_ns: int,
    ended_ns: int,
    *,
    width: int = WIDTH,
    ascii_only: bool = False,
) -> str:
    """The picture; times are in UTC."""
    nobody = _ASCII_NOBODY if ascii_only else _NOBODY
    letters = _letters(stays)
    groups = _groups(stays, cpus)
    labels = ["CPU", *(cut_middle(strided(group), _LABEL) for group, _ in groups)]
    left = max(map(len, labels)) + 2
    columns = max(width - left, _FEWEST)
    lines = [padded("CPU", left) + _axis(began_ns, ended_ns, columns)]
    for label, (_, mine) in zip(labels[1:], groups, strict=True):
        lines.append(padded(label, left) + _line(mine, letters, began_ns, ended_ns, columns, nobody))
    lines += [" " * left + line for line in _legend(stays, letters, width - left, ascii_only)]
    return "\n".join(lines)


def _letters(stays: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    titles = dict.fromkeys(or_dash(stay.get("container")) for stay in stays)
    return {title: LETTERS[place] if place < len(LETTERS) else MORE for place, title in enumerate(titles)}


def _groups(stays: Sequence[Mapping[str, Any]], cpus: CpuSet) -> list[tuple[CpuSet, list[Mapping[str, Any]]]]:
    """CPUs of which the very same is to be told, by their first."""
    story: dict[int, list[int]] = {cpu: [] for cpu in cpus}
    for place, stay in enumerate(stays):
        for cpu in _cpus(stay.get("cpus")) & cpus:
            story[cpu].append(place)
    alike: dict[tuple[int, ...], list[int]] = {}
    for cpu, places in story.items():
        alike.setdefault(tuple(places), []).append(cpu)
    return [(CpuSet.of(members), [stays[place] for place in places]) for places, members in alike.items()]


def _line(
    stays: Sequence[Mapping[str, Any]],
    letters: Mapping[str, str],
    began: int,
    ended: int,
    columns: int,
    nobody: str,
) -> str:
    longest = [0] * columns
    line = [nobody] * columns
    span = max(ended - began, 1)
    for stay in stays:
        since, until = int(stay.get("since_ns", began)), int(stay.get("until_ns", ended))
        first, last = (min(max((time - began) * columns // span, 0), columns - 1) for time in (since, until))
        for column in range(first, last + 1):
            start, end = began + column * span // columns, began + (column + 1) * span // columns
            inside = min(until, end) - max(since, start)
            if inside > longest[column] and 2 * inside >= end - start:
                longest[column] = inside
                line[column] = letters[or_dash(stay.get("container"))]
        if line[first] == nobody and until > since:
            line[first] = letters[or_dash(stay.get("container"))]  # too short to be seen, but it was there
    return "".join(line)


def _axis(began: int, ended: int, columns: int) -> str:
    first, last = clock(began), clock(ended)
    return first + last.rjust(max(columns - len(first), len(last) + 1))


def clock(time_ns: int) -> str:
    """The time of day in UTC, to the second."""
    seconds = time_ns // _SECOND % _DAY
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _legend(stays: Sequence[Mapping[str, Any]], letters: Mapping[str, str], width: int, ascii_only: bool) -> list[str]:
    had: dict[str, CpuSet] = {}
    for stay in stays:
        title = or_dash(stay.get("container"))
        had[title] = had.get(title, EMPTY) | _cpus(stay.get("cpus"))
    lines = []
    for title, cpus in had.items():
        line = f"{letters[title]}  {title}  {cpus}"
        lines.append(line if ascii_only else cut_middle(line, max(width, _FEWEST)))
    return lines


def _cpus(text: object) -> CpuSet:
    try:
        return CpuSet.parse(text) if isinstance(text, str) else EMPTY
    except ValueError:
        return EMPTY


_COLUMNS: Final = ("TIME", "WHAT", "CONTAINER", "CPU", "CPUS")
_NAME: Final = _COLUMNS.index("CONTAINER")
_CPUS: Final = _COLUMNS.index("CPUS")
# What is compared: keys of a summary, and their titles.
_ROWS: Final = (
    ("placed", "containers placed"),
    ("refused", "containers refused"),
    ("taken_over", "containers that ran before"),
    ("without_place", "  of them without a place"),
    ("resized", "resizes"),
    ("resizes_refused", "resizes refused"),
    ("moves", "CPU sets changed in running containers"),
    ("moves_then", "  as recorded"),
    ("exclusive_peak", "CPUs with an owner, at most"),
    ("exclusive_average", "  on average"),
)
_ALWAYS: Final = frozenset(("placed", "refused", "moves", "moves_then", "exclusive_peak", "exclusive_average"))
_TROUBLES: Final = (
    ("failures", "Decisions that the policy itself failed to make"),
    ("unreadable", "Messages that could not be read and were passed over"),
    ("strangers", "Containers that ran and of which too little was recorded to decide about them"),
    ("guessed", "Pods and containers from before the recording, whose requests are a guess"),
)


def whatif_text(document: Mapping[str, Any], *, verbose: bool = False, width: int = WIDTH) -> str:
    """One policy: every decision, and what it came to. Several: the comparison, and the decisions if `verbose`."""
    policies = groups(document.get("policies"))
    head = sentence(f"Recording {or_dash(document.get('recording'))}", "", width)
    parts = ["\n".join([*head, *sentence(f"on {or_dash(document.get('machine'))}", "", width)])]
    alone = len(policies) == 1
    parts += ["\n".join(_decisions(policy, verbose, width)) for policy in policies if alone or verbose]
    parts.append("\n".join(_comparison(policies, width)))
    notes = list(_notes(document, policies, width))
    return "\n\n".join(parts + (["\n".join(notes)] if notes else []))


def _decisions(policy: Mapping[str, Any], verbose: bool, width: int) -> Iterator[str]:
    yield f"Policy {or_dash(policy.get('policy'))}"
    steps = groups(policy.get("steps"))
    if not steps:
        yield "Nothing was decided: no container came, and none was seen."
        return
    tabled = table([_COLUMNS, *map(_row, steps)], width=width, name=_NAME, lists=(_CPUS,))
    yield from tabled[0]
    for step, row in zip(steps, tabled[1:], strict=True):
        yield from row
        yield from _reason_lines(step, verbose, width)
    pools = pools_lines(group(policy.get("pools")), width)
    if pools:
        yield from ("", *pools)


def _row(step: Mapping[str, Any]) -> list[str]:
    before, after = group(step.get("before")), group(step.get("assignment"))
    time = step.get("time_ns")
    return [
        clock(time) if isinstance(time, int) else "-",
        or_dash(step.get("what")),
        or_dash(step.get("container")),
        cpu_amount(group(step.get("request")).get("cpu_milli")),
        "refused" if step.get("refused") else _change(before, after),
    ]


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """CPUs before and after; memory nodes where they are written."""
    texts = []
    for grant in (before, after):
        mems = f" mems {or_dash(grant['mems'])}" if grant.get("mems") else ""
        texts.append(or_dash(grant.get("cpus")) + mems)
    return texts[1] if texts[0] == texts[1] else " -> ".join(texts)


def _reason_lines(step: Mapping[str, Any], verbose: bool, width: int) -> Iterator[str]:
    if step.get("reason"):
        yield from sentence(or_dash(step["reason"]), "    ", width)
    moved = groups(step.get("moved"))
    if not verbose:
        if moved:
            yield f"    changes the CPUs of {amount(len(moved), 'other container')}"
        return
    candidates = groups(step.get("candidates"))
    if candidates:
        yield from candidates_lines(candidates, "      ", width)
    for move in moved:
        change = _change(group(move.get("before")), group(move.get("after")))
        yield from sentence(f"{or_dash(move.get('container'))}: {change}", "      ", width)


def _comparison(policies: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """What they come to, side by side."""
    summaries = [group(policy.get("summary")) for policy in policies]
    rows = [["POLICY", *(or_dash(policy.get("policy")) for policy in policies)]]
    for key, title in _ROWS:
        if key in _ALWAYS or any(summary.get(key) for summary in summaries):
            rows.append([title, *(_number(summary.get(key)) for summary in summaries)])
    verdicts = [group(summary.get("verdicts")) for summary in summaries]
    names = dict.fromkeys(name for counts in verdicts for name in counts)
    rows += [
        [f"as created: {or_dash(name)}", *(_number(counts.get(name, 0)) for counts in verdicts)]
        for name in names
        if any(counts.get(name) for counts in verdicts)
    ]
    rows.append(["time with the very same CPUs", *(_share(summary.get("agreement")) for summary in summaries)])
    return flat(table(rows, width=width))


def _notes(document: Mapping[str, Any], policies: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    for text in document.get("notes") or ():
        yield from sentence(or_dash(text), "", width)
    for key, text in _TROUBLES:
        counts = [group(policy.get("summary")).get(key) for policy in policies]
        most = max((count for count in counts if isinstance(count, int)), default=0)
        if most:
            yield from sentence(f"{text}: {most}", "", width)


def _number(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else or_dash(value)


def _share(value: object) -> str:
    return f"{value:.1%}" if isinstance(value, int | float) else "-"
