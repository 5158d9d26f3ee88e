"""What was read of one file, whatever kind it is of: object by object and key by key, so that two can be compared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from interpose.cli.config.sources import DocumentSource
from interpose.config.effective import SettingRow
from interpose.host.file_trust import Trust, examine

# Families of documents; settings are a family for each program.
POLICIES: Final = "policies"
NODES: Final = "node documents"


class ReadContext(NamedTuple):
    """What decides about the meaning of a file besides its text."""

    env: Mapping[str, str]
    node: str | None = None


class DocumentPart(NamedTuple):
    """One object of a file: its family, its title among others, and its values."""

    family: str
    rows: tuple[SettingRow, ...]
    title: str = ""  # of an object of Kubernetes: kind, namespace and name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file that can be used: its kind, its values, and warnings. A file without a kind is not ours.

    All but manifests are one part.
    """

    kind: str
    parts: tuple[DocumentPart, ...]
    warnings: tuple[str, ...] = ()
    note: str = ""


def flatten(value: Any, key: str, origin: str) -> Iterable[SettingRow]:
    """A typed value as rows, key by key, under the names of its fields."""
    if is_dataclass(value):
        parts: Iterable[tuple[str, Any]] = ((item.name, getattr(value, item.name)) for item in fields(value))
    elif isinstance(value, Mapping):
        parts = ((str(name), value[name]) for name in sorted(value))
    else:
        if value is not None:
            yield SettingRow(key, _format_value(value), origin)
        return
    for name, part in parts:
        yield from flatten(part, f"{key}.{name}" if key else name, origin)


def _format_value(value: Any) -> str:
    if isinstance(value, frozenset | set):
        return ", ".join(sorted(map(_format_value, value)))
    if isinstance(value, tuple):
        return ", ".join(map(_format_value, value))
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def trust_warnings(source: DocumentSource, who: str) -> tuple[str, ...]:
    """Why a program on this machine would refuse the file: its owner, its mode, those of its directories."""
    if not source.is_file:
        return ()
    try:
        found = examine(source.name, Trust()).doubts
    except OSError:
        return ()  # removed since it was read
    return tuple(f"{source.where}: {doubt}, {who} refuses it" for doubt in found)
