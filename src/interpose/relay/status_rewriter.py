"""Status replies show the kubelet the resources that it requested, not those that were changed on the way.

A kubelet with in-place resize compares the resources in a status with those it last requested, and would update a
container for ever that got something else. So statuses and events about such containers show the request; every other
reply stays the bytes that came. A runtime that reports no resources stays silent, and the verbose `info` of a status is
left alone: it is for people.

Both parts read the containers that diverge whenever they need them and keep nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from interpose.core.model.pod import Container
from interpose.core.model.resources import LinuxResources
from interpose.cri.methods import Method
from interpose.cri.parser import CriParser
from interpose.cri.store.convert import to_resources
from interpose.cri.store.requested import ANNOTATION, requested_resources
from interpose.relay.api import CLIENT, Call, Proceed, Reply

Diverging = Callable[[], Mapping[str, Container]]
"""The containers that have something else than their caller asked for, by id. Asked for every call: a look-up."""

Unknown = Callable[[], Collection[str] | None]
"""The ids of the containers that were looked up, as long as there may be others; None when all of them were."""

_EVENTS: Final = "GetContainerEvents"


def _all_known() -> None:
    return None


# -- the correction of one status: pure


def corrected(status: Any, container: Container) -> bool:
    """Make a ContainerStatus show what was asked for where the container has something else. True if it changed."""
    if not status.HasField("resources") or not status.resources.HasField("linux"):
        return False
    linux = status.resources.linux
    changed = False
    for name in container.resources.differing(container.requested):
        write = _BY_KEY.get(name, _write_value)
        changed |= write(linux, name, container.resources, container.requested)
    return changed


def _write_value(linux: Any, name: str, _has: LinuxResources, asked: LinuxResources) -> bool:
    value = getattr(asked, name)
    if getattr(linux, name) == value:
        return False
    setattr(linux, name, value)  # zero and empty are how the wire says "not set"
    return True


def _write_unified(linux: Any, _name: str, has: LinuxResources, asked: LinuxResources) -> bool:
    before = dict(linux.unified)
    for key in _differing_keys(has.unified, asked.unified):
        if key in asked.unified:
            linux.unified[key] = asked.unified[key]
        else:
            linux.unified.pop(key, None)
    return before != dict(linux.unified)


def _write_hugepages(linux: Any, _name: str, has: LinuxResources, asked: LinuxResources) -> bool:
    limits, wanted = linux.hugepage_limits, dict(asked.hugepage_limits)
    before = _pairs(limits)
    for size in _differing_keys(dict(has.hugepage_limits), wanted):
        there = [limit for limit in limits if limit.page_size == size]
        for limit in there:
            if size in wanted:
                limit.limit = wanted[size]
            else:
                limits.remove(limit)
        if size in wanted and not there:
            limits.add(page_size=size, limit=wanted[size])
    return before != _pairs(limits)


def _pairs(limits: Any) -> list[tuple[str, int]]:
    return [(limit.page_size, limit.limit) for limit in limits]


def _differing_keys(has: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """A key with a zero is not the same as none: a huge page limit of zero forbids them."""
    return [key for key in {**has, **asked} if has.get(key) != asked.get(key)]


_BY_KEY: Final[Mapping[str, Callable[[Any, str, LinuxResources, LinuxResources], bool]]] = {
    "hugepage_limits": _write_hugepages,
    "unified": _write_unified,
}


def correct_all(statuses: Iterable[Any], diverging: Mapping[str, Container]) -> bool:
    """Correct those of several statuses that need it. True if one was changed."""
    changed = False
    for status in statuses:
        container = diverging.get(status.id)
        if container is not None:
            changed |= corrected(status, container)
    return changed


def correct_by_note(status: Any) -> None:
    """The same for a container that is not in the store yet, by the annotation it was created with."""
    note = status.annotations.get(ANNOTATION, "")
    if note and status.resources.HasField("linux"):
        has = to_resources(status.resources.linux)
        corrected(status, Container(id=status.id, resources=has, requested=requested_resources(note, has, None)))


# -- which calls concern a container that diverges, and where their replies have statuses


def _of_container(request: Any, diverging: Mapping[str, Container]) -> bool:
    # Runtimes take any unambiguous beginning of an id, and answer with the whole one.
    wanted = request.container_id
    return wanted in diverging or any(known.startswith(wanted) for known in diverging)


def _of_pod(request: Any, diverging: Mapping[str, Container]) -> bool:
    return any(container.pod_id.startswith(request.pod_sandbox_id) for container in diverging.values())


def _one(response: Any) -> Iterable[Any]:
    return (response.status,) if response.HasField("status") else ()


def _all(response: Any) -> Iterable[Any]:
    statuses: Iterable[Any] = response.containers_statuses
    return statuses


_CALLS: Final[Mapping[str, tuple[Callable[[Any, Mapping[str, Container]], bool], Callable[[Any], Iterable[Any]]]]] = {
    "ContainerStatus": (_of_container, _one),
    "PodSandboxStatus": (_of_pod, _all),
}


class StatusRewriter:
    """The interceptor for statuses. First in the chain: the interceptors after it see what the runtime says.

    Subscribed only while something diverges, or as long as `unknown` says that there may be containers that
    were not looked up since the start; the store's owner calls `Relay.refresh` when that changes. Calls of our own
    want to know what the containers have, and pass.
    """

    name = "reporting"

    def __init__(self, diverging: Diverging, unknown: Unknown = _all_known) -> None:
        self._diverging = diverging
        self._unknown = unknown

    @property
    def methods(self) -> Collection[str]:
        return tuple(_CALLS) if self._diverging() or self._unknown() is not None else ()

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        if call.origin != CLIENT or reply.code or reply.body is None:
            return reply
        if not (call.body.readable and reply.body.readable):
            return reply
        # Asked after the answer: an update that passed meanwhile is what the caller remembers as its last.
        diverging = self._diverging()
        concerns, statuses = _CALLS[call.method.name]
        known = self._unknown()
        if known is not None and any(status.id not in known for status in statuses(reply.read())):
            for status in statuses(reply.response):
                if status.id not in known:
                    correct_by_note(status)
        if concerns(call.body.read(), diverging):
            correct_all(statuses(reply.response), diverging)
        return reply


class EventRewriter:
    """The editor for events, each of which shows all containers of a pod.

    Always subscribed, since a subscription to events lives as long as the kubelet does; while nothing diverges it costs
    nothing but cutting the stream into messages.
    """

    name = "reporting"
    methods: Collection[str] = (_EVENTS,)

    def __init__(self, diverging: Diverging) -> None:
        self._diverging = diverging
        self._parser = CriParser("ContainerEventResponse")

    def edit(self, method: Method, message: bytes) -> bytes:
        """The event with corrected statuses, or as it came if it shows no container that diverges."""
        diverging = self._diverging()
        if not diverging:
            return message
        event = self._parser.parse(message)
        return self._parser.serialize(event) if correct_all(event.containers_statuses, diverging) else message
