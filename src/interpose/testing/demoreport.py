"""What the demo found out: values measured in cgroup files, whether they are as promised, and how they are shown.

Nothing here is printed, and nothing is taken on trust: what is shown was read from files, and each value of the demo's
table is held against it.
"""

import difflib
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from interpose.api import cri_pb2 as cri
from interpose.model.cgroup import CLEAR, CRI_FIELDS, UNLIMITED, Level, Parameter, Value, cri_value
from interpose.runtimehooks.report import value_text
from interpose.store.convert import to_resources
from interpose.testing.demoparts import CPUS, GUEST, NAMESPACE, POD_VALUES, PODS, DemoPod, Due
from interpose.testing.fakenode import FakeNode

_WORDS: Final[Mapping[Level, str]] = {Level.POD: "pod", Level.CONTAINER: "container"}
_WHO, _WHAT, _WHERE = 9, 23, 16  # widths of columns
_INDENT: Final = " " * 8


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

_PARAMETERS: Final = tuple(dict.fromkeys(spot.parameter for spot in ASKED))


def measured(node: FakeNode, running: Iterable[Running]) -> dict[Spot, Value]:
    """What the files say. A set of all CPUs is no restriction."""
    found: dict[Spot, Value] = {}
    for pod, sandbox, container in running:
        directories = {
            Level.POD: node.pod_directory(node.runtime.sandboxes[sandbox]),
            Level.CONTAINER: node.directory(container),
        }
        for spot in (spot for spot in ASKED if spot.pod == pod.name):
            # A kernel's file never is, but ours is empty for a moment while the hook server writes it.
            with suppress(ValueError):
                found[spot] = _in_one_form(node.tree.read(directories[spot.level], spot.parameter))
    return found


def _in_one_form(value: Value) -> Value:
    return CLEAR if value == CPUS else value


def everything(node: FakeNode, directory: str = "kubepods") -> dict[tuple[str, Parameter], Value]:
    """The values of the demo's kind in all cgroups of pods, also those nobody speaks of."""
    found = {(directory, parameter): node.tree.read(directory, parameter) for parameter in _PARAMETERS}
    for name in node.tree.children(directory):
        found |= everything(node, f"{directory}/{name}")
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


def wrong_leftovers(node: FakeNode, untouched: FakeNode) -> list[str]:
    """Where a node differs from one that has the same pods and never had relay or hook server."""
    found, promised = everything(node), everything(untouched)
    return [
        f"restored: {parameter} of {directory} is {found.get((directory, parameter))}, not {value}"
        for (directory, parameter), value in promised.items()
        if found.get((directory, parameter)) != value
    ]


def wrong_request(pod: DemoPod, request: cri.CreateContainerRequest) -> list[str]:
    """Where the runtime was told something else than promised: what CRI carries must be there from the start."""
    told = to_resources(request.config.linux.resources)
    promised = {
        spot: value
        for spot, value in FROM_THE_START.items()
        if spot.pod == pod.name and spot.level is Level.CONTAINER and spot.parameter in CRI_FIELDS
    }
    values = {spot: cri_value(told, spot.parameter) for spot in promised}
    found = {spot: _in_one_form(value) for spot, value in values.items() if value is not None}
    return wrong_values("CreateContainer", found, promised)


def wrong_order(requests: Iterable[tuple[str, Any]], others: Iterable[Running]) -> list[str]:
    """Who had not made room yet when the runtime was asked for the last container."""
    calls = list(requests)
    last = max(place for place, (method, _) in enumerate(calls) if method == "CreateContainer")
    updated = {message.container_id for method, message in calls[:last] if method == "UpdateContainerResources"}
    return [f"CreateContainer: {one.pod.name} was not updated before" for one in others if one.container not in updated]


def wrong_status(when: str, pod: DemoPod, status: cri.ContainerStatus) -> list[str]:
    """Where the kubelet sees something else than it asked for."""
    shown, asked = _seen(status.resources.linux), _seen(pod.resources)
    return [
        f"{when}: the kubelet sees {name} of {pod.name} as {found!r}, not {asked[name]!r}"
        for name, found in shown.items()
        if found != asked[name]
    ]


def _seen(resources: cri.LinuxContainerResources) -> dict[str, int | str]:
    """In one form: no limit is 0, and all CPUs, the only way for an update to clear a set, are no restriction."""
    cpus = resources.cpuset_cpus
    return {
        "cpu_shares": resources.cpu_shares,
        "cpu_quota": max(resources.cpu_quota, 0),
        "memory_limit_in_bytes": max(resources.memory_limit_in_bytes, 0),
        "cpuset_cpus": "" if cpus == CPUS else cpus,
    }


def wrong_calls(counted: Sequence[Mapping[str, Any]], sent: Mapping[str, int]) -> list[str]:
    """Where the relay did not count what the kubelet sent, or counted a failure. Others may have called as well."""
    calls = {str(one["method"]): one["calls"] for one in counted}
    failed = [f"{one['failed']} calls of {one['method']} failed" for one in counted if one["failed"]]
    lost = [
        f"{name}: the relay counted {calls.get(name, 0)} calls of {n}"
        for name, n in sent.items()
        if calls.get(name, 0) < n
    ]
    return failed + lost


# -- showing


def explained(before: Values, after: Values, why: Reasons, width: int) -> Iterator[str]:
    """Values that differ, pod by pod, each with who wants it and why."""
    found = changes(before, after, why)
    for pod in PODS:
        own = [change for change in found if change.pod == pod.name]
        if own:
            yield f"  {NAMESPACE}/{pod.name}, {pod.qos}: {pod.asks}"
        for change in own:
            yield f"    {change.parameter:<{_WHAT}}{change.where:<{_WHERE}}{change.text}"
            yield from textwrap.wrap(
                change.why, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
            )


def listed(before: Values, after: Values) -> Iterator[str]:
    """Values that differ, one in a line."""
    for change in changes(before, after, {}):
        yield f"    {change.pod:<{_WHO}}{change.parameter:<{_WHAT}}{change.where:<{_WHERE}}{change.text}"


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
