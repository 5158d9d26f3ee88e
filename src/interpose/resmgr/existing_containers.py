"""What containers that run already hold: out of the state file, their own annotation, and what the runtime says. Pure.

What is in force in the runtime is the truth: CPU set, shares, quota. Of what was remembered, that counts which agrees
with it. The state file comes first: it knows what happened since a container was created, and its own annotation does
not. A container of which nothing is remembered, or that was resized since, wants to keep the CPUs it has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from interpose.core.model.cgroup import KubeQos, shares_of
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.decision import Assignment, Grant
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.cri.store.requested import ANNOTATION as REQUESTED
from interpose.cri.store.requested import requested_resources
from interpose.resmgr.allocations import AllocationCandidate
from interpose.resmgr.container_request import make_request, same_limit
from interpose.resmgr.key_allocator import KeyAllocator
from interpose.resmgr.state.grant_annotation import ANNOTATION, Noted, read_note
from interpose.resmgr.state.state import Entry

# What policies decide about, and what CRI calls it.
FIELDS: Final[Mapping[str, str]] = {"cpus": "cpuset_cpus", "mems": "cpuset_mems", "shares": "cpu_shares"}
_SETS: Final = ("cpus", "mems")
SavedEntries = Mapping[Key, tuple[str, Entry]]  # entries of a state file with the policy that decided them
_UNKNOWN: Final = LinuxResources(cpu_shares=-2, cpu_quota=-2)  # nobody asks for this


def container_key(container: Container) -> Key:
    """How the books know a container, unless there is a twin of it."""
    return Key(container.pod_id, container.name, container.attempt)


def is_live(container: Container, pod: Pod | None) -> bool:
    """Whether a container has CPUs to speak of: it runs, or is about to."""
    if pod is None or container.state is ContainerState.EXITED:
        return False
    return container.state is ContainerState.RUNNING or not pod.starts_nothing


def to_assignment(resources: LinuxResources) -> Assignment:
    """What a container has, as far as policies decide about it."""
    return Assignment(
        cpus=_parsed(resources.cpuset_cpus), mems=_parsed(resources.cpuset_mems), shares=resources.cpu_shares or None
    )


def find_candidates(
    containers: Iterable[tuple[Container, Pod]], entries: SavedEntries, policy: str, capacity: int
) -> list[AllocationCandidate]:
    """Everything that runs, in the order in which it is to be taken over: those that hold CPUs of their own first.

    `entries` are what was remembered, with the policy that decided it. No two of them have the same key.
    """
    remembered = {key: place for place, key in enumerate(entries)}
    found: list[tuple[tuple[bool, int, str], AllocationCandidate]] = []
    for container, pod in containers:
        key = _remembered_key(container, entries)
        entry = entries.get(key)
        grant, amounts = recover_grant(container, entry, policy)
        made = make_request(container, pod, capacity=capacity).request
        made = _recalling(replace(made, key=key), amounts, _remembered(container, entry))
        first = grant is None or not grant.exclusive
        order = (first, remembered.get(key, len(remembered)), str(key))
        found.append((order, AllocationCandidate(request=made, id=container.id, held=grant)))
    return _told_apart(one for _, one in sorted(found, key=lambda item: item[0]))


def _remembered_key(container: Container, entries: SavedEntries) -> Key:
    """The key under which a container was remembered: that of its twins is not its own."""
    key = container_key(container)
    while (entry := entries.get(key)) is not None and entry[1].container_id not in ("", container.id):
        key = key.next
    return key


def _told_apart(found: Iterable[AllocationCandidate]) -> list[AllocationCandidate]:
    """Twins get keys of their own, in the order of their coming."""
    taken: dict[Key, AllocationCandidate] = {}
    free_keys = KeyAllocator(taken.__contains__)
    for one in found:
        key = free_keys.first(one.request.key)
        taken[key] = one if key == one.request.key else replace(one, request=replace(one.request, key=key))
    return list(taken.values())


def recover_grant(
    container: Container, entry: tuple[str, Entry] | None, policy: str
) -> tuple[Grant | None, Amounts | None]:
    """What a container holds, and the amounts it was granted for; None if it was resized since anybody noted them."""
    cpus = to_assignment(container.resources).cpus
    known = _remembered(container, entry)
    if not known:
        return (Grant(exclusive=cpus) if cpus is not None else None), None
    current = [one for one in known if _in_force(container, one)]
    for one in current:
        if cpus is None or not one.grant.pinned or one.grant.exclusive <= cpus:
            return _under(policy, one, one.grant.exclusive), one.amounts
    own = known[0].grant.exclusive if cpus is None or not known[0].grant.pinned else cpus
    return _under(policy, known[0], own), (current[0].amounts if current else None)


def _under(policy: str, noted: Noted, cpus: CpuSet) -> Grant:
    """A grant as a policy may read it, with these CPUs: another policy's pools mean nothing to it; CPUs are CPUs."""
    return replace(noted.grant, exclusive=cpus) if noted.policy == policy else Grant(exclusive=cpus)


def _in_force(container: Container, noted: Noted) -> bool:
    """Whether the amounts that were granted are those that the kubelet asked for last, as far as that can be told."""
    asked, amounts = container.requested, noted.amounts
    telling = _telling(container)
    if "cpu_quota" in telling and amounts.limit_milli is not None and not same_limit(amounts.limit_milli, asked):
        return False
    same = shares_of(amounts.milli) == asked.cpu_shares
    if noted.grant.shares is not None:  # what is there is what the policy wrote
        return same or container.resources.cpu_shares in (0, noted.grant.shares)
    return same or "cpu_shares" not in telling


def _telling(container: Container) -> set[str]:
    """Fields that say what the kubelet asked for.

    Where somebody else changed a value at the creation of a container, one that it has since then is theirs as well.
    """
    noted = requested_resources(container.annotations.get(REQUESTED, ""), _UNKNOWN, None)
    fields = ("cpu_shares", "cpu_quota")
    asked, now = container.requested, container.resources
    changed = [field for field in fields if getattr(noted, field) != getattr(_UNKNOWN, field)]
    theirs = {field for field in changed if getattr(asked, field) == getattr(now, field)}
    return {field for field in fields if getattr(asked, field) > 0 and field not in theirs}


def _recalling(request: Request, amounts: Amounts | None, known: Sequence[Noted]) -> Request:
    """A request with what is remembered of it: amounts that are in force, and what policies wrote down."""
    recalled = {name: text for one in reversed(known) for name, text in one.grant.details.items()}
    if amounts is None and known:
        amounts = request.amounts
        guessed = amounts.source is RequestSource.ESTIMATE and any(one.grant.shares is not None for one in known)
        if guessed and request.qos is KubeQos.GUARANTEED and amounts.limit_milli is not None:
            # The shares are the policy's own; the limit is the kubelet's, and the same as the request.
            amounts = replace(amounts, milli=amounts.limit_milli)
        if not amounts.extended:  # nobody can resize these
            amounts = replace(amounts, extended=known[0].amounts.extended)
    return replace(request, recalled=recalled, amounts=request.amounts if amounts is None else amounts)


def policy_written_fields(container: Container, entry: tuple[str, Entry] | None) -> frozenset[str]:
    """Fields that are as they are because of a policy: others may have changed what no grant of it speaks of."""
    differing = container.resources.differing(container.requested)
    return frozenset(name for name in _spoken_of(container, entry) if FIELDS[name] in differing)


def restore_requested(container: Container, entry: tuple[str, Entry] | None) -> Container:
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
    known = _entered(container, entry)
    if known is not None and known.grant.shares is not None and known.grant.shares == container.resources.cpu_shares:
        # It may have been resized since its creation, and only the state file knows to how much.
        ours["cpu_shares"] = shares_of(known.amounts.milli)
    requested = replace(container.requested, **ours)
    return container if requested == container.requested else replace(container, requested=requested)


def _spoken_of(container: Container, entry: tuple[str, Entry] | None) -> set[str]:
    """What the grants of a container say something about."""
    return {
        name
        for one in _remembered(container, entry)
        for name, says in (("cpus", one.grant.pinned), ("mems", one.grant.mems), ("shares", one.grant.shares))
        if says
    }


def _remembered(container: Container, entry: tuple[str, Entry] | None) -> list[Noted]:
    """Grants with the policies that gave them, the newest first."""
    entered = _entered(container, entry)
    known = [] if entry is None or entered is None else [Noted(entry[0], entered.grant, entered.amounts)]
    noted = read_note(container.annotations.get(ANNOTATION, ""))
    return known if noted is None else [*known, noted]


def _entered(container: Container, entry: tuple[str, Entry] | None) -> Entry | None:
    """The entry of a state file, if it is about this very container."""
    return entry[1] if entry is not None and entry[1].container_id in ("", container.id) else None


def _parsed(text: str) -> CpuSet | None:
    try:
        return CpuSet.parse(text) or None
    except ValueError:
        return None
