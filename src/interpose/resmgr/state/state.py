"""The state of the resource manager that survives a restart, and its file format.

The file is JSON with one container per line, a version, and a checksum of the state in its shortest form: another
layout changes nothing, another value is detected. What `encode` writes `decode` reads back to the same value;
anything else is a ValueError that says what is wrong. Pure; `checkpoint` has the disk.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.resources import empty_map
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key
from interpose.resmgr.state.codec import (
    Fields,
    amounts_from_plain,
    amounts_to_plain,
    cpus,
    flag,
    grant_from_plain,
    grant_to_plain,
    items,
    key_from_plain,
    key_to_plain,
    number,
    number_map,
    text,
    text_map,
)

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEntry:
    """A container that holds a grant. Its id is empty until the runtime gave it one."""

    key: Key
    container_id: str
    grant: Grant
    amounts: Amounts
    extra_mems: CpuSet = EMPTY  # memory nodes beyond those of the grant, as these ran short


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that is saved. Entries are in the order in which they were created."""

    policy: str = ""
    fingerprint: str = ""  # of the topology they were decided on
    entries: tuple[SavedEntry, ...] = ()
    config: Mapping[str, str] = field(default_factory=empty_map)  # the last configuration that was sent to us
    config_node: str = ""  # and the node it was for
    pod_quotas: Mapping[str, int] = field(default_factory=dict)  # found in cgroups of pods before it was lifted
    reset: bool = False  # what containers hold shall be forgotten at the next start


def encode(state: State) -> bytes:
    """The file. Entries are encoded one by one, so that in a thread it does not hold up the loop."""
    entries = [_compact(_entry_to_plain(entry)) for entry in state.entries]
    # Keys in order and no spaces: with nothing but a comma between entries this is the shortest form.
    mark = '"anew":true,' if state.reset else ""
    head = f'{{{mark}"config":{_compact(dict(state.config))},"config_node":{_compact(state.config_node)},"entries":['
    quotas = f',"pod_quotas":{_compact(dict(state.pod_quotas))}' if state.pod_quotas else ""
    tail = f'],"fingerprint":{_compact(state.fingerprint)}{quotas},"policy":{_compact(state.policy)}}}'
    seal = _seal(head + ",".join(entries) + tail)
    body = ",\n".join(entries)
    return f'{{"version":{VERSION},"sha256":"{seal}","state":\n{head}\n{body}\n{tail}}}\n'.encode("ascii")


def decode(data: bytes) -> State:
    """The state in a file; ValueError that says what is wrong with it."""
    try:
        return _decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _decode(document: str) -> State:
    try:
        fields = Fields(json.loads(document), "file")
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    version = fields.get("version", number)
    if version != VERSION:
        raise ValueError(f"has version {version}, this program reads version {VERSION}")
    state: object = fields.get("state", lambda plain, _: plain)
    if fields.get("sha256", text) != _seal(_compact(state)):
        raise ValueError("is damaged: its checksum is that of something else")
    return state_from_plain(state)


def state_from_plain(plain: object, where: str = "state") -> State:
    """The state in what JSON holds; ValueError that names the key."""
    fields = Fields(plain, where)
    return State(
        policy=fields.get("policy", text),
        fingerprint=fields.get("fingerprint", text),
        entries=fields.get("entries", items(_entry_from_plain)),
        config=fields.get("config", text_map),
        config_node=fields.get("config_node", text),
        pod_quotas=fields.get("pod_quotas", number_map) if "pod_quotas" in fields else {},
        reset="anew" in fields and fields.get("anew", flag),
    )


def _entry_to_plain(entry: SavedEntry) -> dict[str, Any]:
    plain = {
        **key_to_plain(entry.key),
        "container_id": entry.container_id,
        "grant": grant_to_plain(entry.grant),
        "amounts": amounts_to_plain(entry.amounts),
    }
    return plain | ({"extra_mems": str(entry.extra_mems)} if entry.extra_mems else {})


def _entry_from_plain(plain: object, where: str) -> SavedEntry:
    fields = Fields(plain, where)
    return SavedEntry(
        key=key_from_plain(fields),
        container_id=fields.get("container_id", text),
        grant=fields.get("grant", grant_from_plain),
        amounts=fields.get("amounts", amounts_from_plain),
        extra_mems=fields.get("extra_mems", cpus) if "extra_mems" in fields else EMPTY,
    )


def _compact(plain: object) -> str:
    return json.dumps(plain, separators=(",", ":"), sort_keys=True)


def _seal(payload: str) -> str:
    return hashlib.sha256(payload.encode("ascii")).hexdigest()
