"""Hints of a container within a budget of time: looked up in threads that can be left behind.

A path on a file system whose server does not answer blocks its thread, and nothing can end that. So a create waits for
a short time only, paths that are blocked are not tried again while they are, and blocked threads are few.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from interpose.core.policy.request import Request
from interpose.core.topology.hints import TopologyHint, useful_hints
from interpose.core.topology.topology import Topology
from interpose.resmgr.hints.devices import DeviceHint
from interpose.resmgr.hints.rules import HintPath, find_paths, read_rules

BUDGET: Final = 0.1  # seconds of a create; what answers at all takes less than one thousandth
MAX_BLOCKED: Final = 4  # threads

Find = Callable[[HintPath], tuple[DeviceHint, ...]]


class PathHint(NamedTuple):
    """A hint, and the path of the host that it was found for."""

    path: str
    found: DeviceHint


class HintResult(NamedTuple):
    """What was found, and why something was not."""

    hints: tuple[TopologyHint, ...] = ()
    problems: tuple[str, ...] = ()


class _Lookup:
    """Paths that one thread looks up, in their order; what it has found is there while it still works."""

    def __init__(self, paths: Sequence[HintPath]) -> None:
        self._paths = paths
        self.hints: list[PathHint] = []
        self.problems: list[str] = []
        self.path = paths[0].path  # where it is at
        self.left = self.ended = False  # nobody waits any more; the thread has come to its end

    def run(self, find: Find) -> None:
        """Look everything up, until it is left alone."""
        for path in self._paths:
            if self.left:
                return
            self.path = path.path
            try:
                self.hints += [PathHint(path.path, found) for found in find(path)]
            except OSError:
                pass  # what is not there is near to nothing
            except Exception as error:
                self.problems.append(f"{path.path} cannot be looked up: {error!r}")


async def within_budget(ended: asyncio.Future[None]) -> None:
    """Wait for a lookup to end; TimeoutError if it takes longer than a create may wait for it."""
    await asyncio.wait_for(ended, BUDGET)


class HintResolver:
    """Looks up what paths are near to, by `find`, which may block; `limit` raises TimeoutError if that takes long."""

    def __init__(self, find: Find, *, limit: Callable[[asyncio.Future[None]], Awaitable[None]] = within_budget) -> None:
        self._find = find
        self._limit = limit
        self._blocked: list[_Lookup] = []  # whose threads nobody waits for

    async def resolve(self, request: Request, config: Any, topology: Topology) -> HintResult:
        """The hints of a container by the ContainerConfig of its create request, as far as they are found in time."""
        try:
            rules = read_rules(request)
        except ValueError as error:
            return HintResult(problems=(f"{error}; no topology hints are used",))
        found, problems = await self._look_up(find_paths(config, rules))
        counted = (hint.found.hint for hint in found if rules.counts(hint.path, hint.found.device))
        return HintResult(useful_hints(counted, topology), tuple(problems))

    async def _look_up(self, paths: Sequence[HintPath]) -> tuple[list[PathHint], list[str]]:
        blocked = {lookup.path for lookup in self._blocked}
        problems = [_explain_blocked(path.path) for path in paths if path.path in blocked]
        wanted = [path for path in paths if path.path not in blocked]
        if wanted and len(self._blocked) >= MAX_BLOCKED:
            problems.append(f"nothing is looked up as long as these do not answer: {', '.join(sorted(blocked))}")
        elif wanted:
            lookup = _Lookup(wanted)
            try:
                await self._run(lookup)
            except TimeoutError:
                problems.append(_explain_blocked(lookup.path))
            except RuntimeError as error:  # no more threads
                problems.append(f"topology hints cannot be looked up: {error}")
            return [*lookup.hints], [*problems, *lookup.problems]
        return [], problems

    async def _run(self, lookup: _Lookup) -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            lookup.ended = True
            if lookup in self._blocked:
                self._blocked.remove(lookup)
            if not ended.done():
                ended.set_result(None)

        def thread() -> None:
            lookup.run(self._find)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end)

        threading.Thread(target=thread, name="topology hints", daemon=True).start()
        try:
            await self._limit(ended)
        except (TimeoutError, asyncio.CancelledError):
            lookup.left = True
            if not lookup.ended:
                self._blocked.append(lookup)
            raise


def _explain_blocked(path: str) -> str:
    return f"{path} does not answer, so nothing is known of what it is near to"
