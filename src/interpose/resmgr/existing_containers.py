"""What containers that run already hold: from the state file, their annotation, and their record in the runtime. Pure.

What is in force in the runtime is the truth: CPU set, shares, quota. Of what was saved, that counts which agrees with
it. The state file comes first: it knows what happened since a container was created, and its own annotation does
not. A container of which nothing is saved, or that was resized since, keeps the CPUs it has if it may.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from interpose.core.model.cgroup import MIN_QUOTA, PERIOD, KubeQos, find_kube_qos, shares_of
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.decision import NO_QUOTA, Assignment, Grant
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.cri.store.requested import ANNOTATION as REQUESTED
from interpose.cri.store.requested import requested_resources
from interpose.resmgr.allocations import AllocationCandidate
from interpose.resmgr.container_request import make_request, milli_of, same_limit
from interpose.resmgr.key_allocator import KeyAllocator
from interpose.resmgr.state.grant_annotation import ANNOTATION, GrantNote, read_note
from interpose.resmgr.state.state import SavedEntry

# What policies decide about, and what CRI calls it.
FIELDS: Final[Mapping[str, str]] = {
    "cpus": "cpuset_cpus",
    "mems": "cpuset_mems",
    "shares": "cpu_shares",
    "quota": "cpu_quota",
}
_SETS: Final = ("cpus", "mems")
SavedEntries = Mapping[Key, tuple[str, SavedEntry]]  # entries of a state file with the policy that decided them
_UNKNOWN: Final = LinuxResources(cpu_shares=-2, cpu_quota=-2)  # no request has these values


def container_key(container: Container) -> Key:
    """The key of a container, unless it is a duplicate."""
    return Key(container.pod_id, container.name, container.attempt)


def is_live(container: Container, pod: Pod | None) -> bool:
    """Whether a container needs an allocation: it runs, or is about to."""
    if pod is None or container.state is ContainerState.EXITED:
        return False
    return container.state is ContainerState.RUNNING or not pod.starts_nothing


def to_assignment(resources: LinuxResources) -> Assignment:
    """What a container has, as far as policies decide about it."""
    return Assignment(
        cpus=_parse_cpus(resources.cpuset_cpus),
        mems=_parse_cpus(resources.cpuset_mems),
        shares=resources.cpu_shares or None,
        quota=_quota(resources),
    )


def _quota(resources: LinuxResources) -> int | None:
    """The CFS quota. Runtimes show none as none at all; only where nothing is known, that is not known either."""
    if resources.cpu_quota > 0:
        return resources.cpu_quota
    return NO_QUOTA if resources != NO_RESOURCES else None


def find_candidates(
    containers: Iterable[tuple[Container, Pod]], entries: SavedEntries, policy: str, capacity: int
) -> list[AllocationCandidate]:
    """Running containers in the order in which they are to be admitted: those with exclusive CPUs first.

    `entries` are what was saved, with the policy that decided it. No two candidates have the same key.
    """
    saved_order = {key: place for place, key in enumerate(entries)}
    found: list[tuple[tuple[bool, int, str], AllocationCandidate]] = []
    containers = tuple(containers)
    running = _requests_by_pod(containers, entries, capacity)
    for known_container, pod in containers:
        key = _saved_key(known_container, entries)
        entry = entries.get(key)
        container = _restore_quota(known_container, entry)
        grant, amounts = recover_grant(container, entry, policy)
        siblings = [request for request in running[pod.id] if request.key != container_key(container)]
        made = make_request(container, pod, capacity=capacity, siblings=siblings).request
        known = _recorded_grants(container, entry)
        made = _with_records(replace(made, key=key), amounts, known)
        first = grant is None or not grant.exclusive
        order = (first, saved_order.get(key, len(saved_order)), str(key))
        matching = _matching_entry(container, entry)
        extra = matching.extra_mems if matching is not None else EMPTY
        candidate = AllocationCandidate(request=made, id=container.id, held=grant, extra_mems=extra)
        if amounts is None and known:
            candidate = replace(candidate, granted=_before_growth(candidate, known[0], policy))
        found.append((order, candidate))
    return _assign_keys(candidate for _, candidate in sorted(found, key=lambda item: item[0]))


def _requests_by_pod(
    containers: Iterable[tuple[Container, Pod]], entries: SavedEntries, capacity: int
) -> Mapping[str, Sequence[Request]]:
    """What containers ask for by their own record: together they tell whether their pod has amounts of its own."""
    found: dict[str, list[Request]] = {}
    for container, pod in containers:
        restored = _restore_quota(container, entries.get(_saved_key(container, entries)))
        found.setdefault(pod.id, []).append(make_request(restored, pod, capacity=capacity).request)
    return found


def _before_growth(candidate: AllocationCandidate, newest: GrantNote, policy: str) -> AllocationCandidate | None:
    """The container as it was before it was resized; None if it has not grown."""
    if candidate.request.milli <= newest.amounts.milli:
        return None
    request = replace(candidate.request, amounts=newest.amounts)
    held = _grant_for_policy(policy, newest, newest.grant.exclusive)
    return replace(candidate, request=request, held=held)


def limit_extra_memory(candidate: AllocationCandidate, memory: CpuSet) -> AllocationCandidate:
    """A candidate that may use no other memory nodes than these beyond those of its grant."""
    granted = None if candidate.granted is None else limit_extra_memory(candidate.granted, memory)
    return replace(candidate, extra_mems=candidate.extra_mems & memory, granted=granted)


def _saved_key(container: Container, entries: SavedEntries) -> Key:
    """The key under which a container was saved: that of a duplicate is not its own."""
    key = container_key(container)
    while (entry := entries.get(key)) is not None and entry[1].container_id not in ("", container.id):
        key = key.next
    return key


def _assign_keys(found: Iterable[AllocationCandidate]) -> list[AllocationCandidate]:
    """Give duplicates keys of their own, in the order of the candidates."""
    taken: dict[Key, AllocationCandidate] = {}
    free_keys = KeyAllocator(taken.__contains__)
    for candidate in found:
        request = candidate.request
        key = free_keys.first_free(request.key)
        taken[key] = candidate if key == request.key else _with_key(candidate, key)
    return list(taken.values())


def _with_key(candidate: AllocationCandidate, key: Key) -> AllocationCandidate:
    granted = None if candidate.granted is None else _with_key(candidate.granted, key)
    return replace(candidate, request=replace(candidate.request, key=key), granted=granted)


def recover_grant(
    container: Container, entry: tuple[str, SavedEntry] | None, policy: str
) -> tuple[Grant | None, Amounts | None]:
    """What a container holds, and the amounts it was granted for; None if it was resized since they were noted."""
    cpus = to_assignment(container.resources).cpus
    known = _recorded_grants(container, entry)
    if not known:
        return (Grant(exclusive=cpus) if cpus is not None else None), None
    current = [note for note in known if _is_in_force(container, note)]
    for note in current:
        if cpus is None or not note.grant.pinned or note.grant.exclusive <= cpus:
            return _grant_for_policy(policy, note, note.grant.exclusive), note.amounts
    own = known[0].grant.exclusive if cpus is None or not known[0].grant.pinned else cpus
    return _grant_for_policy(policy, known[0], own), (current[0].amounts if current else None)


def _grant_for_policy(policy: str, noted: GrantNote, cpus: CpuSet) -> Grant:
    """A grant as a policy may read it, with these CPUs: another policy's pools mean nothing to it; CPUs are CPUs."""
    return replace(noted.grant, exclusive=cpus) if noted.policy == policy else Grant(exclusive=cpus)


def _is_in_force(container: Container, noted: GrantNote) -> bool:
    """Whether the amounts that were granted are those that the kubelet asked for last, as far as that can be told."""
    requested, amounts = container.requested, noted.amounts
    reliable = _reliable_fields(container)
    if "cpu_quota" in reliable and amounts.limit_milli is not None and not same_limit(amounts.limit_milli, requested):
        return False
    same = shares_of(amounts.milli) == requested.cpu_shares
    if noted.grant.shares is not None:  # what is there is what the policy wrote
        return same or container.resources.cpu_shares in (0, noted.grant.shares)
    return same or "cpu_shares" not in reliable


def _reliable_fields(container: Container) -> set[str]:
    """Fields that show what the kubelet asked for.

    Where a hook server changed a value at the creation of a container, a value since then may be the hook server's too.
    """
    noted = requested_resources(container.annotations.get(REQUESTED, ""), _UNKNOWN, None)
    fields = ("cpu_shares", "cpu_quota")
    requested, now = container.requested, container.resources
    changed = [field for field in fields if getattr(noted, field) != getattr(_UNKNOWN, field)]
    changed_by_others = {field for field in changed if getattr(requested, field) == getattr(now, field)}
    return {field for field in fields if getattr(requested, field) > 0 and field not in changed_by_others}


def _with_records(request: Request, amounts: Amounts | None, known: Sequence[GrantNote]) -> Request:
    """A request with what was saved of it: amounts that are in force, and details of grants."""
    recalled = {name: text for note in reversed(known) for name, text in note.grant.details.items()}
    if amounts is None and known:
        amounts = request.amounts
        guessed = amounts.source is RequestSource.ESTIMATE and any(note.grant.shares is not None for note in known)
        own = request.pod_amounts is None  # no shares and limit of its pod
        if guessed and own and request.qos is KubeQos.GUARANTEED and amounts.limit_milli is not None:
            # The shares are the policy's own; the limit is the kubelet's, and the same as the request.
            amounts = replace(amounts, milli=amounts.limit_milli)
        if not amounts.extended:  # these cannot be resized
            amounts = replace(amounts, extended=known[0].amounts.extended)
    # Whether there is a quota is what the runtime was asked for; older records do not say.
    amounts = request.amounts if amounts is None else replace(amounts, quota=request.amounts.quota)
    return replace(request, recalled=recalled, amounts=amounts)


def policy_written_fields(container: Container, entry: tuple[str, SavedEntry] | None) -> frozenset[str]:
    """Fields that a policy wrote: those that a grant is about and that differ from what the caller requested."""
    differing = container.resources.differing(container.requested)
    return frozenset(name for name in _granted_fields(container, entry) if FIELDS[name] in differing)


def restore_requested(container: Container, entry: tuple[str, SavedEntry] | None) -> Container:
    """The record of a container with what its caller asked for, where a policy wrote something else since its creation.

    The runtime does not say who wrote a value, so after a restart what we wrote looks like a request of the caller.
    Only the annotation of its creation tells. Under a policy callers leave sets of CPUs and memory nodes to it; one
    that asked for just the set that it got is taken for one that asked for none.
    """
    noted = requested_resources(container.annotations.get(REQUESTED, ""), NO_RESOURCES, None)
    ours = {
        field: getattr(noted, field)
        for field in (FIELDS[name] for name in _SETS if name in _granted_fields(container, entry))
        if getattr(container.resources, field) == getattr(container.requested, field)
    }
    known = _matching_entry(container, entry)
    if known is not None and known.grant.shares is not None and known.grant.shares == container.resources.cpu_shares:
        # It may have been resized since its creation, and only the state file knows to how much.
        ours["cpu_shares"] = shares_of(known.amounts.milli)
    requested = replace(container.requested, **ours)
    found = container if requested == container.requested else replace(container, requested=requested)
    return _restore_quota(found, entry)


def _restore_quota(container: Container, entry: tuple[str, SavedEntry] | None) -> Container:
    """The record of a container with the CFS quota that its caller asked for, where a policy has lifted it.

    The annotation of its creation has the first one. If the container was resized since, its saved limit says more, or
    the shares of a Guaranteed container, whose limit is its request.
    """
    known = _recorded_grants(container, entry)
    if container.resources.cpu_quota > 0 or not any(note.grant.quota == NO_QUOTA for note in known):
        return container
    requested = container.requested
    limit: int | None = None
    if (saved := _matching_entry(container, entry)) is not None and saved.grant.quota == NO_QUOTA:
        limit = saved.amounts.limit_milli
    elif find_kube_qos(container.cgroup_parent) is KubeQos.GUARANTEED:
        limit = milli_of(container.resources.cpu_shares)
    if not limit or same_limit(limit, requested):
        return container
    period = requested.cpu_period or PERIOD
    quota = max(limit * period // 1000, MIN_QUOTA)
    return replace(container, requested=replace(requested, cpu_period=period, cpu_quota=quota))


def _granted_fields(container: Container, entry: tuple[str, SavedEntry] | None) -> set[str]:
    """The fields that the grants of a container are about."""
    return {
        name
        for note in _recorded_grants(container, entry)
        for name, value in (
            ("cpus", note.grant.pinned),
            ("mems", note.grant.mems),
            ("shares", note.grant.shares),
            ("quota", note.grant.quota),
        )
        if value
    }


def _recorded_grants(container: Container, entry: tuple[str, SavedEntry] | None) -> list[GrantNote]:
    """Grants with the policies that gave them, the newest first."""
    matching = _matching_entry(container, entry)
    known = [] if entry is None or matching is None else [GrantNote(entry[0], matching.grant, matching.amounts)]
    noted = read_note(container.annotations.get(ANNOTATION, ""))
    return known if noted is None else [*known, noted]


def _matching_entry(container: Container, entry: tuple[str, SavedEntry] | None) -> SavedEntry | None:
    """The entry of a state file, if it is about this very container."""
    return entry[1] if entry is not None and entry[1].container_id in ("", container.id) else None


def _parse_cpus(text: str) -> CpuSet | None:
    try:
        return CpuSet.parse(text) or None
    except ValueError:
        return None
