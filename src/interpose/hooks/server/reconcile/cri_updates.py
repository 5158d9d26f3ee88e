"""Changing what CRI carries in running containers: through UpdateContainerResources, never behind the runtime's back.

A later update by anybody would put values that were written directly back to what the runtime remembers.

There are two ways. Straight to a runtime, the update carries the wanted values. Through a relay that asks us, it
carries none: the relay knows best what was asked for, starts from that and asks all its hook servers, us among them,
and the wanted values come out as they do for an update of the kubelet. Whether the relay really asked us is seen, and
whether the container has what it shall have afterwards too: who is asked after us may want something else.

A runtime may lose an update that meets the start of its container: it answers well, its record has it, the cgroup does
not. So one that was sent before a container ran is unconfirmed until its cgroup was looked at.

No update of ours is what anybody asked for; a mark tells relays so.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from interpose.core.model.cgroup import CLEAR, CRI_FIELDS, Level, Parameter, Value, cri_value, to_cri
from interpose.core.model.pod import Container, ContainerState
from interpose.core.model.resources import NO_RESOURCES
from interpose.cri.store import convert
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Calls
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.original_values import NEUTRAL, record_in_force, record_of_entry
from interpose.hooks.server.targets import ActuatorTarget
from interpose.net.grpc.status import Code, RpcError

_log = logging.getLogger(__name__)

_PARALLEL: Final = 8
_RETRIED_CODES: Final = frozenset((Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.ABORTED))


class ContainerUpdate(NamedTuple):
    """One container, what it shall have, and what is put back: there None is nothing of its own."""

    target: ActuatorTarget
    member: Container  # `requested` is what was asked for
    values: Mapping[Parameter, Value]
    restored: Mapping[Parameter, Value | None]
    plugins: Mapping[Parameter, str]


class UpdateRefusal(NamedTuple):
    """Why an update was not made. `later`: the runtime has no opinion, it was not there or did not get to it."""

    text: str
    is_temporary: bool


class ContainerUpdates:
    """Sends updates, some at a time. `asked` counts how often a relay asked us about a container's update."""

    def __init__(
        self,
        store: Store,
        call: Calls,
        journal: Journal,
        *,
        allowed: Callable[[Parameter, str], str],
        refresh: Callable[[str], Awaitable[None]],
        update_count: Callable[[str], int] | None = None,
    ) -> None:
        self._store = store
        self._call = call
        self._journal = journal
        self._allowed = allowed  # all CPUs or memory nodes below a container's parent directory
        self._refresh = refresh
        self._update_count = update_count  # None: there is no relay that would ask
        self._not_called = False
        self.sending: set[str] = set()  # containers that are being updated; they have just been looked at
        self.gone: set[str] = set()  # containers that the runtime did not know when it was last sent updates
        self.unconfirmed: set[str] = set()  # containers that were sent updates before they ran
        self.sent = 0
        self.failed = 0
        self.repeated = 0

    def confirm(self, running: Mapping[str, str], differing: Collection[str]) -> None:
        """All containers that run, with their names, and those of them that do not have what they shall have.

        Of an unconfirmed update that is not in force nobody else is the cause: it is sent once more.
        """
        for key in sorted(self.unconfirmed & running.keys()):
            if key in differing:
                self.repeated += 1
                kv = {"container": running[key]}
                _log.warning("Update was lost while the container was started and is sent again", extra={"kv": kv})
        self.unconfirmed -= running.keys() - frozenset(differing)

    async def send(self, updates: Sequence[ContainerUpdate]) -> dict[str, UpdateRefusal]:
        """Carry them out. What went wrong, by container; a container that is gone is not among it."""
        errors: dict[str, UpdateRefusal] = {}
        self.gone.clear()
        waiting = iter(updates)

        async def work() -> None:
            for update in waiting:
                if (error := await self._send(update)) is not None:
                    errors[update.target.key] = error

        await asyncio.gather(*(work() for _ in range(min(_PARALLEL, len(updates)))))
        return errors

    async def _send(self, update: ContainerUpdate) -> UpdateRefusal | None:
        self.sent += 1
        self.sending.add(update.target.key)
        if update.member.state is ContainerState.RUNNING:
            self.unconfirmed.discard(update.target.key)
        else:
            self.unconfirmed.add(update.target.key)
        try:
            if self._update_count is None:
                return await self._send_values(update)
            return await self._send_empty(update, self._update_count)
        except RpcError as error:
            if error.code is Code.NOT_FOUND:
                self.gone.add(update.target.key)
                return None
            self.failed += 1
            return UpdateRefusal(f"{error.code.name}: {error.message}", error.code in _RETRIED_CODES)
        except OSError as error:
            # What is found could not be noted down: then nothing is changed either.
            self.failed += 1
            return UpdateRefusal(f"journal: {error}", is_temporary=True)
        finally:
            self.sending.discard(update.target.key)

    async def _send_values(self, update: ContainerUpdate) -> UpdateRefusal | None:
        values = self._values_to_send(update)
        await asyncio.to_thread(self._journal_all, update, values)
        fields: dict[str, Any] = {
            CRI_FIELDS[parameter]: to_cri(parameter, value) for parameter, value in values.items()
        }
        resources = replace(NO_RESOURCES, **fields)
        await self._call("UpdateContainerResources", convert.update_resources(update.target.key, resources))
        if (record := self._store.containers.get(update.target.key)) is not None:
            resources_after = record.resources.overlay(resources)
            # What we send nobody asked for, but that is what the journal knows; here it is what there is.
            self._store.put_container(
                replace(record, resources=resources_after, requested=record.requested.overlay(resources))
            )
        return None

    async def _send_empty(self, update: ContainerUpdate, update_count: Callable[[str], int]) -> UpdateRefusal | None:
        key = update.target.key
        before = update_count(key)
        await self._call("UpdateContainerResources", convert.update_resources(key, NO_RESOURCES))
        if update_count(key) == before:
            if not self._not_called:
                self._not_called = True
                _log.warning(
                    "No relay called our hooks for an update, sending final values",
                    extra={"kv": {"container": update.target.name}},
                )
            return await self._send_values(update)
        if self._not_called:
            self._not_called = False
            _log.info("Relay calls our hooks for updates again")
        await self._refresh(key)
        if (record := self._store.containers.get(key)) is not None and (text := self._missing_value(record, update)):
            self.failed += 1
            return UpdateRefusal(text, is_temporary=False)
        return None

    def _missing_value(self, record: Container, update: ContainerUpdate) -> str:
        """What a container does not have after an update of which the relay asked us; empty if nothing is missing."""
        for parameter, value in update.values.items():
            now = cri_value(record.resources, parameter)
            if value is CLEAR or now == value:
                continue
            return f"{parameter} is {now} after an update to {value}: a later hook server or the policy sets it"
        return ""

    def _journal_all(self, update: ContainerUpdate, values: Mapping[Parameter, Value]) -> None:
        for parameter in update.values:
            if parameter in values:
                self._journal_value(update, parameter, values[parameter])

    def _journal_value(self, update: ContainerUpdate, parameter: Parameter, value: Value) -> None:
        target, plugin = update.target, update.plugins.get(parameter, "")
        entry = self._journal.get(Level.CONTAINER, target.key, parameter)
        found, before = cri_value(update.member.requested, parameter), None
        if entry is not None:
            record = self._store.containers.get(target.key, update.member)
            if record_in_force(record, parameter, record_of_entry(entry), self._whole(update, parameter)) is not None:
                before = cri_value(record.resources, parameter)  # ours still, should this update not come to be
        self._journal.supersede(target, parameter, found=found, written=value, plugin=plugin, before=before)

    def _values_to_send(self, update: ContainerUpdate) -> dict[Parameter, Value]:
        """What is sent. A set cannot be cleared, so it gets everything; that is what counts as ours then."""
        restored = {
            parameter: NEUTRAL[parameter] if value is None else value for parameter, value in update.restored.items()
        }
        values = {**restored, **update.values}
        return {
            parameter: (self._whole(update, parameter) or CLEAR) if value is CLEAR else value
            for parameter, value in values.items()
        }

    def _whole(self, update: ContainerUpdate, parameter: Parameter) -> str:
        if parameter not in (Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS):
            return ""
        return self._allowed(parameter, update.target.directory.rpartition("/")[0])
