"""What the cluster is told about the configuration of a node: a condition, an annotation, events. Pure.

Invariant: what is told depends on what happened and not on when it was told, so that an agent that starts again finds
its own words on the Node and repeats nothing. Only times and versions are left out of that comparison: the version of a
map also changes for the sake of other nodes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from interpose.agent.choice import digest
from interpose.agent.nodenames import STATUS
from interpose.agent.nodestate import SloPhase, SloState
from interpose.agent.pushplan import Phase, State
from interpose.kube.api import EVENTS, NODES, Object

CONDITION: Final = "InterposeConfigured"
COMPONENT: Final = "interpose-agent"
EVENT_NAMESPACE: Final = "default"  # where those of things without a namespace are
_MAX_MESSAGE: Final = 1024  # of the API server, for events
_MAX_ANNOTATION: Final = 1000  # bytes
_MAX_SLO: Final = 200
_MAX_SHOWN: Final = 5  # problems
_DIGITS: Final = 12  # of the hash of a content
_MAX_NAME: Final = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something that happened, in words."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is to be seen on the Node. `nodeslo` is what is wrong with the NodeSLO; None if nobody knows yet."""

    status: str  # of the condition
    told: Told
    phase: str
    source: str
    version: str
    digest: str
    nodeslo: str | None
    since: float


def report_of(state: State, slo: SloState) -> Report | None:
    """What is to be seen; None if there is nothing to tell yet."""
    if state.phase is Phase.WAITING:
        return None
    status, reason, warning = _CONDITIONS[state.phase]
    chosen = state.chosen
    content = digest(chosen.data if chosen is not None else {})[:_DIGITS]
    source = chosen.source if chosen is not None else ""
    what = f"ConfigMap {source}" if chosen is not None else "an empty configuration"
    message = _WORDS[state.phase].format(what=what, content=content)
    if state.problems:
        message = f"{message}: {_joined(state.problems)}"
    return Report(
        status=status,
        told=Told(reason=reason, message=shortened(message, _MAX_MESSAGE), warning=warning),
        phase=state.phase.value,
        source=source,
        version=chosen.version if chosen is not None else "",
        digest=content,
        nodeslo=None if slo.phase is SloPhase.UNKNOWN else slo_problem(slo),
        since=state.since,
    )


def slo_problem(slo: SloState) -> str:
    """What is wrong with a NodeSLO, in short; empty: nothing."""
    return shortened(_joined(slo.problems), _MAX_SLO)


def slo_told(slo: SloState, before: str) -> Told | None:
    """What is to be told about a NodeSLO, if what was wrong with it before was this; None: nothing new."""
    problems = slo_problem(slo)
    if slo.phase is SloPhase.UNKNOWN or problems == before:
        return None
    if not problems:
        return Told(reason="NodeSLOApplied", message="nothing is wrong with the NodeSLO any more")
    message = f"NodeSLO is not used, the last good one stays in force: {_joined(slo.problems)}"
    return Told(reason="NodeSLORejected", message=shortened(message, _MAX_MESSAGE), warning=True)


# -- the annotation


def annotation(report: Report, node: Object) -> str:
    """JSON, below 1 KiB."""
    fields = _fields(report, node)
    fields |= {"resourceVersion": report.version, "time": timestamp(report.since)}
    room = _MAX_ANNOTATION - len(_compact(fields | {"message": ""}).encode())
    while fields["message"] and len(_compact(fields).encode()) > _MAX_ANNOTATION:
        fields["message"] = shortened(fields["message"], max(room, 0))
        room -= 16
    return _compact(fields)


def annotation_shown(report: Report, node: Object) -> bool:
    """Whether the Node says the same already."""
    shown, wanted = shown_status(node), json.loads(annotation(report, node))
    return all(shown.get(key) == text for key, text in wanted.items() if key not in ("resourceVersion", "time"))


def shown_status(node: Object) -> Mapping[str, Any]:
    """What the annotation says now; nothing if it cannot be read."""
    text = _mapping(_mapping(node.get("metadata")).get("annotations")).get(STATUS)
    try:
        return _mapping(json.loads(text)) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}


def annotation_patch(report: Report, node: Object) -> dict[str, Any]:
    """A merge patch of the Node."""
    return {"metadata": {"annotations": {STATUS: annotation(report, node)}}}


def _fields(report: Report, node: Object) -> dict[str, str]:
    nodeslo = shown_status(node).get("nodeSLO") if report.nodeslo is None else report.nodeslo
    fields = {
        "state": report.phase,
        "source": report.source,
        "hash": report.digest,
        "message": report.told.message,
    }
    return fields | ({"nodeSLO": shortened(nodeslo, _MAX_SLO)} if nodeslo and isinstance(nodeslo, str) else {})


# -- the condition


def condition_shown(report: Report, node: Object) -> bool:
    """Whether the Node says the same already."""
    shown = _condition(node)
    wanted = (report.status, report.told.reason, report.told.message)
    return (shown.get("status"), shown.get("reason"), shown.get("message")) == wanted


def condition_patch(report: Report, node: Object, wall: float) -> dict[str, Any]:
    """A strategic merge patch of the status of the Node. A condition keeps the time from which it has been so."""
    shown = _condition(node)
    before = shown.get("lastTransitionTime")
    kept = before if shown.get("status") == report.status and isinstance(before, str) else None
    condition = {
        "type": CONDITION,
        "status": report.status,
        "reason": report.told.reason,
        "message": report.told.message,
        "lastHeartbeatTime": timestamp(wall),
        "lastTransitionTime": kept or timestamp(report.since),
    }
    return {"status": {"conditions": [condition]}}


def _condition(node: Object) -> Mapping[str, Any]:
    conditions = _mapping(node.get("status")).get("conditions")
    for one in conditions if isinstance(conditions, Sequence) else ():
        if _mapping(one).get("type") == CONDITION:
            return _mapping(one)
    return {}


# -- events


def event(told: Told, node: Object, wall: float) -> dict[str, Any]:
    """An Event about the Node."""
    metadata = _mapping(node.get("metadata"))
    name = str(metadata.get("name", ""))
    mark = f".{int(wall * 1e9):x}"
    moment = timestamp(wall)
    about = {"kind": NODES.kind, "apiVersion": NODES.api_version, "name": name}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name[: _MAX_NAME - len(mark)].rstrip(".-") + mark, "namespace": EVENT_NAMESPACE},
        "involvedObject": about | ({"uid": metadata["uid"]} if "uid" in metadata else {}),
        "reason": told.reason,
        "message": told.message,
        "type": "Warning" if told.warning else "Normal",
        "source": {"component": COMPONENT, "host": name},
        "reportingComponent": COMPONENT,
        "reportingInstance": name,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


# -- words

_CONDITIONS: Final[Mapping[Phase, tuple[str, str, bool]]] = {
    Phase.APPLIED: ("True", "ConfigApplied", False),
    Phase.WITHDRAWN: ("True", "ConfigWithdrawn", False),
    Phase.REJECTED: ("False", "ConfigRejected", True),
    Phase.UNREACHABLE: ("Unknown", "RelayUnreachable", True),
}
_WORDS: Final[Mapping[Phase, str]] = {
    Phase.APPLIED: "{what} is in force (hash {content})",
    Phase.WITHDRAWN: "there is no ConfigMap for this node, the relay has its own settings",
    Phase.REJECTED: "{what} was rejected, what was in force stays (hash {content})",
    Phase.UNREACHABLE: "relay does not answer, {what} is wanted (hash {content})",
}


def timestamp(wall: float) -> str:
    """As Kubernetes writes a moment."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shortened(text: str, most: int) -> str:
    """At most so many bytes, with a mark where something is missing; whole characters, and none that JSON escapes."""
    text = "".join(char if char.isprintable() else " " for char in text)
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode()
    return data[: max(most - 3, 0)].decode("utf-8", "ignore") + "..."[:most]


def _joined(problems: Sequence[str]) -> str:
    shown = "; ".join(problems[:_MAX_SHOWN])
    more = len(problems) - _MAX_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown


def _compact(fields: Mapping[str, str]) -> str:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
