"""What `interpose hooks` shows to people. Answers in, text out; a key that is missing is shown as a dash.

All text of files, plugins and errors passes through `printable`: the terminal is not ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interpose.cli.common.terminal import printable
from interpose.hooks.api.hookpoint import HookPoint

# Titles and keys of the table, in order. The error comes last, it is the long one.
_COLUMNS = (
    ("NAME", "name"),
    ("STATE", "state"),
    ("POLICY", "failure_policy"),
    ("PRIORITY", "priority"),
    ("HOOKS", "hooks"),
    ("CALLS", "calls"),
    ("FAILURES", "failures"),
    ("MEAN", "mean_ms"),
    ("LAST ERROR", "last_error"),
)
_AGES = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def age(seconds: object) -> str:
    """How long ago, in the largest unit that fits."""
    if not isinstance(seconds, int | float):
        return "-"
    unit, factor = next(((unit, factor) for unit, factor in _AGES if seconds >= factor), ("s", 1))
    return f"{int(seconds // factor)}{unit}"


def list_text(answer: object) -> str:
    """The hook servers of a relay, what is wrong with its files, and what it knows of pods."""
    if not isinstance(answer, Mapping):
        return printable(answer)
    return "\n".join([*_plugins(answer), *_problems(answer), *_store(answer)])


def _plugins(answer: Mapping[str, Any]) -> Iterator[str]:
    directory = printable(answer.get("directory"))
    plugins = _groups(answer.get("plugins"))
    if not plugins:
        yield f"No hook servers are registered; files are expected in {directory}, with names that end in .json"
        return
    yield f"Hook servers registered in {directory}:"
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[_cell(plugin, key) for _, key in _COLUMNS] for plugin in plugins]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    for row in rows:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(plugin: Mapping[str, Any], key: str) -> str:
    value = plugin.get(key)
    text = printable(value)
    if key == "state" and isinstance(plugin.get("state_seconds"), int | float):
        return f"{text} {age(plugin['state_seconds'])}"
    if key == "hooks" and isinstance(value, list) and all(isinstance(name, str) for name in value):
        # All of them, as a koordlet has it, would be wider than any terminal.
        return "all" if set(value) == set(HookPoint) else printable(",".join(value))
    if key == "mean_ms" and value is not None:
        return f"{text}ms"
    if key == "last_error" and value and plugin.get("last_error_seconds") is not None:
        return f"{text} ({age(plugin['last_error_seconds'])} ago)"
    return text


def _problems(answer: Mapping[str, Any]) -> Iterator[str]:
    problems, warnings = _groups(answer.get("problems")), _groups(answer.get("warnings"))
    if problems or warnings:
        yield "Problems:"
    for problem in problems:
        state = "the last good version is in force" if problem.get("in_force") else "nothing of it is in force"
        yield f"  {printable(problem.get('file'))}: {state}"
        yield from (f"    - {printable(message)}" for message in problem.get("messages") or ())
    for warning in warnings:
        yield f"  {printable(warning.get('file'))}: is in force as far as it is understood"
        yield from (f"    - {printable(message)}" for message in warning.get("messages") or ())


def _store(answer: Mapping[str, Any]) -> Iterator[str]:
    store = answer.get("store")
    if isinstance(store, Mapping):
        pods, containers, pending = (printable(store.get(key)) for key in ("pods", "containers", "pending"))
        yield f"Known to the relay: {pods} pods, {containers} containers, {pending} pending"


def _groups(value: object) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def check_text(findings: Sequence[Mapping[str, Any]]) -> str:
    """The findings of a check: a verdict per file, then what it registers and what is wrong."""
    return "\n".join(line for finding in findings for line in _finding(finding))


def _finding(finding: Mapping[str, Any]) -> Iterator[str]:
    problems, registers = finding["problems"], finding["registers"]
    verdict = f"cannot be used, {len(problems)} problem{'s'[: len(problems) != 1]}" if problems else "ok"
    yield f"{printable(finding['file'])}: {verdict if problems or registers else finding['note']}"
    if registers is not None:
        yield from (f"  {title:<9} {text}" for title, text in _registered(registers))
    yield from (f"  problem: {printable(problem)}" for problem in problems)
    yield from (f"  warning: {printable(warning)}" for warning in finding["warnings"])


def _registered(registers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "endpoint", printable(registers["endpoint"])
    yield "hooks", printable(", ".join(registers["hooks"]))
    yield "policy", printable(registers["failure_policy"])
    yield "priority", printable(registers["priority"])
    if registers["timeout_seconds"] is not None:
        yield "timeout", f"{printable(registers['timeout_seconds'])}s"
    if registers["selector"] is not None:
        yield "selector", printable(registers["selector"])
