"""Hooks and policies in the relay: what they need is built when the first of them needs it.

A relay without a registered hook server and without a policy stays what it is, a pass-through that has loaded neither
message classes nor the code of interception. With a policy the interceptors are built before the relay listens; the
first hook server that registers has them imported in a thread: the loop is not held while they load.
Once built they stay: the store goes on knowing what runs, and containers that were changed are still reported as asked
for.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpose.cli.relay.unused_libraries import leave_out_python_messages
from interpose.config.relay.settings import RelaySettings
from interpose.hooks.dispatch.registrations import Registrations, registration_collector
from interpose.metrics import Collector, Family
from interpose.net.grpc.transport import Hub
from interpose.relay.api import Backend
from interpose.relay.subscriptions import Subscriptions
from interpose.tasks import TaskBag

if TYPE_CHECKING:
    from interpose.cli.relay.interceptors import Interceptors
    from interpose.resmgr.service import PolicyService

_log = logging.getLogger(__name__)


class Interception:
    """Watches registrations and keeps the interceptors in step with them. `policy` is None in a relay without one."""

    def __init__(
        self,
        settings: RelaySettings,
        relay: Subscriptions,
        end_event_streams: Callable[[], int],
        hub: Hub,
        runtime: Backend,
        policy: "PolicyService | None" = None,
    ) -> None:
        self._settings = settings
        self._relay = relay
        self._end_event_streams = end_event_streams
        self._hub = hub
        self._runtime = runtime
        self._tasks = TaskBag()
        self._building = False
        self._last_error = ""  # why the import failed last
        self.hooks = settings.hooks.enabled
        self.registrations = Registrations(settings.hooks.dir)
        self.policy = policy
        self.built: Interceptors | None = None

    def load(self, memory: Mapping[str, Any] | None = None) -> None:
        """Read what is registered. Called before the relay listens: a plugin under Fail must see the first call too.

        `memory` is the state that a predecessor handed over.
        """
        memory = memory or {}
        if self.hooks:
            self.registrations.inherit(memory.get("registrations"))
            self.registrations.load()
        if self.policy is not None:
            self.policy.inherit(memory.get("policy"))
        if self.registrations.servers or self.policy is not None:
            self._build(_import_interceptors())
        if self.built is not None:
            self.built.inherit(memory)

    def start(self) -> None:
        """Start the interceptors, and watch the registration files."""
        if self.built is not None:
            self.built.start()
        if self.hooks:
            self.registrations.start(self._on_registrations)

    def memory(self) -> Mapping[str, object]:
        """State for a successor that it cannot learn elsewhere."""
        return {
            "registrations": self.registrations.memory(),
            **({} if self.policy is None else {"policy": self.policy.memory()}),
            **({} if self.built is None else self.built.memory()),
        }

    def retire(self) -> None:
        """A successor has taken over: the state on disk is written by it from now on."""
        if self.policy is not None:
            self.policy.retire()

    def tick(self) -> None:
        """Called once a second."""
        if self.built is not None:
            self.built.tick()
        else:
            self._build_soon()  # again, if it failed: a hook server under Fail would not be called otherwise

    def collectors(self) -> list[Collector]:
        """Collectors of the metrics of registrations and interceptors."""
        registered = [registration_collector(self.registrations)] if self.hooks else []
        return [*registered, self._collect_calls]

    def _collect_calls(self) -> Iterable[Family]:
        return () if self.built is None else self.built.collect()

    def summary(self) -> dict[str, object]:
        """The part of a status about hooks."""
        return {
            "directory": self.registrations.directory,
            "registered": len(self.registrations.servers),
            "files_with_problems": len(self.registrations.problems),
        }

    def view(self) -> dict[str, object]:
        """The answer of the admin socket about hooks."""
        registered = self.registrations
        # A directory that cannot be trusted or read leaves everything in force that was.
        in_force = {Path(server.file).name for server in registered.servers}
        if registered.servers:
            in_force.add(registered.directory)
        return {
            "directory": registered.directory,
            "plugins": [],
            "problems": [
                {"file": name, "messages": list(messages), "in_force": name in in_force}
                for name, messages in sorted(registered.problems.items())
            ],
            "warnings": [
                {"file": name, "messages": list(messages)} for name, messages in sorted(registered.warnings.items())
            ],
            "store": {"pods": 0, "containers": 0, "pending": 0},
            **({} if self.built is None else self.built.view()),
        }

    def _on_registrations(self) -> None:
        if self.built is not None:
            self.built.update(self.registrations.servers)
        else:
            self._build_soon()

    def _build_soon(self) -> None:
        if self.registrations.servers and not self._building:
            self._building = True
            self._tasks.spawn(self._build_later(), name="load the code of hooks")

    async def _build_later(self) -> None:
        try:
            self._build(await asyncio.to_thread(_import_interceptors))
        except Exception as error:
            # No descriptor left, or files that an upgrade is replacing. The next tick tries again; logged once.
            if repr(error) != self._last_error:
                self._last_error = repr(error)
                _log.error("Failed to load the hook dispatcher, hook servers are not called", exc_info=error)
        finally:
            self._building = False
        if self.built is not None:
            self.built.start()
            # Event streams that began before cannot be corrected: their clients shall subscribe again.
            if ended := self._end_event_streams():
                _log.info("Event streams closed so that clients subscribe again", extra={"kv": {"streams": ended}})

    def _build(self, make: "Callable[..., Interceptors]") -> None:
        self.built = make(self._settings, self._relay, self._hub, self._runtime, self.policy)
        self.built.update(self.registrations.servers)

    async def close(self) -> None:
        """Stop watching, and close the interceptors."""
        await self._tasks.cancel()
        await self.registrations.close()
        if self.built is not None:
            await self.built.close()


def _import_interceptors() -> "Callable[..., Interceptors]":
    leave_out_python_messages()
    from interpose.cli.relay.interceptors import Interceptors

    return Interceptors
