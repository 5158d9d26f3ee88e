"""Which ConfigMap is the configuration of this node, and what of it the relay is given.

One map counts, as a whole: that of the node, of its group, the default one, the plain one. Keys that are for other
nodes alone are left out, so that an edit of theirs changes nothing here; whatever the relay has something to say about
stays.

Rights are given by name, and nobody can give them for names that are made up later. So a map that we may not see is
passed over, with two exceptions that keep what a node has: it is the map that the node went by last (then nobody knows
what the cluster wants), or none of those that we may see exists, and the one that the node went by is not among those
that are known to be gone (then it may be one of the others). Which map it went by last is known to this agent, or to
the Node, on which it was noted.

Pure. Invariant: a map that is only out of sight is never taken for one that is missing.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from interpose.config.documents.policy_options import names_option
from interpose.core.model.text import quoted
from interpose.core.policy.names import NAMES
from interpose.kube.client.api import Object
from interpose.kube.client.objects import version_of

# The relay takes a message of 1 MiB. The API server's own limit for a ConfigMap is as large, without the framing.
MAX_DATA: Final = 900 * 1024
_MAX_NAME: Final = 253
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_POLICY: Final = "policy"


class ObservedObject(NamedTuple):
    """An object as far as it is known. Known without an object: it does not exist."""

    name: str
    known: bool
    object: Object | None
    problem: str = ""
    forbidden: bool = False  # we may not look at it
    current: bool = True  # what is known was confirmed by the last answer


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedConfig:
    """A configuration: where it is from, and YAML texts by key. `digest` tells one content from another."""

    source: str  # namespace/name
    version: str
    data: Mapping[str, str]
    digest: str = field(init=False, compare=False)  # computed once, used by every report

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest(self.data))

    def same(self, other: "SelectedConfig | None") -> bool:
        """Whether it says the same and is from the same map. Versions change for other reasons too."""
        return other is not None and self.source == other.source and self.data == other.data


class ChoiceResult(StrEnum):
    """Result of choosing the ConfigMap of the node."""

    WAIT = "wait"  # not enough is known
    FORBIDDEN = "forbidden"  # the map that counts may not be read, or none may
    UNSEEN = "unseen"  # none that we may see exists, and the one that the node went by may be another
    MISSING = "missing"  # there is none
    CHOSEN = "chosen"
    UNUSABLE = "unusable"  # there is one, and it cannot be sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChoice:
    """The choice. `problems` are those of the map that counts, `notes` are about maps that were passed over."""

    verdict: ChoiceResult
    chosen: SelectedConfig | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    before: str | None = None  # the map that the node went by last; empty: by none. None: nobody knows
    gone: bool = False  # it does not exist any more
    sure: bool = True  # all that is missing was missing a moment ago


@dataclass(slots=True)
class _Content:
    """Texts, problems and notes found in one map."""

    data: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def map_names(base: str, node: str, group: str) -> tuple[str, ...]:
    """Which maps may count, the first that exists does. A group that makes no name of a ConfigMap is left out."""
    names = (f"{base}.node.{node}", f"{base}.group.{group}" if group else "", f"{base}.default", base)
    return tuple(name for name in names if is_name(name))


def group_problem(base: str, group: str) -> str:
    """Why there can be no map for a group; empty if there can be one, or there is no group."""
    if not group or is_name(f"{base}.group.{group}"):
        return ""
    return f"group {quoted(group)}: no ConfigMap can be named {base}.group.{group}, so none is looked for"


def is_name(text: str) -> bool:
    """Whether a text is a valid object name."""
    return len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None


def digest(data: Mapping[str, str]) -> str:
    """Hash of a content, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(dict(data), sort_keys=True).encode()).hexdigest()


def choose(objects: Sequence[ObservedObject], *, node: str, namespace: str, before: str | None = None) -> ConfigChoice:
    """Find the map that counts. `seen` is in the order of `map_names`, `before` the map that the node went by last."""
    absent: set[str] = set()
    forbidden: list[str] = []
    sure = True
    for observed in objects:
        source = f"{namespace}/{observed.name}"
        if observed.known and observed.object is not None:
            read = _read(observed.object, source, node)
            return replace(read, notes=(*forbidden, *read.notes), before=before, gone=before in absent, sure=sure)
        if observed.known:
            absent.add(source)
            # Rights that end after a map did are of no interest any more.
            sure = sure and (observed.current or observed.forbidden)
        elif not observed.forbidden:
            return ConfigChoice(verdict=ChoiceResult.WAIT, notes=tuple(forbidden), before=before)
        else:
            # The server's words for it are with the map; they differ from one request to the next.
            forbidden.append(f"ConfigMap {source} may not be read")
            if source == before:
                return ConfigChoice(verdict=ChoiceResult.FORBIDDEN, problems=(forbidden[-1],), before=before)
    if not absent:
        verdict = ChoiceResult.FORBIDDEN if forbidden else ChoiceResult.WAIT
        return ConfigChoice(verdict=verdict, problems=tuple(forbidden), before=before)
    verdict = ChoiceResult.UNSEEN if forbidden and before != "" and before not in absent else ChoiceResult.MISSING
    return ConfigChoice(verdict=verdict, notes=tuple(forbidden), before=before, gone=before in absent, sure=sure)


def is_for_other_nodes(key: str, node: str) -> bool:
    """Whether the relay of this node passes a key over without a word, since its policy is that of another node."""
    module, _, rest = key.partition(".")
    name, _, owner = rest.partition(".")
    policy = NAMES.get(name.lower())
    if module != _POLICY or policy is None or owner in ("", node):
        return False
    # What looks like an option is a mistake or a warning, and the relay has the words for it.
    return not names_option(policy, owner.partition(".")[0])


def _read(found: Object, source: str, node: str) -> ConfigChoice:
    where = f"ConfigMap {source}"
    content = _Content()
    _texts(found.get("data"), where, node, content)
    _binary(found.get("binaryData"), where, node, content)
    size = sum(len(key.encode()) + len(text.encode("utf-8", "replace")) for key, text in content.data.items())
    if size > MAX_DATA:
        content.problems.append(f"{where}: has {size} bytes of data, at most {MAX_DATA} can be sent to the relay")
    return ConfigChoice(
        verdict=ChoiceResult.UNUSABLE if content.problems else ChoiceResult.CHOSEN,
        chosen=SelectedConfig(source=source, version=version_of(found), data=content.data),
        problems=tuple(content.problems),
        notes=tuple(content.notes),
    )


def _texts(data: Any, where: str, node: str, content: _Content) -> None:
    if not isinstance(data, Mapping):
        if data is not None:
            content.problems.append(f"{where}: data: expected texts by key")
        return
    for key in sorted(data):
        if is_for_other_nodes(key, node):
            continue
        text = data[key]
        if isinstance(text, str) and _sendable(text):
            content.data[key] = text
        else:
            content.problems.append(f"{where}: key {key}: expected text")


def _sendable(text: str) -> bool:
    """JSON can spell half a character, which no message can hold."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _binary(data: Any, where: str, node: str, content: _Content) -> None:
    """What is not UTF-8 is in a place of its own. The relay would miss it only where it looks for something."""
    for key in sorted(data) if isinstance(data, Mapping) else ():
        if key.partition(".")[0] != _POLICY:
            content.notes.append(f"{where}: key {key}: is binary, has no effect")
        elif not is_for_other_nodes(key, node):
            content.problems.append(f"{where}: key {key}: is binary (not UTF-8 text), expected text")
