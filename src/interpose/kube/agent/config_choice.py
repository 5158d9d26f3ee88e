"""Which object of the cluster is the configuration of this node, and what of it the relay is given.

One object counts, as a whole: the first that exists, kind by kind in the order of the settings, and of a kind that of
the node, of its group, the default one. Of a ConfigMap, keys that are for other nodes alone are left out, so that an
edit of theirs changes nothing here; whatever the relay has something to say about stays. Of the object of a policy, its
status and most of its metadata are left out.

Rights are given by name, and nobody can give them for names that are made up later. So an object that we may not see is
passed over, with two exceptions that keep what a node has: it is the object that the node went by last (then nobody
knows what the cluster wants), or none of those that we may see exists, and the one that the node went by is not among
those that are known to be gone (then it may be one of the others). Which one it went by last is known to this agent, or
to the Node, on which it was noted.

Pure. Invariant: an object that is only out of sight is never taken for one that is missing.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from interpose.config.documents.policy_objects import OBJECT_KEY
from interpose.config.documents.policy_options import names_option
from interpose.core.policy.names import NAMES
from interpose.kube.agent.config_kinds import RESOURCES, ConfigSource, title_of
from interpose.kube.client.api import CONFIG_MAPS, Object
from interpose.kube.client.objects import metadata, version_of

# The relay takes a message of 1 MiB. The API server's own limit for a ConfigMap is as large, without the framing.
MAX_DATA: Final = 900 * 1024
_POLICY: Final = "policy"


class ObservedObject(NamedTuple):
    """An object as far as it is known. Known without an object: it does not exist."""

    name: str
    known: bool
    object: Object | None
    problem: str = ""
    forbidden: bool = False  # we may not look at it
    current: bool = True  # what is known was confirmed by the last answer
    kind: str = CONFIG_MAPS.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedConfig:
    """A configuration: where it is from, and texts by key. `digest` tells one content from another."""

    source: str  # namespace/name, of other objects than ConfigMaps with the kind
    version: str
    data: Mapping[str, str]
    generation: int = 0  # of the object, where that counts changes of its content
    digest: str = field(init=False, compare=False)  # computed once, used by every report

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest(self.data))

    @property
    def title(self) -> str:
        """The source with its kind, for people."""
        return title_of(self.source)

    def same(self, other: "SelectedConfig | None") -> bool:
        """Whether it says the same and is from the same object. Versions change for other reasons too."""
        mine = (self.source, self.data, self.generation)
        return other is not None and mine == (other.source, other.data, other.generation)


class ChoiceResult(StrEnum):
    """Result of choosing the configuration of the node."""

    WAIT = "wait"  # not enough is known
    FORBIDDEN = "forbidden"  # the object that counts may not be read, or none may
    UNSEEN = "unseen"  # none that we may see exists, and the one that the node went by may be another
    MISSING = "missing"  # there is none
    CHOSEN = "chosen"
    UNUSABLE = "unusable"  # there is one, and it cannot be sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChoice:
    """The choice. `problems` are those of the object that counts, `notes` are about objects that were passed over."""

    verdict: ChoiceResult
    chosen: SelectedConfig | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    before: str | None = None  # the object that the node went by last; empty: by none. None: nobody knows
    gone: bool = False  # it does not exist any more
    sure: bool = True  # all that is missing was missing a moment ago


@dataclass(slots=True)
class _Content:
    """Texts, problems and notes found in one map."""

    data: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def digest(data: Mapping[str, str]) -> str:
    """Hash of a content, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(dict(data), sort_keys=True).encode()).hexdigest()


def choose(objects: Sequence[ObservedObject], *, node: str, namespace: str, before: str | None = None) -> ConfigChoice:
    """Find the object that counts: the first that exists. `before` is the source that the node went by last."""
    absent: set[str] = set()
    forbidden: list[str] = []
    sure = True
    for observed in objects:
        place = ConfigSource(observed.kind, namespace, observed.name)
        source = str(place)
        if observed.known and observed.object is not None:
            is_map = observed.kind == CONFIG_MAPS.kind
            read = _read_map(observed.object, place, node) if is_map else _read_object(observed.object, place)
            return replace(read, notes=(*forbidden, *read.notes), before=before, gone=before in absent, sure=sure)
        if observed.known:
            absent.add(source)
            # Rights that end after an object did are of no interest any more.
            sure = sure and (observed.current or observed.forbidden)
        elif not observed.forbidden:
            return ConfigChoice(verdict=ChoiceResult.WAIT, notes=tuple(forbidden), before=before)
        else:
            # The server's words for it are with the object; they differ from one request to the next.
            forbidden.append(f"{title_of(source)} may not be read")
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


def _read_map(found: Object, place: ConfigSource, node: str) -> ConfigChoice:
    source, where = str(place), title_of(str(place))
    content = _Content()
    _texts(found.get("data"), where, node, content)
    _binary(found.get("binaryData"), where, node, content)
    return _choice(content, where, SelectedConfig(source=source, version=version_of(found), data=content.data))


def _read_object(found: Object, place: ConfigSource) -> ConfigChoice:
    """The object of a policy: the relay gets what it is, where it is and its spec, as one text."""
    sent = {
        "apiVersion": RESOURCES[place.kind].api_version,
        "kind": place.kind,
        "metadata": {"namespace": place.namespace, "name": place.name},
        "spec": found.get("spec"),
    }
    source = str(place)
    content = _Content({OBJECT_KEY: json.dumps(sent, sort_keys=True)})
    generation = metadata(found).get("generation")
    chosen = SelectedConfig(
        source=source,
        version=version_of(found),
        data=content.data,
        generation=generation if isinstance(generation, int) else 0,
    )
    return _choice(content, title_of(source), chosen)


def _choice(content: _Content, where: str, chosen: SelectedConfig) -> ConfigChoice:
    size = sum(len(key.encode()) + len(text.encode("utf-8", "replace")) for key, text in content.data.items())
    if size > MAX_DATA:
        content.problems.append(f"{where}: has {size} bytes of data, at most {MAX_DATA} can be sent to the relay")
    return ConfigChoice(
        verdict=ChoiceResult.UNUSABLE if content.problems else ChoiceResult.CHOSEN,
        chosen=chosen,
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
