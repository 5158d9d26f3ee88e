"""What the admin socket tells of policies: plain values, made when somebody asks."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from interpose.core.model.cgroup import Parameter
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container
from interpose.core.policy.decision import Assignment, assignment_record, decision_record, grant_record
from interpose.core.policy.names import NONE
from interpose.core.policy.request import Key
from interpose.core.topology.document import topology_document
from interpose.errors import ConfigError
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.allocations import Event, Held
from interpose.resmgr.cgroup_check import directory_of
from interpose.resmgr.counters import Refused
from interpose.resmgr.interceptor import Manager
from interpose.resmgr.restore import FIELDS
from interpose.resmgr.tracker import Books

_LOOKED_AT = (Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS, Parameter.CPU_SHARES)


def policy_report(manager: Manager, *, problems: list[str], state_file: Mapping[str, object]) -> dict[str, Any]:
    """The policy, its pools, and who has what."""
    books = manager.books
    ledger, configuration, topology = books.ledger, books.configuration, books.topology
    book = ledger.policy.book
    titles = ledger.titles()
    failing = [
        {"container": titles.get(key, str(key)), "id": writer.id, "error": writer.error, "attempts": writer.attempts}
        for key, writer in books.writers.all.items()
        if writer.error
    ]
    contested = [
        f"container {titles.get(one.key, one.id)}: policy {configuration.policy} and somebody else set its values in "
        f"turn; {one.replaced.text} was found {one.replaced.times} times"
        for one in books.writers.contested()
    ]
    homeless = [f"container {titles[key]} has no place under the policy" for key in ledger.without_place]
    unmet = [
        f"container {held.request.title} has {held.latest.milli}m CPU at the runtime; the policy has room for "
        f"{held.request.milli}m"
        for held in map(ledger.held.__getitem__, ledger.unmet)
    ]
    return {
        "policy": configuration.policy,
        "origin": configuration.origin,
        "ready": books.ready.is_set(),
        "available": _set(configuration.available),
        "reserved": _reserved(configuration.reserved),
        "pools": {name: str(cpus) for name, cpus in ledger.policy.pools().items()},
        "containers": len(ledger.held),
        "exclusive": sum(1 for grant in book.grants.values() if grant.exclusive),
        "failing": failing,
        "problems": [
            *(f"another configuration should be in force: {one}" for one in configuration.stands_in),
            *problems,
            *homeless,
            *unmet,
            *contested,
            *(f"note: {one}" for one in (*configuration.notes, *ledger.policy.notes, *_unreadable(books, titles))),
        ],
        "refused": [
            {
                "at": _time(one.at),
                "container": one.title,
                "times": one.times,
                "why": one.refusal.why.value,
                "message": one.refusal.message,
            }
            for one in reversed(manager.tally.refused)
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
        "assignments": [_row(books, key, held) for key, held in ledger.held.items()],
    }


def _unreadable(books: Books, titles: Mapping[Key, str]) -> list[str]:
    """Said if no cgroup can be read: that of a container which has just ended is nothing to worry about."""
    unreadable = books.cgroups.unreadable
    if not unreadable or books.cgroups.confirmed:
        return []
    key, why = next(iter(unreadable.items()))
    return [f"cgroups cannot be read, so states are the runtime's word; {titles.get(key, key)}: {why}"]


def owned_report(manager: Manager) -> dict[str, Any]:
    """Values of containers that the policy decides, as CRI calls them: other programs on the node leave them alone.

    CPU sets under any policy, the others if a container has them of it. While something stands in for a policy, what
    containers have is still that policy's. What was remembered counts until the runtime has listed its containers.
    """
    books = manager.books
    ledger, policy = books.ledger, books.configuration.policy
    remembered = [entry.grant for _, entry in books.beginning.entries.values()]
    if policy == NONE:
        sleeps = books.asleep or (books.idle and remembered)
        assigned, policy = ({"cpus"}, books.beginning.last) if sleeps else (set[str](), policy)
    else:
        given = (*map(ledger.assignment, ledger.held), *remembered)
        assigned = {"cpus"} | {name for one in given for name in FIELDS if getattr(one, name, None) is not None}
    return {"version": 1, "policy": policy, "owns": [field for name, field in FIELDS.items() if name in assigned]}


def topology_report(manager: Manager) -> dict[str, Any]:
    """The machine as the policy sees it."""
    return topology_document(manager.books.topology)


def _row(books: Books, key: Key, held: Held) -> dict[str, Any]:
    grant = books.ledger.policy.book.grants.get(key)
    return {
        "container": held.request.title,
        "id": held.id,
        "qos": held.request.qos.value,
        "cpu_milli": held.request.milli,
        "exclusive": str(grant.exclusive) if grant is not None else "",
        "pools": list(grant.pools) if grant is not None else [],
        **assignment_record(books.ledger.assignment(key)),
        **_state(books, key, held),
    }


def _state(books: Books, key: Key, held: Held) -> dict[str, str]:
    """The state in a word and, of one that is in step, who says so: the kernel, or only the runtime."""
    if books.in_doubt(key):
        return {"state": "in doubt"}
    if not held.place:
        return {"state": "without place"}
    if held.unmet is not None:
        return {"state": "without room"}
    writer = books.writers.all.get(key)
    if writer is None:
        return {"state": "being created"}
    if writer.state != "idle":
        return {"state": writer.state}
    return {
        "state": "in step",
        "confirmed_by": "kernel" if books.cgroups.confirms(key, books.wanted(key)) else "runtime",
    }


def find(books: Books, ref: str) -> list[Held]:
    """Containers that a person may mean: by the start of an id, or by names from the right."""
    held = list(books.ledger.held.values())
    by_id = [one for one in held if one.id and one.id.startswith(ref)] if ref else []
    if by_id:
        return by_id
    return [one for one in held if _is_called(one.request.title, ref)]


def find_refused(manager: Manager, ref: str) -> list[Refused]:
    """Refusals that a person may mean, by names from the right."""
    return [one for one in manager.tally.refused if _is_called(one.title, ref)]


def pod_report(manager: Manager, ref: str) -> dict[str, Any] | None:
    """The containers of a pod that a person may mean, by the start of its id or by names from the right; None: of none.

    Those that were refused are among them. Pods of one name in several namespaces are shown together.
    """
    books = manager.books
    store = books.store.containers
    rows = [
        _row(books, key, held)
        for key, held in books.ledger.held.items()
        if _is_called(_pod_of(held.request.title), ref)
        or ((made := store.get(held.id)) is not None and made.pod_id.startswith(ref))
    ]
    there = {row["container"] for row in rows}
    rows += [
        {
            "container": one.title,
            "id": "",
            "qos": one.request.qos.value,
            "cpu_milli": one.request.milli,
            "state": "refused",
        }
        for one in manager.tally.refused
        if one.title not in there and _is_called(_pod_of(one.title), ref)
    ]
    if not rows:
        return None
    return {"pods": list(dict.fromkeys(_pod_of(row["container"]) for row in rows)), "containers": rows}


def _pod_of(title: str) -> str:
    return title.rpartition("/")[0]


def _is_called(title: str, ref: str) -> bool:
    parts = ref.split("/")
    return title.split("/")[-len(parts) :] == parts


def container_report(books: Books, held: Held) -> dict[str, Any]:
    """Everything in the books about one container."""
    key = held.request.key
    titles = books.ledger.titles()
    events = list(held.events)
    writer = books.writers.all.get(key)
    wanted = books.wanted(key)
    return {
        "container": held.request.title,
        "id": held.id,
        **_state(books, key, held),
        "decision": _event(events[-1], titles) if events else None,
        "history": [_event(one, titles) for one in events],
        "holds": None if (grant := books.ledger.policy.book.grants.get(key)) is None else grant_record(grant),
        "wanted": None if wanted is None else assignment_record(wanted),
        "written": None if writer is None or writer.written is None else assignment_record(writer.written),
        "writer": None
        if writer is None
        else {
            "state": "in step" if writer.state == "idle" else writer.state,
            "error": writer.error,
            "attempts": writer.attempts,
        },
    }


def refusal_report(books: Books, refused: Refused) -> dict[str, Any]:
    """Everything known about a container that was refused and is not in the books, in the form of one that is."""
    record = decision_record(refused.decision, refused.request, Assignment(), books.ledger.titles())
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


def _event(event: Event, titles: Mapping[Key, str]) -> dict[str, Any]:
    record = decision_record(event.decision, event.request, event.assignment, titles)
    return {"at": _time(event.at), **record}


def cgroup_report(container: Container | None, tree: Callable[[], CgroupTree]) -> dict[str, object]:
    """What stands in the cgroup of a container. Reads files: not for the loop."""
    if container is None:
        return {"error": "the runtime has not made the container yet"}
    try:
        cgroups = tree()
        directory = directory_of(cgroups, container)
        values = {one.value: str(cgroups.read(directory, one)) for one in _LOOKED_AT}
    except (OSError, ValueError, ConfigError) as error:
        return {"error": str(error)}
    return {"path": directory, **values}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _set(cpus: CpuSet | None) -> str:
    return "" if cpus is None else str(cpus)


def _reserved(reserved: CpuSet | int | None) -> str:
    return f"{reserved}m" if isinstance(reserved, int) else _set(reserved)
