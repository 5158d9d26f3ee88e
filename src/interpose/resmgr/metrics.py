"""Metrics of policies. The tracker is read at a scrape; nothing is counted here."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from interpose.core.policy.pool_report import report_pools
from interpose.metrics import Family, Sample
from interpose.resmgr.allocations import Allocations
from interpose.resmgr.config.server import ConfigOutcome, ConfigServer
from interpose.resmgr.control.cold_starts import ColdStarts
from interpose.resmgr.control.memory_watch import MemoryWatch, WideningCause
from interpose.resmgr.interceptor import PolicyInterceptor
from interpose.resmgr.pool_balancer import PoolBalancer
from interpose.resmgr.publish.publisher import Publisher, PublishResult
from interpose.resmgr.state.checkpoint import Checkpoint


def policy_collector(interceptor: PolicyInterceptor) -> Callable[[], Iterable[Family]]:
    """A collector of decisions, updates, pools and failures."""

    def collect() -> Iterable[Family]:
        tracker, counters = interceptor.tracker, interceptor.counters
        allocations, updaters = tracker.allocations, tracker.updaters
        yield Family(
            "interpose_policy_info",
            "gauge",
            "The policy in force; always 1.",
            [Sample(1, {"policy": tracker.configuration.policy})],
        )
        yield Family(
            "interpose_policy_decisions_total",
            "counter",
            "Decisions by what was decided about and how.",
            [
                Sample(n, {"action": action, "outcome": outcome})
                for (action, outcome), n in sorted(allocations.outcomes.items())
            ],
        )
        yield Family(
            "interpose_policy_updates_total",
            "counter",
            "Updates of running containers that the policy sent, by result.",
            [Sample(n, {"result": result}) for result, n in sorted(updaters.results.items())],
        )
        yield Family(
            "interpose_policy_repairs_total",
            "counter",
            "Containers that did not have what was written, or perhaps not, and were written again; by what showed it.",
            [Sample(updaters.repairs[where], {"shown_by": where}) for where in ("start", "runtime", "cgroup")],
        )
        yield Family(
            "interpose_policy_failures_total",
            "counter",
            "Calls without a policy decision; their containers got shared CPUs.",
            # At zero from the start: a counter that appears with its first event hides that event.
            [
                Sample(counters.failures[method], {"method": method})
                for method in sorted({*interceptor.methods, *counters.failures})
            ],
        )
        yield Family(
            "interpose_policy_overrides_total",
            "counter",
            "Values of others that the policy replaced.",
            [Sample(n, {"field": field, "wanted_by": who}) for (field, who), n in sorted(counters.overrides.items())],
        )
        yield Family(
            "interpose_policy_late_total",
            "counter",
            "Containers that got CPUs before all others had given them up.",
            [Sample(counters.late)],
        )
        yield Family(
            "interpose_policy_overlap_seconds",
            "histogram",
            "How long containers had CPUs of their own that others had not given up yet, where that happened.",
            [tracker.overlaps.seconds],
        )
        yield Family(
            "interpose_policy_pool_cpus",
            "gauge",
            "CPUs in each pool.",
            [Sample(len(cpus), {"pool": name}) for name, cpus in sorted(allocations.policy.pools().items())],
        )
        users = _list_users(allocations)
        yield Family(
            "interpose_policy_pool_containers",
            "gauge",
            "Containers that use each pool.",
            [Sample(len(requested), {"pool": name}) for name, requested in users.items()],
        )
        yield Family(
            "interpose_policy_pool_requested_cpus",
            "gauge",
            "CPUs that the containers of each pool request, besides those of their own.",
            [Sample(sum(requested) / 1000, {"pool": name}) for name, requested in users.items()],
        )
        grants = allocations.policy.state.grants.values()
        for name, value, text in (
            ("containers", len(allocations.by_key), "Containers known to the policy."),
            ("exclusive_cpus", sum(len(grant.exclusive) for grant in grants), "CPUs that one container has alone."),
            (
                "failing_containers",
                sum(1 for updater in updaters.by_key.values() if updater.error),
                "Containers not in step.",
            ),
            ("confirmed_containers", tracker.cgroups.confirmed, "Containers whose cgroup was seen to be as wanted."),
            ("unlimited_pods", len(tracker.pod_quotas.lifted), "Pods whose CFS quota is lifted."),
            (
                "failing_pods",
                len(tracker.pod_quotas.problems),
                "Pods whose CFS quota could not be lifted or put back.",
            ),
            ("contested_containers", len(updaters.list_contested()), "Containers whose values somebody else replaces."),
            ("without_place", len(allocations.without_place), "Running containers the policy could not take."),
            (
                "without_room",
                len(allocations.deferred),
                "Running containers resized to more than the policy could grant.",
            ),
            ("ready", int(tracker.ready.is_set()), "1 if everything that ran at the start was taken over."),
        ):
            yield Family(f"interpose_policy_{name}", "gauge", text, [Sample(value)])

    return collect


def _list_users(allocations: Allocations) -> Mapping[str, Sequence[int]]:
    """What the containers in each pool request besides CPUs of their own, in thousandths of a CPU."""
    policy = allocations.policy
    found: dict[str, list[int]] = {name: [] for name in sorted(policy.pools())}
    for pool in report_pools(policy):
        found[pool.name] = [
            max(0, allocations.by_key[key].request.milli - 1000 * len(policy.state.grants[key].exclusive))
            for key in pool.containers
        ]
    return found


def state_collector(checkpoint: Checkpoint, server: ConfigServer | None) -> Callable[[], Iterable[Family]]:
    """A collector of writes of the state file and configurations of agents."""

    def collect() -> Iterable[Family]:
        yield Family(
            "interpose_policy_state_writes_total",
            "counter",
            "Writes of the state file by result.",
            [Sample(checkpoint.saved, {"result": "ok"}), Sample(checkpoint.failed, {"result": "failed"})],
        )
        text = "1 if the state file is not up to date."
        yield Family("interpose_policy_state_dirty", "gauge", text, [Sample(int(checkpoint.dirty))])
        outcomes = {} if server is None else server.outcomes
        yield Family(
            "interpose_policy_configurations_total",
            "counter",
            "Configurations that agents sent, by what became of them.",
            [Sample(outcomes.get(outcome, 0), {"outcome": outcome.value}) for outcome in ConfigOutcome],
        )

    return collect


def load_collector(balancer: PoolBalancer, memory: MemoryWatch, starts: ColdStarts) -> Callable[[], Iterable[Family]]:
    """A collector of what changed because of the load of CPUs and of memory nodes, and of cold starts."""

    def collect() -> Iterable[Family]:
        text = "Times that pools had other CPUs because of their load."
        yield Family("interpose_policy_load_moves_total", "counter", text, [Sample(balancer.moves)])
        yield Family(
            "interpose_policy_memory_widened_total",
            "counter",
            "Times that a container got more memory nodes because its own ran short, by what showed it.",
            [Sample(memory.widened[cause], {"cause": cause.value}) for cause in WideningCause],
        )
        text = "Containers that got all their memory when their cold start was over."
        yield Family("interpose_policy_cold_starts_total", "counter", text, [Sample(starts.ended)])

    return collect


def publishing_collector(publisher: Publisher) -> Callable[[], Iterable[Family]]:
    """A collector of the state of publishing on the Node."""

    def collect() -> Iterable[Family]:
        text = "1 if the Node object shows what the policy wants of the node."
        yield Family("interpose_policy_published", "gauge", text, [Sample(int(publisher.published))])
        yield Family(
            "interpose_policy_publishing_total",
            "counter",
            "Looks at the Node object through the agent, by how they ended.",
            [Sample(publisher.results[result], {"result": result.value}) for result in PublishResult],
        )

    return collect
