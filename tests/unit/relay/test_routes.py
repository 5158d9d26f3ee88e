"""Which backend a path belongs to, and who sees its calls."""

import pytest

from interpose.cri.methods import API_VERSIONS, METHODS
from interpose.relay.routes import OTHER, Routes

RUNTIME, IMAGE = object(), object()


@pytest.fixture
def routes() -> Routes:
    """Two backends."""
    return Routes(RUNTIME, IMAGE)


def test_every_method_has_a_route_in_both_versions(routes: Routes) -> None:
    """Each with counters of its own."""
    assert len(routes.known) == len(METHODS) * len(API_VERSIONS)
    assert len({id(route.stats) for route in routes.known.values()}) == len(routes.known)
    assert {route.stats.service for route in routes.find_by_method("Version")} == {
        "runtime.v1.RuntimeService",
        "runtime.v1alpha2.RuntimeService",
    }


def test_service_chooses_the_backend(routes: Routes) -> None:
    """For known and unknown paths."""
    assert routes.known[b"/runtime.v1.ImageService/PullImage"].upstream is IMAGE
    assert routes.known[b"/runtime.v1.RuntimeService/Version"].upstream is RUNTIME
    assert routes.find(b"/runtime.v2.ImageService/New").upstream is IMAGE
    assert routes.find(b"/grpc.health.v1.Health/Check").upstream is RUNTIME
    assert routes.find(b"").upstream is RUNTIME


def test_starts_may_have_a_way_of_their_own(routes: Routes) -> None:
    """In both versions; without one they go with the others."""
    assert {one.upstream for one in routes.find_by_method("StartContainer")} == {RUNTIME}
    starts = object()
    apart = Routes(RUNTIME, IMAGE, starts=starts)
    found = {route.stats.method for route in apart.known.values() if route.upstream is starts}
    assert found == {"StartContainer"}
    assert [one.upstream for one in apart.find_by_method("StartContainer")] == [starts, starts]


def test_image_calls_can_be_refused() -> None:
    """Those alone; whoever subscribes to them does not change that."""
    routes = Routes(RUNTIME, RUNTIME, "no images here")
    image = routes.known[b"/runtime.v1.ImageService/PullImage"]
    image.subscribe(intercepted=False)
    assert (image.slow_path, image.refusal) == (True, "no images here")
    assert routes.find(b"/runtime.v2.ImageService/New").refusal == "no images here"
    runtime = routes.known[b"/runtime.v1.RuntimeService/Version"]
    assert (runtime.slow_path, runtime.refusal, routes.find(b"/x").refusal) == (False, "", "")


def test_unknown_paths_share_their_counters(routes: Routes) -> None:
    """A client cannot make metrics grow."""
    stats = {id(routes.find(path).stats) for path in (b"/a/b", b"/c.ImageService/d", b"/e")}
    assert len(stats) == 1
    assert routes.find(b"/a/b").stats.method == OTHER
    assert len(routes.stats()) == len(routes.known) + 1


def test_only_event_streams_are_endless(routes: Routes) -> None:
    """Their end is not waited for."""
    endless = {route.stats.method for route in routes.known.values() if route.stats.endless}
    assert endless == {"GetContainerEvents"}


def test_subscription_takes_a_route_out_of_the_frame_loop(routes: Routes) -> None:
    """By an interceptor or by a tap."""
    route = routes.known[b"/runtime.v1.RuntimeService/Version"]
    assert not route.slow_path
    route.subscribe(intercepted=True)
    assert (route.slow_path, route.intercepted) == (True, True)
    route.subscribe(intercepted=False, taps=["tap"])
    assert (route.slow_path, route.intercepted, route.taps) == (True, False, ("tap",))
    route.subscribe(intercepted=False)
    assert not route.slow_path
