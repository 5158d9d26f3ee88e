"""Keeping the store in step with the runtime.

Lists say what exists; the verbose status of what is unknown says the rest. Whatever the runtime answers is old by the
time it is here, so an answer never undoes what the store learned since the question: see `Store.mark` and
`Store.query`. Nothing here delays a call: calls only look a record up, or say that something is due.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

from interpose.core.backoff import Backoff
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.cri.store import convert
from interpose.cri.store.convert import ListedContainer, ListedPod
from interpose.cri.store.requested import refreshed, requested_resources
from interpose.cri.store.settle import Settler
from interpose.cri.store.store import Store
from interpose.net.grpc.status import Code, RpcError
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

Calls = Callable[[str, bytes], Awaitable[bytes]]

_T = TypeVar("_T")

_PARALLEL: Final = 8
# When to look once more at a container about which there is doubt, each after the one before.
_AGAIN: Final = (2.0, 10.0)
# A look-up whose object changes all the time gives up; the next list starts it again.
_TRIES: Final = 5
# Seconds until a run is repeated that was not complete: the runtime is starting, or a record is broken for good.
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0
_MOST_TROUBLES: Final = 10
_SILENT: Final = frozenset((Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED))


class ObjectKind(StrEnum):
    """The kind of a record that is looked up."""

    POD = "pod"
    CONTAINER = "container"
    AGAIN = "container, known already"


class Synchronizer:
    """Synchronizes the store, finds single records, settles creates with unknown outcome. `call` calls the runtime."""

    def __init__(self, store: Store, call: Calls, *, settle_pause: float = 1.0) -> None:
        self.store = store
        self._call = call
        self._tasks = TaskBag()
        self._settler = Settler(store, call, self._tasks, pause=settle_pause)
        self._lookups: dict[tuple[ObjectKind, str], asyncio.Task[Any]] = {}
        self._run: asyncio.Task[None] | None = None
        self._due = False
        self._completely = False
        self._learning: asyncio.Task[None] | None = None
        self._wanted: dict[tuple[ObjectKind, str], None] = {}
        self._trouble = ""
        self._failed = 0
        self._inherited: dict[str, str] = {}  # by container: what was requested, from the previous instance
        # Called whenever the runtime has listed everything, with the number of records that could not be looked up.
        self.on_listed: Callable[[int], None] | None = None
        # Called with a container that the runtime shows as running, unlike its record: no start of it passed here.
        self.on_started: Callable[[str], None] | None = None
        self.troubles: dict[str, str] = {}  # records that could not be looked up the last time, and why; some of them
        self._retry: asyncio.TimerHandle | None = None
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)  # of attempts that were not complete
        self.in_step = False  # whether the last attempt to bring the whole store in step worked

    def inherit(self, notes: object) -> None:
        """Take over the requested resources that the previous instance knew; they count in records made from answers.

        It is newer than the annotation of the container, which says what was requested when that was made.
        """
        if isinstance(notes, dict):
            self._inherited = {str(key): note for key, note in notes.items() if isinstance(note, str)}

    # -- everything

    def resync_soon(self, *, completely: bool = False) -> None:
        """Bring the store in step in the background. `completely`: look at what is known already as well."""
        self._due = True
        self._completely |= completely
        if self._run is None or self._run.done():
            self._run = self._tasks.spawn(self._resync_while_due(), name="bring the store in step")

    async def resync(self, *, completely: bool = False) -> bool:
        """Bring the store in step; returns after a run that began now or later, with whether it worked."""
        self.resync_soon(completely=completely)
        if self._run is not None:
            await asyncio.shield(self._run)
        return self.in_step

    async def _resync_while_due(self) -> None:
        while self._due:
            completely, self._due, self._completely = self._completely, False, False
            try:
                await self._resync_once(completely)
            except RpcError as error:
                self.in_step = False
                self._completely |= completely
                # Logged as a warning once: a runtime that is away is asked again and again.
                log = _log.debug if self._trouble else _log.warning
                self._trouble = str(error)
                log("Store is not in step: the runtime does not list", extra={"kv": {"err": self._trouble}})
            self._schedule_retry()

    def _schedule_retry(self) -> None:
        """Schedule another run if this one was not complete: no caller knows that something is missing."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self.in_step:
            self._backoff.reset()
            return
        self._retry = asyncio.get_running_loop().call_later(self._backoff.next(), self.resync_soon)

    async def _resync_once(self, completely: bool) -> None:
        store, mark = self.store, self.store.mark()
        pods = await _listed(convert.listed_pods, await self._call("ListPodSandbox", convert.list_pods()))
        answer = await self._call("ListContainers", convert.list_containers())
        containers = await _listed(convert.listed_containers, answer)
        removed = self.apply_pod_list(pods, mark) + self.apply_container_list(containers, mark)
        new_pods = [pod.id for pod in pods if pod.id not in store.pods]
        new_containers = [container.id for container in containers if container.id not in store.containers]
        known = [container.id for container in containers if container.id in store.containers] if completely else []
        troubles: dict[str, str] = {}
        self.troubles = troubles
        failed = await self._look_up_each([(ObjectKind.POD, pod_id) for pod_id in new_pods], troubles=troubles)
        failed += await self._look_up_each(
            [(ObjectKind.CONTAINER, container_id) for container_id in new_containers], troubles=troubles
        )
        stale = await self._look_up_each(
            [(ObjectKind.AGAIN, container_id) for container_id in known], troubles=troubles
        )
        failed += stale
        self._completely |= stale > 0  # unlike what is new, the next list would not show that they are due
        added = sum(pod_id in store.pods for pod_id in new_pods)
        added += sum(container_id in store.containers for container_id in new_containers)
        again = failed == self._failed and (failed > 0 or self.in_step)
        self._failed, self.in_step, self._trouble = failed, not failed, ""
        counts = {
            "added": added,
            "containers": len(store.containers),
            "failed": failed,
            "pods": len(store.pods),
            "removed": removed,
        }
        # What failed is tried at every run: logged when it happens, not each time it happens again.
        changed = added or removed or completely or not again
        level = logging.DEBUG if not changed else logging.WARNING if failed else logging.INFO
        text = "Store is in step but for some records" if failed else "Store is in step with the runtime"
        _log.log(level, text, extra={"kv": counts})
        if self.on_listed is not None:
            self.on_listed(failed)

    async def _look_up_each(
        self, wanted: Sequence[tuple[ObjectKind, str]], *, patient: bool = True, troubles: dict[str, str] | None = None
    ) -> int:
        """Carry out look-ups, some at a time. Returns how many failed; the next list starts those again.

        Without `patient`, all of them are given up when the runtime does not answer one.
        """
        looks: Mapping[ObjectKind, Callable[[str], Awaitable[object]]] = {
            ObjectKind.POD: self.pod,
            ObjectKind.CONTAINER: self.container,
            ObjectKind.AGAIN: self._refresh,
        }
        waiting, failed = iter(wanted), 0

        async def work() -> None:
            nonlocal failed, waiting
            while (next_one := next(waiting, None)) is not None:
                kind, ref = next_one
                try:
                    await looks[kind](ref)
                except RpcError as error:
                    failed += 1
                    if troubles is not None and len(troubles) < _MOST_TROUBLES:
                        troubles[f"{kind.value} {ref}"] = str(error)
                    if not patient and error.code in _SILENT:
                        waiting = iter(())
                    _log.debug("Record could not be looked up", extra={"kv": {"id": ref, "err": str(error)}})

        workers = range(min(_PARALLEL, len(wanted)))
        await asyncio.gather(*(self._tasks.spawn(work(), name="look up records") for _ in workers))
        return failed

    # -- lists, our own and those that pass

    def apply_pod_list(self, pods: Sequence[ListedPod], mark: int) -> int:
        """Apply a complete list of pods that was requested at `mark`. Returns how many records were removed."""
        removed = self.store.forget_missing(mark, pods={pod.id for pod in pods})
        for pod in pods:
            self.store.observe_ready(pod.id, pod.ready, mark)
        return removed

    def apply_container_list(self, containers: Sequence[ListedContainer], mark: int) -> int:
        """Apply a complete list of containers that was requested at `mark`. Returns how many records were removed."""
        removed = self.store.forget_missing(mark, containers={container.id for container in containers})
        for container in containers:
            known, state = self.store.containers.get(container.id), container.state
            if known is not None and self.store.observe_state(container.id, state, mark):
                self._note_start(known.state, state, container.id)
        return removed

    def _note_start(self, before: ContainerState, now: ContainerState, container_id: str) -> None:
        running = ContainerState.RUNNING
        if before is not running and now is running and self.on_started is not None:
            self.on_started(container_id)

    def look_up_soon(self, *, pods: Iterable[str] = (), containers: Iterable[str] = ()) -> None:
        """Look up unknown pods and containers in the background."""
        self._look_soon(ObjectKind.POD, (pod_id for pod_id in pods if pod_id not in self.store.pods))
        self._look_soon(ObjectKind.CONTAINER, (ref for ref in containers if ref not in self.store.containers))

    def refresh_soon(self, ref: str) -> None:
        """Look again at a container in the background: its resources may be others than recorded, or become so."""
        self._look_soon(ObjectKind.AGAIN, (ref,))
        self._tasks.spawn(self._refresh_again(ref), name=f"look again at {ref}")

    async def refresh(self, *refs: str) -> None:
        """Refresh containers now. A runtime that does not answer leaves the records as they are."""
        await self._look_up_each([(ObjectKind.AGAIN, ref) for ref in refs], patient=False)

    async def _refresh_again(self, ref: str) -> None:
        """The runtime may still be at work on what was asked of it."""
        for pause in _AGAIN:
            await asyncio.sleep(pause)
            self._look_soon(ObjectKind.AGAIN, (ref,))

    def _look_soon(self, kind: ObjectKind, refs: Iterable[str]) -> None:
        self._wanted.update(((kind, ref), None) for ref in refs)
        if self._wanted and (self._learning is None or self._learning.done()):
            self._learning = self._tasks.spawn(self._learn(), name="look up what is new")

    async def _learn(self) -> None:
        while self._wanted:
            wanted, self._wanted = tuple(self._wanted), {}
            await self._look_up_each(wanted)

    # -- single records

    async def pod(self, ref: str) -> Pod | None:
        """The pod, asked of the runtime if it is not known; None if there is none, RpcError if that is unknown."""
        return self.store.pod(ref) or await self._shared((ObjectKind.POD, ref), partial(self._find_pod, ref))

    async def container(self, ref: str) -> tuple[Container, Pod] | None:
        """The container and its pod, asked of the runtime if they are not known; None and RpcError as for pods."""
        container = self.store.container(ref)
        if container is not None and (pod := self.store.pods.get(container.pod_id)) is not None:
            return container, pod
        return await self._shared((ObjectKind.CONTAINER, ref), partial(self._find_container, ref))

    async def _find_pod(self, ref: str) -> Pod | None:
        for _ in range(_TRIES):
            with self.store.query(ref) as query:
                answer = await self._status("PodSandboxStatus", convert.pod_status(ref))
                if answer is None:
                    return None
                pod = _readable(convert.pod_of_status, answer)
                if not query.stale:
                    if (known := self.store.pods.get(pod.id)) is None:
                        self.store.put_pod(pod)
                    return known or pod
        raise RpcError(Code.ABORTED, f"pod {ref} changes faster than it can be looked up")

    async def _find_container(self, ref: str) -> tuple[Container, Pod] | None:
        for _ in range(_TRIES):
            with self.store.query(ref) as query:
                answer = await self._status("ContainerStatus", convert.container_status(ref))
                if answer is None:
                    return None
                found = _readable(convert.container_of_status, answer)
                pod_id = found.pod_id or await self._pod_id_of(found.record.id)
                pod = await self.pod(pod_id) if pod_id else None
                if pod is None:
                    # It exists all the same, so it must not look like a container that the runtime does not know.
                    raise RpcError(Code.NOT_FOUND, f"the runtime does not know the pod {pod_id} of container {ref}")
                if not query.stale and pod.id in self.store.pods:
                    if (known := self.store.containers.get(found.record.id)) is None:
                        known = self._with_inherited_request(found.within(pod))
                        self.store.put_container(known)
                    return known, pod
        raise RpcError(Code.ABORTED, f"container {ref} changes faster than it can be looked up")

    def _with_inherited_request(self, container: Container) -> Container:
        note = self._inherited.pop(container.id, None)
        if note is None:
            return container
        return replace(container, requested=requested_resources(note, container.resources, None))

    async def _refresh(self, ref: str) -> None:
        """Replace a record by the runtime's status; what was requested is known here only."""
        for _ in range(_TRIES):
            mark = self.store.mark()
            known = self.store.container(ref)
            if known is None:
                return
            answer = await self._status("ContainerStatus", convert.container_status(known.id))
            if answer is None:
                if self.store.unchanged_since(known.id, mark):
                    self.store.remove_container(known.id)
                return
            if self.store.unchanged_since(known.id, mark):
                found = _readable(convert.container_of_status, answer).record
                requested = refreshed(known.requested, known.resources, found.resources)
                parent = found.cgroup_parent or known.cgroup_parent
                fresh = replace(
                    known, resources=found.resources, requested=requested, state=found.state, cgroup_parent=parent
                )
                self.store.put_container(fresh)
                self._note_start(known.state, found.state, known.id)
                return

    async def _status(self, method: str, message: bytes) -> bytes | None:
        try:
            return await self._call(method, message)
        except RpcError as error:
            if error.code is Code.NOT_FOUND:
                return None
            raise

    async def _pod_id_of(self, container_id: str) -> str:
        answer = await self._call("ListContainers", convert.list_containers(container_id=container_id))
        return next((container.pod_id for container in _readable(convert.listed_containers, answer)), "")

    async def _shared(self, key: tuple[ObjectKind, str], find: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Callers that look up the same object at the same time share one look-up, which outlives each of them."""
        task: asyncio.Task[_T | RpcError] | None = self._lookups.get(key)
        if task is None:
            task = self._lookups[key] = self._tasks.spawn(_outcome(find), name=f"look up {key[0]} {key[1]}")
            task.add_done_callback(lambda _: self._lookups.pop(key, None))
        outcome = await asyncio.shield(task)
        if isinstance(outcome, RpcError):
            # One of its own for each: a frame that holds the error it raises keeps all calls above it until the
            # collector of cycles comes.
            raise RpcError(outcome.code, outcome.message)
        return outcome

    # -- creates with unknown outcome

    def settle_soon(self) -> None:
        """Find out in the background what became of the pending creates."""
        self._settler.start()

    async def settle(self) -> None:
        """Return when no create is pending; the runtime being away makes it wait."""
        await self._settler.settle()

    async def close(self) -> None:
        """Stop everything that is under way."""
        if self._retry is not None:
            self._retry.cancel()
        await self._tasks.cancel()


async def _outcome(find: Callable[[], Coroutine[Any, Any, _T]]) -> _T | RpcError:
    """The result, with an error as a value: perhaps no caller waits for it any more."""
    try:
        return await find()
    except RpcError as error:
        return error


async def _listed(read: Callable[[bytes], list[_T]], answer: bytes) -> list[_T]:
    """The records of a list reply, a long one read with turns for others in between."""
    found: list[_T] = []
    for part in convert.list_parts(answer):
        if found:
            await asyncio.sleep(0)
        found += _readable(read, part)
    return found


def _readable(read: Callable[[bytes], _T], answer: bytes) -> _T:
    try:
        return read(answer)
    except ValueError as error:
        raise RpcError(Code.INTERNAL, f"the runtime's answer cannot be read: {error}") from error
