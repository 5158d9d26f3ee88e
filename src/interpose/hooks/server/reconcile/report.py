"""What a round would do, or did, for people and for programs: one line or one record per value.

The node and its QoS directories come first, then pods by name, each with its containers. All text that others wrote
(names, reasons, values found) is made harmless before it reaches a terminal.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Special, Value, kube_qos_of
from interpose.core.model.qos import QosClass
from interpose.core.model.quantity import format_bytes
from interpose.core.model.text import printable
from interpose.hooks.server.plugin import AnyPlugin, Kernel
from interpose.hooks.server.reconcile.plan import BOUNDED, PlanAction, PlanItem
from interpose.hooks.server.targets import ActuatorTarget

WIDTH: Final = 100
_NARROWEST: Final = 60
_MIN_WHY: Final = 30  # with less room the reasons have lines of their own
_MAX_VALUE: Final = 16  # characters of a value in one line; a long list of CPUs is folded
_GAP: Final = "  "
_INDENT_WHY: Final = 6
_TITLES: Final = ("WHAT", "NOW", "WANTED", "ACTION", "WHY")
_IN_PODS: Final = (Level.POD, Level.SANDBOX, Level.CONTAINER)
_TITLE_OF: Final[Mapping[Level, str]] = MappingProxyType({Level.QOS: "QoS class", Level.HOST_APP: "Host application"})
_NO_QOS: Final[Mapping[str, QosClass]] = MappingProxyType({})
_NO_PROBLEMS: Final[Mapping[str, str]] = MappingProxyType({})
_NOTHING_MISSING: Final[Mapping[str, Sequence[Parameter]]] = MappingProxyType({})


class ReportedProblem(NamedTuple):
    """A plugin that could say nothing about a subject, and why."""

    plugin: str
    subject: str
    text: str


class _Style(StrEnum):
    """How a terminal is told; each is ended by _END."""

    PLAIN = ""
    HEADING = "\x1b[1m"
    FAINT = "\x1b[2m"
    RED = "\x1b[31m"
    GREEN = "\x1b[32m"
    YELLOW = "\x1b[33m"
    CYAN = "\x1b[36m"


_END: Final = "\x1b[0m"
_Paint = Callable[[_Style, str], str]


class _ActionText(NamedTuple):
    """An action: the word in its line, how it looks, and what the summary says of all such, before and after."""

    word: str
    style: _Style
    summary: str
    done: str = ""  # the same if not said
    always: bool = False  # in the summary also if there are none


_ACTIONS: Final[Mapping[PlanAction, _ActionText]] = MappingProxyType(
    {
        PlanAction.KEEP: _ActionText("ok", _Style.GREEN, "as wanted", always=True),
        PlanAction.SET: _ActionText("set", _Style.YELLOW, "to change", "changed", always=True),
        PlanAction.RESTORE: _ActionText("restore", _Style.CYAN, "to restore", "restored", always=True),
        PlanAction.UNSUPPORTED: _ActionText("unsupported", _Style.FAINT, "unsupported", always=True),
        PlanAction.HELD: _ActionText("held", _Style.RED, "held back"),
        PlanAction.GONE: _ActionText("gone", _Style.FAINT, "gone"),
        PlanAction.LEFT: _ActionText("left", _Style.FAINT, "left to a policy"),
    }
)


_UNDONE: Final = _ActionText("not done", _Style.RED, "not done")


class _Row(NamedTuple):
    indent: int
    item: PlanItem
    action_text: _ActionText


class _Heading(NamedTuple):
    indent: int
    text: str
    aside: str = ""


_Line = _Row | _Heading


def render(
    items: Iterable[PlanItem],
    *,
    unchanged: int = 0,
    failures: Sequence[ReportedProblem] = (),
    problems: Mapping[str, str] = _NO_PROBLEMS,
    idle: Mapping[str, str] = _NO_PROBLEMS,
    missing: Mapping[str, Sequence[Parameter]] = _NOTHING_MISSING,
    qos: Mapping[str, QosClass] = _NO_QOS,
    acted: bool = False,
    undone: Collection[PlanItem] = (),
    width: int = WIDTH,
    colour: bool = False,
) -> str:
    """The report as text.

    `kept` are values as wanted that are not among the items, `problems` say which plugins' rules cannot be made, `idle`
    which plugins want nothing and why, `missing` what this kernel does not have for them, `qos` are the classes of pods
    by uid. `acted`: it was done, but for the items that are `undone`. `colour` is for a terminal only.
    """
    keys = {_value_key(item) for item in undone}
    rows = [_Row(0, item, _UNDONE if _value_key(item) in keys else _ACTIONS[item.action]) for item in _sorted(items)]
    paint = _paint_colour if colour else _paint_plain
    text = [
        *_table(list(_lines(rows, qos)), max(width, _NARROWEST), paint),
        *_problem_lines(failures, problems, paint),
        *_idle_lines(idle, missing, paint),
        _summary(rows, unchanged, failures, acted=acted),
    ]
    return "\n".join(text) + "\n"


def _value_key(item: PlanItem) -> tuple[Level, str, Parameter]:
    return item.target.level, item.target.key, item.parameter


def as_json(
    items: Iterable[PlanItem],
    *,
    failures: Sequence[ReportedProblem] = (),
    problems: Mapping[str, str] = _NO_PROBLEMS,
    idle: Mapping[str, str] = _NO_PROBLEMS,
    missing: Mapping[str, Sequence[Parameter]] = _NOTHING_MISSING,
    qos: Mapping[str, QosClass] = _NO_QOS,
) -> list[dict[str, Any]]:
    """The same as records; `kind` tells what one is: value, failure, problem, idle or missing."""
    records: list[dict[str, Any]] = [
        {
            "kind": "value",
            "level": str(item.target.level),
            "name": item.target.name,
            "key": item.target.key,
            "pod_uid": item.target.pod_uid,
            "qos": _text_of(qos.get(item.target.pod_uid)),
            "directory": item.target.directory,
            "parameter": str(item.parameter),
            "now": _record(item.now),
            "wanted": _record(item.wanted),
            "action": str(item.action),
            "plugin": item.plugin,
            "why": item.reason,
            "note": item.note,
        }
        for item in _sorted(items)
    ]
    records += [
        {"kind": "failure", "plugin": failure.plugin, "name": failure.subject, "error": failure.text}
        for failure in failures
    ]
    records += [{"kind": "problem", "plugin": plugin, "error": text} for plugin, text in sorted(problems.items())]
    records += [{"kind": "idle", "plugin": plugin, "why": text} for plugin, text in sorted(idle.items())]
    records += [
        {"kind": "missing", "plugin": plugin, "parameters": [str(parameter) for parameter in parameters]}
        for plugin, parameters in sorted(missing.items())
    ]
    return records


def idle_plugins(rules: Mapping[str, object]) -> dict[str, str]:
    """Plugins that want nothing anywhere, with the reason that their rule has for it."""
    reasons = {plugin: getattr(rule, "reason", "") for plugin, rule in rules.items()}
    return {plugin: reason for plugin, reason in reasons.items() if reason and isinstance(reason, str)}


def missing_parameters(plugins: Iterable[AnyPlugin], kernel: Kernel) -> dict[str, tuple[Parameter, ...]]:
    """What plugins may set and this kernel does not have; nothing as long as nobody has seen a cgroup."""
    if not kernel.parameters:
        return {}
    others = {
        Parameter.OOM_SCORE_ADJ: True,
        Parameter.CORE_SCHED: kernel.core_sched,
        Parameter.RESCTRL: kernel.resctrl is not None,
        Parameter.SCHED_GROUP_IDENTITY: kernel.group_identity is not None,
        Parameter.SCHED_CORE: kernel.sched_core is not None,
    }
    found = {}
    for plugin in plugins:
        served = {parameter for parameters in plugin.serves.values() for parameter in parameters}
        if absent := tuple(
            parameter
            for parameter in Parameter
            if parameter in served and not others.get(parameter, parameter in kernel.parameters)
        ):
            found[plugin.name] = absent
    return found


# -- order and headings


def _group_of(target: ActuatorTarget) -> str:
    """What belongs under one heading: a pod with all that is in it, or a target for itself."""
    return (target.pod_uid or target.key) if target.level in _IN_PODS else f"{target.level} {target.key}"


def _pod_name(target: ActuatorTarget) -> str:
    name = target.name.rpartition("/")[0] if target.level is Level.CONTAINER else target.name
    return name or target.pod_uid or target.key


def _sorted(items: Iterable[PlanItem]) -> list[PlanItem]:
    levels, parameters = list(Level), list(Parameter)

    def sort_key(item: PlanItem) -> tuple[Any, ...]:
        target = item.target
        in_pod = target.level in _IN_PODS
        outer = (_pod_name(target), _group_of(target)) if in_pod else (levels.index(target.level), target.name)
        inner = (levels.index(target.level), target.name, target.key, parameters.index(item.parameter))
        return in_pod, *outer, *inner

    return sorted(items, key=sort_key)


def _lines(rows: Iterable[_Row], qos: Mapping[str, QosClass]) -> Iterator[_Line]:
    group, previous = "", None
    for row in rows:
        target = row.item.target
        if _group_of(target) != group:
            group = _group_of(target)
            yield _pod_heading(target, qos) if target.level in _IN_PODS else _heading(target)
        inside = target.level in (Level.SANDBOX, Level.CONTAINER)
        if inside and (previous is None or (previous.level, previous.key) != (target.level, target.key)):
            yield _inner_heading(target)
        previous = target
        yield row._replace(indent=4 if inside else 2)


def _heading(target: ActuatorTarget) -> _Heading:
    if target.level is Level.NODE:
        return _Heading(0, "Node")
    return _Heading(0, f"{_TITLE_OF[target.level]} {_one_line(target.name or target.key)}", _one_line(target.directory))


def _pod_heading(target: ActuatorTarget, qos: Mapping[str, QosClass]) -> _Heading:
    classes = [_text_of(qos.get(target.pod_uid)), str(kube_qos_of(target.directory)) if target.directory else ""]
    return _Heading(0, _one_line(_pod_name(target)), ", ".join(name for name in classes if name))


def _inner_heading(target: ActuatorTarget) -> _Heading:
    if target.level is Level.SANDBOX:
        return _Heading(2, "sandbox")
    name = target.name.rpartition("/")[2] or target.key[:12]
    return _Heading(2, _one_line(name), "" if target.running else "does not run")


# -- the table


def _table(lines: Sequence[_Line], width: int, paint: _Paint) -> Iterator[str]:
    rows = [_cells(line) for line in lines if isinstance(line, _Row)]
    if not rows:
        yield "Nothing to show: no plugin wants anything, and nothing is to be restored."
        yield ""
        return
    sizes = [max(len(cells[column]) for cells in (_TITLES, *rows)) for column in range(4)]
    sizes[1], sizes[2] = (min(size, _MAX_VALUE) for size in sizes[1:3])
    room = width - sum(sizes) - len(_GAP) * len(sizes)
    beside = room >= _MIN_WHY
    sizes.append(room if beside else width - _INDENT_WHY)
    yield paint(_Style.FAINT, _join_cells(_TITLES if beside else _TITLES[:4], sizes, _Style.PLAIN, _paint_plain))
    for line in lines:
        if isinstance(line, _Heading):
            aside = f"  {paint(_Style.FAINT, line.aside)}" if line.aside else ""
            if not line.indent:
                yield ""
            yield " " * line.indent + paint(_Style.HEADING, line.text) + aside
        else:
            *cells, why = (_fold(cell, size) for cell, size in zip(_cells(line), sizes, strict=True))
            yield from _fold_row([*cells, why] if beside else cells, sizes, line.action_text.style, paint)
            if not beside:
                yield from (" " * _INDENT_WHY + paint(_Style.FAINT, part) for part in why)
    yield ""


def _cells(row: _Row) -> tuple[str, ...]:
    item = row.item
    why = f"{item.plugin}: {item.reason}" if item.reason else item.plugin
    return (
        " " * row.indent + item.parameter,
        value_text(item.parameter, item.now),
        value_text(item.parameter, item.final),
        row.action_text.word,
        _one_line(f"{why} ({item.note})" if item.note else why),
    )


def _fold_row(cells: Sequence[list[str]], sizes: Sequence[int], style: _Style, paint: _Paint) -> Iterator[str]:
    for index in range(max(len(lines) for lines in cells)):
        yield _join_cells([lines[index] if index < len(lines) else "" for lines in cells], sizes, style, paint)


def _fold(text: str, width: int) -> list[str]:
    """A text in lines, broken where a word, a number of a list or a part of a name ends if there is such a place."""
    if len(text) <= width:
        return [text]
    near = width - 1
    patterns = rf".{{1,{width}}}$|.{{1,{near}}}[,; ]|.{{1,{near}}}[./]|.{{1,{width}}}"
    return [part.rstrip() for part in re.findall(patterns, text)]


def _join_cells(cells: Sequence[str], sizes: Sequence[int], style: _Style, paint: _Paint) -> str:
    padded = [f"{cell:<{size}}" for cell, size in zip(cells, sizes, strict=False)]
    padded[3] = paint(style, cells[3]) + padded[3][len(cells[3]) :]
    return _GAP.join(padded).rstrip()


# -- what comes after it


def _problem_lines(failures: Sequence[ReportedProblem], problems: Mapping[str, str], paint: _Paint) -> Iterator[str]:
    if problems:
        yield paint(_Style.HEADING, "Rules that cannot be made; what was in force stays:")
        yield from (f"  {_one_line(plugin)}: {_one_line(text)}" for plugin, text in sorted(problems.items()))
        yield ""
    if failures:
        yield paint(_Style.HEADING, "Plugins that could not decide:")
        for failure in failures:
            yield f"  {_one_line(failure.plugin)} on {_one_line(failure.subject)}: {_one_line(failure.text)}"
        yield ""


def _idle_lines(idle: Mapping[str, str], missing: Mapping[str, Sequence[Parameter]], paint: _Paint) -> Iterator[str]:
    if idle:
        yield paint(_Style.HEADING, "Plugins that want nothing:")
        yield from (f"  {_one_line(plugin)}: {_one_line(text)}" for plugin, text in sorted(idle.items()))
        yield ""
    if missing:
        yield paint(_Style.HEADING, "What this kernel does not have:")
        for plugin, parameters in sorted(missing.items()):
            yield f"  {', '.join(parameters)} (for {_one_line(plugin)})"
        yield ""


def _summary(rows: Sequence[_Row], unchanged: int, failures: Sequence[ReportedProblem], *, acted: bool) -> str:
    counts = Counter(row.action_text for row in rows)
    counts[_ACTIONS[PlanAction.KEEP]] += unchanged
    parts = [
        f"{counts[action]} {(action.done if acted else '') or action.summary}"
        for action in (*_ACTIONS.values(), _UNDONE)
        if action.always or counts[action]
    ]
    parts[0] = parts[0].replace(" ", " value " if counts[_ACTIONS[PlanAction.KEEP]] == 1 else " values ", 1)
    if failures:
        parts.append(f"{len(failures)} undecided")
    return ", ".join(parts)


# -- values


def value_text(parameter: Parameter, value: Value | None) -> str:
    """A value for people: bytes in the largest unit that is exact, words for what is not a number."""
    if value is None:
        return "-"
    if isinstance(value, Special):
        # A limit that is cleared is none.
        return "cleared" if value is CLEAR and parameter not in BOUNDED else str(UNLIMITED)
    if isinstance(value, int):
        return format_bytes(value) if parameter is Parameter.MEMORY_LIMIT else str(value)
    return _one_line(value) or "empty"


def _record(value: Value | None) -> int | str | None:
    return str(value) if isinstance(value, Special) else value


def _text_of(qos: QosClass | None) -> str:
    return "" if qos is None else str(qos)


def _one_line(text: str) -> str:
    """Text of several lines as printable text on one line."""
    return printable("; ".join(text.strip().splitlines()))


def _paint_plain(_style: _Style, text: str) -> str:
    return text


def _paint_colour(style: _Style, text: str) -> str:
    return f"{style}{text}{_END}" if style and text else text
