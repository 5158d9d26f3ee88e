"""The document about the node that the hook server reads, made of the Node and its NodeSLO.

Of the Node only its name, labels and annotations are in it, so that its heartbeats change nothing. Pure. Invariant: a
NodeSLO that cannot be used never takes the place of one that could.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from interpose.kube.agent.config_choice import ObservedObject
from interpose.kube.client.api import NODE_SLOS, Object
from interpose.kube.client.objects import identity, mapping, metadata, version_of

_VERSION: Final = "interpose/v1"
_KIND: Final = "NodeState"
# Our own notes on the Node, and kubectl's copy of what it applied: as long as the rest, and read by nobody.
_OWN: Final = "interpose/"
_LEFT_OUT: Final = "kubectl.kubernetes.io/last-applied-configuration"

# What is wrong with a NodeSLO or a document; nothing: it can be used.
Check = Callable[[Object], Sequence[str]]


class SloPhase(StrEnum):
    """State of the node's NodeSLO."""

    UNKNOWN = "unknown"  # the cluster has not said yet
    NONE = "none"
    APPLIED = "applied"
    KEPT = "kept"  # it is gone, and what it said stays in force
    REJECTED = "rejected"  # the last good one stays in force


@dataclass(frozen=True, slots=True, kw_only=True)
class SloState:
    """State of the NodeSLO as reports show it."""

    phase: SloPhase = SloPhase.UNKNOWN
    version: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSlo:
    """A checked NodeSLO: as it would be written, and its problems."""

    found: Object
    slo: Object
    problems: tuple[str, ...]

    def is_of(self, found: Object) -> bool:
        """Whether this object is the checked one, compared by version if it has one: a NodeSLO may be large."""
        known = identity(found)
        return found == self.found if known is None else known == identity(self.found)


def judge(found: Object, check: Check) -> CheckedSlo:
    """Check a NodeSLO. Takes long for a large one."""
    slo = _trimmed(found)
    return CheckedSlo(found=found, slo=slo, problems=tuple(check(slo)))


def slo_in_force(
    slo: ObservedObject, judged: CheckedSlo | None, *, good: Object | None, keep: bool
) -> tuple[Object | None, SloState]:
    """Which NodeSLO is in force, and what is to be said about it.

    `judged` is about the one that is seen, `good` the one in force so far; `keep` says that it outlives its object.
    """
    if not slo.known:
        return good, SloState(problems=(slo.problem,) if slo.problem else ())
    if slo.object is None or judged is None:
        kept = good if keep else None
        return kept, SloState(phase=SloPhase.NONE if kept is None else SloPhase.KEPT)
    version = version_of(slo.object)
    if judged.problems:
        return good, SloState(phase=SloPhase.REJECTED, version=version, problems=judged.problems)
    return judged.slo, SloState(phase=SloPhase.APPLIED, version=version)


def node_part(node: Object) -> dict[str, Any]:
    """The part of the document about the Node itself."""
    found = metadata(node)
    annotations = mapping(found.get("annotations"))
    return {
        "name": found.get("name", ""),
        "labels": dict(mapping(found.get("labels"))),
        "annotations": {key: text for key, text in annotations.items() if _is_read(key)},
    }


def node_state(part: Object, slo: Object | None) -> dict[str, Any]:
    """The document with the part about the Node and the NodeSLO, if there is one."""
    made: dict[str, Any] = {"apiVersion": _VERSION, "kind": _KIND, "node": part}
    return made if slo is None else made | {"nodeSLO": slo}


def text_of(state: Object) -> str:
    """The document as JSON, always the same for the same content."""
    return json.dumps(state, indent=2, sort_keys=True) + "\n"


def read_stored_slo(text: str, node: str, check: Check) -> Object | None:
    """The NodeSLO in a document of an earlier run, if it was about this node and can still be used."""
    try:
        found = mapping(json.loads(text))
    except (ValueError, RecursionError):
        return None
    if found.get("kind") != _KIND or mapping(found.get("node")).get("name") != node:
        return None
    slo = mapping(found.get("nodeSLO"))
    return slo if slo and not check(slo) else None


def _trimmed(slo: Object) -> Object:
    """The parts of a NodeSLO that are written; items of lists may lack apiVersion and kind."""
    trimmed: dict[str, Any] = {
        "apiVersion": slo.get("apiVersion", NODE_SLOS.api_version),
        "kind": slo.get("kind", NODE_SLOS.kind),
        "metadata": {"name": metadata(slo).get("name", "")},
    }
    if "spec" in slo:
        trimmed["spec"] = slo["spec"]
    return trimmed


def _is_read(annotation: str) -> bool:
    return annotation != _LEFT_OUT and not annotation.startswith(_OWN)
