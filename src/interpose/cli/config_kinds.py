"""Reads a file of any kind with the code of the program that it is for: what it says, or everything wrong with it.

There is no second checker: one row per kind names the reader. What is read is kept key by key, so that two files can be
compared by what they mean. Whatever depends on the machine is a warning, as the file may be for another one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.cli.config_programs import check
from interpose.cli.config_recognise import Form, recognise
from interpose.cli.config_sources import Source
from interpose.config.config_maps import placed, read_data, read_manifest
from interpose.config.document import MAX_FILE_BYTES, Node, parse_document
from interpose.config.dotted import unfold
from interpose.config.documentschema import Report
from interpose.config.effective import Row, harmless, rows_of
from interpose.config.load import Loaded, load
from interpose.config.policy_document import policy_values, read_policy_document
from interpose.config.policy_options import pool_values, read_pools
from interpose.config.programs import PROGRAMS
from interpose.host.trust import Trust, examine
from interpose.policy.names import NAMES

_POLICIES: Final = "policies"
_DEPTH: Final = 4  # of keys whose lines are looked for: policy, name, option, part of an option


class Circumstances(NamedTuple):
    """What counts besides the file."""

    env: Mapping[str, str]
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file that can be used: what it is, what it can be compared with, what it says, what is strange about it."""

    kind: str
    family: str
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()
    note: str = ""
    loaded: Loaded | None = None  # of settings


def read(source: Source, kind: str | None, around: Circumstances) -> Reading:
    """The file as its reader has it; ConfigError with every problem."""
    chosen = kind or kind_of(source)
    return _READERS[chosen](source, around)


def kind_of(source: Source) -> str:
    """What it is; ConfigError if nobody knows."""
    if source.keys:
        return Form.CONFIG_MAP
    return recognise(source.text(), source.where, json_only=source.json_only)


# -- settings


def _settings(name: str, source: Source, around: Circumstances) -> Reading:
    schema = PROGRAMS[name].schema()
    loaded = load(
        schema, flags={}, env=around.env, path=source.name, read=lambda _path: source.document(MAX_FILE_BYTES)
    )
    return settings_reading(name, loaded, around.env, PROGRAMS[name].kind)


def _options(source: Source, around: Circumstances) -> Reading:
    from interpose.cli.cri_resmgr import load_line
    from interpose.cli.cri_resmgr_flags import read_line
    from interpose.cli.option_file import parse_options

    line = read_line(["-config", source.name], lambda _path: parse_options(source.text(MAX_FILE_BYTES), source.where))
    return settings_reading("relay", load_line(line, around.env), around.env, Form.OPTIONS)


def settings_reading(name: str, loaded: Loaded, env: Mapping[str, str], kind: str) -> Reading:
    """Settings that were put together, seen by their program."""
    warnings = (*loaded.warnings, *check(name, loaded, env))
    return Reading(kind=kind, family=name, rows=tuple(rows_of(loaded)), warnings=warnings, loaded=loaded)


# -- policies


def _policy(source: Source, _around: Circumstances) -> Reading:
    # Whatever the name ends in: those of the old software end in .cfg.
    node = parse_document(source.text(MAX_FILE_BYTES), source.where, json_only=source.json_only)
    document = read_policy_document(node, source.where)
    lines = dict(_lines(unfold(node, "", _DEPTH, Report(source.where)), ""))
    rows = _rows(policy_values(document), source.name, lines)
    return Reading(
        kind=Form.POLICY,
        family=_POLICIES,
        rows=rows,
        warnings=(*document.warnings, *_doubts(source, "the relay")),
    )


def _config_maps(source: Source, around: Circumstances) -> Reading:
    if source.keys:
        return _keys(source, around)
    found = read_manifest(source.text(MAX_FILE_BYTES), source.where, around.node)
    rows: list[Row] = []
    for one in found.maps:
        prefix = f"{one.name}: " if len(found.maps) > 1 else ""
        values = ((f"{prefix}{key}", value) for key, value in policy_values(one.document))
        rows += (
            Row(key, value, _key_origin(source.name, key.removeprefix(prefix), one.lines)) for key, value in values
        )
    left = f"{len(found.others)} of {len(found.others) + len(found.maps)} objects are not about this"
    note = left if found.others else ""
    warnings = tuple(warning for one in found.maps for warning in one.warnings)
    return Reading(kind=Form.CONFIG_MAP, family=_POLICIES, rows=tuple(rows), warnings=warnings, note=note)


def _keys(source: Source, around: Circumstances) -> Reading:
    from interpose.errors import ConfigError

    try:
        document, warnings = read_data(source.keys, around.node)
    except ConfigError as error:
        raise ConfigError(placed(error.problems, source.where, {})) from None
    rows = tuple(Row(key, value, source.where) for key, value in policy_values(document))
    said = tuple(placed(warnings, source.where, {}))
    names = ", ".join(map(harmless, source.keys))
    return Reading(kind=Form.CONFIG_MAP, family=_POLICIES, rows=rows, warnings=said, note=f"keys {names}")


def _key_origin(name: str, key: str, lines: Mapping[str, int]) -> str:
    """The line of the key of the map that is about a value: `policy.static` or `policy`."""
    options = ".".join(key.split(".")[:2]).lower()
    named = [one for one in lines if one.lower() == options or one.lower().startswith(f"{options}.")]
    line = next((lines[one] for one in [*named, "policy"] if one in lines), None)
    return f"file {name}:{line}" if line else f"file {name}"


def _pools(source: Source, _around: Circumstances) -> Reading:
    node = parse_document(source.text(MAX_FILE_BYTES), source.where)
    rows = _rows(pool_values(read_pools(node, source.where)), source.name, dict(_lines(node, "")))
    return Reading(kind=Form.POOLS, family="pools", rows=rows, warnings=_doubts(source, "the relay"))


def _lines(node: Node, key: str) -> Iterable[tuple[str, int]]:
    """The line of each key of a document, by its path in lower case."""
    for name, child in node.entries:
        word = name.lower() if key != "policy" else NAMES.get(name.lower(), name.lower())
        below = f"{key}.{word}" if key else word
        if child.line:
            yield below, child.line
        yield from _lines(child, below)


def _rows(values: Iterable[tuple[str, str]], name: str, lines: Mapping[str, int]) -> tuple[Row, ...]:
    return tuple(Row(key, value, _origin(name, key, lines)) for key, value in values)


def _origin(name: str, key: str, lines: Mapping[str, int]) -> str:
    line = lines.get(key.lower().partition("[")[0])
    return f"file {name}:{line}" if line else f"default in file {name}"


# -- hook servers


def _registration(source: Source, _around: Circumstances) -> Reading:
    from interpose.dispatcher.registration_files import MAX_BYTES, is_registration
    from interpose.hookapi.registration import parse_registration

    parsed = parse_registration(source.text(MAX_BYTES), source.name)
    warnings = [*parsed.warnings, *_doubts(source, "the relay")]
    if source.is_file and not is_registration(source.name.rpartition("/")[2]):
        warnings.append(f"{source.where}: a relay reads only names that end in .json and do not begin with a dot")
    rows = tuple(row for row in _flat(parsed.server, "", source.where) if row.key not in ("name", "file"))
    return Reading(kind=Form.REGISTRATION, family="registrations", rows=rows, warnings=tuple(warnings))


def _node(source: Source, _around: Circumstances) -> Reading:
    from interpose.runtimehooks.nodedocument import STATE_KIND, parse_node_document
    from interpose.runtimehooks.nodefile import MAX_BYTES

    root = source.document(MAX_BYTES)
    document = parse_node_document(root, source.name)
    is_state = any(name == "kind" and node.text == STATE_KIND for name, node in root.entries)
    return Reading(
        kind=STATE_KIND if is_state else Form.NODE,
        family="node documents",
        rows=tuple(_flat(document, "", source.where)),
        warnings=_doubts(source, "the hook server"),
    )


def _flat(value: Any, key: str, origin: str) -> Iterable[Row]:
    """A typed value, key by key, in the names it has here."""
    if is_dataclass(value):
        parts: Iterable[tuple[str, Any]] = ((item.name, getattr(value, item.name)) for item in fields(value))
    elif isinstance(value, Mapping):
        parts = ((str(name), value[name]) for name in sorted(value))
    else:
        if value is not None:
            yield Row(key, _word(value), origin)
        return
    for name, part in parts:
        yield from _flat(part, f"{key}.{name}" if key else name, origin)


def _word(value: Any) -> str:
    if isinstance(value, frozenset | set):
        return ", ".join(sorted(map(_word, value)))
    if isinstance(value, tuple):
        return ", ".join(map(_word, value))
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _doubts(source: Source, who: str) -> tuple[str, ...]:
    """Why the file would not be believed if this machine were the one it is for."""
    if not source.is_file:
        return ()
    try:
        doubts = examine(source.name, Trust()).doubts
    except OSError:
        return ()  # it was there a moment ago, and that is what was read
    return tuple(f"{source.where}: {doubt}, {who} refuses it" for doubt in doubts)


_READERS: Final[Mapping[str, Callable[[Source, Circumstances], Reading]]] = MappingProxyType(
    {
        **{program.kind: partial(_settings, name) for name, program in PROGRAMS.items()},
        Form.POLICY: _policy,
        Form.CONFIG_MAP: _config_maps,
        Form.REGISTRATION: _registration,
        Form.NODE: _node,
        Form.OPTIONS: _options,
        Form.POOLS: _pools,
    }
)
