"""The policy of a running relay in a few lines, for `interpose status`, and the list of policies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from interpose.cli.render.assignments import pools_lines
from interpose.cli.render.text import WIDTH, amount, flat, group, groups, or_dash, sentence, table, words

_LABEL: Final = 12
_COUNTS: Final = (("packages", "packages"), ("nodes", "NUMA nodes"), ("cpus", "CPUs"))
_REFUSED: Final = 5  # refusals that are shown, newest first


def policy_status_text(answer: object, width: int = WIDTH) -> str:
    """What is in force, on what, and what is wrong."""
    about = group(answer)
    machine = group(about.get("topology"))
    lines = [f"policy: {or_dash(about.get('policy'))}"]
    lines += _line("set by", or_dash(about.get("origin")), width)
    if machine:
        counts = [f"{or_dash(machine[key])} {title}" for key, title in _COUNTS if key in machine]
        special = [f"{key} {or_dash(machine[key])}" for key in ("isolated", "offline") if machine.get(key)]
        lines += _line("machine", ", ".join(counts + special), width)
    for key in ("available", "reserved"):
        if about.get(key):
            lines += _line(key, or_dash(about[key]), width)
    lines += _line(
        "containers",
        f"{or_dash(about.get('containers'))}, {or_dash(about.get('exclusive'))} with CPUs of their own",
        width,
    )
    state = group(about.get("state_file"))
    if state.get("path"):
        trouble = f", not written: {or_dash(state['error'])}" if state.get("error") else ""
        lines += _line("state file", or_dash(state["path"]) + trouble, width)
    lines += ["  " + line for line in pools_lines(group(about.get("pools")), width - 2)]
    failing = [
        f"{or_dash(failure.get('container'))}: {or_dash(failure.get('error'))} ({amount(_count(failure), 'attempt')})"
        for failure in groups(about.get("failing"))
    ]
    refused = [_refusal(refusal) for refusal in groups(about.get("refused"))]
    more = [f"and {len(refused) - _REFUSED} more"] if len(refused) > _REFUSED else []
    for title, listed in (
        ("not written", failing),
        ("refused", refused[:_REFUSED] + more),
        ("problems", words(about.get("problems"))),
    ):
        lines += [f"  {title}:"] if listed else []
        lines += [line for text in listed for line in sentence(text, "    ", width)]
    return "\n".join(lines)


def policies_text(policies: Sequence[Mapping[str, Any]], active: str | None = None, width: int = WIDTH) -> str:
    """Every policy with its names, what it does and its options; a star at the one that is active."""
    return "\n\n".join("\n".join(_policy(policy, active, width)) for policy in policies)


def _policy(policy: Mapping[str, Any], active: str | None, width: int) -> Iterator[str]:
    aliases = words(policy.get("aliases"))
    name = or_dash(policy.get("name")) + (f" (also {', '.join(aliases)})" if aliases else "")
    yield name + ("  * active" if active is not None and active == policy.get("name") else "")
    yield from sentence(or_dash(policy.get("description")), "    ", width)
    options = policy.get("options") or ()
    rows = [("OPTION", "DEFAULT", "MEANING")]
    for option in options:
        group_name, _, name = or_dash(option["name"]).rpartition(".")
        if group_name and not any(row[0] == f"{group_name}:" for row in rows):
            rows.append((f"{group_name}:", "", ""))
        rows.append(("  " * bool(group_name) + name, or_dash(option["default"]), or_dash(option["meaning"])))
    if options:
        yield ""
        yield from flat(table(rows, width=width, indent="    "))


def _refusal(refusal: Mapping[str, Any]) -> str:
    times = refusal.get("times")
    often = f"{times} times" if isinstance(times, int) and times > 1 else ""
    when = ", ".join(filter(None, (or_dash(refusal["at"]) if refusal.get("at") else "", often)))
    return f"{or_dash(refusal.get('container'))}: {or_dash(refusal.get('message'))}" + (f" ({when})" if when else "")


def _count(failing: Mapping[str, Any]) -> int:
    attempts = failing.get("attempts")
    return attempts if isinstance(attempts, int) else 0


def _line(label: str, text: str, width: int) -> list[str]:
    first, *rest = sentence(text, " " * (_LABEL + 2), width)
    return [f"  {label:<{_LABEL}}{first[_LABEL + 2 :]}", *rest]
