"""What the demo found out about values in cgroup files: whether they are as promised, and how they are shown.

Nothing here is printed or read: each value of the demo's table is held against what others found.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from examples.demo.parts import CPUS, GUEST, NAMESPACE, POD_VALUES, PODS, Asked, DemoPod, Due
from interpose.core.model.cgroup import CLEAR, CRI_FIELDS, UNLIMITED, Level, Parameter, Value
from interpose.cri.messages import cri
from interpose.hooks.server.reconcile.report import value_text

_WORDS: Final[Mapping[Level, str]] = {Level.POD: "pod", Level.CONTAINER: "container"}
_WHO, _WHAT, _WHERE = 9, 23, 16  # widths of columns
_INDENT: Final = " " * 8
_MORE: Final = "..."
_ENDLESS: Final = ("GetContainerEvents",)  # ends with its client, which is no failure
# Calls by which a hook server looks at the node. It is stopped during the demo, and cancels the call it is at.
_LOOKS: Final = ("ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus")


class Spot(NamedTuple):
    """Where a value is: a pod of the demo, the pod itself or its container, and the parameter."""

    pod: str
    level: Level
    parameter: Parameter


Values = Mapping[Spot, Value]
Reasons = Mapping[Spot, str]
_NO_REASONS: Final[Reasons] = MappingProxyType({})
Everywhere = Mapping[tuple[str, Parameter], Value]


def dues() -> Iterator[tuple[Spot, Due]]:
    """Every value of the table, by where it is."""
    for pod in PODS:
        for due in POD_VALUES[pod.name]:
            yield from ((Spot(pod.name, level, due.parameter), due) for level in due.levels)


def without_guest(values: Values) -> dict[Spot, Value]:
    """The values of those that are there all the time."""
    return {spot: value for spot, value in values.items() if spot.pod != GUEST.name}


ASKED: Final[Values] = {spot: due.asked for spot, due in dues()}
FROM_THE_START: Final[Values] = {spot: due.started for spot, due in dues()}
STARTED: Final[Values] = without_guest(FROM_THE_START)
ARRIVED: Final[Values] = {spot: due.arrived for spot, due in dues()}
EDITED: Final[Values] = {spot: due.edited for spot, due in dues()}
LEFT: Final[Values] = without_guest({spot: due.left for spot, due in dues()})
RESTORED: Final[Values] = without_guest(ASKED)

PARAMETERS: Final = tuple(dict.fromkeys(spot.parameter for spot in ASKED))


def reasons(records: Sequence[Mapping[str, Any]]) -> dict[Spot, str]:
    """Plugin and reason of each value, from what the hook server's admin socket tells."""
    found: dict[Spot, str] = {}
    for record in records:
        names = str(record.get("name", "")).split("/")
        if record["kind"] == "value" and record["level"] in tuple(_WORDS) and names[0] == NAMESPACE:
            spot = Spot(names[1], Level(record["level"]), Parameter(record["parameter"]))
            found[spot] = f"{record['plugin']}: {record['why']}"
    return found


def policy_reason(pod: DemoPod, policy: str, report: Mapping[str, Any]) -> dict[Spot, str]:
    """The reason of a container's CPUs, from what the relay's admin socket tells of it."""
    spot = Spot(pod.name, Level.CONTAINER, Parameter.CPUSET_CPUS)
    return {spot: f"policy {policy}: {report['decision']['reason']}"}


# -- checking


def wrong_values(when: str, found: Values, promised: Values) -> list[str]:
    """Where files differ from what was promised."""
    return [
        f"{when}: {spot.parameter} of {_WORDS[spot.level]} {spot.pod} is {_shown(spot, found.get(spot))}, "
        f"not {_shown(spot, value)}"
        for spot, value in promised.items()
        if found.get(spot) != value
    ]


def wrong_leftovers(found: Everywhere, untouched: Everywhere) -> list[str]:
    """Where a node differs from one that has the same pods and never had relay or hook server."""
    return [
        f"restored: {parameter} of {directory} is {found.get((directory, parameter))}, not {value}"
        for (directory, parameter), value in untouched.items()
        if found.get((directory, parameter)) != value
    ]


def wrong_request(pod: DemoPod, told: Values) -> list[str]:
    """Where the runtime was told something else than promised: what CRI carries must be there from the start."""
    promised = {
        spot: value
        for spot, value in FROM_THE_START.items()
        if spot.pod == pod.name and spot.level is Level.CONTAINER and spot.parameter in CRI_FIELDS
    }
    return wrong_values("CreateContainer", told, promised)


def wrong_order(created: int, changed: Mapping[str, int]) -> list[str]:
    """Who had not made room yet when the runtime made the guest's container; moments in nanoseconds."""
    late = [name for name, moment in changed.items() if moment > created]
    return [f"CreateContainer: {name} was not updated before" for name in late]


def wrong_status(when: str, pod: DemoPod, status: cri.ContainerStatus) -> list[str]:
    """Where the manager sees something else than it asked for."""
    resources = status.resources.linux
    # In one form: no limit is 0, and all CPUs, the only way for an update to clear a set, are no restriction.
    cpus = resources.cpuset_cpus
    shown = {name: max(getattr(resources, name), 0) for name in Asked._fields}
    shown |= {"cpuset_cpus": "" if cpus == CPUS else cpus}
    asked = {**pod.asked._asdict(), "cpuset_cpus": ""}
    return [
        f"{when}: the manager sees {name} of {pod.name} as {found!r}, not {asked[name]!r}"
        for name, found in shown.items()
        if found != asked[name]
    ]


def wrong_calls(counted: Sequence[Mapping[str, Any]], least: Mapping[str, int]) -> list[str]:
    """Where the relay counted fewer calls than there must have been, or one that failed."""
    calls = {str(row["method"]): row["calls"] for row in counted}
    looks = sum(row["failed"] for row in counted if row["method"] in _LOOKS)
    expected = (*_ENDLESS, *_LOOKS) if looks <= 1 else _ENDLESS
    failed = [
        f"{row['failed']} calls of {row['method']} failed"
        for row in counted
        if row["failed"] and row["method"] not in expected
    ]
    few = {name: n for name, n in least.items() if calls.get(name, 0) < n}
    return failed + [f"{name}: the relay counted {calls.get(name, 0)} calls, not {n}" for name, n in few.items()]


# -- showing


def explained(before: Values, after: Values, why: Reasons, width: int) -> Iterator[str]:
    """Values that differ, pod by pod, each with who wants it and why."""
    found = changes(before, after, why)
    for pod in PODS:
        own = [change for change in found if change.pod == pod.name]
        if own:
            yield f"  {NAMESPACE}/{pod.name}, {pod.qos}: {pod.asks}"
        for change, later in zip_longest(own, own[1:]):
            yield f"    {change.parameter:<{_WHAT}}{change.where:<{_WHERE}}{change.text}"
            if later is None or later.why != change.why:
                yield cut(f"{_INDENT}{change.why}", width)


def listed(before: Values, after: Values, why: Reasons = _NO_REASONS, width: int = 0) -> Iterator[str]:
    """Values that differ, one in a line, with the reason below where one is given."""
    for change in changes(before, after, why):
        yield f"    {change.pod:<{_WHO}}{change.parameter:<{_WHAT}}{change.where:<{_WHERE}}{change.text}"
        if change.why:
            yield cut(f"{_INDENT}{change.why}", width)


def cut(text: str, width: int) -> str:
    """As many words of a line as there is place for."""
    return text if len(text) <= width else f"{text[: width - len(_MORE) - 1].rpartition(' ')[0]} {_MORE}"


class Change(NamedTuple):
    """A line of what is shown: pod and container share one if all is the same."""

    pod: str
    parameter: Parameter
    where: str
    text: str
    why: str


def changes(before: Values, after: Values, why: Reasons) -> list[Change]:
    """What differs. A value of which nothing is known after is one that differs."""
    found: dict[tuple[str, Parameter, str, str], list[str]] = {}
    for spot, was in before.items():
        now = after.get(spot)
        if now != was:
            text = f"{_shown(spot, was)} -> {_shown(spot, now)}"
            found.setdefault((spot.pod, spot.parameter, text, why.get(spot, "")), []).append(_WORDS[spot.level])
    return [Change(pod, parameter, ", ".join(where), *rest) for (pod, parameter, *rest), where in found.items()]


def edited(before: str, after: str) -> Iterator[str]:
    """What was changed in a file, as diff shows it."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    yield from (f"    {line}" for line in lines if line[0] in "+-")


def _shown(spot: Spot, value: Value | None) -> str:
    if value is CLEAR:
        return "any" if spot.parameter is Parameter.CPUSET_CPUS else UNLIMITED.value
    return value_text(spot.parameter, value)
