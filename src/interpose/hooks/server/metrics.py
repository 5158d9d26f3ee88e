"""Metrics of the hook server, read from its parts at each scrape."""

from collections.abc import Iterable

from interpose.hooks.server.plugin import AnyPlugin
from interpose.hooks.server.proxy.proxy_mode import ProxyServer
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.cri_updates import ContainerUpdates
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.reconciler import Reconciler
from interpose.hooks.server.worker_threads import BOUNDS, PluginRunStats, Runner
from interpose.metrics import Buckets, Collector, Family, Sample

_PREFIX = "interpose_hookserver"


def plugin_collector(plugins: Iterable[AnyPlugin], runner: Runner, reconciler: Reconciler) -> Collector:
    """Metrics of plugin runs, and of their rules."""
    names = [plugin.name for plugin in plugins]

    def collect() -> Iterable[Family]:
        stats = {name: runner.stats.get(name) or PluginRunStats() for name in names}
        suspended = runner.suspended
        yield _counter(
            "plugin_failures_total",
            "Runs of a plugin that failed: it was given something it cannot use, or has a mistake.",
            [Sample(plugin_stats.failures, {"plugin": name}) for name, plugin_stats in stats.items()],
        )
        yield _counter(
            "plugin_timeouts_total",
            "Runs of a plugin that did not return in time; it is left out for a while then.",
            [Sample(plugin_stats.timeouts, {"plugin": name}) for name, plugin_stats in stats.items()],
        )
        yield Family(
            f"{_PREFIX}_plugin_seconds",
            "histogram",
            "Time of one run of a plugin over one subject.",
            [
                Buckets(BOUNDS, list(plugin_stats.buckets), plugin_stats.seconds, {"plugin": name})
                for name, plugin_stats in stats.items()
            ],
        )
        yield _gauge(
            "plugin_up",
            "Whether a plugin runs: 0 while it is left out, or as long as it has no rule.",
            [
                Sample(float(name not in suspended and name in reconciler.rules.by_plugin), {"plugin": name})
                for name in names
            ],
        )
        yield _gauge(
            "rule_problem",
            "Whether inputs of a plugin's rule cannot be used, so that what was in force stays.",
            [Sample(float(name in reconciler.rules.problems), {"plugin": name}) for name in names],
        )
        yield _counter("rule_changes_total", "Changes of rules.", [Sample(reconciler.rule_changes)])

    return collect


def hook_collector(server: ProxyServer) -> Collector:
    """Metrics of hook calls and of their effects."""

    def collect() -> Iterable[Family]:
        yield _counter(
            "hook_calls_total",
            "Hook calls by hook point and outcome.",
            [
                Sample(count, {"hook": point.value, "outcome": outcome.value})
                for (point, outcome), count in sorted(server.outcomes.items())
            ],
        )
        yield _counter(
            "hook_effect_failures_total",
            "Things to be done besides the answer of a hook call that failed or came late; a round repairs them.",
            [
                Sample(count, {"effect": effect, "reason": reason})
                for (effect, reason), count in sorted(server.effect_failures.items())
            ],
        )
        yield _counter(
            "plugin_conflicts_total",
            "Hook calls in which two plugins wanted different values; the later one had it.",
            [
                Sample(count, {"parameter": parameter, "loser": loser, "winner": winner})
                for (parameter, loser, winner), count in sorted(server.conflicts.items())
            ],
        )

    return collect


def value_collector(applier: Applier, updates: ContainerUpdates, journal: Journal, reconciler: Reconciler) -> Collector:
    """Metrics of values that were written, held or restored, and of reconcile passes."""

    def collect() -> Iterable[Family]:
        yield _counter(
            "writes_total",
            "Values put in place, by parameter and outcome.",
            [
                Sample(count, {"parameter": parameter.value, "outcome": outcome})
                for (parameter, outcome), count in sorted(applier.writes.items())
            ],
        )
        yield _counter(
            "drift_total",
            "Values changed by another process and restored.",
            [
                Sample(count, {"plugin": plugin, "parameter": parameter.value})
                for (plugin, parameter), count in sorted(applier.drift.items())
            ],
        )
        yield _counter("updates_total", "Updates of containers that were sent to the runtime.", [Sample(updates.sent)])
        yield _counter("update_failures_total", "Those of them that failed.", [Sample(updates.failed)])
        yield _counter(
            "updates_repeated_total",
            "Updates that the runtime lost while their container was started, and that were sent again.",
            [Sample(updates.repeated)],
        )
        yield _gauge("held_values", "Values that were refused and wait to be tried again.", [Sample(applier.held)])
        yield _gauge(
            "left_values",
            "Values that plugins want, or once set, and that a policy of the relay decides: they are left alone.",
            [
                Sample(count, {"plugin": plugin, "parameter": parameter.value})
                for (plugin, parameter), count in sorted(applier.left_to_policy.items())
            ],
        )
        yield _gauge("journal_entries", "Values that are ours, with what was found before.", [Sample(len(journal))])
        yield _counter(
            "rounds_total",
            "Rounds by what caused them.",
            [Sample(count, {"reason": reason}) for reason, count in sorted(reconciler.passes.items())],
        )
        yield _gauge(
            "conflicts",
            "Values for which two plugins wanted something else when last looked at; the later one has it.",
            [
                Sample(count, {"parameter": parameter, "loser": loser, "winner": winner})
                for (parameter, loser, winner), count in sorted(reconciler.conflicts.items())
            ],
        )
        last = reconciler.last
        if last is not None:
            yield _gauge("round_seconds", "Duration of the last round.", [Sample(last.seconds)])
            yield _gauge("wanted_values", "Values that plugins want, in the last round.", [Sample(last.wanted)])
            yield _gauge("pods", "Pods that were looked at in the last round.", [Sample(len(last.subjects))])
            yield _gauge(
                "runtime_in_step",
                "Whether the runtime listed its containers in the last reconciliation.",
                [Sample(float(last.listed))],
            )

    return collect


def _counter(name: str, text: str, samples: list[Sample]) -> Family:
    return Family(f"{_PREFIX}_{name}", "counter", text, samples)


def _gauge(name: str, text: str, samples: list[Sample]) -> Family:
    return Family(f"{_PREFIX}_{name}", "gauge", text, samples)
