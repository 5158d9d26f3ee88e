"""The hook servers in force: kept up to date with the directory of registration files.

A file that becomes invalid does not unregister its hook server: the last good version stays until there is a valid one
or the file is deleted. A directory that cannot be read or trusted changes nothing; a deleted one registers nothing.

Invariant: `servers` is replaced as a whole, in one assignment on the loop, so readers have a consistent set.
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

# Distinct problems of one file that are remembered; a file with more of them is reported again.
_MAX_REPORTED = 64

_log = logging.getLogger(__name__)


class Registrations:
    """The hook servers in force. Reads the directory at `load`, watches it from `start` until `close`."""

    def __init__(
        self, directory: str, *, uids: Collection[int] | None = None, gids: Collection[int] | None = None
    ) -> None:
        self.directory = str(Path(directory).absolute())
        self.servers: tuple[HookServer, ...] = ()
        self.problems: Mapping[str, tuple[str, ...]] = {}  # by file name; the directory's own under its path
        self.warnings: Mapping[str, tuple[str, ...]] = {}  # by file name, of files in force
        self.errors = 0  # problems reported so far
        self._trust = Trust(
            uids={0, os.getuid()} if uids is None else uids, gids={0, os.getgid()} if gids is None else gids
        )
        self._readings: Mapping[str, RegistrationFile] = {}
        self._in_force: Mapping[str, HookServer] = {}
        self._reported: dict[str, set[str]] = {}
        self._on_change: Callable[[], None] = _no_op
        self._watch: DirWatch | None = None
        self._tasks = TaskBag()
        self._is_scanning = False
        self._rescan = False

    def memory(self) -> dict[str, str]:
        """State for the next instance: registrations in force whose files cannot be used now."""
        return {name: render_registration(server) for name, server in self._in_force.items() if name in self.problems}

    def inherit(self, memory: object) -> None:
        """Take over the `memory` of the previous instance, before `load`."""
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
        """Read the directory, blocking the loop; whether `servers` changed. For the start of the program."""
        return self._apply(self._scan())

    def start(self, on_change: Callable[[], None]) -> None:
        """Watch the directory; `on_change` is called each time `servers` has changed."""
        self._on_change = on_change
        self._watch = DirWatch(self.directory, self._scan_soon)

    async def close(self) -> None:
        """Stop watching the directory; `servers` stays as it is."""
        if self._watch is not None:
            self._watch.close()
        await self._tasks.cancel()

    def _scan_soon(self) -> None:
        """Start a scan; during a scan, request one more after it."""
        self._rescan = self._is_scanning
        if not self._is_scanning:
            self._is_scanning = True
            self._tasks.spawn(self._scan_until_quiet(), name="registrations scan")

    async def _scan_until_quiet(self) -> None:
        try:
            while True:
                self._rescan = False
                if self._apply(await asyncio.to_thread(self._scan)):
                    self._on_change()
                if not self._rescan:
                    return
        finally:
            self._is_scanning = False

    def _scan(self) -> RegistrationListing:
        return list_registrations(self.directory, self._readings, self._trust)

    def _apply(self, found: RegistrationListing) -> bool:
        """Put the registrations found in force; whether `servers` changed."""
        if found.files is None:
            self._log_problems({**self.problems, self.directory: (found.problem,)}, self._readings)
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
        self._log_problems(problems, found.files)
        servers = tuple(sorted(self._in_force.values(), key=_sort_key))
        if servers == self.servers:
            return False
        self.servers = servers
        return True

    def _log_problems(self, problems: Mapping[str, tuple[str, ...]], files: Mapping[str, RegistrationFile]) -> None:
        """Log problems and warnings, each once, and forget those of files that are valid or deleted."""
        for name in self.problems.keys() - problems.keys():
            if name in files:
                _log.info("Registration file is valid again", extra={"kv": {"file": name}})
        self.problems = problems
        for name in self._reported.keys() - files.keys() - problems.keys():
            del self._reported[name]
        for name, messages in problems.items():
            for message in self._take_unreported(name, messages):
                self.errors += 1
                _log.warning(
                    "Invalid hook server registration",
                    extra={"kv": {"problem": message, "file": name, "last_good_in_force": name in self._in_force}},
                )
        for name, reading in files.items():
            if reading.server is not None:
                for message in self._take_unreported(name, reading.warnings):
                    _log.warning(
                        "Hook server registration has warnings", extra={"kv": {"warning": message, "file": name}}
                    )
                self._reported[name] = set(reading.warnings)

    def _take_unreported(self, name: str, messages: tuple[str, ...]) -> list[str]:
        """The messages that were not reported yet; from now on they count as reported."""
        reported = self._reported.setdefault(name, set())
        fresh = [message for message in messages if message not in reported]
        if len(reported) > _MAX_REPORTED:
            reported.clear()
        reported.update(messages)
        return fresh


def _no_op() -> None:
    """Callback before `start`, does nothing."""


def _sort_key(server: HookServer) -> tuple[int, str]:
    return server.priority, server.file


def _log_differences(before: Mapping[str, HookServer], after: Mapping[str, HookServer]) -> None:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if new is None:
            _log.info("Hook server is no longer registered", extra={"kv": {"file": name}})
        elif old is None:
            settings = {field: text for field, text in _log_fields(new).items() if text}
            _log.info("Hook server registered", extra={"kv": {"file": name, **settings}})
        elif old != new:
            was = _log_fields(old)
            changes = {field: f"{was[field]} -> {now}" for field, now in _log_fields(new).items() if now != was[field]}
            _log.info("Hook server registration changed", extra={"kv": {"file": name, **changes}})


def _log_fields(server: HookServer) -> dict[str, str]:
    """The settings of a registration as short texts for the log."""
    return {
        "endpoint": server.endpoint,
        "policy": server.failure_policy.value,
        "hooks": ",".join(point.value for point in HookPoint if point in server.hooks),
        "priority": str(server.priority),
        "timeout": "" if server.timeout is None else show_duration(server.timeout),
        "selector": "; ".join(f"{key}={part}" for key, part in server.selector.document().items()),
    }


def registration_collector(registrations: Registrations) -> Callable[[], Iterable[Family]]:
    """Metrics of registration files and of the hook servers in force."""

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
