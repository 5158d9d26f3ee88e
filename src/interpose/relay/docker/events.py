"""Events of dockerd, and when they mean that the store has to be refreshed.

A line of its event stream says that something happened to a container. dockerd sends the event of a call before its
answer, so a line waits for a moment; if the store knows by then, because the call went through here, nothing is due.
Everything else (a container that ended by itself, whatever other clients do at dockerd's own socket) refreshes the
store, once for all that waited: a node that starts a hundred containers is not listed a hundred times. Pure: timers are
passed in.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from interpose.core.model.pod import ContainerState
from interpose.relay.docker.translate.labels import identity

if TYPE_CHECKING:
    from interpose.cri.store.store import Store

DESTROY: Final = "destroy"
# After them something is there, runs or is gone that was not, did not or was there before.
_STATES: Final[Mapping[str, ContainerState | None]] = {
    "create": ContainerState.CREATED,
    "start": ContainerState.RUNNING,
    "die": ContainerState.EXITED,
    DESTROY: None,
}
ACTIONS: Final = tuple(_STATES)
"""The actions that matter, for the filter of the event stream."""

# Seconds a line waits: longer than dockerd takes from the event to the answer, and a container that ended by itself
# keeps its CPUs for as long.
_PAUSE: Final = 0.1
# Containers with events within that time; all further ones share an entry.
_MOST: Final = 1024


class DockerEvent(NamedTuple):
    """An event of a container."""

    action: str
    id: str


class TimerHandle(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


def read_event(line: bytes) -> DockerEvent | None:
    """The event of a line, if it is about a container of Kubernetes and matters; else, and if unreadable, None."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    # Old daemons, with events of containers only, have only the names in lower case.
    action = _text(document, "Action") or _text(document, "status")
    kind = _text(document, "Type") or "container"
    actor = document.get("Actor")
    if kind != "container" or action not in _STATES:
        return None
    if not isinstance(actor, dict):
        return DockerEvent(action, _text(document, "id"))
    labels = actor.get("Attributes")  # and some more
    if isinstance(labels, dict) and identity(labels, "") is None:
        return None
    return DockerEvent(action, _text(actor, "ID"))


def is_new_to_store(event: DockerEvent, store: "Store") -> bool:
    """Whether the store does not know it yet."""
    state = _STATES[event.action]
    if not event.id:
        return True  # of an unknown container
    pod, container = store.pods.get(event.id), store.containers.get(event.id)
    if state is None or (pod is None and container is None):
        # Gone, and we still have it; or there, and we do not have it.
        return (state is None) == (pod is not None or container is not None)
    if container is not None:
        # One that runs or ended was created before.
        return state is not ContainerState.CREATED and container.state is not state
    return pod is not None and state is ContainerState.EXITED and pod.ready


class StoreRefresher:
    """Resyncs the store after events that are new to it. `later` is the loop's `call_later`."""

    def __init__(
        self, *, store: "Store", resync: Callable[[], None], later: Callable[[float, Callable[[], None]], TimerHandle]
    ) -> None:
        self.news = 0  # events that led to a resync
        self._store = store
        self._resync = resync
        self._later = later
        self._waiting: dict[str, DockerEvent] = {}  # by container, the newest one
        self._timer: TimerHandle | None = None

    def __call__(self, event: DockerEvent) -> None:
        if not is_new_to_store(event, self._store):
            return
        self._waiting[event.id if len(self._waiting) < _MOST else ""] = event
        if self._timer is None:
            self._timer = self._later(_PAUSE, self._resync_if_new)

    def close(self) -> None:
        """Drop the waiting events and the timer."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _resync_if_new(self) -> None:
        waiting, self._waiting, self._timer = self._waiting, {}, None
        if any(is_new_to_store(event, self._store) for event in waiting.values()):
            self.news += 1
            self._resync()


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""
