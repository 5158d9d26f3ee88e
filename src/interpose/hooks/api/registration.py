"""Registration files: the text of one file in, a hook server out, and back.

The three keys of Koordinator's format mean what they mean there; keys match without regard to case, as in Go. What is
wrong is an error that names file, key and value, and all of it is reported at once. What is only strange is a warning:
an unknown key, as long as it is not a misspelling of a known one.

Pure, and safe with any text: the outcome is a `ParsedRegistration` or a ConfigError, of a size that has nothing to do
with the size of the text. Invariant: what `render_registration` writes, `parse_registration` reads back to the same
value.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from interpose.config.endpoint import MAX_PATH_BYTES, parse_endpoint
from interpose.config.strict_json import Object, Whole, describe, expect, read_object
from interpose.config.values import duration, integer, refuse, show_duration
from interpose.core.model.resources import empty_map
from interpose.core.model.text import did_you_mean, one_edit_apart, quoted
from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint

SUFFIX = ".json"
DEFAULT_PRIORITY = 100

# Koordlet knows this name and may write it, but no call of the runtime belongs to it.
NEVER_CALLED = "PreRemoveRunPodSandbox"

_PRIORITY = integer(0, 1000)
# A plugin that takes more than a minute would outlive the kubelet's timeout for the call it belongs to.
_TIMEOUT = duration(0.001, 60.0)
# Far above any real file; the bounds keep a list of mistakes readable and its making short.
_MAX_KEYS = 64
_MAX_ENTRIES = 256
_MAX_ENDPOINT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Selects the pods a hook server is called for. All non-empty parts must match."""

    namespaces: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=empty_map, hash=False)
    runtime_handlers: frozenset[str] = frozenset()  # the default handler is the empty name

    def matches(self, namespace: str, labels: Mapping[str, str], runtime_handler: str) -> bool:
        """Whether a pod with these properties is selected."""
        return (
            (not self.namespaces or namespace in self.namespaces)
            and (not self.runtime_handlers or runtime_handler in self.runtime_handlers)
            and all(labels.get(name) == value for name, value in self.labels.items())
        )

    def document(self) -> dict[str, Any]:
        """The non-empty parts, under their keys in the file."""
        parts = {
            "namespaces": sorted(self.namespaces),
            "labels": dict(sorted(self.labels.items())),
            "runtime-handlers": sorted(self.runtime_handlers),
        }
        return {key: part for key, part in parts.items() if part}


EVERY_POD = Selector()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookServer:
    """A registered hook server. One without hooks registers nothing: so does a koordlet with all its stages off."""

    name: str  # of the file, without .json
    file: str
    endpoint: str  # absolute path of its socket
    hooks: frozenset[HookPoint] = frozenset()
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    priority: int = DEFAULT_PRIORITY  # lower is called first
    timeout: float | None = None  # seconds for one call; None: as the relay's settings say
    selector: Selector = EVERY_POD


class ParsedRegistration(NamedTuple):
    """The hook server of a usable file, and warnings about the file."""

    server: HookServer
    warnings: tuple[str, ...]


def parse_registration(text: str, file: str) -> ParsedRegistration:
    """Read the text of `file`; ConfigError with every problem if it cannot be used."""
    where = f"file {file}"
    notes = _Notes(where)
    found = _read(read_object(text, where, lined=True), _READERS, where, notes, notes.warnings)
    if "remote-endpoint" not in found:
        notes.problems.append(f"{where}: remote-endpoint: is missing, expected {_ENDPOINT}")
    if not found.get("runtime-hooks", ()) and not notes.problems:
        notes.warnings.append(f"{where}: runtime-hooks: names no hook point, the file registers nothing")
    if notes.problems:
        raise ConfigError(notes.problems)
    values = {_FIELDS[key]: value for key, value in found.items()}
    return ParsedRegistration(HookServer(name=server_name_of(file), file=file, **values), tuple(notes.warnings))


def render_registration(server: HookServer) -> str:
    """The text of a registration file; defaults are left out, except for the three keys of Koordinator's format."""
    document: dict[str, Any] = {
        "remote-endpoint": server.endpoint,
        "failure-policy": server.failure_policy.value,
        "runtime-hooks": [point.value for point in HookPoint if point in server.hooks],
    }
    if server.priority != DEFAULT_PRIORITY:
        document["priority"] = server.priority
    if server.timeout is not None:
        document["timeout"] = show_duration(server.timeout)
    if selector := server.selector.document():
        document["selector"] = selector
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def server_name_of(file: str) -> str:
    """The name of the hook server a file registers."""
    return file.rpartition("/")[2].removesuffix(SUFFIX)


@dataclass(slots=True)
class _Notes:
    """Problems and warnings found in one file."""

    where: str  # the file
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def collect_problems(self) -> Iterator[None]:
        """Add a ConfigError of the body to the problems instead of raising it."""
        try:
            yield
        except ConfigError as error:
            self.problems += error.problems


def _read(
    document: Object,
    readers: "Mapping[str, _Reader]",
    where: str,
    notes: _Notes,
    unknown: list[str],
    group: str = "",
) -> dict[str, Any]:
    """Read every entry that has a reader, None where that failed. A null value counts as absent, as in Go.

    `unknown` is the list that unknown keys go to; `group` is the key of this group, with a colon.
    """
    if len(document.pairs) > _MAX_KEYS:
        raise ConfigError(f"{where}: has {len(document.pairs)} keys, this is not a registration file")
    by_folded = {key.casefold(): key for key in readers}
    seen_keys: set[str] = set()
    values: dict[str, Any] = {}
    for (name, value), line in zip(document.pairs, document.lines, strict=True):
        location = f"{notes.where} line {line}: {group}"
        folded = name.casefold()
        key = by_folded.get(folded)
        if folded in seen_keys:
            notes.problems.append(f"{location}{quoted(name)} is given twice")
        elif key is None:
            # With a misspelled key the default of that key would be in force: Ignore, where Fail was written.
            slip = any(one_edit_apart(folded, known_key) for known_key in by_folded)
            text = f"{location}{quoted(name)} is not a known key{did_you_mean(name, readers)}"
            (notes.problems if slip else unknown).append(text)
        elif value is not None:
            values[key] = None
            with notes.collect_problems():
                values[key] = readers[key](value, f"{location}{key}", notes)
        seen_keys.add(folded)
    return values


# One reader per key: (value, where, notes) -> the field. It raises for the one thing that is wrong, or notes several.


def _text(value: Any, where: str) -> str:
    text: str = expect(value, where, str)
    if not text.isprintable():  # NUL, line ends, half of a surrogate pair
        raise refuse(where, text, "holds a character that cannot be printed")
    return text


def _endpoint(value: Any, where: str, _: _Notes) -> str:
    text = _text(value, where)
    if len(text) > _MAX_ENDPOINT:
        raise refuse(
            where, text, f"is {len(text)} characters long, a unix socket path may have at most {MAX_PATH_BYTES} bytes"
        )
    return parse_endpoint(text, where)


def _policy(value: Any, where: str, _: _Notes) -> FailurePolicy:
    text = _text(value, where)
    if not text:
        return FailurePolicy.IGNORE
    if text not in list(FailurePolicy):
        raise refuse(where, text, f"is neither Fail nor Ignore{did_you_mean(text, FailurePolicy)}")
    return FailurePolicy(text)


def _hooks(value: Any, where: str, notes: _Notes) -> frozenset[HookPoint]:
    known = {point.value: point for point in HookPoint}
    points: set[HookPoint] = set()
    for location, name in _strings(value, where, notes):
        if name == NEVER_CALLED:
            notes.warnings.append(f"{location}: {name!r} is never called, it has no effect")
        elif name not in known:
            notes.problems.append(f"{location}: {quoted(name)} is not a hook point{did_you_mean(name, known)}")
        elif known[name] in points:
            notes.warnings.append(f"{location}: {name!r} is given twice")
        else:
            points.add(known[name])
    return frozenset(points)


def _selector(value: Any, where: str, notes: _Notes) -> Selector:
    document = expect(value, where, Object)
    # A key that is not understood would select more pods than its author meant: here it is an error.
    parts = _read(document, _SELECTOR_READERS, where, notes, notes.problems, "selector: ")
    return Selector(**{key.replace("-", "_"): part for key, part in parts.items()})


def _namespaces(value: Any, where: str, notes: _Notes) -> frozenset[str]:
    names = frozenset(_names(value, where, notes))
    if "" in names:
        notes.problems.append(f"{where}: '' is not the name of a namespace")
    return names


def _names(value: Any, where: str, notes: _Notes) -> frozenset[str]:
    return frozenset(text for _, text in _strings(value, where, notes))


def _labels(value: Any, where: str, notes: _Notes) -> Mapping[str, str]:
    pairs: Sequence[tuple[str, Any]] = expect(value, where, Object).pairs
    _limit(pairs, where)
    values: dict[str, str] = {}
    for name, text in pairs:
        location = f"{where}[{quoted(name)}]"
        with notes.collect_problems():
            if not _text(name, location) or name in values:
                raise ConfigError(f"{location}: " + ("is given twice" if name else "is not the name of a label"))
            values[name] = _text(text, location)
    return MappingProxyType(values)


def _strings(value: Any, where: str, notes: _Notes) -> Iterator[tuple[str, str]]:
    """The text entries of a list with their locations; others are added to the problems."""
    items: Sequence[Any] = expect(value, where, list)
    _limit(items, where)
    for index, item in enumerate(items):
        location, text = f"{where}[{index}]", None
        with notes.collect_problems():
            text = _text(item, location)
        if text is not None:
            yield location, text


def _limit(items: Sequence[Any], where: str) -> None:
    if len(items) > _MAX_ENTRIES:
        raise ConfigError(f"{where}: has {len(items)} entries, at most {_MAX_ENTRIES} are allowed")


def _priority(value: Any, where: str, _: _Notes) -> int:
    number: int = _PRIORITY.parse(expect(value, where, Whole), where)
    return number


def _timeout(value: Any, where: str, _: _Notes) -> float:
    if not isinstance(value, str):
        raise ConfigError(f'{where}: expected a time such as 2 or "500ms", found {describe(value)}')
    seconds: float = _TIMEOUT.parse(str(value), where)
    return seconds


_Reader = Callable[[Any, str, _Notes], Any]

_READERS: Mapping[str, _Reader] = {
    "remote-endpoint": _endpoint,
    "failure-policy": _policy,
    "runtime-hooks": _hooks,
    "priority": _priority,
    "timeout": _timeout,
    "selector": _selector,
}
_SELECTOR_READERS: Mapping[str, _Reader] = {
    "namespaces": _namespaces,
    "labels": _labels,
    "runtime-handlers": _names,
}
_FIELDS: Mapping[str, str] = {
    **{key: key.replace("-", "_") for key in _READERS},
    "remote-endpoint": "endpoint",
    "runtime-hooks": "hooks",
}
_ENDPOINT = "the socket of the hook server: /path, unix:///path or unix:/path"
