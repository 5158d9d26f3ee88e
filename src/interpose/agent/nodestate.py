"""What the hook server is told about the node: one document, made of the Node and its NodeSLO.

Only what is read there is in it, so that the heartbeats of a Node change nothing. Pure. Invariant: a NodeSLO that
cannot be used never takes the place of one that could.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from interpose.agent.choice import Seen
from interpose.kube.api import NODE_SLOS, Object

_VERSION: Final = "interpose/v1"
_KIND: Final = "NodeState"
# Our own notes on the Node, and kubectl's copy of what it applied: as long as the rest, and read by nobody.
_OWN: Final = "interpose/"
_LEFT_OUT: Final = "kubectl.kubernetes.io/last-applied-configuration"

# What is wrong with a document; nothing: it can be used.
Check = Callable[[str], Sequence[str]]


class SloPhase(StrEnum):
    """How the node stands to its NodeSLO."""

    UNKNOWN = "unknown"  # the cluster has not said yet
    NONE = "none"
    APPLIED = "applied"
    KEPT = "kept"  # it is gone, and what it said stays in force
    REJECTED = "rejected"  # the last good one stays in force


@dataclass(frozen=True, slots=True, kw_only=True)
class SloState:
    """What reports tell."""

    phase: SloPhase = SloPhase.UNKNOWN
    version: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`text` is the document, none if nothing is to be written; `good` the NodeSLO that is in force."""

    text: str | None
    slo: SloState
    good: Object | None


def decide(node: Seen, slo: Seen, *, good: Object | None, keep: bool, check: Check) -> Outcome:
    """Make the document. `good` is the NodeSLO that is in force; `keep` says that it outlives its object."""
    if not node.known or node.object is None:
        return Outcome(text=None, slo=SloState(), good=good)
    used, state = _choose(node.object, slo, good, keep, check)
    text = document(node.object, used)
    if problems := tuple(check(text)):
        # Not the NodeSLO's fault: that one was checked, or is none.
        return Outcome(text=None, slo=SloState(phase=SloPhase.REJECTED, problems=problems), good=good)
    return Outcome(text=text, slo=state, good=used)


def document(node: Object, slo: Object | None) -> str:
    """The same text for the same content."""
    metadata = _mapping(node.get("metadata"))
    annotations = _mapping(metadata.get("annotations"))
    made: dict[str, Any] = {
        "apiVersion": _VERSION,
        "kind": _KIND,
        "node": {
            "name": metadata.get("name", ""),
            "labels": dict(_mapping(metadata.get("labels"))),
            "annotations": {key: text for key, text in annotations.items() if _is_read(key)},
        },
    }
    if slo is not None:
        made["nodeSLO"] = slo
    return json.dumps(made, indent=2, sort_keys=True) + "\n"


def slo_in(text: str, node: str) -> Object | None:
    """The NodeSLO in a document of an earlier run, if it was about this node."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = _mapping(found)
    if found.get("kind") != _KIND or _mapping(found.get("node")).get("name") != node:
        return None
    return _mapping(found.get("nodeSLO")) or None


def _choose(node: Object, slo: Seen, good: Object | None, keep: bool, check: Check) -> tuple[Object | None, SloState]:
    """Which NodeSLO is in force, and what is to be said about it."""
    if not slo.known:
        return good, SloState(problems=(slo.problem,) if slo.problem else ())
    if slo.object is None:
        kept = good if keep else None
        return kept, SloState(phase=SloPhase.NONE if kept is None else SloPhase.KEPT)
    version = str(_mapping(slo.object.get("metadata")).get("resourceVersion", ""))
    candidate = _trimmed(slo.object)
    if problems := tuple(check(document(node, candidate))):
        return good, SloState(phase=SloPhase.REJECTED, version=version, problems=problems)
    return candidate, SloState(phase=SloPhase.APPLIED, version=version)


def _trimmed(slo: Object) -> Object:
    """Items of lists may lack what they are."""
    trimmed: dict[str, Any] = {
        "apiVersion": slo.get("apiVersion", NODE_SLOS.api_version),
        "kind": slo.get("kind", NODE_SLOS.kind),
        "metadata": {"name": _mapping(slo.get("metadata")).get("name", "")},
    }
    if "spec" in slo:
        trimmed["spec"] = slo["spec"]
    return trimmed


def _is_read(annotation: str) -> bool:
    return annotation != _LEFT_OUT and not annotation.startswith(_OWN)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
