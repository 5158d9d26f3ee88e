"""Reads documents about policies, objects of policies, ConfigMaps, and files with pools, as the relay reads them.

A document means the same wherever it stands, so that one of a file can be compared with one of a ConfigMap. Keys that
it does not have are there with their defaults.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from interpose.cli.config.reading import NODES, POLICIES, DocumentPart, ReadContext, Reading, flatten, trust_warnings
from interpose.cli.config.recognise import DocumentForm
from interpose.cli.config.sources import DocumentSource
from interpose.config.documents.configmaps import ConfigMap, placed, read_data, read_manifest, text_of, title_of
from interpose.config.documents.fields import Report
from interpose.config.documents.policy import PolicyDocument, policy_values, read_policy_document, unfold
from interpose.config.documents.policy_objects import is_policy_object, read_policy_object, spec_of
from interpose.config.documents.policy_options import pool_values, read_pools
from interpose.config.documents.yaml import MAX_FILE_BYTES, DocumentNode, parse_document
from interpose.config.effective import DEFAULT, SettingRow
from interpose.core.model.text import printable
from interpose.core.policy.names import NAMES
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import SLO_KIND, parse_node_document

_POLICY: Final = "policy"
_DEPTH: Final = 4  # of keys whose lines are looked for: policy, name, option, part of an option


def read_policy(source: DocumentSource, _context: ReadContext) -> Reading:
    # Whatever the name ends in: those of the old software end in .cfg.
    node = parse_document(source.text(MAX_FILE_BYTES), source.where, json_only=source.json_only)
    trust = trust_warnings(source, "the relay")
    if is_policy_object(node):
        part, warnings = _read_object(node, source, source.where)
        return Reading(kind=text_of(node, "kind"), parts=(part,), warnings=(*warnings, *trust))
    document = read_policy_document(node, source.where)
    lines = dict(_lines(unfold(node, "", _DEPTH, Report(source.where)), ""))
    rows = _rows(policy_values(document), source.name, lines)
    return Reading(
        kind=DocumentForm.POLICY, parts=(DocumentPart(POLICIES, rows),), warnings=(*document.warnings, *trust)
    )


def _read_object(node: DocumentNode, source: DocumentSource, where: str) -> tuple[DocumentPart, tuple[str, ...]]:
    """The object of a policy, and its warnings. Its values have the keys that they have in a document."""
    document = read_policy_object(node, where)
    spec = spec_of(node)
    lines = dict(_lines(spec, f"{_POLICY}.{document.active}")) | dict(_lines(spec, _POLICY))
    lines |= {f"{_POLICY}.active": child.line for name, child in node.entries if name == "kind" and child.line}
    return DocumentPart(POLICIES, _rows(policy_values(document), source.name, lines), title_of(node)), document.warnings


def read_pool_file(source: DocumentSource, _context: ReadContext) -> Reading:
    """A file with pools of static-pools."""
    node = parse_document(source.text(MAX_FILE_BYTES), source.where)
    rows = _rows(pool_values(read_pools(node, source.where)), source.name, dict(_lines(node, "")))
    return Reading(
        kind=DocumentForm.POOLS, parts=(DocumentPart("pools", rows),), warnings=trust_warnings(source, "the relay")
    )


def default_rows(family: str) -> tuple[SettingRow, ...]:
    """The rows of an empty document of a family: all defaults."""
    values = policy_values(PolicyDocument()) if family == POLICIES else ()
    return tuple(SettingRow(key, value, DEFAULT) for key, value in values)


# -- ConfigMaps


def read_config_maps(source: DocumentSource, context: ReadContext) -> Reading:
    """Manifests, or files that are named as the keys of a map are."""
    if source.keys:
        return _read_keys(source, context)
    found = read_manifest(source.text(MAX_FILE_BYTES), source.where, context.node)
    parts = [
        DocumentPart(POLICIES, tuple(_map_rows(config_map, source, context)), config_map.title)
        for config_map in found.maps
    ]
    kinds: list[str] = [DocumentForm.CONFIG_MAP for _ in parts]
    warnings = [warning for config_map in found.maps for warning in config_map.warnings]
    problems: list[str] = []
    skipped: list[str] = []
    for manifest in found.others:
        if (kind := text_of(manifest, "kind")) == SLO_KIND:
            rows = flatten(parse_node_document(manifest, source.name), "", source.where)
            parts.append(DocumentPart(NODES, tuple(rows), title_of(manifest)))
            kinds.append(DocumentForm.NODE)
        elif is_policy_object(manifest):
            try:
                part, remarks = _read_object(manifest, source, source.where)
            except ConfigError as error:
                problems += error.problems
                continue
            parts.append(part)
            kinds.append(kind)
            warnings += remarks
        else:
            skipped.append(kind or "something without a kind")
    if problems:
        raise ConfigError(problems)
    note = f"not looked at: {', '.join(dict.fromkeys(map(printable, skipped)))}" if skipped else ""
    return Reading(
        kind=" and ".join(dict.fromkeys(kinds)),
        parts=tuple(parts),
        warnings=tuple(warnings),
        note=note,
    )


def _map_rows(config_map: ConfigMap, source: DocumentSource, context: ReadContext) -> Iterable[SettingRow]:
    for key, value in policy_values(config_map.document):
        line = config_map.lines.get(find_key(key, config_map.lines, context.node))
        yield SettingRow(key, value, f"file {source.name}:{line}" if line else DEFAULT)


def _read_keys(source: DocumentSource, context: ReadContext) -> Reading:
    try:
        document, warnings = read_data(source.keys, context.node)
    except ConfigError as error:
        raise ConfigError(placed(error.problems, source.where, {})) from None
    rows = []
    for key, value in policy_values(document):
        about = find_key(key, source.keys, context.node)
        place = f"{source.name}/{about}" if source.name.rpartition("/")[2] != about else source.name
        rows.append(SettingRow(key, value, f"file {place}" if about else DEFAULT))
    return Reading(
        kind=DocumentForm.CONFIG_MAP,
        parts=(DocumentPart(POLICIES, tuple(rows)),),
        warnings=tuple(placed(warnings, source.where, {})),
        note=f"keys {', '.join(map(printable, source.keys))}",
    )


def find_key(path: str, keys: Iterable[str], node: str | None) -> str:
    """The key of a map that a value came from: the node's own, else that of the policy, else `policy` itself."""
    policy = path.split(".")[1].lower()
    by_part: dict[tuple[str, str], str] = {}
    for key in keys:
        module, name, of_node = [*key.split(".", 2), "", ""][:3]
        if module == "policy":
            by_part[NAMES.get(name.lower(), name.lower()), of_node] = key
    own = [(policy, node)] if node else []
    return next((by_part[part] for part in [*own, (policy, ""), ("", "")] if part in by_part), "")


# -- lines


def _lines(node: DocumentNode, key: str) -> Iterable[tuple[str, int]]:
    """The line of each key of a document and of each item of its lists, by its path in lower case."""
    below_key = [(f"{key}[{index}]", child) for index, child in enumerate(node.items)]
    for name, child in node.entries:
        word = name.lower() if key != "policy" else NAMES.get(name.lower(), name.lower())
        below_key.append((f"{key}.{word}" if key else word, child))
    for below, child in below_key:
        if child.line:
            yield below, child.line
        yield from _lines(child, below)


def _rows(values: Iterable[tuple[str, str]], name: str, lines: Mapping[str, int]) -> tuple[SettingRow, ...]:
    return tuple(SettingRow(key, value, _origin(name, key, lines)) for key, value in values)


def _origin(name: str, key: str, lines: Mapping[str, int]) -> str:
    line = lines.get(key.lower()) or lines.get(key.lower().partition("[")[0])
    return f"file {name}:{line}" if line else DEFAULT
