"""The metrics of a relay in front of dockerd, for the pages in docs/reference."""

from collections.abc import Iterable, Mapping

from interpose.metrics import Family
from interpose.relay.docker.metrics import endpoint_collector
from interpose.relay.docker.stats import EndpointStats


class _Relay:
    """A relay with one call that was answered, and no connection."""

    def __init__(self) -> None:
        stats = EndpointStats("GET /_ping")
        stats.started = 1
        stats.finish(200, 0.0)
        self.endpoints: Mapping[str, EndpointStats] = {stats.endpoint: stats}
        self.links: tuple[()] = ()


def docker_families() -> Iterable[Family]:
    """Every family, with the names of its labels."""
    relay = _Relay()
    return endpoint_collector(relay, relay)()
