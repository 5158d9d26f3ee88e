"""The admin socket of the runtime: health, metrics, and JSON for views and tools."""

from collections.abc import Mapping

from interpose.cli.common.daemon_views import DaemonViews
from interpose.cli.common.heartbeat import Heartbeat
from interpose.config.effective import config_answer
from interpose.config.runtime.settings import RuntimeSettings
from interpose.config.runtime.table import RUNTIME
from interpose.cri.wrappers import InstrumentedCaller
from interpose.log import LogControl
from interpose.metrics import Collector, build_info, log_collector, process_collector
from interpose.net.httpd.health import Check, health_routes, log_level_routes, metrics_route
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response
from interpose.node.runtime.service.runtime import LocalRuntime


class RuntimeViews(DaemonViews):
    """Handlers over the parts of a running runtime."""

    def __init__(
        self,
        settings: RuntimeSettings,
        origins: Mapping[str, str],
        runtime: LocalRuntime,
        calls: InstrumentedCaller,
        heartbeat: Heartbeat,
        log: LogControl,
    ) -> None:
        super().__init__()
        self.serving = False
        self._settings = settings
        self._origins = origins
        self._runtime = runtime
        self._calls = calls
        self._heartbeat = heartbeat
        self._log = log

    def routes(self) -> RouteTable:
        """Everything the admin socket answers."""
        serving = Check("serving", lambda: None if self.serving else "calls are not answered yet or any more")
        return {
            **health_routes([Check("loop", lambda: None)], [serving]),
            **metrics_route(self.collectors()),
            ("GET", "/v1/status"): self._status,
            ("GET", "/v1/config"): self._config,
            **log_level_routes(self._log),
        }

    def collectors(self) -> list[Collector]:
        """Everything that is counted."""
        return [
            build_info,
            self._calls.collect,
            self._runtime.collect,
            self._heartbeat.collect,
            log_collector(self._log),
            process_collector(),
        ]

    async def _status(self, _request: ServerRequest) -> ServerResponse:
        return json_response(
            {
                **self.process(),
                "listen": self._settings.listen,
                "serving": self.serving,
                **self._runtime.describe(),
                "not_isolated": list(self._runtime.not_isolated),
                "log_level": self._log.level,
            }
        )

    async def _config(self, _request: ServerRequest) -> ServerResponse:
        return json_response(config_answer(RUNTIME, self._settings, self._origins))
