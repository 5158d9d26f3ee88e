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
    known_container,
    known_pod,
    pod_of_config,
    pod_to_run,
)
from interpose.net.grpc.status import Code, RpcError, quote_message
from interpose.relay.api import CLIENT, Call, Proceed, Reply, refusal
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# Makes a pod and its containers in one call that has no hook point of its own.
_RESTORE: Final = "RestorePod"
_RESOURCES: Final = "container_resources."  # where answers have what CRI calls the resources of a container
_RETRY_PAUSES: Final = (1.0, 2.0, 4.0)


class Lookup(Protocol):
    """Where pods and containers are known. None: the runtime has no such thing. RpcError: it could not be found out."""

    async def pod(self, ref: str) -> Pod | None: ...

    async def container(self, ref: str) -> tuple[Container, Pod] | None: ...


class Allowance:
    """The time all hooks of one call share, look-ups included; it runs only while they do."""

    def __init__(self, budget: float, deadline: float | None, now: Callable[[], float]) -> None:
        self._deadline = deadline
        self._now = now
        self._left = self._bounded(budget)
        self._began = 0.0

    def _bounded(self, seconds: float) -> float:
        """At most half of what the caller has left: the rest is the runtime's, and the way back."""
        return seconds if self._deadline is None else min(seconds, max(self._deadline - self._now(), 0.0) / 2)

    def begin(self) -> float:
        """Hooks run from now on; gives the time at which they have to be done."""
        self._began = self._now()
        return self._began + self._bounded(self._left)

    def end(self) -> None:
        """Hooks do not run any more."""
        self._left = max(self._left - (self._now() - self._began), 0.0)


class Dispatcher:
    """Runs hooks. `allowed` tells the CPUs and memory nodes below a cgroup parent."""

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
    ) -> None:
        self.plugins = plugins
        self.skipped = 0
        self.unknown: Counter[str] = Counter()  # calls by method whose pod could not be found out
        self.retries = 0
        self.tasks = TaskBag()
        self.asking = HookCalls(settings, now)
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
        if call.method.name == _RESTORE:
            return self._unhookable(call) or await proceed()
        row = HOOKED_METHODS[call.method.name]
        pre, post = self.plugins.at(row.pre), self.plugins.at(row.post)
        if not pre and not post and call.method.name != "CreateContainer":
            return await proceed()
        # A plugin whose registration goes meanwhile can still be asked.
        callers = [plugin.caller for plugin in (*pre, *post)]
        for caller in callers:
            caller.hold()
        try:
            return await self._hooked(call, proceed, row, pre, post)
        finally:
            for caller in callers:
                caller.release()

    async def _hooked(
        self,
        call: Call,
        proceed: Proceed,
        row: HookedMethod,
        pre: Sequence[RegisteredServer],
        post: Sequence[RegisteredServer],
    ) -> Reply:
        time = Allowance(self._settings.budget, call.deadline, self._now)
        entered_with = call.body.data()
        subject: HookSubject | None = None
        try:
            until = time.begin()
            subject = await self._subject_in_time(call, pre, until)
            if subject is not None and subject.carries(self._settings.skip_key, self._settings.skip_value):
                self.skipped += 1
                subject = None
            elif subject is not None and row.pre is not None and pre:
                await self._before(call, row.pre, pre, subject, until)
        except HookRefusedError as failure:
            return self._refused(failure)
        except Exception as error:
            self._note_trouble(call, post, error)
            if missed := self._first_that_must_see(row.pre, pre, error):
                return self._refused(missed)
            call.body.restore(entered_with)
        time.end()
        if subject is None or row.post is None or not post:
            return await proceed()
        try:
            reply = await proceed()
        except asyncio.CancelledError:
            # The caller left. The runtime may have done it all the same, so the plugins are told, off the path.
            left = Reply(code=Code.CANCELLED, message="the caller left before the runtime answered")
            self._tell(row.post, post, subject, left, self._now() + self._settings.budget)
            raise
        # They run to their end even if the caller leaves now.
        await asyncio.shield(self._tell(row.post, post, subject, reply, time.begin()))
        return reply

    # -- who the call is about

    async def _subject_in_time(self, call: Call, pre: Sequence[RegisteredServer], until: float) -> HookSubject | None:
        """Looking up is part of the hooks' time: a runtime that does not tell must not hold the call."""
        if call.method.name == "RunPodSandbox":
            return pod_to_run(call.request)  # says all there is to know
        try:
            async with asyncio.timeout(until - self._now()):
                return await self._subject(call, pre)
        except TimeoutError:
            text = "the runtime did not say in time whose call it is"
            raise RpcError(Code.DEADLINE_EXCEEDED, text) from None

    async def _subject(self, call: Call, pre: Sequence[RegisteredServer]) -> HookSubject | None:
        """What plugins are asked about; None if the runtime knows no such pod or container: it will say so itself."""
        request = call.request
        match call.method.name:
            case "CreateContainer":
                return await self._created(request, pre)
            case "StopPodSandbox":
                pod = await self._lookup.pod(request.pod_sandbox_id)
                return known_pod(pod) if pod is not None else None
        found = await self._lookup.container(request.container_id)
        if found is None:
            return None
        if call.method.name == "UpdateContainerResources":
            return container_to_update(request, *found)
        return known_container(*found)

    async def _created(self, request: Any, pre: Sequence[RegisteredServer]) -> HookSubject:
        """The request describes its pod too: good enough where no plugin must see the call, as selectors may err."""
        try:
            pod = await self._lookup.pod(request.pod_sandbox_id)
        except RpcError as error:
            if any(plugin.must_see for plugin in pre):
                raise
            kv = {"pod_sandbox": request.pod_sandbox_id, "err": str(error)}
            _log.warning("Pod not in the store, using the sandbox of the request", extra={"kv": kv})
            pod = None
        if pod is None:
            pod = pod_of_config(request.pod_sandbox_id, request.sandbox_config)
        linux = request.sandbox_config.linux
        if pod.cgroup_parent != pod.requested_cgroup_parent and linux.cgroup_parent == pod.requested_cgroup_parent:
            linux.cgroup_parent = pod.cgroup_parent
        return container_to_create(request, pod)

    # -- before the runtime

    async def _before(
        self, call: Call, point: HookPoint, plugins: Sequence[RegisteredServer], subject: HookSubject, until: float
    ) -> None:
        """Ask, merge, and write the result into the request. Raises HookRefusedError for a plugin under Fail."""
        changes, owners = await self.asking.ask_all(point, plugins, subject, until)
        if changes:
            call.credit(owners.values())
            self._write(call, point, subject, changes)
            call.claims = {
                path.removeprefix(_RESOURCES): name for path, name in owners.items() if path.startswith(_RESOURCES)
            }

    def _write(self, call: Call, point: HookPoint, subject: HookSubject, changes: Sequence[FieldChange]) -> None:
        def allowed() -> tuple[str, str]:
            return self._allowed(subject.asked.pod_cgroup_parent)

        without_effect = apply(call.method.name, call.request, changes, allowed)
        if without_effect:
            self.asking.note_no_effect(point, without_effect, subject)

    # -- after the runtime

    def _tell(
        self, point: HookPoint, plugins: Sequence[RegisteredServer], subject: HookSubject, reply: Reply, until: float
    ) -> "asyncio.Task[None]":
        metadata: Metadata = ((b"interpose-runtime-code", b"%d" % reply.code),)
        if reply.message:
            metadata += ((b"interpose-runtime-message", quote_message(reply.message)),)
        for plugin in plugins:
            plugin.caller.hold()
        work = self._tell_all(point, plugins, subject, metadata, until)
        return self.tasks.spawn(work, name=f"{point} of {subject.names}")

    async def _tell_all(
        self,
        point: HookPoint,
        plugins: Sequence[RegisteredServer],
        subject: HookSubject,
        metadata: Metadata,
        until: float,
    ) -> None:
        for plugin in plugins:
            try:
                failure = await self.asking.tell(point, plugin, subject, metadata, until)
            finally:
                plugin.caller.release()
            if failure is not None and plugin.must_see:
                work = self._tell_again(point, plugin, subject, metadata)
                self.tasks.spawn(work, name=f"repeat {point} for {plugin.name}")

    async def _tell_again(
        self, point: HookPoint, plugin: RegisteredServer, subject: HookSubject, metadata: Metadata
    ) -> None:
        """Off the path: the reply is long gone. A plugin that was replaced or removed meanwhile is told no more."""
        told = False
        try:
            for pause in _RETRY_PAUSES:
                await asyncio.sleep(pause)
                if all(plugin.server != one.server for one in self.plugins.at(point)):
                    return
                self.retries += 1
                until = self._now() + self._settings.budget
                told = await self.asking.tell(point, plugin, subject, metadata, until) is None
                if told:
                    return
        finally:
            if not told:  # also when we are going down
                kv = {"plugin": plugin.name, "hook": point.value, **subject.names}
                _log.error("Hook server with policy Fail missed an event", extra={"kv": kv})

    # -- trouble

    def _unhookable(self, call: Call) -> Reply | None:
        """A restored pod is a pod nobody was asked about: not with a plugin that must see every pod or container."""
        for point in (HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER, HookPoint.PRE_START_CONTAINER):
            why = RpcError(Code.UNIMPLEMENTED, f"{call.method.name} has no hook point")
            if failure := self._first_that_must_see(point, self.plugins.at(point), why):
                return self._refused(failure)
        return None

    def _first_that_must_see(
        self, point: HookPoint | None, plugins: Sequence[RegisteredServer], error: Exception
    ) -> HookRefusedError | None:
        """Selectors cannot be asked about an unknown pod, so each plugin under Fail counts."""
        if point is None:
            return None
        text = str(error) or type(error).__name__
        return next(
            (HookRefusedError(one, point, f"could not be asked: {text}") for one in plugins if one.must_see), None
        )

    def _note_trouble(self, call: Call, post: Sequence[RegisteredServer], error: Exception) -> None:
        self.unknown[call.method.name] += 1
        if missed := [plugin.name for plugin in post if plugin.must_see]:
            kv = {"method": call.method.name, "plugins": ", ".join(missed)}
            _log.error("Hook servers with policy Fail will miss an event", extra={"kv": kv})
        if isinstance(error, RpcError | UnreadableMessageError):
            kv = {"method": call.method.name, "err": str(error)}
            _log.warning("Hooks not called", extra={"kv": kv})
        else:
            _log.error("Dispatcher failed", extra={"kv": {"method": call.method.name}}, exc_info=error)

    def _refused(self, failure: HookRefusedError) -> Reply:
        failure.plugin.stats.points[failure.point].refusals += 1
        return refusal(Code.FAILED_PRECONDITION, str(failure))
