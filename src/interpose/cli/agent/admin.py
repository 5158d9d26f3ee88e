"""The admin socket of the agent: health, metrics, and JSON for views and tools."""

import time
from collections.abc import Mapping
from typing import Any

from interpose.cli.agent.parts import AgentParts, report_kinds
from interpose.cli.common.daemon_views import DaemonViews
from interpose.config.agent.settings import AgentSettings
from interpose.config.agent.table import AGENT
from interpose.config.effective import config_answer
from interpose.kube.agent.config_choice import ObservedObject, SelectedConfig
from interpose.kube.agent.config_kinds import ConfigSource
from interpose.kube.agent.metrics import (
    api_collector,
    config_collector,
    feed_collector,
    report_collector,
    service_collector,
)
from interpose.kube.client.objects import version_of
from interpose.log import LogControl
from interpose.metrics import Collector, build_info, log_collector, process_collector
from interpose.net.httpd.health import Check, health_routes, log_level_routes, metrics_route
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response


class AgentViews(DaemonViews):
    """Handlers over the parts of a running agent."""

    def __init__(self, settings: AgentSettings, origins: Mapping[str, str], parts: AgentParts, log: LogControl) -> None:
        super().__init__()
        self._settings = settings
        self._origins = origins
        self._parts = parts
        self._log = log

    def routes(self) -> RouteTable:
        """Everything the admin socket answers."""
        return {
            **health_routes([Check("loop", lambda: None)], self._ready()),
            **metrics_route(self.collectors()),
            ("GET", "/v1/status"): self._status,
            ("GET", "/v1/config"): self._config,
            **log_level_routes(self._log),
        }

    def collectors(self) -> list[Collector]:
        """Collectors of all metrics, of the parts that are turned on."""
        parts = self._parts
        found = [build_info, api_collector(parts.api.requests, lambda: not parts.api_problem, parts.watches)]
        if parts.pusher is not None and parts.relay is not None:
            found.append(config_collector(parts.pusher, parts.relay))
        if parts.feed is not None:
            found.append(feed_collector(parts.feed))
        found.append(report_collector(parts.reporter, report_kinds(self._settings)))
        if parts.served is not None:
            found.append(service_collector(parts.served))
        return [*found, log_collector(self._log), process_collector()]

    def _ready(self) -> list[Check]:
        parts = self._parts
        checks = [Check("api", lambda: parts.api_problem or None)]
        if parts.pusher is not None:
            checks.append(Check("config", lambda: parts.config_problem or None))
        if parts.feed is not None:
            feed = parts.feed
            checks.append(Check("nodeslo", lambda: feed.problem or "; ".join(feed.slo.problems) or None))
        return checks

    async def _status(self, _request: ServerRequest) -> ServerResponse:
        parts = self._parts
        access = parts.api.access
        return json_response(
            {
                **self.process(),
                "node": parts.node,
                "group": parts.watches.group,
                "api": {
                    "server": str(access.server),
                    "access": access.source,
                    "up": not parts.api_problem,
                    "error": parts.api_problem or parts.api.last_error,
                    "last_answer_seconds": parts.since_answer,
                },
                "node_object": self._object(parts.watches.node),
                "configuration": self._configuration(),
                "relay": None
                if parts.relay is None
                else {"socket": parts.relay.path, "up": parts.relay.up, "error": parts.relay.last_error},
                "config_maps": [self._config_object(observed) for observed in parts.watches.configs],
                "nodeslo": self._nodeslo(),
                "reports": {
                    "kinds": list(report_kinds(self._settings)),
                    "pending": list(parts.reporter.pending),
                    "problems": dict(parts.reporter.problems),
                },
                "service": None
                if parts.served is None
                else {
                    "socket": self._settings.service.socket,
                    "calls": sum(parts.served.service.calls.values()),
                    "refused_connections": parts.served.refused,
                },
                "log_level": self._log.level,
            }
        )

    def _configuration(self) -> dict[str, Any] | None:
        parts = self._parts
        if parts.pusher is None:
            return None
        state, choice = parts.pusher.state, parts.watches.choice
        last = parts.pusher.last_success
        return {
            "state": state.phase.value,
            "since_seconds": round(time.time() - state.since, 1),
            "map": _config_json(state.chosen),
            "problem": parts.config_problem,
            "problems": list(state.problems),
            "notes": list(choice.notes),
            "last_accepted": _config_json(state.last_good),
            "last_accepted_seconds_ago": None if last is None else round(time.time() - last, 1),
            "pushes": dict(parts.pusher.outcomes),
        }

    def _config_object(self, observed: ObservedObject) -> dict[str, Any]:
        chosen = self._parts.watches.choice.chosen
        source = ConfigSource(observed.kind, self._settings.config.namespace, observed.name)
        return {
            "kind": source.kind,
            "name": source.name,
            "namespace": source.namespace,
            "counts": chosen is not None and chosen.source == str(source),
            **self._object(observed),
        }

    @staticmethod
    def _object(observed: ObservedObject) -> dict[str, Any]:
        state = "unknown" if not observed.known else "missing" if observed.object is None else "present"
        if not observed.known and observed.forbidden:
            state = "forbidden"
        return {"state": state, "version": version_of(observed.object), "problem": observed.problem}

    def _nodeslo(self) -> dict[str, Any] | None:
        feed = self._parts.feed
        if feed is None:
            return None
        return {
            "state": feed.slo.phase.value,
            "version": feed.slo.version,
            "problems": list(feed.slo.problems),
            "file": self._settings.node_state.file,
            "file_problem": feed.problem,
            "followed": self._object(self._parts.watches.slo),
        }

    async def _config(self, _request: ServerRequest) -> ServerResponse:
        return json_response(config_answer(AGENT, self._settings, self._origins))


def _config_json(config: SelectedConfig | None) -> dict[str, Any] | None:
    if config is None:
        return None
    return {
        "name": config.source,
        "title": config.title,
        "version": config.version,
        "keys": sorted(config.data),
        "digest": config.digest,
    }
