"""What the demo found out: values measured in cgroup files, whether they are as promised, and the text for the terminal.

Nothing here is printed, and nothing is taken on trust: what is shown was read from files, and each value of the demo's
table is held against it.
"""

import difflib
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from interpose.api import cri_pb2 as cri
from interpose.model.cgroup import CLEAR, CRI_FIELDS, UNLIMITED, Level, Parameter, Value, cri_value
from interpose.runtimehooks.report import value_text
from interpose.store.convert import to_resources
from interpose.testing.demoparts import NAMESPACE, PODS, POD_VALUES, DemoPod, Due
from interpose.testing.fakenode import FakeNode

_WORDS: Final[Mapping[Level, str]] = {Level.POD: "pod", Level.CONTAINER: "container"}
_WHAT, _WHERE, _CHANGE = 23, 16, 24  # widths of columns


class Spot(NamedTuple):
    """Where a value is: a pod of the demo, the pod itself or its container, and the parameter."""

    pod: str
    level: Level
    parameter: Parameter


class Running(NamedTuple):
    """A pod that runs."""

    pod: DemoPod
    sandbox: str
    container: str


Values = Mapping[Spot, Value]
Reasons = Mapping[Spot, str]


def dues() -> Iterator[tuple[Spot, Due]]:
    """Every value of the table, by where it is."""
    for pod, due in ((pod.name, due) for pod in PODS for due in POD_VALUES[pod.name]):
        yield from ((Spot(pod, level, due.parameter), due) for level in due.levels)


ASKED: Final[Values] = {spot: due.asked for spot, due in dues()}
GIVEN: Final[Values] = {spot: due.given for spot, due in dues()}
EDITED: Final[Values] = {spot: due.edited for spot, due in dues()}


def measured(node: FakeNode, running: Iterable[Running]) -> dict[Spot, Value]:
    """What the files say. A set with all that its parent has is no restriction."""
    found: dict[Spot, Value] = {}
    for pod, sandbox, container in running:
        directories = {
            Level.POD: node.pod_directory(node.runtime.sandboxes[sandbox]),
            Level.CONTAINER: node.directory(container),
        }
        for spot in (spot for spot in ASKED if spot.pod == pod.name):
            value = node.tree.read(directories[spot.level], spot.parameter)
            found[spot] = CLEAR if node.tree.same(spot.parameter, value, CLEAR) else value
    return found


def reasons(records: Sequence[Mapping[str, Any]]) -> dict[Spot, str]:
    """Plugin and reason of each value, from what the hook server's admin socket tells."""
    found: dict[Spot, str] = {}
    for record in records:
        names = str(record.get("name", "")).split("/")
        if record["kind"] == "value" and record["level"] in tuple(_WORDS) and names[0] == NAMESPACE:
            spot = Spot(names[1], Level(record["level"]), Parameter(record["parameter"]))
            found[spot] = f"{record['plugin']}: {record['why']}"
    return found


# -- checking


def wrong_values(when: str, found: Values, promised: Values) -> list[str]:
    """Where files differ from what was promised."""
    return [
        f"{when}: {spot.parameter} of {_WORDS[spot.level]} {spot.pod} is {_shown(spot, found.get(spot))}, "
        f"not {_shown(spot, value)}"
        for spot, value in promised.items()
        if found.get(spot) != value
    ]


def wrong_request(pod: DemoPod, request: cri.CreateContainerRequest) -> list[str]:
    """Where the runtime was told something else than promised: what CRI carries must be there from the start."""
    told = to_resources(request.config.linux.resources)
    found = {spot: cri_value(told, spot.parameter) for spot in GIVEN if spot.parameter in CRI_FIELDS}
    promised = {spot: GIVEN[spot] for spot in found if spot.pod == pod.name and spot.level is Level.CONTAINER}
    return wrong_values("CreateContainer", {spot: value for spot, value in found.items() if value is not None}, promised)


def wrong_status(when: str, pod: DemoPod, status: cri.ContainerStatus) -> list[str]:
    """Where the kubelet sees something else than it asked for."""
    shown, asked = to_resources(status.resources.linux), to_resources(pod.resources)
    return [
        f"{when}: the kubelet sees {parameter} of {pod.name} as {found}, not {wanted}"
        for parameter in CRI_FIELDS
        if parameter is not Parameter.OOM_SCORE_ADJ
        if (found := cri_value(shown, parameter) or UNLIMITED) != (wanted := cri_value(asked, parameter) or UNLIMITED)
    ]


# -- showing


def table(before: Values, after: Values, why: Reasons, width: int) -> Iterator[str]:
    """Values that changed, pod by pod, each with who wanted it and why; beside it where that fits, else below."""
    changed = [spot for spot in after if after[spot] != before[spot]]
    rows = {pod.name: list(_rows([spot for spot in changed if spot.pod == pod.name], before, after, why)) for pod in PODS}
    left = max((len(text) for found in rows.values() for text, _ in found), default=0) + 2
    beside = all(left + len(reason) <= width for found in rows.values() for _, reason in found)
    for pod in PODS:
        if rows[pod.name]:
            yield f"  {NAMESPACE}/{pod.name}  {pod.qos}: {pod.asks}"
        for text, reason in rows[pod.name]:
            if beside:
                yield f"{text:<{left}}{reason}".rstrip()
            else:
                yield text
                yield from textwrap.wrap(
                    reason, width, initial_indent=" " * 8, subsequent_indent=" " * 8, break_on_hyphens=False
                )


def _rows(spots: Sequence[Spot], before: Values, after: Values, why: Reasons) -> Iterator[tuple[str, str]]:
    """A line for each value; pod and container share one if all is the same."""
    levels: dict[tuple[Parameter, str, str], list[str]] = {}
    for spot in spots:
        change = f"{_shown(spot, before[spot])} -> {_shown(spot, after[spot])}"
        levels.setdefault((spot.parameter, change, why.get(spot, "")), []).append(_WORDS[spot.level])
    for (parameter, change, reason), names in levels.items():
        yield f"    {parameter:<{_WHAT}}{', '.join(names):<{_WHERE}}{change:<{_CHANGE}}".rstrip(), reason


def edited(before: str, after: str) -> Iterator[str]:
    """What was changed in a file, as diff shows it."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    yield from (f"    {line}" for line in lines if line[0] in "+-")


def _shown(spot: Spot, value: Value | None) -> str:
    if value is CLEAR:
        return "any" if spot.parameter is Parameter.CPUSET_CPUS else UNLIMITED.value
    return value_text(spot.parameter, value)
