"""Pods for people: one line each, everything about one, and how far those are that are being started. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from interpose.cli.render.text import WIDTH, amount, flat, or_dash, table
from interpose.core.model.humanize import format_age, format_size
from interpose.core.model.text import cut_middle

_SHOWN_ID: Final = 13
_LEAST_DETAIL: Final = 20
# Groups whose keys are names that somebody gave, and keys that are abbreviations.
_VERBATIM: Final = frozenset({"labels", "annotations"})
_TIMES: Final = frozenset({"created", "started", "finished", "since"})
_AMOUNTS: Final = frozenset({"requests", "limits"})
_TITLES: Final[Mapping[str, str]] = {"uid": "UID", "ips": "IP", "id": "ID", "imageId": "Image ID"}


# -- lists


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRow:
    """A pod in a list. Times are seconds ago. `message` is about its status; `states` are its containers as plain
    values."""

    namespace: str
    name: str
    uid: str
    status: str
    running: int
    containers: int
    restarts: int = 0
    age: float | None = None
    ips: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    ours: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    states: tuple[Mapping[str, Any], ...] = ()

    @property
    def title(self) -> str:
        """`namespace/name`; the name alone if nothing else is known, the uid if not even that is."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name or self.uid


def pod_table(rows: Sequence[PodRow], *, wide: bool, namespaces: bool, labels: bool = False, width: int = WIDTH) -> str:
    """All pods, one line each."""
    header = ["NAME", "UP", "STATUS", "RESTARTS", "AGE"]
    if namespaces:
        header.insert(0, "NAMESPACE")
    if wide:
        header += ["IP", "UID", "IMAGES"]
    if labels:
        header.append("LABELS")
    lines = [header]
    for row in rows:
        line = [
            or_dash(row.name or row.uid[:_SHOWN_ID]),
            f"{row.running}/{row.containers}",
            or_dash(row.status),
            str(row.restarts),
            "-" if row.age is None else format_age(row.age),
        ]
        if namespaces:
            line.insert(0, or_dash(row.namespace))
        if wide:
            line += [or_dash(",".join(row.ips)), or_dash(row.uid[:_SHOWN_ID]), or_dash(",".join(row.images))]
        if labels:
            line.append(or_dash(",".join(f"{key}={value}" for key, value in sorted(row.labels.items()))))
        lines.append(line)
    room = max(width, 1 << 12) if wide or labels else width
    return "\n".join(flat(table(lines, width=room, name=int(namespaces))))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """Something that happened with a pod, or a container of it. Times are seconds ago."""

    object: str
    type: str
    reason: str
    message: str
    last: float
    first: float
    count: int = 1


def event_table(rows: Sequence[EventRow], width: int = WIDTH) -> str:
    """All events, one line each; messages stand last, and are not cut. Names take a third of the line at most."""
    lines = [["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]]
    for row in rows:
        seen = format_age(row.last) + (f" (x{row.count} over {format_age(row.first)})" if row.count > 1 else "")
        named = cut_middle(or_dash(row.object), max(width // 3, _LEAST_DETAIL))
        lines.append([seen, or_dash(row.type), or_dash(row.reason), named, or_dash(row.message)])
    return "\n".join(flat(table(lines, width=1 << 30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What a container uses: CPUs, and bytes. None is not known."""

    namespace: str
    pod: str
    container: str
    cpu: float | None = None
    memory: int | None = None
    written: int | None = None


def usage_table(rows: Sequence[UsageRow], width: int = WIDTH) -> str:
    """All containers, one line each."""
    lines = [["NAMESPACE", "POD", "CONTAINER", "CPU", "MEMORY", "WRITTEN"]]
    for row in rows:
        cpu = "-" if row.cpu is None else f"{row.cpu * 1000:.0f}m"
        amounts = ["-" if value is None else format_size(value) for value in (row.memory, row.written)]
        lines.append([or_dash(row.namespace), or_dash(row.pod), or_dash(row.container), cpu, *amounts])
    return "\n".join(flat(table(lines, width=width, name=1)))


# -- one pod


def describe_pod(document: Mapping[str, Any], *, now: float, width: int = WIDTH) -> str:
    """Everything about a pod, from its document: plain values in columns, groups and lists indented. `now` is in
    seconds, for how long ago something was."""
    return "\n".join(_block(_with_ages(document, now), "", width))


def _with_ages(values: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The same for people: times with how long ago they were, amounts on one line."""
    return {key: _reworded(key, value, now) for key, value in values.items()}


def _reworded(key: str, value: Any, now: float) -> Any:
    if key in _VERBATIM:
        return value
    if key in _TIMES:
        return f"{value} ({format_age(now - datetime.fromisoformat(value).timestamp())} ago)"
    if key in _AMOUNTS:
        return ", ".join(f"{name} {much}" for name, much in value.items())
    if isinstance(value, Mapping):
        return _with_ages(value, now)
    if isinstance(value, list):
        return [_with_ages(item, now) if isinstance(item, Mapping) else item for item in value]
    return value


def _block(values: Mapping[str, Any], indent: str, width: int, *, verbatim: bool = False) -> list[str]:
    titles = {key: or_dash(key) if verbatim else _title(key) for key in values}
    column = max((len(titles[key]) for key, value in values.items() if not _nested(value)), default=0)
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and _nested(value):
            lines.append(f"{indent}{titles[key]}")
            lines += _block(value, indent + "  ", width, verbatim=key in _VERBATIM)
        elif isinstance(value, list) and _nested(value):
            lines.append(f"{indent}{titles[key]}")
            for item in value:
                (first, name), *others = item.items()
                lines.append(f"{indent}  {or_dash(name if first == 'name' else f'{first} {name}')}")
                lines += _block(dict(others), indent + "    ", width)
        elif value not in (None, "", [], {}):
            shown = ", ".join(or_dash(item) for item in value) if isinstance(value, list) else value
            parts = str(shown).rstrip().split("\n") if isinstance(shown, str) else [_word(shown)]
            lines.append(f"{indent}{titles[key]:<{column}}  {or_dash(parts[0])}")
            lines += [f"{indent}{'':<{column}}  {or_dash(part)}" for part in parts[1:]]
    return lines


def _nested(value: object) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _title(key: str) -> str:
    """The key as a title: `cgroupParent` is `Cgroup parent`."""
    if key in _TITLES:
        return _TITLES[key]
    words = "".join(f" {char.lower()}" if char.isupper() else char for char in key)
    return or_dash(words[:1].upper() + words[1:])


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


# -- pods on their way


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLine:
    """What is said of a pod, or below it of a container. `mark` is one of the keys of MARKS."""

    name: str
    words: str
    mark: str = "busy"
    below: tuple["PodLine", ...] = field(default=())


MARKS: Final[Mapping[str, str]] = {"busy": "", "good": "✔", "bad": "✘", "wait": "!"}
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_COLOURS: Final = {"good": "32", "bad": "31", "wait": "33", "busy": "36"}


def board_lines(pods: Sequence[PodLine], *, turn: int, width: int, height: int, colour: bool) -> list[str]:
    """The picture of pods that are being started: a line each, and one for each container that has something to say.

    It is never higher than `height`: pods that are well are left out first, then those at the end.
    """
    shown = list(pods)
    hidden = 0
    while len(shown) > 1 and sum(1 + len(pod.below) for pod in shown) + bool(hidden) > height:
        index = next((i for i, pod in enumerate(shown) if pod.mark == "good"), len(shown) - 1)
        hidden += 1
        del shown[index]
    column = min(
        max((len(or_dash(line.name)) + 2 * depth for pod in shown for depth, line in _levels(pod)), default=0),
        max(width // 2, 8),
    )
    lines = [
        _board_line(line, depth, column, turn, width, colour=colour) for pod in shown for depth, line in _levels(pod)
    ]
    if hidden:
        lines.append(cut_middle(f"  and {amount(hidden, 'more pod')}", width))
    return lines[: max(height, 1)]


def _levels(pod: PodLine) -> list[tuple[int, PodLine]]:
    return [(0, pod), *((1, line) for line in pod.below)]


def _board_line(line: PodLine, depth: int, column: int, turn: int, width: int, *, colour: bool) -> str:
    mark = MARKS[line.mark] or _SPINNER[turn % len(_SPINNER)]
    name = cut_middle(or_dash(line.name), max(column - 2 * depth, 1))
    head = f"{'  ' * depth}{mark} {name:<{max(column - 2 * depth, 1)}}  "
    words = or_dash(line.words) if line.words else ""
    room = max(width - len(head) - 1, 0)
    text = head + (cut_middle(words, room) if room > _LEAST_DETAIL else words[:room])  # causes stand at the end
    if colour:
        text = text.replace(mark, f"\x1b[{_COLOURS[line.mark]}m{mark}\x1b[0m", 1)
    return text.rstrip()
