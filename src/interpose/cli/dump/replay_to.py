"""`interpose dump replay --to`: the calls of a recording once more, at a runtime."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

import click
import uvloop

from interpose.cli.common.terminal import format_value
from interpose.cli.dump.replay_recording import ReplayRecording
from interpose.cli.render.replay import plan_text, report_text
from interpose.cri.methods import API_VERSIONS
from interpose.dump.replay.adapt import TargetOptions, free_suffix, uids
from interpose.dump.replay.final_state import Condition, Exit, Exits, expected_states
from interpose.dump.replay.id_map import Reference
from interpose.dump.replay.plan import ReplayPlan, make_plan
from interpose.dump.replay.report import FinalObject, has_differences, plan_document, report_document
from interpose.dump.replay.runner import ReplayPace, ReplayRunner, Runtime, message_of
from interpose.dump.replay.selection import ReplayChoices
from interpose.net.grpc.client import Client
from interpose.net.grpc.status import RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.tasks import TaskBag

_T = TypeVar("_T")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_WAIT: Final = 5.0  # for the runtime to be reachable
_VERSIONS: Final = {"auto": API_VERSIONS, **{version.rpartition(".")[2]: (version,) for version in API_VERSIONS}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of the command, by their names."""

    socket: str
    speed: float = 0.0
    output: str = "text"
    verbose: bool = False
    dry_run: bool = False
    cleanup: bool = False
    pull: bool = False
    execs: bool = False
    reads: bool = False
    as_sent: bool = False
    unknown_ids: str = "skip"
    rename: str = "auto"
    drop_mounts: bool = False
    logs: str = ""
    settle: float = 10.0
    timeout: float = 120.0
    api: str = "auto"


def replay_to(recorded: ReplayRecording, wishes: ReplayOptions) -> int:
    """Make the calls; the exit code is 1 if something came out otherwise."""
    choices = ReplayChoices(
        pull=wishes.pull,
        execs=wishes.execs,
        reads=wishes.reads,
        as_sent=wishes.as_sent,
        pass_unknown=wishes.unknown_ids == "pass",
    )
    exits = Exits(message_of)
    plan = make_plan(exits.observe(recorded.calls()), choices, message_of, recorded.wanted)
    recorded.print_damage()
    if wishes.dry_run:
        document = plan_document(plan)
        _show(document, plan_text(document, verbose=wishes.verbose), wishes)
        return 0
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            report = runner.run(_replay(plan, exits.found, wishes))
        except RpcError as error:
            raise click.ClickException(f"{wishes.socket}: {format_value(str(error))}") from None
    _show(report, report_text(report, verbose=wishes.verbose), wishes)
    return 1 if has_differences(report) else 0


def _show(document: Mapping[str, Any], text: str, wishes: ReplayOptions) -> None:
    click.echo(json.dumps(document, indent=2) if wishes.output == "json" else text)


class _NoConnectionEvents:
    """Failures to connect are told by the call that meets them."""

    def unreachable(self, path: str, error: str) -> None: ...

    def connected(self, path: str, connections: int) -> None: ...

    def lost(self, path: str, fault: str | None) -> None: ...


@asynccontextmanager
async def _runtime(wishes: ReplayOptions) -> AsyncIterator[Runtime]:
    hub = Hub()
    upstream = Upstream(wishes.socket, hub=hub, limits=Limits(), wait=_WAIT, reports=_NoConnectionEvents())
    try:
        runtime = Runtime(Client(upstream, hub), _VERSIONS[wishes.api])
        await runtime.find_versions()
        yield runtime
    finally:
        await upstream.close()


async def _replay(plan: ReplayPlan, exits: Mapping[str, Exit], wishes: ReplayOptions) -> dict[str, Any]:
    async with _runtime(wishes) as runtime:
        suffix = await _suffix(runtime, plan, wishes.rename)
        caller = ReplayRunner(
            runtime,
            plan,
            _target_options(wishes, suffix),
            ReplayPace(speed=wishes.speed, timeout=wishes.timeout),
            pass_unknown=wishes.unknown_ids == "pass",
        )
        with _Interrupts(caller) as interrupts:
            try:
                states = await interrupts.until_done(_work(caller, expected_states(plan, exits), wishes.settle)) or []
            finally:
                # Whatever happened: what was made is known, and nobody else will remove it.
                await caller.close()
                if wishes.cleanup:
                    problems = await interrupts.until_done(caller.clean_up())
                    _warn(["it was cut off"] if problems is None else problems)
        if interrupts.count:
            states = [state for state in states if state.id]  # what it did not come to is not missing
        return report_document(
            plan,
            caller.outcomes,
            states,
            suffix=suffix,
            stopped=interrupts.count > 0,
            removed=wishes.cleanup,
            made=caller.made,
            left=caller.left,
            unseen=caller.unseen,
        )


def _target_options(wishes: ReplayOptions, suffix: str) -> TargetOptions:
    return TargetOptions(
        exists=_exists,
        suffix=suffix,
        logs=str(Path(wishes.logs).absolute()) if wishes.logs else "",
        drop_mounts=wishes.drop_mounts,
    )


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return False  # what we may not look at the runtime may not have either


async def _work(caller: ReplayRunner, wanted: Mapping[Reference, Condition], settle: float) -> list[FinalObject]:
    await caller.run()
    return await caller.states(wanted, settle)


@dataclass(frozen=True, slots=True)
class _Ended(Generic[_T]):
    """What came of some work."""

    value: _T | None = None
    error: Exception | None = None


async def _caught(work: Coroutine[Any, Any, _T]) -> _Ended[_T]:
    """An error is a value: it is raised where somebody waits, not told by the task as well."""
    try:
        return _Ended(value=await work)
    except Exception as error:
        return _Ended(error=error)


class _Interrupts:
    """Ctrl-C: the first lets calls in flight end, each further one cuts off what goes on."""

    def __init__(self, caller: ReplayRunner) -> None:
        self.count = 0
        self._caller = caller
        self._tasks = TaskBag()
        self._current: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _stop(self) -> None:
        self.count += 1
        if self.count == 1:
            click.echo("Waiting for calls in flight; stop again to cut them off.", err=True)
            self._caller.stop()
        elif self._current is not None:
            self._current.cancel()

    async def until_done(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """What comes of it; None if it was cut off."""
        task: asyncio.Task[_Ended[_T]] = self._tasks.spawn(_caught(work), name="replay")
        self._current = task
        await asyncio.wait([task])
        if task.cancelled():
            return None
        ended = task.result()
        if ended.error is not None:
            raise ended.error
        return ended.value


async def _suffix(runtime: Runtime, plan: ReplayPlan, rename: str) -> str:
    if rename != "auto":
        return "" if rename == "none" else rename
    wanted = {uid for step in plan.steps for uid in uids(message_of(step.request_type, step.request))}
    return free_suffix(wanted, {sandbox.metadata.uid for sandbox in (await runtime.ask("ListPodSandbox")).items})


def _warn(problems: Iterable[str]) -> None:
    for problem in problems:
        click.echo(f"warning: cleanup: {format_value(problem)}", err=True)
