"""What containers that run already hold: out of the state file, their own annotation, and what the runtime says. Pure.

The runtime's CPU set is the truth; of what was remembered, that counts which agrees with it. The state file comes
first: it knows what happened since a container was created. A container of which nothing is remembered wants to keep
the CPUs it has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from interpose.model.cpuset import CpuSet
from interpose.model.pod import Container, ContainerState, Pod
from interpose.model.resources import NO_RESOURCES, LinuxResources
from interpose.policy.decision import Assignment, Grant
from interpose.policy.request import Amounts, Key
from interpose.resmgr.checkpoint import Entry
from interpose.resmgr.grants import ANNOTATION, read_note
from interpose.resmgr.ledger import Coming
from interpose.resmgr.requests import make_request
from interpose.store.requested import ANNOTATION as REQUESTED
from interpose.store.requested import requested_resources

# What policies decide about, and what CRI calls it.
FIELDS: Final[Mapping[str, str]] = {"cpus": "cpuset_cpus", "mems": "cpuset_mems", "shares": "cpu_shares"}
_SETS: Final = ("cpus", "mems")


def key_of(container: Container) -> Key:
    """How the books know a container."""
    return Key(container.pod_id, container.name, container.attempt)


def concerns_us(container: Container, pod: Pod | None) -> bool:
    """Whether a container has CPUs to speak of: it runs, or is about to."""
    if pod is None or container.state is ContainerState.EXITED:
        return False
    return pod.ready or container.state is ContainerState.RUNNING


def actual(resources: LinuxResources) -> Assignment:
    """What a container has, as far as policies decide about it."""
    return Assignment(
        cpus=_parsed(resources.cpuset_cpus), mems=_parsed(resources.cpuset_mems), shares=resources.cpu_shares or None
    )


def coming(
    containers: Iterable[tuple[Container, Pod]], entries: Mapping[Key, tuple[str, Entry]], policy: str, capacity: int
) -> list[Coming]:
    """Everything that runs, in the order in which it is to be taken over: those that hold CPUs of their own first.

    `entries` are what was remembered, with the policy that decided it.
    """
    remembered = {key: place for place, key in enumerate(entries)}
    found: list[tuple[tuple[bool, int, str], Coming]] = []
    for container, pod in containers:
        key = key_of(container)
        grant, amounts = held_by(container, entries.get(key), policy)
        # What it has now may be what a policy gave it.
        made = make_request(replace(container, resources=container.requested), pod, capacity=capacity).request
        if amounts is not None:
            made = replace(made, amounts=amounts)
        first = grant is None or not grant.exclusive
        order = (first, remembered.get(key, len(remembered)), str(key))
        found.append((order, Coming(request=made, id=container.id, held=grant)))
    return [one for _, one in sorted(found, key=lambda item: item[0])]


def held_by(container: Container, entry: tuple[str, Entry] | None, policy: str) -> tuple[Grant | None, Amounts | None]:
    """What a container holds, and the amounts it was granted for."""
    cpus = actual(container.resources).cpus
    known = _remembered(container, entry)
    for by, grant, amounts in known:
        if cpus is None or grant.exclusive <= cpus:
            # Another policy's pools mean nothing here; CPUs are CPUs.
            return grant if by == policy else Grant(exclusive=grant.exclusive), amounts
    return (Grant(exclusive=cpus) if cpus is not None else None), (known[0][2] if known else None)


def written_by_us(container: Container, entry: tuple[str, Entry] | None) -> frozenset[str]:
    """Fields that are as they are because of a policy: others may have changed what no grant of it speaks of."""
    differing = container.resources.differing(container.requested)
    return frozenset(name for name in _spoken_of(container, entry) if FIELDS[name] in differing)


def as_asked(container: Container, entry: tuple[str, Entry] | None) -> Container:
    """The record of a container with what its caller asked for, where a policy wrote something else since its creation.

    The runtime does not say who wrote a value, so after a restart what we wrote looks like a wish of the caller. Only
    the note of its creation tells. Under a policy callers leave sets of CPUs and memory nodes to it; one that asked for
    just the set that it got is taken for one that asked for none.
    """
    noted = requested_resources(container.annotations.get(REQUESTED, ""), NO_RESOURCES, None)
    ours = {
        field: getattr(noted, field)
        for field in (FIELDS[name] for name in _SETS if name in _spoken_of(container, entry))
        if getattr(container.resources, field) == getattr(container.requested, field)
    }
    requested = replace(container.requested, **ours)
    return container if requested == container.requested else replace(container, requested=requested)


def _spoken_of(container: Container, entry: tuple[str, Entry] | None) -> set[str]:
    """What the grants of a container say something about."""
    return {
        name
        for _, grant, _ in _remembered(container, entry)
        for name, says in (("cpus", grant.pinned), ("mems", grant.mems), ("shares", grant.shares))
        if says
    }


def _remembered(container: Container, entry: tuple[str, Entry] | None) -> list[tuple[str, Grant, Amounts]]:
    """Grants with the policies that gave them, the newest first."""
    known: list[tuple[str, Grant, Amounts]] = []
    if entry is not None and entry[1].container_id in ("", container.id):
        known.append((entry[0], entry[1].grant, entry[1].amounts))
    noted = read_note(container.annotations.get(ANNOTATION, ""))
    if noted is not None:
        known.append((noted.policy, noted.grant, noted.amounts))
    return known


def _parsed(text: str) -> CpuSet | None:
    try:
        return CpuSet.parse(text) or None
    except ValueError:
        return None
