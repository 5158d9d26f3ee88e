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

from interpose.model.cgroup import CLEAR, CREATE_FIELDS, UNLIMITED, Parameter, Value, cri_value, to_cri
from interpose.model.pod import Container
from interpose.model.resources import LinuxResources

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
_INT64: Final = range(-(1 << 63), 1 << 63)


class Given(NamedTuple):
    """What was asked for (None: nothing), and what the container got instead.

    `before` is what it got the time before, if the last time may not have come to be.
    """

    asked: Value | None
    given: Value
    before: Value | None = None
    plugin: str = ""


def note_of(asked: LinuxResources, wanted: Mapping[Parameter, Value], plugins: Mapping[Parameter, str]) -> str:
    """The annotation for a container that is created with other values than asked for; empty if there are none.

    With each the plugin that wants it: as long as that one cannot say what it wants, its value stays.
    """
    changed = {
        CREATE_FIELDS[parameter]: [
            getattr(asked, CREATE_FIELDS[parameter]),
            to_cri(parameter, value),
            plugins.get(parameter, ""),
        ]
        for parameter, value in wanted.items()
        if parameter in CREATE_FIELDS and to_cri(parameter, value) != getattr(asked, CREATE_FIELDS[parameter])
    }
    return json.dumps(changed, separators=(",", ":"), sort_keys=True) if changed else ""


def read_note(text: str) -> Mapping[Parameter, Given]:
    """What the annotation of a container says."""
    try:
        document = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    found = {parameter: _pair(parameter, document.get(name)) for parameter, name in CREATE_FIELDS.items()}
    return {parameter: pair for parameter, pair in found.items() if pair is not None}


def in_force(container: Container, parameter: Parameter, pair: Given) -> bool:
    """Whether a container still has what it was given, so that what was asked for is the original."""
    now = cri_value(container.resources, parameter)
    ours = (pair.given,) if pair.before is None else (pair.given, pair.before)
    return any(now is None if value is CLEAR else now == value for value in ours)


def as_asked(container: Container, notes: Mapping[Parameter, Given]) -> Container:
    """The container with the resources that were asked for; `notes` are those of what is in force."""
    if not notes:
        return container
    asked = {CREATE_FIELDS[one]: 0 if pair.asked is None else to_cri(one, pair.asked) for one, pair in notes.items()}
    for name in (CREATE_FIELDS[Parameter.CPUSET_CPUS], CREATE_FIELDS[Parameter.CPUSET_MEMS]):
        if asked.get(name) == 0:
            asked[name] = ""
    values: dict[str, Any] = asked
    return replace(container, requested=replace(container.requested, **values))


def _pair(parameter: Parameter, raw: object) -> Given | None:
    if not isinstance(raw, list) or len(raw) not in (2, 3):
        return None
    values, plugin = raw[:2], raw[2] if len(raw) == 3 else ""
    if not isinstance(plugin, str):
        return None
    kind = str if parameter in (Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS) else int
    if not all(type(one) is kind and (kind is str or one in _INT64) for one in values):
        return None
    asked, given = (cri_value(replace(_NOTHING, **{CREATE_FIELDS[parameter]: one}), parameter) for one in values)
    return Given(asked, CLEAR if given is None else given, plugin=plugin)


_NOTHING: Final = LinuxResources()
