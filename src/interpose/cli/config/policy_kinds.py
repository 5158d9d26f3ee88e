"""Reads what is about policies: documents, ConfigMaps, and files with pools. As the relay reads them.

A document means the same wherever it stands, so that one of a file can be compared with one of a ConfigMap. What it
does not say has its default there.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from interpose.cli.config.reading import NODES, POLICIES, Circumstances, DocumentPart, Reading, doubts, flat
from interpose.cli.config.recognise import DocumentForm
from interpose.cli.config.sources import DocumentSource
from interpose.config.documents.configmaps import ConfigMap, placed, read_data, read_manifest, text_of, title_of
from interpose.config.documents.fields import Report
from interpose.config.documents.policy import PolicyDocument, policy_values, read_policy_document, unfold
from interpose.config.documents.policy_options import pool_values, read_pools
from interpose.config.documents.yaml import MAX_FILE_BYTES, DocumentNode, parse_document
from interpose.config.effective import DEFAULT, SettingRow
from interpose.core.model.text import printable
from interpose.core.policy.names import NAMES
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import SLO_KIND, parse_node_document

_FORMS: Final[Mapping[str, str]] = MappingProxyType({POLICIES: DocumentForm.CONFIG_MAP, NODES: DocumentForm.NODE})
_DEPTH: Final = 4  # of keys whose lines are looked for: policy, name, option, part of an option


def policy_reading(source: DocumentSource, _around: Circumstances) -> Reading:
    """A policy document."""
    # Whatever the name ends in: those of the old software end in .cfg.
    node = parse_document(source.text(MAX_FILE_BYTES), source.where, json_only=source.json_only)
    document = read_policy_document(node, source.where)
    lines = dict(_lines(unfold(node, "", _DEPTH, Report(source.where)), ""))
    rows = _rows(policy_values(document), source.name, lines)
    warnings = (*document.warnings, *doubts(source, "the relay"))
    return Reading(kind=DocumentForm.POLICY, parts=(DocumentPart(POLICIES, rows),), warnings=warnings)


def pools_reading(source: DocumentSource, _around: Circumstances) -> Reading:
    """A file with pools of static-pools."""
    node = parse_document(source.text(MAX_FILE_BYTES), source.where)
    rows = _rows(pool_values(read_pools(node, source.where)), source.name, dict(_lines(node, "")))
    return Reading(kind=DocumentForm.POOLS, parts=(DocumentPart("pools", rows),), warnings=doubts(source, "the relay"))


def nothing_said(family: str) -> tuple[SettingRow, ...]:
    """What an empty document of a family means, for comparing."""
    values = policy_values(PolicyDocument()) if family == POLICIES else ()
    return tuple(SettingRow(key, value, DEFAULT) for key, value in values)


# -- ConfigMaps


def map_reading(source: DocumentSource, around: Circumstances) -> Reading:
    """Manifests, or files that are named as the keys of a map are."""
    if source.keys:
        return _of_keys(source, around)
    found = read_manifest(source.text(MAX_FILE_BYTES), source.where, around.node)
    parts = [DocumentPart(POLICIES, tuple(_map_rows(one, source, around)), one.title) for one in found.maps]
    others: list[str] = []
    for one in found.others:
        if (kind := text_of(one, "kind")) == SLO_KIND:
            rows = flat(parse_node_document(one, source.name), "", source.where)
            parts.append(DocumentPart(NODES, tuple(rows), title_of(one)))
        else:
            others.append(kind or "something without a kind")
    note = f"not looked at: {', '.join(dict.fromkeys(map(printable, others)))}" if others else ""
    return Reading(
        kind=" and ".join(dict.fromkeys(_FORMS[part.family] for part in parts)),
        parts=tuple(parts),
        warnings=tuple(warning for one in found.maps for warning in one.warnings),
        note=note,
    )


def _map_rows(one: ConfigMap, source: DocumentSource, around: Circumstances) -> Iterable[SettingRow]:
    for key, value in policy_values(one.document):
        line = one.lines.get(about_key(key, one.lines, around.node))
        yield SettingRow(key, value, f"file {source.name}:{line}" if line else DEFAULT)


def _of_keys(source: DocumentSource, around: Circumstances) -> Reading:
    try:
        document, warnings = read_data(source.keys, around.node)
    except ConfigError as error:
        raise ConfigError(placed(error.problems, source.where, {})) from None
    rows = []
    for key, value in policy_values(document):
        about = about_key(key, source.keys, around.node)
        place = f"{source.name}/{about}" if source.name.rpartition("/")[2] != about else source.name
        rows.append(SettingRow(key, value, f"file {place}" if about else DEFAULT))
    return Reading(
        kind=DocumentForm.CONFIG_MAP,
        parts=(DocumentPart(POLICIES, tuple(rows)),),
        warnings=tuple(placed(warnings, source.where, {})),
        note=f"keys {', '.join(map(printable, source.keys))}",
    )


def about_key(path: str, keys: Iterable[str], node: str | None) -> str:
    """The key of a map that a value came from: the node's own, else that of the policy, else `policy` itself."""
    policy = path.split(".")[1].lower()
    by_part: dict[tuple[str, str], str] = {}
    for key in keys:
        module, name, of_node = [*key.split(".", 2), "", ""][:3]
        if module == "policy":
            by_part[NAMES.get(name.lower(), name.lower()), of_node] = key
    wanted = [(policy, node)] if node else []
    return next((by_part[one] for one in [*wanted, (policy, ""), ("", "")] if one in by_part), "")


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
