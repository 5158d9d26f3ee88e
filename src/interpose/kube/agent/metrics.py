"""The agent's metrics, read from the parts that count."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from interpose.kube.agent.node_document import SloPhase
from interpose.kube.agent.push_state import PushPhase
from interpose.kube.agent.reporter import Reporter
from interpose.kube.agent.watches import NodeWatches
from interpose.metrics import Collector, Family, Sample

if TYPE_CHECKING:  # parts that may be off
    from interpose.kube.agent.node_file import NodeFeed
    from interpose.kube.agent.node_service import AgentSocket
    from interpose.kube.agent.pusher import Pusher
    from interpose.kube.agent.relay_client import RelayClient

_PUSHES: Final = ("accepted", "rejected", "failed")
_IN_FORCE: Final = (PushPhase.APPLIED, PushPhase.WITHDRAWN, PushPhase.KEPT)
_WRITES: Final = ("written", "failed")
_FOLLOWED: Final = {
    "lists": "Times that the objects of a kind were listed.",
    "watches": "Times that a watch was begun for objects of a kind.",
    "failures": "Lists and watches that failed, for objects of a kind.",
}


def _by(counts: Mapping[Any, int], *names: str) -> list[Sample]:
    """One sample for each key, which is a value or a tuple of values for the labels."""
    return [
        Sample(count, dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True)))
        for key, count in sorted(counts.items())
    ]


def _gauge(name: str, text: str, value: float) -> Family:
    return Family(f"interpose_agent_{name}", "gauge", text, [Sample(value)])


def api_collector(requests: Mapping[tuple[str, str], int], up: Callable[[], bool], following: NodeWatches) -> Collector:
    """The API server: whether it answers, what it was asked, and how often watches had to begin again."""

    def collect() -> Iterable[Family]:
        yield _gauge("api_up", "1 if the API server has answered lately.", int(up()))
        text = "Requests to the API server by verb and code of the answer; unreachable: there was none."
        yield Family("interpose_agent_api_requests_total", "counter", text, _by(requests, "verb", "code"))
        counts = following.counts
        for name, text in _FOLLOWED.items():
            samples = [Sample(getattr(one, name), {"kind": kind}) for kind, one in sorted(counts.items())]
            yield Family(f"interpose_agent_follow_{name}_total", "counter", text, samples)
        problems = Counter(dict.fromkeys(counts, 0))
        for kind, _, follower in following.followers:
            problems[kind] += bool(follower.problem)
        text = "Objects that cannot be followed at the moment."
        yield Family("interpose_agent_follow_problems", "gauge", text, _by(problems, "kind"))

    return collect


def config_collector(pusher: "Pusher", relay: "RelayClient") -> Collector:
    """The configuration and the relay that gets it."""

    def collect() -> Iterable[Family]:
        text = "Configurations that were sent to the relay, by what became of them."
        counts = {result: pusher.outcomes[result] for result in _PUSHES}
        yield Family("interpose_agent_config_pushes_total", "counter", text, _by(counts, "result"))
        state = pusher.state
        text = "1 if the relay has what the cluster wants, also if that is nothing."
        yield _gauge("config_applied", text, int(state.phase in _IN_FORCE))
        text = "How the node stands to its configuration; 1 for the state that it is in."
        samples = [Sample(int(phase is state.phase), {"state": phase.value}) for phase in PushPhase]
        yield Family("interpose_agent_config_state", "gauge", text, samples)
        text = "When the relay accepted a configuration last, in seconds since 1970; 0: never since the start."
        yield _gauge("config_last_success_timestamp_seconds", text, pusher.last_success or 0)
        yield _gauge("relay_up", "1 if there is a connection to the relay's config socket.", int(relay.up))

    return collect


def feed_collector(feed: "NodeFeed") -> Collector:
    """The file for the hook server."""

    def collect() -> Iterable[Family]:
        text = "0 if the NodeSLO of this node cannot be used and an older one counts; 1 also if there is none."
        yield _gauge("nodeslo_valid", text, int(feed.slo.phase is not SloPhase.REJECTED))
        text = "Writes of the file with the state of the node by result."
        counts = {result: feed.outcomes[result] for result in _WRITES}
        yield Family("interpose_agent_node_state_writes_total", "counter", text, _by(counts, "result"))
        yield _gauge("node_state_stale", "1 if the file is not up to date.", int(bool(feed.problem)))

    return collect


def report_collector(reporter: Reporter, kinds: Iterable[str]) -> Collector:
    """Metrics of reports to the cluster. All kinds have samples from the start."""
    nothing = {(kind, result): 0 for kind in kinds for result in _WRITES}

    def collect() -> Iterable[Family]:
        text = "Reports about this node by kind and result."
        counts = nothing | dict(reporter.results)
        yield Family("interpose_agent_reports_total", "counter", text, _by(counts, "kind", "result"))
        yield _gauge("reports_pending", "Kinds of reports that still have to be written.", len(reporter.pending))

    return collect


def service_collector(served: "AgentSocket") -> Collector:
    """Metrics of calls on the agent socket."""

    def collect() -> Iterable[Family]:
        text = "Calls on the agent socket by method and gRPC code."
        calls = served.service.calls
        yield Family("interpose_agent_node_service_calls_total", "counter", text, _by(calls, "method", "code"))
        text = "Connections to the agent socket that were not let in."
        yield Family("interpose_agent_node_service_refused_total", "counter", text, [Sample(served.refused)])

    return collect
