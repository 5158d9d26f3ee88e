"""Metrics and views of hooks, from counters that calls left behind."""

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.api.registration import Selector
from interpose.hooks.dispatch.client import FailureReason, HookCallError, HookClient
from interpose.hooks.dispatch.hook_server import RegisteredServers
from interpose.hooks.dispatch.metrics import hook_collector, plugin_view
from interpose.metrics import Buckets, Family, Sample, expose
from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.testing import pods
from tests.support.hooks.fakes import Bench, registration

CONFIG = pods.pod_config("web", "shop")
CREATE = pods.create_request("p1", CONFIG, pods.container_config(CONFIG))
POINT = {"hook": "PreCreateContainer"}


def shares(number: int) -> hook.ContainerResourceHookResponse:
    """An answer that sets cpu_shares."""
    return hook.ContainerResourceHookResponse(container_resources=hook.LinuxContainerResources(cpu_shares=number))


def values(families: list[Family], name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The samples of one family by their labels."""
    family = next(one for one in families if one.name == name)
    return {tuple(sorted(one.labels.items())): one.value for one in family.samples if isinstance(one, Sample)}


def labels(**more: str) -> tuple[tuple[str, str], ...]:
    """A key of `values`."""
    return tuple(sorted(more.items()))


async def test_counters_become_families() -> None:
    """Calls by result, changes, refusals, conflicts: each with the names of the plugins."""

    def refusing(_point: HookPoint, _request: object) -> object:
        raise HookCallError(Code.PERMISSION_DENIED, "no!", FailureReason.REFUSED)

    bench = Bench()
    bench.plugin(registration("a"), lambda *_: shares(2))
    bench.plugin(registration("b"), lambda *_: shares(3))
    bench.plugin(registration("c", fail=True), refusing)
    await bench.call(CREATE)
    families = list(hook_collector(bench.dispatcher)())
    assert values(families, "interpose_hook_calls_total") == {
        labels(plugin="a", result="ok", **POINT): 1,
        labels(plugin="b", result="ok", **POINT): 1,
        labels(plugin="c", result="refused", **POINT): 1,
    }
    assert values(families, "interpose_hook_changes_total")[labels(plugin="a", **POINT)] == 1
    assert values(families, "interpose_hook_refusals_total")[labels(plugin="c", **POINT)] == 1
    assert values(families, "interpose_hook_conflicts_total") == {labels(earlier="a", later="b", **POINT): 1}
    durations = next(one for one in families if one.name == "interpose_hook_duration_seconds")
    assert [sum(one.counts) for one in durations.samples if isinstance(one, Buckets)] == [1, 1, 1]
    assert b"interpose_hook_calls_total{" in expose(families)[1]


def test_counters_of_a_plugin_that_was_never_asked_are_zero() -> None:
    """For each hook that it is registered for: the first refusal is an increase."""
    bench = Bench()
    bench.plugin(registration("a", [HookPoint.PRE_CREATE_CONTAINER]), lambda *_: shares(2))
    families = list(hook_collector(bench.dispatcher)())
    assert values(families, "interpose_hook_refusals_total") == {labels(plugin="a", hook="PreCreateContainer"): 0}
    assert values(families, "interpose_hook_changes_total") == {labels(plugin="a", hook="PreCreateContainer"): 0}
    assert values(families, "interpose_hook_calls_total") == {}


async def test_state_of_clients_is_a_gauge() -> None:
    """Connected or not, and whether the breaker is open."""
    hub = Hub()
    plugins = RegisteredServers(lambda server: HookClient(server.endpoint, name=server.name, hub=hub))
    bench = Bench()
    bench.dispatcher.plugins = plugins
    plugins.update((registration("a"),))
    families = list(hook_collector(bench.dispatcher)())
    assert values(families, "interpose_hook_connected") == {labels(plugin="a"): 0}
    assert values(families, "interpose_hook_breaker_open") == {labels(plugin="a"): 0}
    assert values(families, "interpose_hook_breaker_opened_total") == {labels(plugin="a"): 0}


async def test_view_of_a_plugin() -> None:
    """What `interpose hooks list` shows, JSON values only."""
    bench = Bench()
    selector = Selector(namespaces=frozenset({"shop"}))
    bench.plugin(registration("a", [HookPoint.PRE_CREATE_CONTAINER], selector=selector), lambda *_: b"\xff")
    await bench.call(CREATE)
    view = plugin_view(bench.plugins.all[0], bench.clock + 2.0)
    assert view["hooks"] == ["PreCreateContainer"]
    assert view["selector"] == {"namespaces": ["shop"], "labels": {}, "runtime_handlers": []}
    assert (view["calls"], view["failures"], view["last_error_seconds"]) == (1, 1, 2.0)
    assert str(view["last_error"]).startswith("PreCreateContainer: its answer cannot be read")
