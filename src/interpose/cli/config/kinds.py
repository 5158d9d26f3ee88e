"""Reads a file of any kind with the code of the program that it is for: its values, or everything wrong with it.

There is no second checker: one row per kind names the reader. What is read is kept key by key, so that two files can be
compared by what they mean. Whatever depends on the machine is a warning, as the file may be for another one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import click

from interpose.cli.config.policy_kinds import read_config_maps, read_policy, read_pool_file
from interpose.cli.config.programs import check
from interpose.cli.config.reading import NODES, DocumentPart, ReadContext, Reading, flatten, trust_warnings
from interpose.cli.config.recognise import KINDS, DocumentForm, recognise
from interpose.cli.config.sources import DocumentSource
from interpose.config.documents.yaml import MAX_FILE_BYTES
from interpose.config.effective import rows_of
from interpose.config.load import LoadedSettings, load
from interpose.config.programs import PROGRAMS
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import STATE_KIND, parse_node_document

kind_option: Final = click.option(
    "--kind",
    type=click.Choice(KINDS, case_sensitive=False),
    metavar="KIND",
    help=f"What the files are, where they do not tell: {', '.join(KINDS)}.",
)


def read(source: DocumentSource, kind: str | None, context: ReadContext) -> Reading:
    """The file as its reader has it; ConfigError with every problem."""
    reader = kind or find_kind(source)
    if not reader and source.is_found:
        return Reading(kind="", parts=(), note="nothing that is known here")
    if not reader:
        raise ConfigError(f"{source.where}: cannot tell what this is, --kind says it: {', '.join(KINDS)}")
    reading = _READERS[reader](source, context)
    if kind and not reading.kind:
        raise ConfigError(f"{source.where}: holds no {kind} that is about policies")
    return reading


def find_kind(source: DocumentSource) -> str:
    """One of KINDS; empty if neither name nor content show it."""
    if source.keys:
        return DocumentForm.CONFIG_MAP
    return recognise(source.text(), source.where, json_only=source.json_only)


# -- settings


def _settings(name: str, source: DocumentSource, context: ReadContext) -> Reading:
    schema = PROGRAMS[name].schema()
    loaded = load(
        schema, flags={}, env=context.env, path=source.name, read=lambda _path: source.document(MAX_FILE_BYTES)
    )
    return make_settings_reading(name, loaded, context.env, PROGRAMS[name].kind)


def _options(source: DocumentSource, context: ReadContext) -> Reading:
    from interpose.cli.compat.cri_resmgr import load_line
    from interpose.cli.compat.cri_resmgr_flags import read_line
    from interpose.cli.compat.go_flags import parse_options

    line = read_line(["-config", source.name], lambda _path: parse_options(source.text(MAX_FILE_BYTES), source.where))
    return make_settings_reading("relay", load_line(line, context.env), context.env, DocumentForm.OPTIONS)


def make_settings_reading(name: str, loaded: LoadedSettings, env: Mapping[str, str], kind: str) -> Reading:
    """LoadedSettings settings with the warnings of their program; ConfigError if the program refuses them."""
    warnings = (*loaded.warnings, *check(name, loaded, env))
    return Reading(kind=kind, parts=(DocumentPart(name, tuple(rows_of(loaded))),), warnings=warnings)


# -- hook servers


def _registration(source: DocumentSource, _context: ReadContext) -> Reading:
    from interpose.hooks.api.registration import parse_registration
    from interpose.hooks.dispatch.registration_files import MAX_BYTES, is_registration

    parsed = parse_registration(source.text(MAX_BYTES), source.name)
    warnings = [*parsed.warnings, *trust_warnings(source, "the relay")]
    if source.is_file and not is_registration(source.name.rpartition("/")[2]):
        warnings.append(f"{source.where}: a relay reads only names that end in .json and do not begin with a dot")
    rows = tuple(row for row in flatten(parsed.server, "", source.where) if row.key not in ("name", "file"))
    return Reading(
        kind=DocumentForm.REGISTRATION, parts=(DocumentPart("registrations", rows),), warnings=tuple(warnings)
    )


def _node(source: DocumentSource, _context: ReadContext) -> Reading:
    from interpose.hooks.server.node.node_file import MAX_BYTES

    root = source.document(MAX_BYTES)
    document = parse_node_document(root, source.name)
    is_state = any(name == "kind" and node.text == STATE_KIND for name, node in root.entries)
    return Reading(
        kind=STATE_KIND if is_state else DocumentForm.NODE,
        parts=(DocumentPart(NODES, tuple(flatten(document, "", source.where))),),
        warnings=trust_warnings(source, "the hook server"),
    )


_READERS: Final[Mapping[str, Callable[[DocumentSource, ReadContext], Reading]]] = MappingProxyType(
    {
        **{program.kind: partial(_settings, name) for name, program in PROGRAMS.items()},
        DocumentForm.POLICY: read_policy,
        DocumentForm.CONFIG_MAP: read_config_maps,
        DocumentForm.REGISTRATION: _registration,
        DocumentForm.NODE: _node,
        DocumentForm.OPTIONS: _options,
        DocumentForm.POOLS: read_pool_file,
    }
)
