"""The admin socket of the hook server: health, metrics, and JSON for views and tools."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from interpose.cli.common.daemon_views import DaemonViews
from interpose.config.effective import config_answer
from interpose.config.hookserver.settings import HookServerSettings
from interpose.config.hookserver.table import HOOKSERVER
from interpose.core.model.qos import qos_of
from interpose.hooks.server.metrics import hook_collector, plugin_collector, value_collector
from interpose.hooks.server.plugin import AnyPlugin
from interpose.hooks.server.reconcile.report import ReportedProblem, as_json
from interpose.log import LogControl
from interpose.metrics import Collector, build_info, log_collector, process_collector
from interpose.net.httpd.health import Check, health_routes, log_level_routes, metrics_route
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response

if TYPE_CHECKING:
    from interpose.cli.hookserver.process import HookServerDaemon


class HookServerViews(DaemonViews):
    """Handlers over the parts of a running hook server."""

    def __init__(
        self, settings: HookServerSettings, origins: Mapping[str, str], daemon: "HookServerDaemon", log: LogControl
    ) -> None:
        super().__init__()
        self._settings = settings
        self._origins = origins
        self._daemon = daemon
        self._log = log

    def collectors(self) -> list[Collector]:
        """Collectors of all metrics."""
        parts = self._daemon.parts
        return [
            build_info,
            plugin_collector(parts.plugins, parts.runner, parts.reconciler),
            hook_collector(self._daemon.proxy),
            value_collector(parts.applier, parts.updates, parts.journal, parts.reconciler),
            log_collector(self._log),
            process_collector(),
        ]

    def routes(self) -> RouteTable:
        """Everything the admin socket answers."""
        return {
            **health_routes([Check("loop", lambda: None)], self._ready()),
            **metrics_route(self.collectors()),
            ("GET", "/v1/status"): self._status,
            ("GET", "/v1/rules"): self._rules,
            ("GET", "/v1/values"): self._values,
            ("GET", "/v1/config"): self._config,
            **log_level_routes(self._log),
        }

    def _ready(self) -> list[Check]:
        parts, checks = self._daemon.parts, []
        checks.append(Check("runtime", lambda: None if parts.upstream.up else parts.upstream.last_error))
        if self._settings.serves_hooks:
            checks.append(Check("registration", lambda: self._daemon.registrar.problem or None))
        if parts.node_file is not None:
            checks.append(Check("nodeslo", self._document_problem))
        if self._settings.plugins.external:
            checks.append(Check("plugins", self._plugin_problem))
        return checks

    def _document_problem(self) -> str | None:
        file = self._daemon.parts.node_file
        return "; ".join(file.problems) or None if file is not None else None

    def _plugin_problem(self) -> str | None:
        from interpose.hooks.server.entry_points import UnusablePlugin

        missing = (plugin for plugin in self._daemon.parts.plugins if isinstance(plugin, UnusablePlugin))
        return "; ".join(f"{plugin.name}: {plugin.problem}" for plugin in missing) or None

    async def _status(self, _request: ServerRequest) -> ServerResponse:
        daemon, parts = self._daemon, self._daemon.parts
        last = parts.reconciler.last
        return json_response(
            {
                **self.process(),
                "mode": self._settings.mode,
                "listen": self._settings.listen if self._settings.serves_hooks else None,
                "registration": {
                    "file": str(daemon.registrar.path),
                    "registered": daemon.registrar.is_registered,
                    "problem": daemon.registrar.problem,
                },
                "runtime": {
                    "endpoint": parts.upstream.path,
                    "up": parts.upstream.up,
                    "error": parts.upstream.last_error,
                },
                "policy": self._policy(),
                "cgroup_version": parts.tree.version,
                "plugins": [self._plugin(plugin) for plugin in parts.plugins],
                "nodeslo": {
                    "file": self._settings.nodeslo,
                    "seen": parts.document().slo is not None,
                    "problems": list(parts.node_file.problems) if parts.node_file is not None else [],
                },
                "node_problems": list(parts.gatherer.problems),
                "rounds": sum(parts.reconciler.passes.values()),
                "round": None
                if last is None
                else {
                    "reason": last.reason,
                    "seconds": round(last.seconds, 4),
                    "cpu_seconds": round(last.cpu_seconds, 4),
                    "in_step": last.listed,
                    "pods": len(last.subjects),
                    "wanted": last.wanted,
                    "as_wanted": last.unchanged,
                    "written": last.written,
                    "errors": last.errors[:20],
                },
                "held": parts.applier.held,
                "refused_lately": [
                    {
                        "target": failed.target,
                        "parameter": failed.parameter.value,
                        "value": str(failed.value),
                        "plugin": failed.plugin,
                        "error": failed.error,
                    }
                    for failed in parts.applier.last_errors[-20:]
                ],
                "journal_entries": len(parts.journal),
                "log_level": self._log.level,
            }
        )

    def _policy(self) -> dict[str, Any]:
        """What a policy of the relay decides in our place."""
        policy, left = self._daemon.parts.policy, self._daemon.parts.applier.left_to_policy
        return {
            "relay": self._settings.relay_admin,
            "reachable": policy.reachable,
            "problem": policy.problem,
            "name": policy.owned.policy,
            "owns": sorted(parameter.value for parameter in policy.owned.parameters),
            "left": [
                {"plugin": plugin, "parameter": parameter.value, "values": count}
                for (plugin, parameter), count in sorted(left.items())
            ],
        }

    def _plugin(self, plugin: AnyPlugin) -> dict[str, Any]:
        parts, name = self._daemon.parts, plugin.name
        rules = parts.reconciler.rules
        return {
            "name": name,
            "module": type(plugin).__module__,
            "rule": name in rules.by_plugin,
            "problem": rules.problems.get(name, ""),
            "left_out": name in parts.runner.suspended,
        }

    async def _rules(self, _request: ServerRequest) -> ServerResponse:
        reconciler = self._daemon.parts.reconciler
        inputs = reconciler.node.inputs
        return json_response(
            {
                "rules": {name: str(rule) for name, rule in reconciler.rules.by_plugin.items()},
                "problems": dict(reconciler.rules.problems),
                "slo": str(inputs.slo) if inputs.slo is not None else None,
                "pools": str(inputs.pools),
                "kernel": sorted(parameter.value for parameter in inputs.kernel.parameters),
            }
        )

    async def _values(self, _request: ServerRequest) -> ServerResponse:
        """All desired values, the actual ones, and reasons: a reconcile pass that changes nothing."""
        done = await self._daemon.parts.reconciler.reconcile("view", detail=True, apply=False, record=False)
        qos = {subject.pod.uid: found for subject in done.subjects if (found := qos_of(subject.pod.labels)) is not None}
        troubles = [
            ReportedProblem(failed.failure.plugin, failed.target.name, failed.failure.text)
            for failed in done.desired_state.problems
        ]
        problems = self._daemon.parts.reconciler.rules.problems
        return json_response(as_json(done.items, failures=troubles, problems=problems, qos=qos))

    async def _config(self, _request: ServerRequest) -> ServerResponse:
        return json_response(config_answer(HOOKSERVER, self._settings, self._origins))
