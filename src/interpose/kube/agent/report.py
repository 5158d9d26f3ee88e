"""Reports about the configuration of a node: a condition, an annotation, events. Pure.

Invariant: a report depends on what happened and not on when it is written, so that an agent that starts again finds its
own reports on the Node and repeats nothing. Only times and versions are left out of that comparison: the version of a
map also changes for the sake of other nodes. The annotation also tells an agent that starts again by which map the node
goes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, ObservedObject, digest
from interpose.kube.agent.node_document import SloPhase, SloState
from interpose.kube.agent.node_keys import STATUS
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.client.api import EVENTS, NODES, Object
from interpose.kube.client.objects import mapping, metadata

CONDITION: Final = "InterposeConfigured"
COMPONENT: Final = "interpose-agent"
EVENT_NAMESPACE: Final = "default"  # where those of things without a namespace are
_MAX_MESSAGE: Final = 1024  # of the API server, for events
_MAX_ANNOTATION: Final = 1000  # bytes
_MAX_SLO: Final = 200
_MAX_ERROR: Final = 4096  # bytes of each node in the status of one object
_MAX_SHOWN: Final = 5  # problems
_DIGITS: Final = 12  # of the hash of a content
_MAX_NAME: Final = 253
_LONGEST_VERSION: Final = 20  # of an object
_FIELDS: Final = ("state", "source", "hash", "message", "resourceVersion", "time")  # of the annotation
_EMPTY: Final = digest({})
# Nothing of the cluster's is in force then, or nobody knows what.
_NOT_OURS: Final = (PushPhase.KEPT, PushPhase.FORBIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedEvent:
    """Reason and message of an Event."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """The report on the Node about its configuration."""

    status: str  # of the condition
    event: ReportedEvent
    phase: str
    source: str
    version: str
    digest: str
    since: float
    generation: int = 0  # of the object that is in force, or should be
    error: str = ""  # why it is not; empty if it is


def report_of(state: PushState) -> NodeReport | None:
    """The report for a state; None if there is nothing to report yet."""
    if state.phase is PushPhase.WAITING:
        return None
    status, reason, warning = _CONDITIONS[state.phase]
    if state.phase is PushPhase.KEPT and state.problems:
        status = "Unknown"  # there may be one that we do not see
    chosen = state.chosen
    content = (chosen.digest if chosen is not None else _EMPTY if state.phase not in _NOT_OURS else "")[:_DIGITS]
    what = chosen.title if chosen is not None else "an empty configuration"
    message = _WORDS[state.phase].format(what=what, content=content)
    if state.problems:
        message = f"{message}: {_join_problems(state.problems)}"
    return NodeReport(
        status=status,
        event=ReportedEvent(reason=reason, message=clip(message, _MAX_MESSAGE), warning=warning),
        phase=state.phase.value,
        source=state.source,
        version=chosen.version if chosen is not None else "",
        digest=content,
        since=state.since,
        generation=chosen.generation if chosen is not None else 0,
        error=clip(_state_problem(state), _MAX_ERROR),
    )


def slo_problem(slo: SloState) -> str:
    """The problems of a NodeSLO, in short; empty without any."""
    return clip(_join_problems(slo.problems), _MAX_SLO)


def slo_event(slo: SloState, before: str) -> ReportedEvent | None:
    """The event for a NodeSLO whose problems were `before`; None if they are the same."""
    problems = slo_problem(slo)
    if slo.phase is SloPhase.UNKNOWN or problems == before:
        return None
    if not problems:
        return ReportedEvent(reason="NodeSLOApplied", message="nothing is wrong with the NodeSLO any more")
    message = f"NodeSLO is not used, the last good one stays in force: {_join_problems(slo.problems)}"
    return ReportedEvent(reason="NodeSLORejected", message=clip(message, _MAX_MESSAGE), warning=True)


# -- the annotation


def annotation(report: NodeReport | None, slo: SloState, node: Object) -> str:
    """JSON, below 1 KiB; empty if there is nothing to say. What is not known is as it was."""
    fields = _fields(report, slo, node)
    longest = fields | {"message": "", "resourceVersion": "0" * _LONGEST_VERSION}
    room = _MAX_ANNOTATION - len(_compact(longest).encode())
    while len(_compact(fields | {"resourceVersion": longest["resourceVersion"]}).encode()) > _MAX_ANNOTATION:
        if not fields.get("message"):
            break
        fields["message"] = clip(fields["message"], max(room, 0))
        room -= 16
    return _compact(fields) if fields else ""


def has_annotation(report: NodeReport | None, slo: SloState, node: Object) -> bool:
    """Whether the Node says the same already, no less and no more."""
    wanted = annotation(report, slo, node)
    return _without_times(read_status(node)) == _without_times(json.loads(wanted or "{}"))


def read_status(node: Object) -> Mapping[str, Any]:
    """What the annotation says now; nothing if it cannot be read."""
    text = mapping(metadata(node).get("annotations")).get(STATUS)
    try:
        return mapping(json.loads(text)) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}


def reported_source(node: Object) -> str | None:
    """The source that the node goes by, as an agent before us noted it; empty: by none. None: it did not."""
    status = read_status(node)
    source = status.get("source")
    if isinstance(source, str) and source:
        return source
    return "" if status.get("state") == PushPhase.WITHDRAWN.value else None


def annotation_patch(report: NodeReport | None, slo: SloState, node: Object) -> dict[str, Any]:
    """A merge patch of the Node."""
    return {"metadata": {"annotations": {STATUS: annotation(report, slo, node) or None}}}


def _fields(report: NodeReport | None, slo: SloState, node: Object) -> dict[str, str]:
    status = {key: text for key, text in read_status(node).items() if isinstance(text, str)}
    nodeslo = status.pop("nodeSLO", "") if slo.phase is SloPhase.UNKNOWN else slo_problem(slo)
    if report is None:
        fields = {key: status[key] for key in _FIELDS if key in status}
    else:
        fields = {
            "state": report.phase,
            "source": report.source,
            "hash": report.digest,
            "message": report.event.message,
            "resourceVersion": report.version,
            "time": timestamp(report.since),
        }
    return fields | ({"nodeSLO": clip(nodeslo, _MAX_SLO)} if nodeslo else {})


def _without_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in ("resourceVersion", "time")}


# -- the condition


def has_condition(report: NodeReport, node: Object) -> bool:
    """Whether the Node says the same already."""
    current = _condition(node)
    wanted = (report.status, report.event.reason, report.event.message)
    return (current.get("status"), current.get("reason"), current.get("message")) == wanted


def condition_patch(report: NodeReport, node: Object, wall: float) -> dict[str, Any]:
    """A strategic merge patch of the status of the Node. A condition keeps the time from which it has been so."""
    current = _condition(node)
    before = current.get("lastTransitionTime")
    kept = before if current.get("status") == report.status and isinstance(before, str) else None
    condition = {
        "type": CONDITION,
        "status": report.status,
        "reason": report.event.reason,
        "message": report.event.message,
        "lastHeartbeatTime": timestamp(wall),
        "lastTransitionTime": kept or timestamp(report.since),
    }
    return {"status": {"conditions": [condition]}}


def _condition(node: Object) -> Mapping[str, Any]:
    conditions = mapping(node.get("status")).get("conditions")
    for condition in conditions if isinstance(conditions, Sequence) else ():
        if mapping(condition).get("type") == CONDITION:
            return mapping(condition)
    return {}


# -- events


def make_event(event: ReportedEvent, node: Object, wall: float, *, once: bool = False) -> dict[str, Any]:
    """An Event about the Node. `once`: its name depends on the content only, so that there is one of it."""
    about_node = metadata(node)
    name = str(about_node.get("name", ""))
    content = {"uid": str(about_node.get("uid", "")), "reason": event.reason, "message": event.message}
    mark = f".{digest(content)[:16]}" if once else f".{int(wall * 1e9):x}"
    moment = timestamp(wall)
    about = {"kind": NODES.kind, "apiVersion": NODES.api_version, "name": name}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name[: _MAX_NAME - len(mark)].rstrip(".-") + mark, "namespace": EVENT_NAMESPACE},
        "involvedObject": about | ({"uid": about_node["uid"]} if "uid" in about_node else {}),
        "reason": event.reason,
        "message": event.message,
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": COMPONENT, "host": name},
        "reportingComponent": COMPONENT,
        "reportingInstance": name,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def repeat_event(body: Mapping[str, Any], wall: float) -> dict[str, Any]:
    """The same Event with its count increased."""
    return {**body, "count": body["count"] + 1, "lastTimestamp": timestamp(wall)}


# -- words

_CONDITIONS: Final[Mapping[PushPhase, tuple[str, str, bool]]] = {
    PushPhase.APPLIED: ("True", "ConfigApplied", False),
    PushPhase.WITHDRAWN: ("True", "ConfigWithdrawn", False),
    PushPhase.KEPT: ("True", "ConfigKept", False),
    PushPhase.FORBIDDEN: ("Unknown", "ConfigForbidden", True),
    PushPhase.REJECTED: ("False", "ConfigRejected", True),
    PushPhase.UNREACHABLE: ("Unknown", "RelayUnreachable", True),
}
_WORDS: Final[Mapping[PushPhase, str]] = {
    PushPhase.APPLIED: "{what} is in force (hash {content})",
    PushPhase.WITHDRAWN: "there is no configuration for this node, the relay has its own settings",
    PushPhase.KEPT: "no configuration for this node is to be seen, what was in force stays",
    PushPhase.FORBIDDEN: "it is not known what is wanted, what was in force stays",
    PushPhase.REJECTED: "{what} was rejected, what was in force stays (hash {content})",
    PushPhase.UNREACHABLE: "relay does not answer, {what} is wanted (hash {content})",
}


def timestamp(wall: float) -> str:
    """A time in the format of Kubernetes."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clip(text: str, most: int) -> str:
    """At most so many bytes, with a mark where something is missing; whole characters, and none that JSON escapes."""
    text = "".join(char if char.isprintable() else " " for char in text)
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode()
    return data[: max(most - 3, 0)].decode("utf-8", "ignore") + "..."[:most]


def _join_problems(problems: Sequence[str]) -> str:
    text = "; ".join(problems[:_MAX_SHOWN])
    more = len(problems) - _MAX_SHOWN
    return f"{text}; and {more} more" if more > 0 else text


def _compact(fields: Mapping[str, str]) -> str:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


_PROBLEM_TEXTS: Final[Mapping[PushPhase, str]] = {
    PushPhase.REJECTED: "the configuration was rejected",
    PushPhase.UNREACHABLE: "the relay is not reachable",
    PushPhase.FORBIDDEN: "it is not known what the configuration is",
}


def config_problem(choice: ConfigChoice, state: PushState, configs: Sequence[ObservedObject]) -> str:
    """What is wrong; empty if the node has what the cluster wants, or the cluster wants nothing."""
    if problem := _state_problem(state):
        return problem
    if choice.verdict is ChoiceResult.WAIT:
        reasons = dict.fromkeys(
            f"{observed.kind} {observed.name}: {observed.problem}" for observed in configs if observed.problem
        )
        return f"it is not known which configuration counts: {'; '.join(reasons) or 'no answer yet'}"
    if choice.verdict is ChoiceResult.CHOSEN and state.phase is not PushPhase.APPLIED:
        return "the relay has not confirmed the configuration yet"
    return ""


def _state_problem(state: PushState) -> str:
    """Why the relay does not have what the cluster wants; empty if it has, or nobody knows yet."""
    text = _PROBLEM_TEXTS.get(state.phase)
    return "" if text is None else f"{text}: {'; '.join(state.problems)}"
