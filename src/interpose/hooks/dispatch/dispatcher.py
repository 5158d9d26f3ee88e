"""The dispatcher: an interceptor that calls every registered hook server, in order, and merges their answers.

Invariants. A call that a hook server under Fail must see never reaches the runtime without it: whatever goes wrong
(the plugin, its answer, the request, the look-up, a bug here) ends in a refusal that names the plugin. Under Ignore the
call continues as if that plugin were not registered. Post hooks never change the reply and never delay it beyond the
budget. Each plugin sees the result of the ones before it; the request is edited only when all of them are done.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from interpose.config.relay.settings import HookSettings
from interpose.core.model.pod import Container, Pod
from interpose.cri.errors import UnreadableMessageError
from interpose.hooks.api.hookpoint import HOOKED_METHODS, HookedMethod, HookPoint
from interpose.hooks.dispatch.apply import apply
from interpose.hooks.dispatch.calls import HookCalls, HookRefusedError
from interpose.hooks.dispatch.hook_server import Metadata, RegisteredServer, RegisteredServers
from interpose.hooks.dispatch.merge import FieldChange
from interpose.hooks.dispatch.requests import (
    HookSubject,
    container_to_create,
    container_to_update,
    existing_container,
    existing_pod,
    pod_from_config,
    pod_to_run,
)
from interpose.net.grpc.status import Code, RpcError, quote_message
from interpose.relay.api import CLIENT, Call, Proceed, Reply, refusal
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# Makes a pod and its containers in one call that has no hook point of its own.
_RESTORE_POD: Final = "RestorePod"
_RESOURCES: Final = "container_resources."  # where answers have what CRI calls the resources of a container
_RETRY_PAUSES: Final[tuple[float, ...]] = (1.0, 2.0, 4.0)


class Lookup(Protocol):
    """Look-up of pods and containers by id. None: the runtime has none with this id. RpcError: it is not known."""

    async def pod(self, ref: str) -> Pod | None: ...

    async def container(self, ref: str) -> tuple[Container, Pod] | None: ...


class HookBudget:
    """The time all hooks of one call share, look-ups included; only the time in which they run counts."""

    def __init__(self, budget: float, deadline: float | None, now: Callable[[], float]) -> None:
        self._deadline = deadline
        self._now = now
        self._left = self._bounded(budget)
        self._began = 0.0

    def _bounded(self, seconds: float) -> float:
        """At most half of the caller's remaining time: the rest is for the runtime and the reply."""
        return seconds if self._deadline is None else min(seconds, max(self._deadline - self._now(), 0.0) / 2)

    def begin(self) -> float:
        """Start the clock; returns the time at which hooks have to be done."""
        self._began = self._now()
        return self._began + self._bounded(self._left)

    def end(self) -> None:
        """Stop the clock and subtract the time that hooks took."""
        self._left = max(self._left - (self._now() - self._began), 0.0)


class Dispatcher:
    """Runs the hooks of intercepted calls. `allowed` returns the CPUs and memory nodes below a cgroup parent."""

    name = "hooks"
    tidy = True  # whatever goes wrong, it restores the request itself

    def __init__(
        self,
        plugins: RegisteredServers,
        lookup: Lookup,
        settings: HookSettings,
        *,
        now: Callable[[], float],
        allowed: Callable[[str], tuple[str, str]],
        retry_pauses: Sequence[float] = _RETRY_PAUSES,
    ) -> None:
        self.plugins = plugins
        self.skipped = 0
        self.unknown: Counter[str] = Counter()  # calls by method whose pod is not known
        self.retries = 0
        self.tasks = TaskBag()
        self.hook_calls = HookCalls(settings, now)
        self._lookup = lookup
        self._settings = settings
        self._now = now
        self._allowed = allowed
        self._retry_pauses = retry_pauses
        # CreateContainer always: a pod's cgroup parent that a plugin has set has to reach its containers.
        self.methods = frozenset((*HOOKED_METHODS, _RESTORE_POD))

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Run Pre hooks, the call itself, and Post hooks."""
        if call.origin != CLIENT:
            return await proceed()  # there are no hooks for calls of the relay itself
        if call.method.name == _RESTORE_POD:
            return self._refuse_restore(call) or await proceed()
        row = HOOKED_METHODS[call.method.name]
        pre, post = self.plugins.registered_for(row.pre), self.plugins.registered_for(row.post)
        if not pre and not post and call.method.name != "CreateContainer":
            return await proceed()
        # A plugin whose registration is removed meanwhile can still be called.
        callers = [plugin.caller for plugin in (*pre, *post)]
        for caller in callers:
            caller.hold()
        try:
            return await self._run_hooks(call, proceed, row, pre, post)
        finally:
            for caller in callers:
                caller.release()

    async def _run_hooks(
        self,
        call: Call,
        proceed: Proceed,
        row: HookedMethod,
        pre: Sequence[RegisteredServer],
        post: Sequence[RegisteredServer],
    ) -> Reply:
        budget = HookBudget(self._settings.budget, call.deadline, self._now)
        original_body = call.body.data()
        subject: HookSubject | None = None
        try:
            until = budget.begin()
            subject = await self._subject_in_time(call, pre, until)
            if subject is not None and subject.has_mark(self._settings.skip_key, self._settings.skip_value):
                self.skipped += 1
                subject = None
            elif subject is not None and row.pre is not None and pre:
                await self._run_pre_hooks(call, row.pre, pre, subject, until)
        except HookRefusedError as failure:
            return self._refuse(failure)
        except Exception as error:
            self._record_failure(call, post, error)
            if required := self._first_required(row.pre, pre, error):
                return self._refuse(required)
            call.body.restore(original_body)
        budget.end()
        if subject is None or row.post is None or not post:
            return await proceed()
        try:
            reply = await proceed()
        except asyncio.CancelledError:
            # The caller cancelled. The runtime may have done it all the same, so plugins are notified in a task.
            cancelled = Reply(code=Code.CANCELLED, message="the caller left before the runtime answered")
            self._start_post_hooks(row.post, post, subject, cancelled, self._now() + self._settings.budget)
            raise
        # They run to their end even if the caller cancels now.
        await asyncio.shield(self._start_post_hooks(row.post, post, subject, reply, budget.begin()))
        return reply

    # -- pod or container of the call

    async def _subject_in_time(self, call: Call, pre: Sequence[RegisteredServer], until: float) -> HookSubject | None:
        """The subject, looked up within the hooks' time: a slow runtime must not delay the call."""
        if call.method.name == "RunPodSandbox":
            return pod_to_run(call.body)  # the request has the whole pod
        try:
            async with asyncio.timeout(until - self._now()):
                return await self._subject(call, pre)
        except TimeoutError:
            text = "the runtime did not say in time whose call it is"
            raise RpcError(Code.DEADLINE_EXCEEDED, text) from None

    async def _subject(self, call: Call, pre: Sequence[RegisteredServer]) -> HookSubject | None:
        """The pod or container of a call; None if the runtime does not know it: its own reply will say so."""
        if call.method.name == "CreateContainer":
            return await self._container_to_create(call.request, pre)
        request = call.body.read()
        match call.method.name:
            case "StopPodSandbox":
                pod = await self._lookup.pod(request.pod_sandbox_id)
                return existing_pod(pod) if pod is not None else None
        found = await self._lookup.container(request.container_id)
        if found is None:
            return None
        if call.method.name == "UpdateContainerResources":
            return container_to_update(request, *found)
        return existing_container(*found)

    async def _container_to_create(self, request: Any, pre: Sequence[RegisteredServer]) -> HookSubject:
        """The new container. If its pod is not in the store, the request describes it well enough for Ignore."""
        try:
            pod = await self._lookup.pod(request.pod_sandbox_id)
        except RpcError as error:
            if any(plugin.is_required for plugin in pre):
                raise
            kv = {"pod_sandbox": request.pod_sandbox_id, "err": str(error)}
            _log.warning("Pod not in the store, using the sandbox of the request", extra={"kv": kv})
            pod = None
        if pod is None:
            pod = pod_from_config(request.pod_sandbox_id, request.sandbox_config)
        linux = request.sandbox_config.linux
        if pod.cgroup_parent != pod.requested_cgroup_parent and linux.cgroup_parent == pod.requested_cgroup_parent:
            linux.cgroup_parent = pod.cgroup_parent
        return container_to_create(request, pod)

    # -- Pre hooks

    async def _run_pre_hooks(
        self, call: Call, point: HookPoint, plugins: Sequence[RegisteredServer], subject: HookSubject, until: float
    ) -> None:
        """Call plugins and write their changes into the request. Raises HookRefusedError for a plugin under Fail."""
        changes, owners = await self.hook_calls.ask_all(point, plugins, subject, until)
        if changes:
            call.credit(owners.values())
            self._apply_changes(call, point, subject, changes)
            call.claims = {
                path.removeprefix(_RESOURCES): name for path, name in owners.items() if path.startswith(_RESOURCES)
            }

    def _apply_changes(
        self, call: Call, point: HookPoint, subject: HookSubject, changes: Sequence[FieldChange]
    ) -> None:
        def allowed() -> tuple[str, str]:
            return self._allowed(subject.message.pod_cgroup_parent)

        without_effect = apply(call.method.name, call.request, changes, allowed)
        if without_effect:
            self.hook_calls.note_no_effect(point, without_effect, subject)

    # -- Post hooks

    def _start_post_hooks(
        self, point: HookPoint, plugins: Sequence[RegisteredServer], subject: HookSubject, reply: Reply, until: float
    ) -> "asyncio.Task[None]":
        metadata: Metadata = ((b"interpose-runtime-code", b"%d" % reply.code),)
        if reply.message:
            metadata += ((b"interpose-runtime-message", quote_message(reply.message)),)
        for plugin in plugins:
            plugin.caller.hold()
        work = self._run_post_hooks(point, plugins, subject, metadata, until)
        return self.tasks.spawn(work, name=f"{point} of {subject.log_fields}")

    async def _run_post_hooks(
        self,
        point: HookPoint,
        plugins: Sequence[RegisteredServer],
        subject: HookSubject,
        metadata: Metadata,
        until: float,
    ) -> None:
        for plugin in plugins:
            try:
                failure = await self.hook_calls.notify(point, plugin, subject, metadata, until)
            finally:
                plugin.caller.release()
            if failure is not None and plugin.is_required:
                work = self._retry_post_hook(point, plugin, subject, metadata)
                self.tasks.spawn(work, name=f"repeat {point} for {plugin.name}")

    async def _retry_post_hook(
        self, point: HookPoint, plugin: RegisteredServer, subject: HookSubject, metadata: Metadata
    ) -> None:
        """Repeat a Post hook after the reply, unless the plugin is replaced or removed meanwhile."""
        delivered = False
        try:
            for pause in self._retry_pauses:
                await asyncio.sleep(pause)
                if all(plugin.server != other.server for other in self.plugins.registered_for(point)):
                    return
                self.retries += 1
                until = self._now() + self._settings.budget
                delivered = await self.hook_calls.notify(point, plugin, subject, metadata, until) is None
                if delivered:
                    return
        finally:
            if not delivered:  # also when the relay is shut down
                kv = {"plugin": plugin.name, "hook": point.value, **subject.log_fields}
                _log.error("Hook server with policy Fail missed an event", extra={"kv": kv})

    # -- failures

    def _refuse_restore(self, call: Call) -> Reply | None:
        """A refusal of RestorePod, which has no hooks, if a plugin must see every pod or container; None without."""
        for point in (HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER, HookPoint.PRE_START_CONTAINER):
            why = RpcError(Code.UNIMPLEMENTED, f"{call.method.name} has no hook point")
            if failure := self._first_required(point, self.plugins.registered_for(point), why):
                return self._refuse(failure)
        return None

    def _first_required(
        self, point: HookPoint | None, plugins: Sequence[RegisteredServer], error: Exception
    ) -> HookRefusedError | None:
        """The refusal of the first plugin under Fail. Selectors need a known pod, so they do not count here."""
        if point is None:
            return None
        text = str(error) or type(error).__name__
        return next(
            (
                HookRefusedError(plugin, point, f"could not be asked: {text}")
                for plugin in plugins
                if plugin.is_required
            ),
            None,
        )

    def _record_failure(self, call: Call, post: Sequence[RegisteredServer], error: Exception) -> None:
        self.unknown[call.method.name] += 1
        if required := [plugin.name for plugin in post if plugin.is_required]:
            kv = {"method": call.method.name, "plugins": ", ".join(required)}
            _log.error("Hook servers with policy Fail will miss an event", extra={"kv": kv})
        if isinstance(error, RpcError | UnreadableMessageError):
            kv = {"method": call.method.name, "err": str(error)}
            _log.warning("Hooks not called", extra={"kv": kv})
        else:
            _log.error("Dispatcher failed", extra={"kv": {"method": call.method.name}}, exc_info=error)

    def _refuse(self, failure: HookRefusedError) -> Reply:
        failure.plugin.stats.points[failure.point].refusals += 1
        return refusal(Code.FAILED_PRECONDITION, str(failure))
