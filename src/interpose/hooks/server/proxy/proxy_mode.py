"""Answers the calls of the hook protocol: proxy mode.

A call is read, plugins decide about its subject in one job of the runner, what the answer cannot carry is left to the
effects, and the answer goes back. Invariants: under Fail a call is refused before anything was done for it; under
Ignore nothing that goes wrong with plugins or effects fails a call; an answer that changes nothing repeats what was
sent, because a koord-runtime-proxy takes an empty one for the wish to clear.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from interpose.core.model.pod import Container, Pod
from interpose.hooks.api.hookpoint import RESOURCES_ASKED, FailurePolicy, HookPoint
from interpose.hooks.server.context import ContainerContext, PodContext
from interpose.hooks.server.evaluate import PluginChain, PluginFailure, PluginResults
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import AnyPlugin, Watch
from interpose.hooks.server.pods.pod_annotations import is_managed
from interpose.hooks.server.proxy.convert import container_of, echo_response, make_answer, pod_of, read_request
from interpose.hooks.server.worker_threads import Runner
from interpose.log import RateLimited
from interpose.net.grpc.handlers import Handlers, ServerContext, Unary
from interpose.net.grpc.status import Code, RpcError

T = TypeVar("T")
_log = logging.getLogger(__name__)

# Writing some files takes a millisecond. The reconciler repairs what was not done in time, the caller does not wait.
_EFFECT_TIMEOUT: Final = 1.0
# What must be left of the caller's time for the answer itself.
_RESERVE: Final = 0.1
# More containers than any node runs.
_MAX_COUNTED: Final = 4096


class Effects(Protocol):
    """Side effects of hook calls. Awaited before the answer is sent, but never for long."""

    async def write_pod_files(self, pod: Pod, results: PluginResults) -> None:
        """Values of a pod that files carry; nothing if the pod has no cgroup yet."""

    async def on_create(self, pod: Pod, container: Container, results: PluginResults) -> None:
        """A container is about to be created with these values. It has no id yet."""

    async def on_update(self, pod: Pod, container: Container, results: PluginResults) -> PluginResults:
        """A container is about to be updated; the verdict with what has to be put back as well."""

    async def on_start(self, pod: Pod, container: Container) -> None:
        """Called when a container was started."""

    async def on_pod_stop(self, pod: Pod) -> None:
        """Called when a pod was stopped."""

    async def on_container_stop(self, pod: Pod, container_id: str) -> None:
        """Called when a container was stopped."""


class Originals(Protocol):
    """Adds to records what messages do not tell. Called on the loop: must not block, and must not fail."""

    def pod(self, pod: Pod) -> Pod:
        """With overhead and runtime handler, which messages about containers do not have."""

    def container(self, pod: Pod, container: Container) -> Container:
        """With `requested` as it was asked for, where the message has what plugins made of it."""


class NoOriginals:
    """Originals that add nothing to the records of messages."""

    def pod(self, pod: Pod) -> Pod:
        return pod

    def container(self, pod: Pod, container: Container) -> Container:
        return container


class HookOutcome(StrEnum):
    """The outcome of a hook call."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    UNMANAGED = "unmanaged"  # the pod shall be left alone
    DISABLED = "disabled"  # the stage is off
    REFUSED = "refused"  # by the failure policy of plugins
    UNREADABLE = "unreadable"
    FAILED = "failed"  # a mistake of ours; it went on without changes


class _Call(NamedTuple):
    point: HookPoint
    request: Any
    context: ServerContext
    pod: Pod
    container: Container

    @property
    def name(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}"


class _Reply(NamedTuple):
    response: Any
    outcome: HookOutcome


class _Decision(NamedTuple):
    pod: PluginResults
    container: PluginResults


_NOTHING: Final = PluginResults()
_NO_CONTAINER: Final = Container(id="")


class ProxyServer:
    """Handlers for all hook points. Belongs to one loop; calls are answered side by side."""

    def __init__(
        self,
        *,
        plugins: Sequence[AnyPlugin],
        rules: Callable[[], PluginRules],
        runner: Runner,
        effects: Effects,
        originals: Originals | None = None,
        stages: Collection[HookPoint] = tuple(HookPoint),
        plugin_failure_policy: FailurePolicy = FailurePolicy.IGNORE,
        owned: Callable[[], Ownership] = Ownership,
    ) -> None:
        """`owned` is what a policy of the relay decides: no answer speaks of it."""
        self.outcomes: Counter[tuple[HookPoint, HookOutcome]] = Counter()
        self.effect_failures: Counter[tuple[str, str]] = Counter()  # (effect, failed or late)
        self.plugin_failures: Counter[tuple[str, HookPoint]] = Counter()
        self.conflicts: Counter[tuple[str, str, str]] = Counter()  # (parameter, loser, winner)
        self.update_counts: dict[
            str, int
        ] = {}  # how often an update of a container came by; the latest containers only
        self._plugins = {point: tuple(plugin for plugin in plugins if point in plugin.stages) for point in HookPoint}
        self._rules = rules
        self._runner = runner
        self._effects = effects
        self._originals: Originals = originals if originals is not None else NoOriginals()
        self._stages = frozenset(stages)
        self._owned = owned
        self._is_required = plugin_failure_policy is FailurePolicy.FAIL
        self._limited = RateLimited(_log)
        self._handlers: dict[HookPoint, Callable[[_Call], Awaitable[_Reply]]] = {
            HookPoint.PRE_RUN_POD_SANDBOX: self._run_pod,
            HookPoint.PRE_CREATE_CONTAINER: self._create,
            HookPoint.PRE_UPDATE_CONTAINER_RESOURCES: self._update,
            HookPoint.POST_START_CONTAINER: self._started,
            HookPoint.POST_STOP_CONTAINER: self._container_stopped,
            HookPoint.POST_STOP_POD_SANDBOX: self._pod_stopped,
        }

    def handlers(self) -> Handlers:
        """The gRPC handlers by method path."""
        return {point.rpc: Unary(partial(self._handle, point)) for point in HookPoint}

    async def _handle(self, point: HookPoint, data: bytes, context: ServerContext) -> bytes:
        try:
            request = read_request(point, data)
        except ValueError as error:
            self.outcomes[point, HookOutcome.UNREADABLE] += 1
            raise RpcError(Code.INVALID_ARGUMENT, f"{point}Hook: {error}") from error
        try:
            pod, container = (pod_of(request), _NO_CONTAINER) if point.about_pod else container_of(request)
            if point not in self._stages:
                response, outcome = echo_response(point, request), HookOutcome.DISABLED
            elif not is_managed(pod):
                response, outcome = echo_response(point, request), HookOutcome.UNMANAGED
            elif (serve := self._handlers.get(point)) is None:
                response, outcome = echo_response(point, request), HookOutcome.UNCHANGED
            else:
                pod = self._originals.pod(pod)
                if not point.about_pod and RESOURCES_ASKED not in context.metadata:
                    container = self._originals.container(pod, container)
                response, outcome = await serve(_Call(point, request, context, pod, container))
        except RpcError:
            self.outcomes[point, HookOutcome.REFUSED] += 1
            raise
        except Exception as error:
            _log.exception("Hook call failed", extra={"kv": {"hook": point.value}})
            if self._is_required:
                self.outcomes[point, HookOutcome.REFUSED] += 1
                text = f"{point}: {type(error).__name__}: {error}"
                raise RpcError(Code.FAILED_PRECONDITION, text) from error
            response, outcome = echo_response(point, request), HookOutcome.FAILED
        self.outcomes[point, outcome] += 1
        wire: bytes = response.SerializeToString()
        return wire

    # -- hook points

    async def _run_pod(self, call: _Call) -> _Reply:
        results = (await self._decide(call)).pod
        reply = self._answer(call, results)
        await self._run_effect(call, "pod_files", self._effects.write_pod_files(call.pod, results), None)
        return reply

    async def _create(self, call: _Call) -> _Reply:
        decision = await self._decide(call)
        reply = self._answer(call, decision.container)
        # Where the pod had no cgroup when it was run it has one now.
        await self._run_effect(call, "pod_files", self._effects.write_pod_files(call.pod, decision.pod), None)
        created = self._effects.on_create(call.pod, call.container, decision.container)
        await self._run_effect(call, "created", created, None)
        return reply

    async def _update(self, call: _Call) -> _Reply:
        self._count_update(call.container.id)
        results = (await self._decide(call)).container
        if self._is_required:
            self._report_failures(
                call, make_answer(call.point, call.request, results).failures
            )  # before anything is done for it
        updated = self._effects.on_update(call.pod, call.container, results)
        return self._answer(call, await self._run_effect(call, "updated", updated, results))

    async def _started(self, call: _Call) -> _Reply:
        await self._run_effect(call, "started", self._effects.on_start(call.pod, call.container), None)
        return _Reply(echo_response(call.point, call.request), HookOutcome.UNCHANGED)

    async def _container_stopped(self, call: _Call) -> _Reply:
        self.update_counts.pop(call.container.id, None)
        stopped = self._effects.on_container_stop(call.pod, call.container.id)
        await self._run_effect(call, "container_stopped", stopped, None)
        return _Reply(echo_response(call.point, call.request), HookOutcome.UNCHANGED)

    async def _pod_stopped(self, call: _Call) -> _Reply:
        await self._run_effect(call, "stopped", self._effects.on_pod_stop(call.pod), None)
        return _Reply(echo_response(call.point, call.request), HookOutcome.UNCHANGED)

    # -- steps

    def _count_update(self, container_id: str) -> None:
        self.update_counts[container_id] = self.update_counts.pop(container_id, 0) + 1
        if len(self.update_counts) > _MAX_COUNTED:
            del self.update_counts[next(iter(self.update_counts))]

    async def _decide(self, call: _Call) -> _Decision:
        """Results of plugins, in one job; raises RpcError for a failure under Fail."""
        rules = self._rules()
        about_pod = self._plugins[HookPoint.PRE_RUN_POD_SANDBOX]
        # Files of a pod are written when it is run and, if it has no cgroup then, when it gets a container.
        asks_pod = call.point is not HookPoint.PRE_UPDATE_CONTAINER_RESOURCES

        def job(watch: Watch) -> _Decision:
            pod = PluginChain(about_pod, rules, watch).pod(PodContext(request=call.pod)) if asks_pod else _NOTHING
            if call.point.about_pod:
                return _Decision(pod, _NOTHING)
            context = ContainerContext(pod=call.pod, request=call.container)
            return _Decision(pod, PluginChain(self._plugins[call.point], rules, watch).container(context))

        decision = await self._runner.run(job)
        decision.container.drop(self._owned().of_container(call.container.id))
        for results in decision:
            for conflict in results.conflicts:
                self.conflicts[conflict.parameter.value, conflict.loser, conflict.winner] += 1
        self._report_failures(call, (failure for results in decision for failure in results.failures))
        return decision

    def _answer(self, call: _Call, results: PluginResults) -> _Reply:
        answer = make_answer(call.point, call.request, results)
        self._report_failures(call, answer.failures)
        if answer.changed and _log.isEnabledFor(logging.DEBUG):
            kv = {"hook": call.point.value, "pod": call.name, "fields": ", ".join(answer.changed)}
            _log.debug("Hook response has changes", extra={"kv": kv})
        return _Reply(answer.message, HookOutcome.CHANGED if answer.changed else HookOutcome.UNCHANGED)

    def _report_failures(self, call: _Call, failures: Iterable[PluginFailure]) -> None:
        """Count and log failures; under Fail raises RpcError."""
        texts = []
        for plugin, text in failures:
            self.plugin_failures[plugin, call.point] += 1
            texts.append(f"plugin {plugin}: {text}")
            level = logging.ERROR if self._is_required else logging.WARNING
            kv = {"plugin": plugin, "hook": call.point.value, "pod": call.name, "err": text}
            self._limited.log(level, "Plugin failed", key=f"{plugin} {call.name}", **kv)
        if texts and self._is_required:
            raise RpcError(Code.FAILED_PRECONDITION, f"{call.point}: {'; '.join(texts)}")

    async def _run_effect(self, call: _Call, name: str, effect: Awaitable[T], default: T) -> T:
        """The result of an effect, `default` if it fails or takes too long; under Fail raises RpcError then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _EFFECT_TIMEOUT
        if call.context.deadline is not None:
            until = min(until, call.context.deadline - _RESERVE)
        try:
            async with asyncio.timeout_at(until) as limit:
                return await effect
        except Exception as error:
            late = isinstance(error, TimeoutError) and limit.expired()
            text = "took too long" if late else f"{type(error).__name__}: {error}"
            self.effect_failures[name, "late" if late else "failed"] += 1
            level = logging.ERROR if self._is_required else logging.WARNING
            self._limited.log(level, "Effect of a hook call failed", key=f"{name} {text}", effect=name, err=text)
            if self._is_required:
                raise RpcError(Code.FAILED_PRECONDITION, f"{call.point}: {name}: {text}") from error
            return default
