"""The hook servers in force: kept in step with the directory of registration files.

A file that goes bad never takes its hook server out of force: the last good version stays until there is a better one
or the file is gone. A directory that cannot be read or trusted changes nothing; one that is gone registers nothing.

Invariant: `servers` is replaced whole, in one assignment on the loop. Whoever reads it has a consistent set.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from interpose.config.values import show_duration
from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.api.registration import HookServer, parse_registration, render_registration
from interpose.hooks.dispatch.registration_files import RegistrationFile, RegistrationListing, list_registrations
from interpose.host.dirwatch import DirWatch
from interpose.host.file_trust import Trust
from interpose.metrics import Family, Sample
from interpose.tasks import TaskBag

# Distinct complaints about one file that are remembered; a file that goes wrong in more ways is reported again.
_MAX_REPORTED = 64

_log = logging.getLogger(__name__)


class Registrations:
    """Reads at `load`, follows from `start` until `close`."""

    def __init__(
        self, directory: str, *, uids: Collection[int] | None = None, gids: Collection[int] | None = None
    ) -> None:
        self.directory = str(Path(directory).absolute())
        self.servers: tuple[HookServer, ...] = ()
        self.problems: Mapping[str, tuple[str, ...]] = {}  # by file name; the directory's own under its path
        self.warnings: Mapping[str, tuple[str, ...]] = {}  # by file name, of files in force
        self.errors = 0  # complaints so far
        self._trust = Trust(
            uids={0, os.getuid()} if uids is None else uids, gids={0, os.getgid()} if gids is None else gids
        )
        self._readings: Mapping[str, RegistrationFile] = {}
        self._in_force: Mapping[str, HookServer] = {}
        self._reported: dict[str, set[str]] = {}
        self._changed: Callable[[], None] = _nothing
        self._watch: DirWatch | None = None
        self._tasks = TaskBag()
        self._scanning = False
        self._again = False

    def memory(self) -> dict[str, str]:
        """For a successor: what is in force although its file cannot be used now."""
        return {name: render_registration(server) for name, server in self._in_force.items() if name in self.problems}

    def inherit(self, memory: object) -> None:
        """From a predecessor, before `load`: last good versions of files that cannot be used now."""
        if not isinstance(memory, dict):
            return
        found = {}
        for name, text in memory.items():
            try:
                found[str(name)] = parse_registration(str(text), str(Path(self.directory, str(name)))).server
            except ConfigError as error:
                _log.warning("Invalid inherited registration", extra={"kv": {"problem": str(error)}})
        self._in_force = found

    def load(self) -> bool:
        """Read everything here and now; whether `servers` changed. For the time before the loop has duties."""
        return self._apply(self._scan())

    def start(self, changed: Callable[[], None]) -> None:
        """Follow the directory; `changed` is called each time `servers` has become something different."""
        self._changed = changed
        self._watch = DirWatch(self.directory, self._look)

    async def close(self) -> None:
        """Stop following; what is in force stays."""
        if self._watch is not None:
            self._watch.close()
        await self._tasks.cancel()

    def _look(self) -> None:
        """One scan at a time; whatever happens meanwhile is worth one more."""
        self._again = self._scanning
        if not self._scanning:
            self._scanning = True
            self._tasks.spawn(self._follow(), name="registrations scan")

    async def _follow(self) -> None:
        try:
            while True:
                self._again = False
                if self._apply(await asyncio.to_thread(self._scan)):
                    self._changed()
                if not self._again:
                    return
        finally:
            self._scanning = False

    def _scan(self) -> RegistrationListing:
        return list_registrations(self.directory, self._readings, self._trust)

    def _apply(self, found: RegistrationListing) -> bool:
        """Put in force what was found; whether that makes a difference."""
        if found.files is None:
            self._complain({**self.problems, self.directory: (found.problem,)}, self._readings)
            return False
        before = self._in_force
        self._readings = found.files
        self._in_force = {
            name: server
            for name, reading in found.files.items()
            if (server := reading.server or before.get(name)) is not None
        }
        _log_differences(before, self._in_force)
        self.warnings = {
            name: reading.warnings for name, reading in found.files.items() if reading.server and reading.warnings
        }
        problems = {name: reading.problems for name, reading in found.files.items() if reading.problems}
        self._complain(problems, found.files)
        servers = tuple(sorted(self._in_force.values(), key=_order))
        if servers == self.servers:
            return False
        self.servers = servers
        return True

    def _complain(self, problems: Mapping[str, tuple[str, ...]], files: Mapping[str, RegistrationFile]) -> None:
        """Say what is wrong or strange, each thing once, and forget what was said about files that are fine or gone."""
        for name in self.problems.keys() - problems.keys():
            if name in files:
                _log.info("Registration file is valid again", extra={"kv": {"file": name}})
        self.problems = problems
        for name in self._reported.keys() - files.keys() - problems.keys():
            del self._reported[name]
        for name, messages in problems.items():
            for message in self._fresh(name, messages):
                self.errors += 1
                _log.warning(
                    "Invalid hook server registration",
                    extra={"kv": {"problem": message, "file": name, "last_good_in_force": name in self._in_force}},
                )
        for name, reading in files.items():
            if reading.server is not None:
                for message in self._fresh(name, reading.warnings):
                    _log.warning(
                        "Hook server registration has warnings", extra={"kv": {"warning": message, "file": name}}
                    )
                self._reported[name] = set(reading.warnings)

    def _fresh(self, name: str, messages: tuple[str, ...]) -> list[str]:
        """Those that were not reported yet; now they are."""
        reported = self._reported.setdefault(name, set())
        fresh = [message for message in messages if message not in reported]
        if len(reported) > _MAX_REPORTED:
            reported.clear()
        reported.update(messages)
        return fresh


def _nothing() -> None:
    """Nobody is told before `start`."""


def _order(server: HookServer) -> tuple[int, str]:
    return server.priority, server.file


def _log_differences(before: Mapping[str, HookServer], after: Mapping[str, HookServer]) -> None:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if new is None:
            _log.info("Hook server is no longer registered", extra={"kv": {"file": name}})
        elif old is None:
            settings = {field: shown for field, shown in _shown(new).items() if shown}
            _log.info("Hook server registered", extra={"kv": {"file": name, **settings}})
        elif old != new:
            was = _shown(old)
            changes = {field: f"{was[field]} -> {now}" for field, now in _shown(new).items() if now != was[field]}
            _log.info("Hook server registration changed", extra={"kv": {"file": name, **changes}})


def _shown(server: HookServer) -> dict[str, str]:
    """What a registration says, in short."""
    return {
        "endpoint": server.endpoint,
        "policy": server.failure_policy.value,
        "hooks": ",".join(point.value for point in HookPoint if point in server.hooks),
        "priority": str(server.priority),
        "timeout": "" if server.timeout is None else show_duration(server.timeout),
        "selector": "; ".join(f"{key}={part}" for key, part in server.selector.document().items()),
    }


def registration_collector(registrations: Registrations) -> Callable[[], Iterable[Family]]:
    """Registration files."""

    def collect() -> Iterable[Family]:
        yield Family(
            "interpose_hook_registrations", "gauge", "Hook servers in force.", [Sample(len(registrations.servers))]
        )
        yield Family(
            "interpose_hook_registrations_unusable",
            "gauge",
            "Registration files that cannot be used now; the last good version of each, if any, stays in force. A "
            "directory that cannot be read counts as one.",
            [Sample(len(registrations.problems))],
        )
        yield Family(
            "interpose_hook_registration_errors_total",
            "counter",
            "Problems found in registration files so far; `interpose hooks list` has the present ones.",
            [Sample(registrations.errors)],
        )

    return collect
