"""A relay that was not told where the runtime is, and starts before it."""

import asyncio
from pathlib import Path

from interpose.cli.relay.sockets import find_endpoints
from interpose.config.endpoint import WELL_KNOWN_DOCKER
from interpose.config.relay.settings import RelaySettings
from interpose.net.grpc.client import Client
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime

VERSION = b"/runtime.v1.RuntimeService/Version"


async def test_runtime_that_comes_later_is_found_wherever_it_is(scratch: Path) -> None:
    """Nothing was there at the start, so the first place was only a guess: the second one is found when it appears."""
    places = [str(scratch / "containerd.sock"), str(scratch / "crio.sock")]
    endpoints = find_endpoints(RelaySettings(), places)
    assert endpoints.runtime == places[0]
    hub = Hub()
    upstream = Upstream(endpoints.runtime, hub=hub, limits=Limits(), wait=5.0, find=endpoints.find)
    upstream.start()
    try:
        async with serve_runtime(places[1], FakeRuntime()):
            async with asyncio.timeout(WAIT_LIMIT):
                assert await Client(upstream, hub).unary(VERSION, b"")
            assert upstream.path == places[1]
    finally:
        await upstream.close()


def test_dockerd_is_looked_for_where_dockerd_is() -> None:
    """The socket of a CRI runtime is nothing that speaks Docker's API."""
    endpoints = find_endpoints(RelaySettings(backend="docker"))
    assert endpoints.runtime in WELL_KNOWN_DOCKER
    assert endpoints.find is not None


def test_named_runtime_is_final(scratch: Path) -> None:
    """Whoever says where it is gets no other."""
    (scratch / "other.sock").touch()
    endpoints = find_endpoints(RelaySettings(runtime_endpoint="/run/named.sock"), [str(scratch / "other.sock")])
    assert (endpoints.runtime, endpoints.image, endpoints.find) == ("/run/named.sock", "/run/named.sock", None)
