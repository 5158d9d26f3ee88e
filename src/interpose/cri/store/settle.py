"""Finding the outcome of creates that is unknown.

The runtime is asked for everything of the pod in question. What it shows under the same name and attempt was created,
and is recorded as it was sent. What it does not show twice, a pause apart, was not: a single look may come while
the create is still running there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from interpose.core.backoff import Backoff
from interpose.core.model.kubernetes_names import POD_UID
from interpose.core.model.pod import Container, Pod
from interpose.cri.store import convert
from interpose.cri.store.pending import Entry, Key, PendingContainer, PendingPod, PodKey
from interpose.cri.store.store import Store
from interpose.net.grpc.status import RpcError
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 5.0


class Settler:
    """Works while something is pending. `pause` is the time between two looks, in seconds."""

    def __init__(
        self, store: Store, call: Callable[[str, bytes], Awaitable[bytes]], tasks: TaskBag, *, pause: float
    ) -> None:
        self._store = store
        self._call = call
        self._tasks = tasks
        self._pause = pause
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless it is at work or there is nothing to do."""
        if self._store.pending and (self._task is None or self._task.done()):
            self._task = self._tasks.spawn(self._work(), name="settle pending creates")

    async def settle(self) -> None:
        """Return when nothing is pending."""
        self.start()
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        missed: dict[Key, tuple[Entry, float]] = {}  # what was not there, and when the runtime first said so
        backoff = Backoff(_FIRST_WAIT, _LONGEST_WAIT)
        while entries := tuple(self._store.pending):
            missed = {entry.key: missed[entry.key] for entry in entries if missed.get(entry.key, (None,))[0] is entry}
            try:
                for entry in entries:
                    # It may have been settled while the runtime was asked about the entry before.
                    if entry in self._store.pending and not await self._look_up(entry):
                        _, first = missed.setdefault(entry.key, (entry, clock()))
                        if clock() - first >= self._pause:
                            self._drop(entry)
            except (RpcError, ValueError) as error:
                _log.debug("Pending creates cannot be settled yet", extra={"kv": {"err": str(error)}})
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            if self._store.pending:
                await asyncio.sleep(self._pause)

    async def _look_up(self, entry: Entry) -> bool:
        """Whether the runtime shows it; if so it is recorded."""
        # The id is unknown, so a removal of anything meanwhile may have been of this one: then look again.
        with self._store.query("") as query:
            found = await (self._pod(entry) if isinstance(entry, PendingPod) else self._container(entry))
        if found is None:
            return False
        if entry not in self._store.pending or query.stale:
            return True
        # What the store has learned by itself meanwhile may be newer.
        if isinstance(found, Pod):
            self._store.put_pod(self._store.pods.get(found.id, found))
        else:
            self._store.put_container(self._store.containers.get(found.id, found))
        self._store.pending.drop(entry)
        _log.info("Create with unknown outcome: it succeeded", extra={"kv": {"id": found.id, "name": _name(entry)}})
        return True

    async def _pod(self, entry: PendingPod) -> Pod | None:
        pod = entry.pod
        # Without the label, as with callers that are no kubelet, only a full list shows it.
        uid = pod.uid if pod.labels.get(POD_UID) == pod.uid else ""
        for listed in convert.listed_pods(await self._call("ListPodSandbox", convert.list_pods(uid=uid))):
            if PodKey(listed.namespace, listed.name, listed.uid, listed.attempt) == entry.key:
                return replace(pod, id=listed.id, ready=listed.ready)
        return None

    async def _container(self, entry: PendingContainer) -> Container | None:
        container = entry.container
        uid = container.labels.get(POD_UID, "")
        message = convert.list_containers(uid=uid) if uid else convert.list_containers(pod_id=container.pod_id)
        found = [
            listed
            for listed in convert.listed_containers(await self._call("ListContainers", message))
            if (listed.name, listed.attempt) == (container.name, container.attempt)
            and listed.pod_id.startswith(container.pod_id)
        ]
        # Docker may show several: the one in doubt is not one that is known already.
        best = min(found, key=lambda listed: listed.id in self._store.containers, default=None)
        return None if best is None else replace(container, id=best.id, pod_id=best.pod_id, state=best.state)

    def _drop(self, entry: Entry) -> None:
        self._store.pending.drop(entry)
        _log.info("Create with unknown outcome: it did not happen", extra={"kv": {"name": _name(entry)}})


def _name(entry: Entry) -> str:
    return entry.container.name if isinstance(entry, PendingContainer) else f"{entry.pod.namespace}/{entry.pod.name}"
