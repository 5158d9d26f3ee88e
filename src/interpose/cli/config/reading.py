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


class Circumstances(NamedTuple):
    """What counts besides the file."""

    env: Mapping[str, str]
    node: str | None = None


class DocumentPart(NamedTuple):
    """One object of a file: of which family it is, how it is known among others, and what it says."""

    family: str
    rows: tuple[SettingRow, ...]
    title: str = ""  # of an object of Kubernetes: kind, namespace and name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file that can be used: what it is, what it says, what is strange about it. One without a kind is not ours.

    All but manifests are one part.
    """

    kind: str
    parts: tuple[DocumentPart, ...]
    warnings: tuple[str, ...] = ()
    note: str = ""


def flat(value: Any, key: str, origin: str) -> Iterable[SettingRow]:
    """A typed value, key by key, in the names it has here."""
    if is_dataclass(value):
        parts: Iterable[tuple[str, Any]] = ((item.name, getattr(value, item.name)) for item in fields(value))
    elif isinstance(value, Mapping):
        parts = ((str(name), value[name]) for name in sorted(value))
    else:
        if value is not None:
            yield SettingRow(key, _word(value), origin)
        return
    for name, part in parts:
        yield from flat(part, f"{key}.{name}" if key else name, origin)


def _word(value: Any) -> str:
    if isinstance(value, frozenset | set):
        return ", ".join(sorted(map(_word, value)))
    if isinstance(value, tuple):
        return ", ".join(map(_word, value))
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def doubts(source: DocumentSource, who: str) -> tuple[str, ...]:
    """Why the file would not be believed if this machine were the one it is for."""
    if not source.is_file:
        return ()
    try:
        found = examine(source.name, Trust()).doubts
    except OSError:
        return ()  # it was there a moment ago, and that is what was read
    return tuple(f"{source.where}: {doubt}, {who} refuses it" for doubt in found)
