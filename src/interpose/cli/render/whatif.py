"""What policies would have decided about a recorded day: decisions along time, what they come to, policies compared.

Everything comes as the plain values that `-o json` prints; a key that is missing is a dash.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from interpose.cli.render.assignments import candidates_lines, pools_lines
from interpose.cli.render.occupancy import clock
from interpose.cli.render.text import WIDTH, amount, cpu_amount, flat, group, groups, plain, sentence, table

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


def hindsight_text(document: Mapping[str, Any], *, verbose: bool = False, width: int = WIDTH) -> str:
    """One policy: every decision, and what it came to. Several: the comparison, and the decisions if `verbose`."""
    policies = groups(document.get("policies"))
    head = sentence(f"Recording {plain(document.get('recording'))}", "", width)
    parts = ["\n".join([*head, *sentence(f"on {plain(document.get('machine'))}", "", width)])]
    alone = len(policies) == 1
    parts += ["\n".join(_decisions(one, verbose, width)) for one in policies if alone or verbose]
    parts.append("\n".join(_comparison(policies, width)))
    notes = list(_notes(document, policies, width))
    return "\n\n".join(parts + (["\n".join(notes)] if notes else []))


def _decisions(policy: Mapping[str, Any], verbose: bool, width: int) -> Iterator[str]:
    yield f"Policy {plain(policy.get('policy'))}"
    steps = groups(policy.get("steps"))
    if not steps:
        yield "Nothing was decided: no container came, and none was seen."
        return
    tabled = table([_COLUMNS, *map(_row, steps)], width=width, name=_NAME, lists=(_CPUS,))
    yield from tabled[0]
    for step, row in zip(steps, tabled[1:], strict=True):
        yield from row
        yield from _why(step, verbose, width)
    pools = pools_lines(group(policy.get("pools")), width)
    if pools:
        yield from ("", *pools)


def _row(step: Mapping[str, Any]) -> list[str]:
    before, after = group(step.get("before")), group(step.get("assignment"))
    time = step.get("time_ns")
    return [
        clock(time) if isinstance(time, int) else "-",
        plain(step.get("what")),
        plain(step.get("container")),
        cpu_amount(group(step.get("request")).get("cpu_milli")),
        "refused" if step.get("refused") else _change(before, after),
    ]


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """CPUs before and after; memory nodes where they are written."""
    texts = []
    for one in (before, after):
        mems = f" mems {plain(one['mems'])}" if one.get("mems") else ""
        texts.append(plain(one.get("cpus")) + mems)
    return texts[1] if texts[0] == texts[1] else " -> ".join(texts)


def _why(step: Mapping[str, Any], verbose: bool, width: int) -> Iterator[str]:
    if step.get("reason"):
        yield from sentence(plain(step["reason"]), "    ", width)
    moved = groups(step.get("moved"))
    if not verbose:
        if moved:
            yield f"    changes the CPUs of {amount(len(moved), 'other container')}"
        return
    candidates = groups(step.get("candidates"))
    if candidates:
        yield from candidates_lines(candidates, "      ", width)
    for one in moved:
        change = _change(group(one.get("before")), group(one.get("after")))
        yield from sentence(f"{plain(one.get('container'))}: {change}", "      ", width)


def _comparison(policies: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """What they come to, side by side."""
    summaries = [group(one.get("summary")) for one in policies]
    rows = [["POLICY", *(plain(one.get("policy")) for one in policies)]]
    for key, title in _ROWS:
        if key in _ALWAYS or any(one.get(key) for one in summaries):
            rows.append([title, *(_number(one.get(key)) for one in summaries)])
    verdicts = [group(one.get("verdicts")) for one in summaries]
    names = dict.fromkeys(name for one in verdicts for name in one)
    rows += [
        [f"as created: {plain(name)}", *(_number(one.get(name, 0)) for one in verdicts)]
        for name in names
        if any(one.get(name) for one in verdicts)
    ]
    rows.append(["time with the very same CPUs", *(_share(one.get("agreement")) for one in summaries)])
    return flat(table(rows, width=width))


def _notes(document: Mapping[str, Any], policies: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    for text in document.get("notes") or ():
        yield from sentence(plain(text), "", width)
    for key, text in _TROUBLES:
        counts = [group(one.get("summary")).get(key) for one in policies]
        most = max((count for count in counts if isinstance(count, int)), default=0)
        if most:
            yield from sentence(f"{text}: {most}", "", width)


def _number(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else plain(value)


def _share(value: object) -> str:
    return f"{value:.1%}" if isinstance(value, int | float) else "-"
