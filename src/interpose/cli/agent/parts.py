"""The parts of an agent and how they are connected: which part is notified of what.

The cluster's objects go to the pusher and to the feed of the hook server; results go to the reporter, which
writes them to the cluster. Parts that the settings turn off are not made, and not imported.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from interpose import __version__
from interpose.config.agent.settings import AgentSettings
from interpose.kube.agent.config_kinds import ConfigKind, ConfigSource, config_kinds
from interpose.kube.agent.report import config_problem, reported_source
from interpose.kube.agent.reporter import Reporter
from interpose.kube.agent.watches import NodeWatches
from interpose.kube.client.access import Access
from interpose.kube.client.api import CONFIG_MAPS, Object
from interpose.kube.client.client import KubeClient
from interpose.net.grpc.transport import Hub
from interpose.tasks import TaskBag

if TYPE_CHECKING:
    from interpose.host.unix_sockets import BoundSocket
    from interpose.kube.agent.node_file import NodeFeed
    from interpose.kube.agent.node_service import AgentSocket
    from interpose.kube.agent.pusher import Pusher
    from interpose.kube.agent.relay_client import RelayClient

# An API server that answered within this time counts as up, whatever happened to the last request.
_LATELY: Final = 30.0


class AgentParts:
    """All parts of an agent but its admin server, signals and systemd. The relay calls us on `service_socket`."""

    def __init__(
        self, settings: AgentSettings, node: str, access: Access, service_socket: "BoundSocket | None"
    ) -> None:
        self.node = node
        self._namespace = settings.config.namespace
        self.hub = Hub()
        self.api = KubeClient(access, timeout=settings.api.timeout, user_agent=f"interpose-agent/{__version__}")
        self.reporter = Reporter(
            self.api,
            node=node,
            observed_node=self._observed_node,
            observed_objects=self._observed_objects,
            kinds=report_kinds(settings),
        )
        self.relay: RelayClient | None = None
        self.pusher: Pusher | None = None
        if settings.pushes:
            self.relay, self.pusher = self._make_pusher(settings)
        self.watches = NodeWatches(
            self.api,
            node=node,
            namespace=settings.config.namespace,
            kinds=_config_kinds(settings),
            slo=settings.feeds,
            on_choice=None if self.pusher is None else self.pusher.consider,
            on_config=self.reporter.poke,
            on_node=self._on_node,
            on_slo=self._on_slo,
            went_by=self._went_by,
        )
        self.feed = self._make_feed(settings) if settings.feeds else None
        self.served = None if service_socket is None else self._make_service(settings, service_socket)
        self._tasks = TaskBag()

    async def start(self) -> None:
        """Start all parts; the service of the relay first, as it may be waiting."""
        if self.served is not None:
            await self.served.start()
        for name, loop in (("push configuration", self.pusher), ("feed the hook server", self.feed)):
            if loop is not None:
                self._tasks.spawn(loop.run(), name=name)
        self._tasks.spawn(self.reporter.run(), name="report to the cluster")
        if self.relay is not None:
            self.relay.start()
        self.watches.start()

    def tick(self) -> None:
        """Called once a second: time-outs of connections."""
        if self.relay is not None:
            self.relay.tick()
        if self.served is not None:
            self.served.tick()

    async def close(self) -> None:
        """Stop watching and reporting; the configuration in force stays."""
        await self.watches.close()
        await self._tasks.cancel()
        if self.served is not None:
            await self.served.close()
        if self.relay is not None:
            await self.relay.close()
        await self.api.close()

    # -- state

    @property
    def api_problem(self) -> str:
        """Why the API server counts as away; empty if it does not."""
        last = self.api.last_answer
        if last is None:
            return self.api.last_error or "it has not answered yet"
        return self.api.last_error if time.monotonic() - last >= _LATELY else ""

    @property
    def since_answer(self) -> float | None:
        """Seconds since the API server answered last; None if it never has."""
        last = self.api.last_answer
        return None if last is None else round(time.monotonic() - last, 1)

    @property
    def config_problem(self) -> str:
        """Why the node does not have the configuration of the cluster; empty if it has, or gets none by us."""
        if self.pusher is None:
            return ""
        return config_problem(self.watches.choice, self.pusher.state, self.watches.configs)

    # -- events

    def _on_node(self) -> None:
        self.reporter.poke()
        if self.feed is not None:
            self.feed.poke()

    def _on_slo(self) -> None:
        if self.feed is not None:
            self.feed.poke()

    def _went_by(self, node: Object | None) -> str | None:
        """The object that this node goes by: as we know it, else as the agent before us noted it on the Node."""
        own = self.pusher.went_by if self.pusher is not None else None
        return reported_source(node) if own is None and node is not None else own

    def _observed_node(self) -> Object | None:
        return self.watches.node.object

    def _observed_objects(self) -> Mapping[ConfigSource, Object]:
        """The objects of policies that are there, those of every kind that is followed."""
        return {
            ConfigSource(observed.kind, self._namespace, observed.name): observed.object
            for observed in self.watches.configs
            if observed.kind != CONFIG_MAPS.kind and observed.object is not None
        }

    def _fresh_node(self) -> Object | None:
        """The Node as it is now; None while the watch has a problem."""
        observed = self.watches.node
        return None if observed.problem else observed.object

    def _health(self, query: str) -> str:
        return self.config_problem if query == "config-status" else ""

    # -- construction

    def _make_pusher(self, settings: AgentSettings) -> "tuple[RelayClient, Pusher]":
        from interpose.kube.agent.pusher import Pusher
        from interpose.kube.agent.relay_client import RelayClient

        config = settings.config
        relay = RelayClient(config.socket, hub=self.hub)
        pusher = Pusher(
            relay,
            node=self.node,
            on_state=self.reporter.on_state,
            interval=config.push_interval,
            grace=config.missing_grace,
            when_missing=config.when_missing,
        )
        return relay, pusher

    def _make_feed(self, settings: AgentSettings) -> "NodeFeed":
        from interpose.cli.agent.documents import check_document
        from interpose.kube.agent.node_file import NodeFeed, StateFile

        return NodeFeed(
            StateFile(settings.node_state.file),
            node=self.node,
            seen_node=lambda: self.watches.node,
            seen_slo=lambda: self.watches.slo,
            check=check_document,
            on_slo=self.reporter.on_slo,
            deleted=settings.node_state.nodeslo_deleted,
        )

    def _make_service(self, settings: AgentSettings, bound: "BoundSocket") -> "AgentSocket":
        from interpose.kube.agent.node_keys import Writable
        from interpose.kube.agent.node_service import AgentSocket, NodeService

        # Clients of the service may not give the node another configuration.
        labels = (settings.config.group_label, *settings.config.object_group_labels)
        names = Writable(patterns=settings.service.allow_keys, reserved=labels)
        service = NodeService(self.api, self.node, self._health, followed=self._fresh_node, names=names)
        return AgentSocket(bound, service, hub=self.hub, uids=settings.service.allow_uids or None)


def report_kinds(settings: AgentSettings) -> tuple[str, ...]:
    """The kinds of reports that are made: objects have a status only where they are followed."""
    return tuple(kind for kind in settings.report if kind != "status" or settings.follows_objects)


def _config_kinds(settings: AgentSettings) -> tuple[ConfigKind, ...]:
    """The kinds of objects that may be the configuration; none if no relay gets it."""
    config = settings.config
    return config_kinds(
        config.sources if settings.pushes else (),
        base=config.map,
        group_label=config.group_label,
        object_labels=config.object_group_labels,
    )
