"""The dispatcher: an interceptor that asks every registered hook server, in order, and merges what they answer.

Invariants. A call that a hook server under Fail must see never reaches the runtime without it: whatever goes wrong
(the plugin, its answer, the request, the look-up, a bug here) ends in a refusal that names the plugin. Under Ignore the
call goes on as if that plugin were not there. Post hooks never change the reply and never hold it back beyond the
budget. Each plugin sees the result of the ones before it; the request is edited only when all of them are done.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from interpose.config.settings import HookSettings
from interpose.dispatcher.apply import apply
from interpose.dispatcher.asking import Asking, HookFailure
from interpose.dispatcher.merge import Change
from interpose.dispatcher.plugin import Metadata, Plugin, Plugins
from interpose.dispatcher.subjects import (
    Subject,
    container_to_create,
    container_to_update,
    known_container,
    known_pod,
    pod_of_config,
    pod_to_run,
)
from interpose.hookapi.hookpoint import HOOKED_METHODS, HookedMethod, HookPoint
from interpose.model.pod import Container, Pod
from interpose.relay.interceptor import CLIENT, Call, Proceed, Reply, Unreadable, refusal
from interpose.rpc.status import Code, RpcError, quote_message
from interpose.rpc.tasks import TaskBag

_log = logging.getLogger(__name__)

# Makes a pod and its containers in one call that has no hook point of its own.
_RESTORE: Final = "RestorePod"
_RETRY_PAUSES: Final = (1.0, 2.0, 4.0)


class Lookup(Protocol):
    """Where pods and containers are known. None: the runtime has no such thing. RpcError: it could not be found out."""

    async def pod(self, ref: str) -> Pod | None: ...

    async def container(self, ref: str) -> tuple[Container, Pod] | None: ...


class Dispatcher:
    """Runs hooks. `allowed` tells the CPUs and memory nodes below a cgroup parent."""

    name = "hooks"

    def __init__(
        self,
        plugins: Plugins,
        lookup: Lookup,
        settings: HookSettings,
        *,
        now: Callable[[], float],
        allowed: Callable[[str], tuple[str, str]],
    ) -> None:
        self.plugins = plugins
        self.skipped = 0
        self.unknown: Counter[str] = Counter()  # calls by method whose pod could not be found out
        self.retries = 0
        self.tasks = TaskBag()
        self.asking = Asking(settings, now)
        self._lookup = lookup
        self._settings = settings
        self._now = now
        self._allowed = allowed
        # CreateContainer is always looked at: a pod's cgroup parent that a plugin chose has to reach its containers.
        self.methods = frozenset((*HOOKED_METHODS, _RESTORE))

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Pre hooks, the call, Post hooks."""
        if call.origin != CLIENT:
            return await proceed()  # our own parts do not ask hooks about what they do
        row = HOOKED_METHODS.get(call.method.name, HookedMethod())
        pre, post = self.plugins.at(row.pre), self.plugins.at(row.post)
        if call.method.name == _RESTORE:
            return self._unhookable(call) or await proceed()
        if not pre and not post and call.method.name != "CreateContainer":
            return await proceed()
        entered_with = call.body.data()
        subject: Subject | None = None
        try:
            subject = await self._subject_in_time(call)
            if subject is not None and subject.carries(self._settings.skip_key, self._settings.skip_value):
                self.skipped += 1
                subject = None
            elif subject is not None and row.pre is not None and pre:
                await self._before(call, row.pre, pre, subject)
        except HookFailure as failure:
            return self._refused(failure)
        except Exception as error:
            self._note_trouble(call, error)
            if missed := self._first_that_must_see(row.pre, pre, error):
                return self._refused(missed)
            call.body.restore(entered_with)
        reply = await proceed()
        if subject is not None and row.post is not None and post:
            await self._after(call, row.post, post, subject, reply)
        return reply

    # -- who the call is about

    async def _subject_in_time(self, call: Call) -> Subject | None:
        """Looking up is part of the hooks' time: a runtime that does not tell must not hold the call."""
        try:
            async with asyncio.timeout(self._budget(call) - self._now()):
                return await self._subject(call)
        except TimeoutError:
            text = "the runtime did not say in time whose call it is"
            raise RpcError(Code.DEADLINE_EXCEEDED, text) from None

    async def _subject(self, call: Call) -> Subject | None:
        """What plugins are asked about; None if the runtime knows no such pod or container: it will say so itself."""
        request = call.request
        match call.method.name:
            case "RunPodSandbox":
                return pod_to_run(request)
            case "CreateContainer":
                return await self._created(request)
            case "StopPodSandbox":
                pod = await self._lookup.pod(request.pod_sandbox_id)
                return known_pod(pod) if pod is not None else None
        found = await self._lookup.container(request.container_id)
        if found is None:
            return None
        if call.method.name == "UpdateContainerResources":
            return container_to_update(request, *found)
        return known_container(*found)

    async def _created(self, request: Any) -> Subject:
        """The request describes its pod too, so a pod that cannot be looked up is no way around a hook."""
        try:
            pod = await self._lookup.pod(request.pod_sandbox_id)
        except RpcError as error:
            kv = {"pod_sandbox": request.pod_sandbox_id, "err": str(error)}
            _log.warning("Pod of a new container was taken from its request", extra={"kv": kv})
            pod = None
        if pod is None:
            pod = pod_of_config(request.pod_sandbox_id, request.sandbox_config)
        linux = request.sandbox_config.linux
        if pod.cgroup_parent != pod.requested_cgroup_parent and linux.cgroup_parent == pod.requested_cgroup_parent:
            linux.cgroup_parent = pod.cgroup_parent
        return container_to_create(request, pod)

    # -- before the runtime

    async def _before(self, call: Call, point: HookPoint, plugins: Sequence[Plugin], subject: Subject) -> None:
        """Ask, merge, and write the result into the request. Raises HookFailure for a plugin under Fail."""
        changes = await self.asking.ask_all(point, plugins, subject, self._budget(call))
        if changes:
            self._write(call, point, subject, changes)

    def _write(self, call: Call, point: HookPoint, subject: Subject, changes: Sequence[Change]) -> None:
        def allowed() -> tuple[str, str]:
            return self._allowed(subject.asked.pod_cgroup_parent)

        without_effect = apply(call.method.name, call.request, changes, allowed)
        if without_effect:
            self.asking.note_no_effect(point, without_effect, subject)

    def _budget(self, call: Call) -> float:
        """Loop time at which all hooks of this call must be done."""
        now = self._now()
        budget = self._settings.budget
        return now + (budget if call.deadline is None else min(budget, max(call.deadline - now, 0.0) / 2))

    # -- after the runtime

    async def _after(
        self, call: Call, point: HookPoint, plugins: Sequence[Plugin], subject: Subject, reply: Reply
    ) -> None:
        """The runtime has done it, so these hooks run to their end even if the caller goes away meanwhile."""
        metadata: Metadata = ((b"interpose-runtime-code", b"%d" % reply.code),)
        if reply.message:
            metadata += ((b"interpose-runtime-message", quote_message(reply.message)),)
        work = self._tell_all(point, plugins, subject, metadata, self._budget(call))
        await asyncio.shield(self.tasks.spawn(work, name=f"{point} of {subject.names}"))

    async def _tell_all(
        self, point: HookPoint, plugins: Sequence[Plugin], subject: Subject, metadata: Metadata, until: float
    ) -> None:
        for plugin in plugins:
            failure = await self.asking.tell(point, plugin, subject, metadata, until)
            if failure is not None and plugin.must_see:
                work = self._tell_again(point, plugin, subject, metadata)
                self.tasks.spawn(work, name=f"repeat {point} for {plugin.name}")

    async def _tell_again(self, point: HookPoint, plugin: Plugin, subject: Subject, metadata: Metadata) -> None:
        """Off the path: the reply is long gone. A plugin that was replaced or removed meanwhile is told no more."""
        for pause in _RETRY_PAUSES:
            await asyncio.sleep(pause)
            if all(plugin.server != one.server for one in self.plugins.at(point)):
                return
            self.retries += 1
            until = self._now() + self._settings.budget
            if await self.asking.tell(point, plugin, subject, metadata, until) is None:
                return
        kv = {"plugin": plugin.name, "hook": point.value, **subject.names}
        _log.error("Hook server under Fail did not get an event", extra={"kv": kv})

    # -- trouble

    def _unhookable(self, call: Call) -> Reply | None:
        """A restored pod is a pod nobody was asked about: not with a plugin that must see every pod or container."""
        for point in (HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER):
            why = RpcError(Code.UNIMPLEMENTED, f"{call.method.name} has no hook point")
            if failure := self._first_that_must_see(point, self.plugins.at(point), why):
                return self._refused(failure)
        return None

    def _first_that_must_see(
        self, point: HookPoint | None, plugins: Sequence[Plugin], error: Exception
    ) -> HookFailure | None:
        """Selectors cannot be asked about an unknown pod, so each plugin under Fail counts."""
        if point is None:
            return None
        text = str(error) or type(error).__name__
        return next((HookFailure(one, point, f"could not be asked: {text}") for one in plugins if one.must_see), None)

    def _note_trouble(self, call: Call, error: Exception) -> None:
        self.unknown[call.method.name] += 1
        if isinstance(error, RpcError | Unreadable):
            kv = {"method": call.method.name, "err": str(error)}
            _log.warning("Hooks could not be asked about a call", extra={"kv": kv})
        else:
            _log.error("Dispatcher failed", extra={"kv": {"method": call.method.name}}, exc_info=error)

    def _refused(self, failure: HookFailure) -> Reply:
        failure.plugin.stats.points[failure.point].refusals += 1
        return refusal(Code.FAILED_PRECONDITION, str(failure))
