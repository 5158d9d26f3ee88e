"""What the pages of docs/reference say about the agent and the webhook: their metrics."""

import io
import logging
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interpose.cli.agent.admin import AgentViews
from interpose.cli.agent.parts import AgentParts
from interpose.config.agent.settings import AgentSettings
from interpose.host.unix_sockets import bind_unix
from interpose.kube.client.access import Access
from interpose.kube.webhook.metrics import Stats, certificate_collector, connection_collector, request_collector
from interpose.log import LineHandler, LogControl
from interpose.metrics import Family, gather
from interpose.net.http.address import Server

AGENT_METRICS_INTRO = """\
On the admin socket of `interpose agent`, and on `--metrics-listen`. Those about the relay, the file for the hook server
and the agent socket are there unless they are turned off.

- As above: {common}.
- `kind` of what is followed is a kind of Kubernetes: Node, NodeSLO, ConfigMap. That of reports is annotation, condition
  or event.
- `code` of a request is that of HTTP, or `unreachable`; that of a call is gRPC's."""

WEBHOOK_METRICS_INTRO = """\
On the address of `interpose webhook`, and on `--metrics-listen`.

- As above: {common}."""


async def agent_families() -> list[Family]:
    """Every family the agent can show. One of everything that is counted is put in, so that labels appear."""
    with tempfile.TemporaryDirectory() as folder:
        bound = bind_unix(str(Path(folder, "agent.sock")))
        access = Access(server=Server(scheme="https", host="localhost", port=6443), source="page")
        settings = AgentSettings()
        parts = AgentParts(settings, "node", access, bound)
        parts.api.requests["get", "200"] = 1
        if parts.served is not None:
            parts.served.service.calls["GetNode", "OK"] = 1
        log = LogControl(logging.getLogger("page"), LineHandler(io.StringIO()))
        try:
            return gather(AgentViews(settings, {}, parts, log).collectors())
        finally:
            await parts.close()
            bound.close()


def webhook_families() -> list[Family]:
    """Every family of the webhook's own."""
    server: Any = SimpleNamespace(busy=0, connections=0, refused=0, cut=0)
    certificates: Any = SimpleNamespace(validity=SimpleNamespace(not_after=0.0), reloads={"loaded": 0}, stale="")
    stats = Stats()
    return gather(
        [
            request_collector(stats),
            connection_collector(stats, lambda: server),
            certificate_collector(certificates),
        ]
    )
