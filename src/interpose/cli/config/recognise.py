"""Finds the kind of a file by its content, and by its name where that says more. Pure.

The kind a document names itself counts before its keys, keys before the form of the text. What has no kind but looks
like settings of a program is taken for them: the reader then says what is missing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from interpose.cli.compat.cri_resmgr_flags import FLAGS
from interpose.cli.compat.go_flags import split_option
from interpose.config.check import API_VERSION
from interpose.config.documents.policy_objects import is_policy_object
from interpose.config.documents.yaml import DocumentNode, parse_document, split_documents
from interpose.config.programs import PROGRAMS, program_of
from interpose.core.model.text import quoted
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import STATE_KIND, is_node_document

_SOME: Final = 0.5  # of its keys or lines, for something to be taken for what they are of


class DocumentForm(StrEnum):
    """Kinds of documents besides settings files, which are called by their own kind."""

    POLICY = "PolicyDocument"
    CONFIG_MAP = "ConfigMap"
    REGISTRATION = "Registration"
    NODE = "NodeSLO"
    OPTIONS = "OptionFile"
    POOLS = "PoolFile"


KINDS: Final = (*(program.kind for program in PROGRAMS.values()), *(form.value for form in DocumentForm))
OWN_KINDS: Final = (*(program.kind for program in PROGRAMS.values()), STATE_KIND)
_TEMPLATE: Final = "{{"  # of Helm: only what it makes can be read


def recognise(text: str, where: str, *, json_only: bool = False) -> str:
    """One of KINDS, or empty. ConfigError if the text cannot be parsed, or has our apiVersion and an unknown kind."""
    if _is_option_file(text):
        return DocumentForm.OPTIONS
    if json_only:
        return _kind(parse_document(text, where, json_only=True), where)
    try:
        documents = [parse_document(document, title) for title, document in split_documents(text, where)]
    except ConfigError:
        if _TEMPLATE in text:
            return ""
        raise
    if not documents:
        raise ConfigError(f"{where}: is empty")
    if len(documents) > 1 and any(map(_is_object, documents)):
        return DocumentForm.CONFIG_MAP
    return _kind(documents[0], where)


def _kind(root: DocumentNode, where: str) -> str:
    header = {name: node.text for name, node in root.entries}
    kind = header.get("kind", "")
    names = {name.lower() for name in header}
    if program_of(kind):
        return kind
    if is_node_document(root):
        return DocumentForm.NODE
    if is_policy_object(root):
        return DocumentForm.POLICY
    if _is_object(root):
        return DocumentForm.CONFIG_MAP
    if "remote-endpoint" in names or "runtime-hooks" in names:
        return DocumentForm.REGISTRATION
    if any(name.partition(".")[0] == "policy" for name in names) and header.get("apiVersion") != API_VERSION:
        # The relay's settings have a group of that name too, with other keys.
        return DocumentForm.POLICY if not _guess_settings(root) else PROGRAMS["relay"].kind
    if names == {"pools"}:
        return DocumentForm.POOLS
    found = _guess_settings(root)
    if not found and header.get("apiVersion") == API_VERSION:
        raise ConfigError(f"{where}: kind: {quoted(kind)} is not known, expected one of {', '.join(OWN_KINDS)}")
    return found


def _is_object(root: DocumentNode) -> bool:
    """Whether it is an object of Kubernetes, of any kind."""
    header = {name: node.text for name, node in root.entries}
    return bool(header.get("kind")) and header.get("apiVersion", "") not in ("", API_VERSION)


def _guess_settings(root: DocumentNode) -> str:
    """The kind of settings that most of these keys belong to; empty if there is none."""
    paths = _paths(root)
    shares: Mapping[str, float] = {
        program.kind: sum(path in _setting_keys(name) for path in paths) / len(paths) if paths else 0.0
        for name, program in PROGRAMS.items()
    }
    best = max(shares, key=lambda kind: shares[kind])
    return best if shares[best] > _SOME else ""


def _paths(root: DocumentNode) -> list[str]:
    """Keys with what is below them in settings: one level."""
    found = []
    for name, node in root.entries:
        if node.tag == "map":
            found += [f"{name}.{below}" for below, _ in node.entries]
        elif name not in ("apiVersion", "kind"):
            found.append(name)
    return found


def _setting_keys(program: str) -> set[str]:
    return {setting.key for setting in PROGRAMS[program].schema().table}


def _is_option_file(text: str) -> bool:
    """Whether most lines begin with an option of cri-resmgr."""
    lines = [line for line in text.splitlines() if line.strip() and line[0] not in " \t#"]
    known = sum(split_option(line)[0] in FLAGS for line in lines)
    return known > len(lines) * _SOME
