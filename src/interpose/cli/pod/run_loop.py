"""The life of `interpose pod run`: read manifests, sync the pods, show their progress, and end when they are up."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from interpose.cli.pod.connect import PodRuntime, run_with_runtime
from interpose.cli.pod.foreign_pods import foreign_pods_warning, list_foreign_pods
from interpose.cli.pod.manager import open_manager
from interpose.cli.pod.options import ConnectionOptions
from interpose.cli.pod.progress import ProgressBoard
from interpose.cli.pod.service import Listening, PodService
from interpose.cli.render.text import amount, or_dash
from interpose.cli.runtime.serve import warn_not_isolated
from interpose.core.model.humanize import format_age
from interpose.errors import ConfigError
from interpose.node.pods.locks import BusyPodError, watch_lock
from interpose.node.pods.logs.format import last_content
from interpose.node.pods.manifest.cache import ManifestCache
from interpose.node.pods.manifest.files import ManifestSnapshot, ManifestSources, ManifestWatcher
from interpose.node.pods.spec import PodSpec, RestartPolicy
from interpose.node.pods.status.phase import ContainerView, ContainerViewState
from interpose.node.pods.status.pod_state import PodState, StartOutcome, StartResult, evaluate_start
from interpose.node.pods.status.termination_message import read_tail
from interpose.node.pods.sync.loop import PodSyncLoop
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_EVERY: Final = 0.1  # seconds between two pictures
_LOG_LINES: Final = 10
_LOG_READ: Final = 64 << 10
_INTERRUPTED: Final = 130
_BUSY_TIMEOUT: Final = 60.0  # seconds until another process that is at work on a pod has to be done
_WAITING: Final = StartResult(outcome=StartOutcome.WAITING)
_HARDLY_ISOLATED: Final = (
    "warning: the plain executor is used: containers are ordinary processes, hardly isolated. "
    "--log-level warning lists what is missing."
)


_NOWHERE: Final = Listening()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `interpose pod run`, from the command line."""

    files: tuple[str, ...]
    watch: bool = False
    stop_on_exit: bool = False
    replace: bool = False
    timeout: float | None = 120.0
    min_ready: float = 1.0
    to_the_end: bool = False
    quiet: bool = False
    log_level: str | None = None
    listening: Listening = _NOWHERE


def run_pods(connection: ConnectionOptions, options: RunOptions, node: Mapping[str, Any]) -> int:
    """Run pods until all have started, or with `watch` until a signal; the exit code."""
    Path(connection.root).mkdir(mode=0o755, parents=True, exist_ok=True)  # where that cannot be, nothing can
    terminal = sys.stderr.isatty()
    sources = ManifestSources(
        options.files, memory=ManifestCache(f"{connection.root}/manifests") if options.watch else None
    )
    wanted = sources.read()
    check_manifests(wanted, options)
    service = PodService(options.files, options.listening) if options.watch else None
    if service is not None:
        service.file_problems = wanted.problems

    async def work(runtime: PodRuntime) -> int:
        # For each runtime: two managers would rotate the same logs, and start what the other has just ended.
        lock = watch_lock(connection.root, runtime.where) if options.watch else None
        try:
            manager = await open_manager(runtime, connection, **node)
            run = _Run(manager, sources, wanted, options, terminal=terminal, service=service)
            run.not_isolated = runtime.not_isolated
            return await run.main()
        finally:
            if lock is not None:
                lock.release()

    level = options.log_level or ("info" if options.watch and not terminal else "error")
    if service is None:
        return run_with_runtime(connection, work, log_level=level)

    def on_wait(reason: str) -> None:
        service.waiting_for = reason
        (_print_wait if terminal and not options.quiet else _log_wait)(reason)

    return run_with_runtime(
        connection, work, on_wait=on_wait, log_level=level, service=service.running, wrap=service.count_calls
    )


def _print_wait(why: str) -> None:
    click.echo(f"Waiting for the runtime: {or_dash(why)}", err=True)


def _log_wait(why: str) -> None:
    _log.warning("Runtime is not available yet, waiting", extra={"kv": {"err": why}})


def read_pods(files: tuple[str, ...]) -> tuple[PodSpec, ...]:
    """The pods of manifests that are right, each of them; else ConfigError."""
    wanted = ManifestSources(files).read()
    check_manifests(wanted, RunOptions(files=files))
    return wanted.pods


def check_manifests(wanted: ManifestSnapshot, options: RunOptions) -> None:
    """Wrong manifests stop a run; of a folder that is watched they are reported, and the others are kept."""
    problems = [problem for of_file in wanted.problems.values() for problem in of_file]
    named = {os.path.abspath(file) for file in options.files}  # noqa: PTH100
    fatal = [problem for file, of_file in wanted.problems.items() if file in named for problem in of_file]
    if not options.watch and problems:
        raise ConfigError(problems)
    if fatal:
        raise ConfigError(fatal)
    if not options.watch and not wanted.pods:
        raise ConfigError(f"{', '.join(options.files)}: holds no pods")
    for problem in problems:
        click.echo(f"error: {problem}", err=True)


class _Run:
    def __init__(
        self,
        manager: RuntimeManager,
        sources: ManifestSources,
        wanted: ManifestSnapshot,
        options: RunOptions,
        *,
        terminal: bool,
        service: PodService | None,
    ) -> None:
        self.not_isolated: tuple[str, ...] = ()
        self._manager = manager
        self._sources = sources
        self._wanted = wanted
        self._options = options
        self._terminal = terminal
        silent = options.quiet or (options.watch and not terminal)
        self._board = ProgressBoard(
            sys.stderr, in_place=terminal, quiet=silent, colour=terminal and "NO_COLOR" not in os.environ
        )
        self._sync_loop = PodSyncLoop(
            manager,
            progress=self._board,
            on_state=self._observe,
            owns=sources.owns if options.watch else lambda _source: False,
        )
        self._service = service
        if service is not None:
            service.set_sync_loop(self._sync_loop, manager.where)
        self._states: dict[str, PodState] = {}
        self._results: dict[str, StartResult] = {}
        self._tasks = TaskBag()
        self._away = False
        self._signal = ""

    async def main(self) -> int:
        """Run until all pods have started or failed, or with --watch until a signal; the exit code."""
        self._handle_signals()
        watch = ManifestWatcher(self._sources, self._on_manifests, self._on_problem) if self._options.watch else None
        try:
            await self._begin()
            self._tasks.spawn(self._sync_loop.run(), name="sync loop")
            if watch is not None:
                watch.start()
            code = await self._wait_until_up()
            if watch is not None and not self._signal:
                code = await self._keep()
            return await self._shut_down(code)
        finally:
            if watch is not None:
                await watch.close()
            await self._tasks.cancel()
            await self._sync_loop.close()

    async def _begin(self) -> None:
        """Print warnings, and forget that pods were stopped by hand before."""
        if self.not_isolated:
            warn_not_isolated(self.not_isolated)
            self._board.say(_HARDLY_ISOLATED)
        if others := await list_foreign_pods(self._manager):
            _log.warning(
                "Runtime has pods of another manager; a kubelet would remove ours", extra={"kv": {"pods": others}}
            )
            self._board.say(foreign_pods_warning(others))
        self._board.expect(pod.title for pod in self._wanted.pods)
        for pod in self._wanted.pods:
            await asyncio.to_thread(self._manager.dirs.clear_stopped, pod.uid)
            if self._options.replace:
                await self._remove(pod)
        self._sync_loop.set_pods(self._wanted.pods)

    async def _remove(self, pod: PodSpec) -> None:
        try:
            async with self._manager.locks.held(pod.uid, patience=_BUSY_TIMEOUT):
                result = await self._manager.remove_pod(
                    await self._manager.find_pod(pod.uid), pod, progress=self._board
                )
        except BusyPodError as error:
            raise click.ClickException(f"{pod.title} could not be removed: {error}") from None
        if not result.ok:
            raise click.ClickException(f"{pod.title} could not be removed: {result.errors[0].error}")

    # -- until they are up -------------------------------------------------------------------------------------------

    async def _wait_until_up(self) -> int:
        """Wait until every pod is up or has failed, or time is over; the exit code."""
        began = time.monotonic()
        limit = self._options.timeout
        while not self._signal:
            self._evaluate()
            self._board.draw()
            if self._is_decided() and await self._is_confirmed():
                break
            if limit is not None and time.monotonic() - began > limit:
                for pod in self._wanted.pods:
                    if self._result_of(pod).outcome is StartOutcome.WAITING:
                        self._fail_late(pod, limit)
                break
            await asyncio.sleep(_EVERY)
        self._board.finish(alone=self._options.watch)
        if self._signal:
            if not (self._options.watch or self._options.stop_on_exit):
                self._board.say("Interrupted: what was started goes on. Say it again to go on, or `interpose pod rm`.")
            return _INTERRUPTED
        return self._report(time.monotonic() - began)

    def _is_decided(self) -> bool:
        return all(self._result_of(pod).outcome is not StartOutcome.WAITING for pod in self._wanted.pods)

    async def _is_confirmed(self) -> bool:
        """Results may be older than the end of a container, and ended containers are still being removed: list the pods
        once more; true only if nothing is under way."""
        if self._sync_loop.is_busy():
            return False
        await self._sync_loop.relist()
        if self._sync_loop.is_busy():
            return False
        self._evaluate()
        return self._is_decided()

    def _result_of(self, pod: PodSpec) -> StartResult:
        return self._results.get(pod.uid, _WAITING)

    def _evaluate(self) -> None:
        """Evaluate all pods again, as time alone may make one ready; and report a runtime that is away, or back."""
        if bool(self._sync_loop.runtime_error) is not self._away:
            self._away = not self._away
            self._board.say(
                f"Waiting for the runtime: {self._sync_loop.runtime_error}" if self._away else "The runtime is back."
            )
        for uid, state in self._states.items():
            found = self._evaluate_pod(state)
            if found != self._results.get(uid):
                self._results[uid] = found
                self._board.observe(state, found)

    def _fail_late(self, pod: PodSpec, limit: float) -> None:
        state = self._states.get(pod.uid)
        waits = self._sync_loop.runtime_error or ""
        if state is not None and not waits:
            late = [view for view in state.containers if not view.ready and view.words != "Completed"]
            why_not = ": ".join(part for part in (state.reason, state.message) if part)
            waits = why_not or ", ".join(
                f"{view.name} is {view.words}{self._describe_wait(pod, view)}" for view in late
            )
        why = f"not ready within {format_age(limit)}" + (f": {waits}" if waits else "")
        container = next((view.name for view in state.containers if not view.ready and view.id), "") if state else ""
        self._results[pod.uid] = found = StartResult(outcome=StartOutcome.FAILED, reason=why, container=container)
        if state is not None:
            self._board.observe(state, found)

    def _describe_wait(self, pod: PodSpec, view: ContainerView) -> str:
        """Why a container is not ready: the message of the runtime, or of a probe."""
        if view.state is ContainerViewState.WAITING and view.message:
            return f": {view.message}"
        words = self._sync_loop.probes.words(pod.uid, view.name)
        return f" ({words})" if words else ""

    def _report(self, seconds: float) -> int:
        failed = [pod for pod in self._wanted.pods if self._result_of(pod).outcome is StartOutcome.FAILED]
        for pod in failed:
            found = self._result_of(pod)
            click.echo(f"error: pod {or_dash(pod.title)}: {or_dash(found.reason)}", err=True)
            for line in (*self._list_last_exits(pod), *self._tail_log(pod, found.container)):
                click.echo(f"  {or_dash(line)}", err=True)
        if not self._options.quiet:
            well = len(self._wanted.pods) - len(failed)
            text = (
                f"{amount(well, 'pod')} up" + (f", {len(failed)} failed" if failed else "") + f", {format_age(seconds)}"
            )
            self._board.say(text)
        return 1 if failed else 0

    def _list_last_exits(self, pod: PodSpec) -> list[str]:
        """How containers ended that wait to be started again: their current state hides it."""
        state = self._states.get(pod.uid)
        waiting = (
            [view.name for view in state.containers if view.state is ContainerViewState.WAITING]
            if state is not None
            else []
        )
        ends = [found for name in waiting if state is not None and (found := state.status.latest(name)) is not None]
        return [
            f"{end.name} ended with {end.reason or 'Error'}, exit code {end.exit_code}: {' '.join(end.message.split())}"
            for end in ends
            if end.failed and end.message.strip()
        ]

    def _tail_log(self, pod: PodSpec, container: str) -> list[str]:
        """The end of the log of a container that ended badly."""
        state = self._states.get(pod.uid)
        if state is None or not container:
            return []
        paths = [status.log_path for status in state.status.containers if status.name == container and status.log_path]
        for path in paths:
            text = last_content(read_tail(path, _LOG_READ), lines=_LOG_LINES, size=_LOG_READ)
            if text.strip():
                lines = text.splitlines()[-_LOG_LINES:]
                return [f"last lines of {container}:", *(f"  {line}" for line in lines)]
        return []

    # -- staying -----------------------------------------------------------------------------------------------------

    async def _keep(self) -> int:
        if not self._options.quiet:
            self._board.say("Keeping the pods; they go on when this is ended with Ctrl-C.")
        while not self._signal:
            self._evaluate()
            await asyncio.sleep(_EVERY)
        return 0

    async def _shut_down(self, code: int) -> int:
        if self._service is not None:
            self._service.stopping()
        if self._options.stop_on_exit:
            self._board.say(f"Ending {amount(len(self._wanted.pods), 'pod')}")
            left = await self._sync_loop.stop()
            for problem in left:
                click.echo(f"error: pod {or_dash(problem)}", err=True)
            if left:
                return 1
        return 0 if self._options.watch and code == _INTERRUPTED else code

    def _on_manifests(self, wanted: ManifestSnapshot) -> None:
        if self._service is not None:
            self._service.file_problems = wanted.problems
        if wanted.pods != self._wanted.pods:
            named = {pod.title for pod in wanted.pods}
            for pod in self._wanted.pods:
                if pod.title not in named:
                    self._board.say(f"{pod.title}: no manifest names it any more, removing it")
            self._wanted = wanted
            self._board.expect(pod.title for pod in wanted.pods)
            kept = {pod.uid for pod in wanted.pods}
            self._states = {uid: state for uid, state in self._states.items() if uid in kept}
            self._results = {uid: found for uid, found in self._results.items() if uid in kept}
            self._sync_loop.set_pods(wanted.pods)

    def _on_problem(self, problem: str) -> None:
        if self._terminal and not self._options.quiet:
            self._board.say(f"error: {problem}; what it said before, if anything, counts")
        else:
            _log.error(
                "Invalid manifest, keeping its last valid version if there is one", extra={"kv": {"problem": problem}}
            )

    def _observe(self, state: PodState) -> None:
        if not any(pod.uid == state.pod.uid for pod in self._wanted.pods):
            return
        self._states[state.pod.uid] = state
        found = self._evaluate_pod(state)
        self._results[state.pod.uid] = found
        self._board.observe(state, found)

    def _evaluate_pod(self, state: PodState) -> StartResult:
        found = evaluate_start(state, now=time.time_ns(), stable=int(self._options.min_ready * 1e9))
        ends = self._options.to_the_end and state.pod.restart_policy is not RestartPolicy.ALWAYS
        return _WAITING if ends and found.outcome is StartOutcome.READY else found

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        """The first signal shuts down, the second ends the process at once."""
        if self._signal:
            self._board.clear()
            os._exit(128 + number)
        self._signal = signal.Signals(number).name
