"""The counters of hooks as metric families, and as views of the admin socket. Counts nothing itself."""

from collections.abc import Callable, Iterable, Sequence

from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.breaker import BreakerState
from interpose.hooks.dispatch.client import HookClient
from interpose.hooks.dispatch.dispatcher import Dispatcher
from interpose.hooks.dispatch.hook_server import BOUNDS, PointStats, RegisteredServer
from interpose.metrics import Buckets, Family, Sample


def hook_collector(dispatcher: Dispatcher) -> Callable[[], Iterable[Family]]:
    """Metrics of hook calls: results, durations, changes, and the state of connections."""

    def collect() -> Iterable[Family]:
        every = [
            (plugin, point, stats)
            for plugin in dispatcher.plugins.all
            for point, stats in plugin.stats.points.items()
            if point in plugin.server.hooks or stats.results or stats.refusals
        ]
        called = [(plugin, point, stats) for plugin, point, stats in every if stats.results or stats.refusals]
        yield Family(
            "interpose_hook_calls_total",
            "counter",
            "Calls of hook servers by result: ok, refused (it answered a status), timeout, unreachable, broken, open "
            "(not tried: it failed repeatedly), bad-answer, garbage.",
            [
                Sample(count, _labels(plugin, point) | {"result": str(result)})
                for plugin, point, stats in called
                for result, count in stats.results.items()
            ],
        )
        yield Family(
            "interpose_hook_duration_seconds",
            "histogram",
            "Duration of calls of hook servers, failed ones included.",
            [
                Buckets(BOUNDS, list(stats.buckets), stats.seconds, _labels(plugin, point))
                for plugin, point, stats in called
            ],
        )
        # At zero from the start: a counter that appears with its first event hides that event.
        yield _counter(every, "changes", "Fields that hook servers changed.", lambda stats: stats.changes)
        yield _counter(every, "refusals", "Calls of clients refused under Fail.", lambda stats: stats.refusals)
        yield from _dispatcher_families(dispatcher)
        yield from _plugin_families(dispatcher.plugins.all)

    return collect


def _labels(plugin: RegisteredServer, point: HookPoint) -> dict[str, str]:
    return {"plugin": plugin.name, "hook": point.value}


def _counter(
    rows: Sequence[tuple[RegisteredServer, HookPoint, PointStats]],
    name: str,
    text: str,
    value: Callable[[PointStats], int],
) -> Family:
    samples = [Sample(value(stats), _labels(plugin, point)) for plugin, point, stats in rows]
    return Family(f"interpose_hook_{name}_total", "counter", text, samples)


def _dispatcher_families(dispatcher: Dispatcher) -> Iterable[Family]:
    hook_calls = dispatcher.hook_calls
    yield Family(
        "interpose_hook_conflicts_total",
        "counter",
        "Fields that two hook servers changed in one call; the later one won.",
        [
            Sample(count, {"earlier": earlier, "later": later, "hook": hook})
            for (earlier, later, hook), count in hook_calls.conflicts.items()
        ],
    )
    yield Family(
        "interpose_hook_refused_changes_total",
        "counter",
        "Changes that hook servers may not make, such as io.kubernetes.* labels.",
        [Sample(count, {"plugin": name}) for name, count in hook_calls.refused_changes.items()],
    )
    yield Family(
        "interpose_hook_unknown_total",
        "counter",
        "Calls whose pod or container could not be found out, or whose request could not be read.",
        [Sample(count, {"method": method}) for method, count in dispatcher.unknown.items()],
    )
    yield Family(
        "interpose_hook_skipped_total",
        "counter",
        "Calls about pods that hook servers do not see.",
        [Sample(dispatcher.skipped)],
    )
    yield Family(
        "interpose_hook_retries_total",
        "counter",
        "Post hooks under Fail that were told again after the reply.",
        [Sample(dispatcher.retries)],
    )


def _plugin_families(plugins: Sequence[RegisteredServer]) -> Iterable[Family]:
    clients = [(plugin.name, plugin.caller) for plugin in plugins if isinstance(plugin.caller, HookClient)]
    yield Family(
        "interpose_hook_connected",
        "gauge",
        "1 while a hook server is connected.",
        [Sample(client.state == "connected", {"plugin": name}) for name, client in clients],
    )
    yield Family(
        "interpose_hook_breaker_open",
        "gauge",
        "1 while a hook server is not asked because it failed repeatedly.",
        [Sample(client.breaker.state is BreakerState.OPEN, {"plugin": name}) for name, client in clients],
    )
    yield Family(
        "interpose_hook_breaker_opened_total",
        "counter",
        "How often a hook server failed repeatedly.",
        [Sample(client.breaker.openings, {"plugin": name}) for name, client in clients],
    )


def plugin_view(plugin: RegisteredServer, now: float) -> dict[str, object]:
    """One plugin as `interpose hooks list` shows it."""
    server, stats, client = plugin.server, plugin.stats, plugin.caller
    selector = server.selector
    mean = stats.mean_seconds
    return {
        "name": server.name,
        "file": server.file,
        "endpoint": server.endpoint,
        "failure_policy": server.failure_policy.value,
        "priority": server.priority,
        "timeout_seconds": server.timeout,
        "hooks": [point.value for point in HookPoint if point in server.hooks],
        "selector": {
            "namespaces": sorted(selector.namespaces),
            "labels": dict(selector.labels),
            "runtime_handlers": sorted(selector.runtime_handlers),
        },
        "state": client.state if isinstance(client, HookClient) else "connected",
        "state_seconds": round(client.state_seconds, 1) if isinstance(client, HookClient) else 0.0,
        "calls": stats.calls,
        "failures": stats.failures,
        "mean_ms": None if mean is None else round(mean * 1000, 3),
        "last_error": stats.last_error,
        "last_error_seconds": None if stats.last_error_at is None else round(now - stats.last_error_at, 1),
    }
