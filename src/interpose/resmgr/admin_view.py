"""Reports of the admin socket about policies, as plain values."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from interpose.core.model.cgroup import Parameter
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container
from interpose.core.policy.constraints import ExcludedCpus
from interpose.core.policy.decision import NO_QUOTA, Assignment, assignment_record, decision_record, grant_record
from interpose.core.policy.names import NONE
from interpose.core.policy.pool_report import pool_record, report_pools
from interpose.core.policy.request import Key
from interpose.core.topology.document import topology_document
from interpose.errors import ConfigError
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.allocations import Allocation, AllocationEvent
from interpose.resmgr.control.cgroup_check import directory_of
from interpose.resmgr.control.pod_quotas import quota_directory
from interpose.resmgr.counters import RefusedRequest
from interpose.resmgr.existing_containers import FIELDS
from interpose.resmgr.interceptor import PolicyInterceptor
from interpose.resmgr.tracker import AllocationTracker

_CGROUP_PARAMETERS = (Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS, Parameter.CPU_SHARES, Parameter.CPU_QUOTA)
_QUOTA: Final = "quota"


def policy_report(
    interceptor: PolicyInterceptor, *, problems: list[str], state_file: Mapping[str, object]
) -> dict[str, Any]:
    """The policy, its pools, problems, refusals and all assignments."""
    tracker = interceptor.tracker
    allocations, configuration, topology = tracker.allocations, tracker.configuration, tracker.topology
    policy_state = allocations.policy.state
    titles = allocations.titles()
    failing = [
        {"container": titles.get(key, str(key)), "id": updater.id, "error": updater.error, "attempts": updater.attempts}
        for key, updater in tracker.updaters.by_key.items()
        if updater.error
    ]
    contested = [
        f"container {titles.get(updater.key, updater.id)}: policy {configuration.policy} and somebody else set its "
        f"values in turn; {updater.replaced.text} was found {updater.replaced.times} times"
        for updater in tracker.updaters.list_contested()
    ]
    without_place = [f"container {titles[key]} has no place under the policy" for key in allocations.without_place]
    throttled = [
        f"pod in cgroup {directory}: its CFS quota cannot be changed: {error}"
        for directory, error in tracker.pod_quotas.problems.items()
    ]
    deferred = [
        f"container {held.request.title} has {held.runtime_request.milli}m CPU at the runtime; the policy has room for "
        f"{held.request.milli}m"
        for held in map(allocations.by_key.__getitem__, allocations.deferred)
    ]
    return {
        "policy": configuration.policy,
        "origin": configuration.origin,
        "ready": tracker.ready.is_set(),
        "available": _set(configuration.available),
        "reserved": _reserved(configuration.reserved),
        "pools": {name: str(cpus) for name, cpus in allocations.policy.pools().items()},
        "pool_details": [pool_record(report, titles) for report in report_pools(allocations.policy)],
        "containers": len(allocations.by_key),
        "exclusive": sum(1 for grant in policy_state.grants.values() if grant.exclusive),
        "failing": failing,
        "problems": [
            *(f"another configuration should be in force: {reason}" for reason in configuration.fallback_reasons),
            *problems,
            *without_place,
            *deferred,
            *throttled,
            *contested,
            *(
                f"note: {note}"
                for note in (
                    *configuration.notes,
                    *allocations.policy.notes,
                    *_widened(tracker),
                    *_unreadable(tracker, titles),
                    *_unreadable_pods(tracker),
                )
            ),
        ],
        "refused": [
            {
                "at": _time(refused.at),
                "container": refused.title,
                "times": refused.times,
                "why": refused.refusal.kind.value,
                "message": refused.refusal.message,
            }
            for refused in reversed(interceptor.counters.refused)
        ],
        "topology": {
            "packages": len(topology.packages),
            "nodes": len(topology.nodes),
            "cpus": len(topology.cpus),
            "online": str(topology.online),
            "offline": str(topology.offline),
            "isolated": str(topology.isolated),
        },
        "state_file": dict(state_file),
        "assignments": [_row(tracker, key, held) for key, held in allocations.by_key.items()],
    }


def _widened(tracker: AllocationTracker) -> list[str]:
    """A note if memory nodes of containers ran short, with one of them."""
    titles = [held.request.title for held in tracker.allocations.by_key.values() if held.widening is not None]
    if not titles:
        return []
    count = "1 container uses" if len(titles) == 1 else f"{len(titles)} containers use"
    return [f"{count} memory of more nodes than the policy chose, as these ran short: {titles[0]}"]


def _unreadable(tracker: AllocationTracker, titles: Mapping[Key, str]) -> list[str]:
    """A note if no cgroup can be read; that of a container which has just ended does not matter."""
    unreadable = tracker.cgroups.unreadable
    if not unreadable or tracker.cgroups.confirmed:
        return []
    key, error = next(iter(unreadable.items()))
    return [f"cgroups cannot be read, so states are the runtime's word; {titles.get(key, key)}: {error}"]


def _unreadable_pods(tracker: AllocationTracker) -> list[str]:
    """A note if quotas of pods cannot be read, with one of them; none where no cgroup can be."""
    unreadable = {} if tracker.cgroups.unreadable else tracker.pod_quotas.unreadable
    return [
        f"CFS quotas of pods cannot be read, so some may still be in force; {directory}: {error}"
        for directory, error in [*unreadable.items()][:1]
    ]


def owned_report(interceptor: PolicyInterceptor) -> dict[str, Any]:
    """Values of containers that the policy decides, as CRI calls them: other programs on the node leave them alone.

    CPU sets under any policy, CPU shares if a container has them of it, both of all containers. Of those whose CFS
    quota is lifted, and of their pods, that too, by id and cgroup: all other quotas are free for others. While a
    fallback configuration is in force, what containers have is still that of the policy. What was saved counts until
    the runtime has listed its containers.
    """
    tracker = interceptor.tracker
    allocations, policy = tracker.allocations, tracker.configuration.policy
    saved = [entry.grant for _, entry in tracker.saved.values()]
    grants = {**{key: entry.grant for key, (_, entry) in tracker.saved.items()}, **allocations.policy.state.grants}
    if policy == NONE:
        suspended = tracker.suspended or (tracker.decides_nothing and saved)
        assigned, policy = ({"cpus"}, tracker.saved_policy) if suspended else (set[str](), policy)
        grants = {**grants, **tracker.suspended} if suspended else {}
    else:
        assignments = (*map(allocations.assignment, allocations.by_key), *saved)
        assigned = {"cpus"} | {name for row in assignments for name in FIELDS if getattr(row, name, None) is not None}
    unlimited = [key for key, grant in grants.items() if grant.quota == NO_QUOTA]
    # Where it is yet to be put back, too.
    found = (tracker.quota_directory(key) for key in unlimited)
    directories = dict.fromkeys([*filter(None, found), *tracker.pod_quotas.originals])
    ids = {key: held.id for key, held in allocations.by_key.items()}
    ids |= {key: entry.container_id for key, (_, entry) in tracker.saved.items()}
    report = {
        "version": 1,
        "policy": policy,
        "owns": [field for name, field in FIELDS.items() if name in assigned - {_QUOTA}],
    }
    quota = [FIELDS[_QUOTA]]
    owned = {
        "containers": {ids[key]: quota for key in unlimited if ids.get(key)},
        "pods": dict.fromkeys(directories, quota),
    }
    return report | {name: values for name, values in owned.items() if values}


def topology_report(interceptor: PolicyInterceptor) -> dict[str, Any]:
    """The machine as the policy sees it."""
    return topology_document(interceptor.tracker.topology)


def _row(tracker: AllocationTracker, key: Key, held: Allocation) -> dict[str, Any]:
    grant = tracker.allocations.policy.state.grants.get(key)
    return {
        "container": held.request.title,
        "id": held.id,
        "qos": held.request.qos.value,
        "cpu_milli": held.request.milli,
        "exclusive": str(grant.exclusive) if grant is not None else "",
        "pools": list(grant.pools) if grant is not None else [],
        **assignment_record(tracker.allocations.assignment(key)),
        **_state(tracker, key, held),
    }


def _state(tracker: AllocationTracker, key: Key, held: Allocation) -> dict[str, str]:
    """The state in a word and, of one that is in step, who says so: the kernel, or only the runtime."""
    if key in tracker.creates:
        return {"state": "in doubt"}
    if not held.has_place:
        return {"state": "without place"}
    if held.deferred_request is not None:
        return {"state": "without room"}
    updater = tracker.updaters.by_key.get(key)
    if updater is None:
        return {"state": "being created"}
    if updater.state != "idle":
        return {"state": updater.state}
    wanted, quotas, directory = tracker.desired(key), tracker.pod_quotas, tracker.quota_directory(key)
    confirmed = tracker.cgroups.is_confirmed(key, wanted)
    if wanted is not None and wanted.quota == NO_QUOTA and directory is not None:
        if state := quotas.state(directory):
            return {"state": state}
        confirmed = confirmed and directory in quotas.lifted
    return {"state": "in step", "confirmed_by": "kernel" if confirmed else "runtime"}


def find_allocations(tracker: AllocationTracker, ref: str) -> list[Allocation]:
    """Containers that a person may mean: by the start of an id, or by names from the right."""
    held = list(tracker.allocations.by_key.values())
    by_id = [entry for entry in held if entry.id and entry.id.startswith(ref)] if ref else []
    if by_id:
        return by_id
    return [entry for entry in held if _matches(entry.request.title, ref)]


def find_refused(interceptor: PolicyInterceptor, ref: str) -> list[RefusedRequest]:
    """Refusals that a person may mean, by names from the right."""
    return [refused for refused in interceptor.counters.refused if _matches(refused.title, ref)]


def pod_report(interceptor: PolicyInterceptor, ref: str) -> dict[str, Any] | None:
    """The containers of a pod that a person may mean, by the start of its id or by names from the right; None: of none.

    Those that were refused are among them. Pods of one name in several namespaces are shown together.
    """
    tracker = interceptor.tracker
    store = tracker.store.containers
    rows = [
        _row(tracker, key, held)
        for key, held in tracker.allocations.by_key.items()
        if _matches(_pod_of(held.request.title), ref)
        or ((found := store.get(held.id)) is not None and found.pod_id.startswith(ref))
    ]
    shown = {row["container"] for row in rows}
    rows += [
        {
            "container": refused.title,
            "id": "",
            "qos": refused.request.qos.value,
            "cpu_milli": refused.request.milli,
            "state": "refused",
        }
        for refused in interceptor.counters.refused
        if refused.title not in shown and _matches(_pod_of(refused.title), ref)
    ]
    if not rows:
        return None
    return {"pods": list(dict.fromkeys(_pod_of(row["container"]) for row in rows)), "containers": rows}


def _pod_of(title: str) -> str:
    return title.rpartition("/")[0]


def _matches(title: str, ref: str) -> bool:
    parts = ref.split("/")
    return title.split("/")[-len(parts) :] == parts


def container_report(tracker: AllocationTracker, held: Allocation) -> dict[str, Any]:
    """Everything that is tracked about one container."""
    key = held.request.key
    titles = tracker.allocations.titles()
    events = list(held.events)
    updater = tracker.updaters.by_key.get(key)
    wanted = tracker.desired(key)
    return {
        "container": held.request.title,
        "id": held.id,
        **_state(tracker, key, held),
        "decision": _event(events[-1], titles) if events else None,
        "history": [_event(event, titles) for event in events],
        "holds": None if (grant := tracker.allocations.policy.state.grants.get(key)) is None else grant_record(grant),
        "wanted": None if wanted is None else assignment_record(wanted),
        "written": None if updater is None or updater.written is None else assignment_record(updater.written),
        "pod_quota": _pod_quota(tracker, key, wanted),
        "memory": None
        if (widening := held.widening) is None
        else {"at": _time(widening.at), "nodes": str(widening.nodes), "why": widening.reason},
        "writer": None
        if updater is None
        else {
            "state": "in step" if updater.state == "idle" else updater.state,
            "error": updater.error,
            "attempts": updater.attempts,
        },
    }


def _pod_quota(tracker: AllocationTracker, key: Key, wanted: Assignment | None) -> dict[str, Any] | None:
    """The CFS quota of the pod: what it should be, what was found before it was lifted, and why it is not so."""
    quotas, directory = tracker.pod_quotas, tracker.quota_directory(key)
    lifts = wanted is not None and wanted.quota == NO_QUOTA
    if directory is None or not (lifts or directory in quotas.originals):
        return None
    return {
        "wanted": NO_QUOTA if directory in quotas.originals or lifts else None,
        "written": NO_QUOTA if directory in quotas.lifted else None,
        "before": quotas.originals.get(directory),
        "error": quotas.problems.get(directory) or quotas.unreadable.get(directory, ""),
    }


def refusal_report(tracker: AllocationTracker, refused: RefusedRequest) -> dict[str, Any]:
    """Everything known about a container that was refused and is not tracked, in the form of one that is."""
    record = decision_record(refused.decision, refused.request, Assignment(), tracker.allocations.titles())
    return {
        "container": refused.title,
        "id": "",
        "state": "refused",
        "refused": {"at": _time(refused.at), "times": refused.times},
        "decision": {"at": _time(refused.at), **record},
        "history": [],
        "holds": None,
        "wanted": None,
        "written": None,
        "writer": None,
    }


def _event(event: AllocationEvent, titles: Mapping[Key, str]) -> dict[str, Any]:
    record = decision_record(event.decision, event.request, event.assignment, titles)
    return {"at": _time(event.at), **record}


def cgroup_report(container: Container | None, tree: Callable[[], CgroupTree]) -> dict[str, object]:
    """The values in the cgroup of a container. Reads files: not for the loop."""
    if container is None:
        return {"error": "the runtime has not made the container yet"}
    try:
        cgroups = tree()
        directory = directory_of(cgroups, container)
        values = {parameter.value: str(cgroups.read(directory, parameter)) for parameter in _CGROUP_PARAMETERS}
        parent = quota_directory(container.cgroup_parent)
        if parent is not None:
            values["pod"] = str(cgroups.read(parent, Parameter.CPU_QUOTA))
    except (OSError, ValueError, ConfigError) as error:
        return {"error": str(error)}
    return {"path": directory, **values}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _set(cpus: CpuSet | ExcludedCpus | None) -> str:
    return "" if cpus is None else str(cpus)


def _reserved(reserved: CpuSet | ExcludedCpus | int | None) -> str:
    return f"{reserved}m" if isinstance(reserved, int) else _set(reserved)
