"""What a container was asked to have, where we gave it something else: how that is known later.

Two notes tell it. The create request carries an annotation of ours with [asked, given, by whom] of each field we
changed: it lives as long as the container. What we change in a running container is in the journal. Either counts while
the container has what was given; once it has something else, somebody asked for that since, and that is the original.
Nothing here fails: a note that is damaged, or that a stranger wrote, is as good as none.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.core.model.cgroup import CLEAR, CREATE_FIELDS, UNLIMITED, Parameter, Value, cri_value, to_cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container
from interpose.core.model.resources import INT64, LinuxResources
from interpose.hooks.server.reconcile.journal_format import JournalEntry

ANNOTATION: Final = "interpose/hookserver"

# What an update writes where nothing was asked for.
NEUTRAL: Final[Mapping[Parameter, Value]] = MappingProxyType(
    {
        Parameter.CPU_SHARES: 1024,
        Parameter.CPU_QUOTA: UNLIMITED,
        Parameter.CPUSET_CPUS: CLEAR,
        Parameter.CPUSET_MEMS: CLEAR,
        Parameter.MEMORY_LIMIT: UNLIMITED,
    }
)


class ValueRecord(NamedTuple):
    """What was asked for (None: nothing), and what the container got instead.

    `before` is what it got the time before, if the last time may not have come to be.
    """

    requested: Value | None
    applied: Value
    before: Value | None = None
    plugin: str = ""
    requested_before: Value | None = None  # with `before`, if `moved`
    moved: bool = False


def note_of(requested: LinuxResources, wanted: Mapping[Parameter, Value], plugins: Mapping[Parameter, str]) -> str:
    """The annotation for a container that is created with other values than asked for; empty if there are none.

    With each the plugin that wants it: as long as that one cannot say what it wants, its value stays.
    """
    changed = {
        CREATE_FIELDS[parameter]: [
            getattr(requested, CREATE_FIELDS[parameter]),
            to_cri(parameter, value),
            plugins.get(parameter, ""),
        ]
        for parameter, value in wanted.items()
        if parameter in CREATE_FIELDS and to_cri(parameter, value) != getattr(requested, CREATE_FIELDS[parameter])
    }
    return json.dumps(changed, separators=(",", ":"), sort_keys=True) if changed else ""


def read_note(text: str) -> Mapping[Parameter, ValueRecord]:
    """What the annotation of a container says."""
    try:
        document = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    found = {parameter: _read_record(parameter, document.get(name)) for parameter, name in CREATE_FIELDS.items()}
    return {parameter: record for parameter, record in found.items() if record is not None}


def record_of_entry(entry: JournalEntry) -> ValueRecord:
    """What the journal knows of one value."""
    return ValueRecord(entry.found, entry.written, entry.before, entry.plugin, entry.found_before, entry.moved)


def record_in_force(
    container: Container, parameter: Parameter, record: ValueRecord, whole: str = ""
) -> ValueRecord | None:
    """The pair with what was asked for, if the container still has what it was given for that; None if not.

    `whole` are all CPUs or memory nodes there are for it: CRI cannot clear a set, so a cleared one is there in full.
    """
    now = cri_value(container.resources, parameter)
    if _has_value(now, record.applied, whole):
        return record
    if record.before is None or not _has_value(now, record.before, whole):
        return None
    return record._replace(requested=record.requested_before) if record.moved else record


def _has_value(now: Value | None, value: Value, whole: str) -> bool:
    if value is not CLEAR:
        return now == value
    if now is None:
        return True
    try:
        return bool(whole) and CpuSet.parse(whole) <= CpuSet.parse(str(now))
    except ValueError:
        return False


def with_requested(container: Container, notes: Mapping[Parameter, ValueRecord]) -> Container:
    """The container with the resources that were asked for; `notes` are those of what is in force."""
    if not notes:
        return container
    requested = {
        CREATE_FIELDS[parameter]: 0 if record.requested is None else to_cri(parameter, record.requested)
        for parameter, record in notes.items()
    }
    for name in (CREATE_FIELDS[Parameter.CPUSET_CPUS], CREATE_FIELDS[Parameter.CPUSET_MEMS]):
        if requested.get(name) == 0:
            requested[name] = ""
    values: dict[str, Any] = requested
    return replace(container, requested=replace(container.requested, **values))


def _read_record(parameter: Parameter, raw: object) -> ValueRecord | None:
    if not isinstance(raw, list) or len(raw) not in (2, 3):
        return None
    values, plugin = raw[:2], raw[2] if len(raw) == 3 else ""
    if not isinstance(plugin, str):
        return None
    kind = str if parameter in (Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS) else int
    if not all(type(value) is kind and (kind is str or value in INT64) for value in values):
        return None
    requested, applied = (
        cri_value(replace(_NOTHING, **{CREATE_FIELDS[parameter]: value}), parameter) for value in values
    )
    return ValueRecord(requested, CLEAR if applied is None else applied, plugin=plugin)


_NOTHING: Final = LinuxResources()
