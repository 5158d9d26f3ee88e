"""Plugins in force: who is asked where, and what survives a change of registrations."""

from dataclasses import replace

from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.registration import HookServer
from interpose.hooks.dispatch.hook_server import OK, HookServerStats, RegisteredServers
from tests.support.hooks.fakes import FakeCaller

CREATE = HookPoint.PRE_CREATE_CONTAINER
RUN = HookPoint.PRE_RUN_POD_SANDBOX


def server(name: str, *hooks: HookPoint, endpoint: str = "/run/p.sock") -> HookServer:
    """A registration."""
    return HookServer(
        name=name,
        file=f"/etc/{name}.json",
        endpoint=endpoint,
        failure_policy=FailurePolicy.IGNORE,
        hooks=frozenset(hooks or (CREATE,)),
    )


def test_plugins_are_found_by_hook_point_in_the_order_of_registrations() -> None:
    """Each only where it registered."""
    plugins = RegisteredServers(lambda _: FakeCaller())
    plugins.update((server("a", CREATE, RUN), server("b", CREATE)))
    assert [one.name for one in plugins.registered_for(CREATE)] == ["a", "b"]
    assert [one.name for one in plugins.registered_for(RUN)] == ["a"]
    assert plugins.registered_for(HookPoint.POST_STOP_CONTAINER) == ()
    assert plugins.registered_for(None) == ()


def test_edited_registration_keeps_connection_and_counters() -> None:
    """Only what names another endpoint is connected anew."""
    made: list[str] = []

    def connect(one: HookServer) -> FakeCaller:
        made.append(one.endpoint)
        return FakeCaller()

    plugins = RegisteredServers(connect)
    plugins.update((server("a"),))
    before = plugins.all[0]
    before.stats.points[CREATE].add(OK, 0.1)
    assert plugins.update((replace(server("a", RUN), priority=1),)) == []
    after = plugins.all[0]
    assert after.caller is before.caller
    assert after.stats.calls == 1
    assert plugins.update((server("a", endpoint="/run/q.sock"),)) == [before.caller]
    assert made == ["/run/p.sock", "/run/q.sock"]
    assert plugins.all[0].stats is before.stats


def test_removed_plugin_gives_its_client_back_and_forgets_its_counters() -> None:
    """Whoever removes it closes it."""
    plugins = RegisteredServers(lambda _: FakeCaller())
    plugins.update((server("a"), server("b")))
    first = plugins.all[0]
    assert plugins.update((server("b"),)) == [first.caller]
    plugins.update((server("a"), server("b")))
    assert plugins.all[0].stats is not first.stats


def test_counters_add_up() -> None:
    """Calls, failures and the mean, over all hook points."""
    assert HookServerStats().mean_seconds is None
    stats = HookServerStats()
    stats.points[CREATE].add(OK, 0.1)
    stats.record_failure(RUN, "timeout", "no answer within 2 s", 0.3, now=5.0)
    assert (stats.calls, stats.failures) == (2, 1)
    assert stats.mean_seconds == 0.2
    assert (stats.last_error, stats.last_error_at) == ("PreRunPodSandbox: no answer within 2 s", 5.0)
