"""Making recorded calls again at a runtime: the part that acts.

What is made is noted before the replay can be stopped, so that it can be removed. Stopping waits for calls in flight:
one that is cut off may have made something nobody knows of. A runtime that does not answer any more is a fact of the
report, never an error that loses it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from interpose.cri.methods import API_VERSIONS
from interpose.cri.parser import CriParser
from interpose.dump.replay.adapt import Adaptation, TargetOptions, adapt
from interpose.dump.replay.final_state import Condition, FinalState, found_condition, matches, pod_state
from interpose.dump.replay.id_map import IdMap, Reference, ReferenceKind, created_object
from interpose.dump.replay.plan import ReplayPlan, ReplayProgress, ReplayStep
from interpose.dump.replay.report import FinalObject, ReplayOutcome
from interpose.dump.replay.visit import Parse
from interpose.net.grpc.status import Code, RpcError
from interpose.tasks import TaskBag

_LOOK_AGAIN: Final = 0.2
_ASK_TIMEOUT: Final = 10.0
_REMOVE_TIMEOUT: Final = 60.0
_SERVICE: Final = "RuntimeService"
_AWAY: Final = (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)  # the next question would wait as long
_GONE: Final = Condition(state=FinalState.GONE)
_UNKNOWN: Final = Condition(state=FinalState.UNKNOWN)


def message_of(name: str, data: bytes) -> Any:
    """Parse a CRI message; ValueError if it is none."""
    try:
        return CriParser(name).parse(data)
    except Exception as error:  # Unreadable, or a message type of a later version
        raise ValueError(str(error)) from None


class UnaryCaller(Protocol):
    """Makes unary calls; `net.grpc.client.Client` does."""

    async def unary(self, path: bytes, message: bytes, *, timeout: float | None = None) -> bytes:
        """Make a unary call and return the reply; raises RpcError."""


class Runtime:
    """The runtime at which calls are made, in the API versions that it has."""

    def __init__(self, client: UnaryCaller, versions: Sequence[str] = API_VERSIONS) -> None:
        self._client = client
        self.versions = tuple(versions)

    async def find_versions(self) -> None:
        """Keep the versions that it answers; RpcError if it answers none."""
        there = []
        failure = RpcError(Code.UNIMPLEMENTED, "it speaks no version of the CRI that is known")
        for version in self.versions:
            try:
                await self._client.unary(f"/{version}.{_SERVICE}/Version".encode(), b"", timeout=_ASK_TIMEOUT)
                there.append(version)
            except RpcError as error:
                if error.code is not Code.UNIMPLEMENTED:
                    raise
                failure = error
        if not there:
            raise failure
        self.versions = tuple(there)

    async def send(self, path: str, request: bytes, timeout: float) -> bytes:
        """Make a call, in its own version if the runtime has it."""
        full, _, method = path.lstrip("/").partition("/")
        version, _, service = full.rpartition(".")
        chosen = version if version in self.versions else self.versions[0]
        return await self._client.unary(f"/{chosen}.{service}/{method}".encode(), request, timeout=timeout)

    async def ask(self, method: str, timeout: float = _ASK_TIMEOUT, **fields: Any) -> Any:
        """A call of our own about pods and containers."""
        request = message_of(f"{method}Request", b"")
        for name, value in fields.items():
            setattr(request, name, value)
        path = f"/{self.versions[0]}.{_SERVICE}/{method}"
        return message_of(f"{method}Response", await self.send(path, request.SerializeToString(), timeout))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPace:
    """How fast: 1 is as recorded, 10 ten times as fast, 0 without pauses."""

    speed: float = 0.0
    timeout: float = 120.0  # of a call


class ReplayRunner:
    """Makes the calls of a plan and collects their outcomes."""

    def __init__(
        self, runtime: Runtime, plan: ReplayPlan, target: TargetOptions, pace: ReplayPace, *, pass_unknown: bool
    ) -> None:
        self._runtime = runtime
        self._plan = plan
        self._target = target
        self._pace = pace
        self._pass_unknown = pass_unknown
        self._parse: Parse = message_of
        self._progress = ReplayProgress(plan)
        self._moved = asyncio.Event()
        self._tasks = TaskBag()
        self._stopping = False
        self._open = 0  # calls in flight
        self.ids = IdMap()
        self.made: list[Reference] = []  # new ids, in the order in which they came
        self.outcomes: list[ReplayOutcome] = []
        self.unseen = ""  # why the state at the end is not known
        self.left: list[Reference] = []  # what could not be removed

    def stop(self) -> None:
        self._stopping = True
        self._moved.set()

    async def run(self) -> None:
        """Make all calls; returns when the last has ended."""
        begun = time.monotonic()
        for step in self._plan.steps:
            await self._wait_for_turn(step, begun)
            if self._stopping:
                break
            self._open += 1
            self._tasks.spawn(self._make(step), name=f"replay {step.name} #{step.number}")
        while self._open:
            self._moved.clear()
            await self._moved.wait()
        self.outcomes.sort(key=lambda outcome: outcome.step.index)

    async def close(self) -> None:
        """Cut off what is in flight."""
        await self._tasks.cancel()

    async def _wait_for_turn(self, step: ReplayStep, begun: float) -> None:
        while not self._stopping:
            pause = begun + step.begin / 1e9 / self._pace.speed - time.monotonic() if self._pace.speed else 0.0
            ready = self._progress.may_start(step)
            if ready and pause <= 0:
                return
            self._moved.clear()
            try:
                async with asyncio.timeout(pause if ready else None):
                    await self._moved.wait()
            except TimeoutError:
                continue

    async def _make(self, step: ReplayStep) -> None:
        try:
            self.outcomes.append(await self._outcome(step))
        finally:
            self._open -= 1
            self._progress.finish(step)
            self._moved.set()

    async def _outcome(self, step: ReplayStep) -> ReplayOutcome:
        request = self._parse(step.request_type, step.request)
        unknown = self.ids.translate(request)
        if unknown and not self._pass_unknown:
            why = "was not made this time"
            return ReplayOutcome(step=step, skipped=f"{unknown[0]} {why}", group=f"what they are about {why}")
        adapted = adapt(request, self._target)
        try:
            for directory in adapted.directories:
                Path(directory).mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one per container
        except OSError as error:
            why = f"log directory cannot be made: {error}"
            return ReplayOutcome(step=step, skipped=f"its {why}", group=f"a {why}")
        data: bytes = request.SerializeToString(deterministic=True)
        started = time.monotonic_ns()
        try:
            reply = await self._runtime.send(step.path, data, self._pace.timeout)
        except RpcError as error:
            return self._ended(step, started, adapted, error.code, error.message)
        self._learn(step, reply)
        return self._ended(step, started, adapted, Code.OK, "")

    def _ended(self, step: ReplayStep, started: int, adapted: Adaptation, code: int, message: str) -> ReplayOutcome:
        elapsed = time.monotonic_ns() - started
        return ReplayOutcome(step=step, code=int(code), message=message, elapsed=elapsed, adapted=adapted)

    def _learn(self, step: ReplayStep, reply: bytes) -> None:
        try:
            new = created_object(self._parse(step.response_type, reply))
        except ValueError:
            return
        if new is not None:
            self.made.append(new)
            if step.made is not None:
                self.ids.learn(step.made, new.id)

    # -- what is there at the end

    async def states(self, expected: Mapping[Reference, Condition], settle: float) -> list[FinalObject]:
        """Everything the plan made; waits for what is not yet as recorded, but not longer than `settle` seconds.

        What the runtime does not tell is unknown; `unseen` says why.
        """
        deadline = time.monotonic() + settle
        subjects = {step.made: step.subject for step in self._plan.steps if step.made is not None}
        while True:
            found = await self._look(expected)
            # What was not made will not come any more.
            settled = all(
                self.ids.new(reference) is None or matches(expected[reference], found[reference])
                for reference in expected
            )
            if settled or self._stopping or time.monotonic() >= deadline:
                break
            await asyncio.sleep(_LOOK_AGAIN)
        return [
            FinalObject(
                recorded=reference,
                id=self.ids.new(reference) or "",
                subject=subjects.get(reference, ""),
                expected=condition,
                found=found[reference],
            )
            for reference, condition in expected.items()
        ]

    async def _look(self, expected: Mapping[Reference, Condition]) -> dict[Reference, Condition]:
        look = _RuntimeState(self._runtime)
        await look.list_pods()
        found = {}
        for reference in expected:
            new = self.ids.new(reference)
            if new is None:
                found[reference] = _GONE
            else:
                found[reference] = look.pod(new) if reference.kind is ReferenceKind.POD else await look.container(new)
        self.unseen = look.failure
        return found

    # -- leaving nothing behind

    async def clean_up(self) -> list[str]:
        """Remove what was made, containers before pods; what went wrong is returned. Images stay.

        `left` is what is still there. A runtime that is not there is not asked once more for each container.
        """
        problems: list[str] = []
        self.left = [
            reference for reference in self.made if reference.kind is not ReferenceKind.IMAGE
        ]  # whenever somebody stops us
        away = False
        for kind, field, verbs in (
            (ReferenceKind.CONTAINER, "container_id", ("StopContainer", "RemoveContainer")),
            (ReferenceKind.POD, "pod_sandbox_id", ("StopPodSandbox", "RemovePodSandbox")),
        ):
            for reference in reversed([reference for reference in self.made if reference.kind is kind]):
                failure: RpcError | None = None
                for verb in () if away else verbs:
                    failure = await self._remove(verb, field, reference)
                    if failure is not None:
                        problems.append(f"{verb} of {reference}: {failure}")
                    away = failure is not None and failure.code is Code.UNAVAILABLE
                    if away:
                        break
                if not away and failure is None:
                    self.left.remove(reference)
        return problems

    async def _remove(self, verb: str, field: str, reference: Reference) -> RpcError | None:
        try:
            await self._runtime.ask(verb, _REMOVE_TIMEOUT, **{field: reference.id})
        except RpcError as error:
            return None if error.code is Code.NOT_FOUND else error
        return None


class _RuntimeState:
    """One look at a runtime; `failure` is what it said first instead of an answer."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods: dict[str, Condition] | None = None
        self._away = False
        self.failure = ""

    async def list_pods(self) -> None:
        """List all pods of the runtime once."""
        try:
            items = (await self._runtime.ask("ListPodSandbox")).items
        except RpcError as error:
            self._failed(error)
        else:
            self._pods = {pod.id: Condition(state=pod_state(pod.state)) for pod in items}

    def pod(self, pod_id: str) -> Condition:
        """Of a pod, from the list."""
        return _UNKNOWN if self._pods is None else self._pods.get(pod_id, _GONE)

    async def container(self, container_id: str) -> Condition:
        """Of a container; nobody is asked who did not answer before."""
        if self._away:
            return _UNKNOWN
        try:
            return found_condition((await self._runtime.ask("ContainerStatus", container_id=container_id)).status)
        except RpcError as error:
            if error.code is Code.NOT_FOUND:
                return _GONE
            self._failed(error)
            return _UNKNOWN

    def _failed(self, error: RpcError) -> None:
        self.failure = self.failure or str(error)
        self._away = self._away or error.code in _AWAY
