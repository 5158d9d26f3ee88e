"""The chain of interceptors of a relay: read `Interceptors.__init__` for their order.

Imported when the first hook server registers, or at the start if there is a policy; from then on the relay has message
classes, a store and a chain.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interpose.config.relay.settings import RelaySettings
from interpose.core.model.pod import Container
from interpose.cri.store.metrics import store_collector
from interpose.cri.store.requested import ANNOTATION, resources_note
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.hooks.api.registration import HookServer
from interpose.hooks.dispatch.client import HookClient
from interpose.hooks.dispatch.dispatcher import Dispatcher
from interpose.hooks.dispatch.hook_server import HookCaller, RegisteredServers
from interpose.hooks.dispatch.metrics import hook_collector, plugin_view
from interpose.host.cpusets import read_allowed_sets
from interpose.host.malloc import give_back_blocks
from interpose.metrics import Family
from interpose.net.grpc.transport import Hub
from interpose.relay.api import Backend, Tap
from interpose.relay.exit_watcher import ExitWatcher
from interpose.relay.internal_calls import InternalCalls
from interpose.relay.large_messages import LARGE
from interpose.relay.start_order import StartOrder
from interpose.relay.status_rewriter import EventRewriter, StatusRewriter
from interpose.relay.store_updater import StoreUpdater
from interpose.relay.subscriptions import Subscriptions
from interpose.resmgr.service import PolicyService
from interpose.tasks import TaskBag

_AS_IT_IS = "{}"  # a note that nothing differs from what was asked for


class Interceptors:
    """The chain, the store under it, and their connections to hook servers. A policy has the last word."""

    def __init__(
        self,
        settings: RelaySettings,
        relay: Subscriptions,
        hub: Hub,
        runtime: Backend,
        policy: PolicyService | None = None,
        *,
        taps: Sequence[Tap] = (),
    ) -> None:
        self._relay = relay
        self._hub = hub
        self._runtime = runtime
        self._tasks = TaskBag()
        self._started = False
        self.settled = False  # whether the store was in step once
        give_back_blocks(LARGE)  # a message that is intercepted is there several times
        self.store = Store()
        self._calls = InternalCalls(relay, "store")
        self.sync = Synchronizer(self.store, self._calls)
        self.starts = StartTracker()
        self.sync.on_started = self.starts.on_running
        self._order = StartOrder(self.starts, self.store, self.sync, asyncio.get_running_loop().time)
        self._store_updater = StoreUpdater(self.store, self.sync)
        self._calls.below = self._store_updater
        self._exits = ExitWatcher(self.sync, time.monotonic, relay.refresh)
        self.plugins = RegisteredServers(self._connect)
        self.dispatcher = Dispatcher(
            self.plugins, self.sync, settings.hooks, now=time.monotonic, allowed=read_allowed_sets
        )
        self._collect_hooks = hook_collector(self.dispatcher)
        self._collect_store = store_collector(self.sync)
        self._policy = policy
        managers = [] if policy is None else [policy.connect(relay, self.store, self.sync, self.starts)]
        reports = not settings.report_real_resources
        relay.subscribe(
            [
                *(
                    [StatusRewriter(self._diverging, self._unsettled_containers)] if reports else []
                ),  # first: the others see what the runtime says
                self.dispatcher,
                *managers,  # sees what hook servers asked for
                self._order,  # below all interceptors that change messages
                self._store_updater,  # last: it sees what the runtime gets
            ],
            taps=[self._exits, *taps],
            editors=[EventRewriter(self._diverging)] if reports else [],
            hub=hub,
            message_limit=settings.limits.message,
            now=asyncio.get_running_loop().time,
        )
        self.store.on_diverging = relay.refresh

    def _diverging(self) -> Mapping[str, Container]:
        return self.store.diverging

    def _unsettled_containers(self) -> Mapping[str, Container] | None:
        return None if self.settled else self.store.containers

    def _connect(self, server: HookServer) -> HookCaller:
        client = HookClient(server.endpoint, name=server.name, hub=self._hub)
        if self._started:
            client.start()
        return client

    # -- life

    def start(self) -> None:
        """Connect to hook servers, and bring the store in step whenever the runtime came (back)."""
        self._started = True
        for client in self._clients():
            client.start()
        if self._policy is not None:
            self._policy.start()
        self._relay.attach_store(self.sync)
        self._runtime.on_up = self._runtime_up
        if self._runtime.up:
            self._runtime_up()

    def _runtime_up(self) -> None:
        self._calls.forget_version()
        self.sync.resync_soon(completely=True)
        if self._policy is not None:
            self._policy.runtime_up()

    def memory(self) -> Mapping[str, object]:
        """What a successor cannot learn from the runtime: what was last asked for of containers that ever differed."""
        return {
            "requested": {
                container.id: resources_note(container.resources, container.requested) or _AS_IT_IS
                for container in self.store.containers.values()
                if container.diverges or ANNOTATION in container.annotations
            }
        }

    def inherit(self, memory: Mapping[str, Any]) -> None:
        """The other side of `memory`, kept until the containers are looked up."""
        self.sync.inherit(memory.get("requested"))

    def update(self, servers: tuple[HookServer, ...]) -> None:
        """Put these registrations in force. Connections without a registration end when their calls have."""
        for unused in self.plugins.update(servers):
            if isinstance(unused, HookClient):
                self._tasks.spawn(unused.retire(), name=f"leave hook server {unused.name}")

    def tick(self) -> None:
        """Called once a second."""
        if not self.settled and self.sync.in_step:
            self.settled = True
            self._relay.refresh()
        self._exits.tick()
        for client in self._clients():
            client.tick()
        if self._policy is not None:
            self._policy.tick()  # last: if it fails, the others have had their tick

    async def close(self) -> None:
        """End the chain, the policy, and all connections to hook servers."""
        self._runtime.on_up = None
        self._relay.detach_store()
        if self._policy is not None:
            await self._policy.close()
        await self._relay.call_runner.tasks.cancel()
        await self.dispatcher.tasks.cancel()
        await self._tasks.cancel()
        await self._order.tasks.cancel()
        await self._exits.tasks.cancel()
        await self.sync.close()
        for client in self._clients():
            await client.close()

    def _clients(self) -> list[HookClient]:
        return [server.caller for server in self.plugins.all if isinstance(server.caller, HookClient)]

    # -- views

    def collect(self) -> Iterable[Family]:
        """Metrics of hooks and of the store."""
        yield from self._collect_hooks()
        yield from self._collect_store()
        if self._policy is not None:
            yield from self._policy.collect()

    def view(self) -> dict[str, object]:
        """What `interpose hooks list` shows besides the directory."""
        now = time.monotonic()
        return {
            "plugins": [plugin_view(plugin, now) for plugin in self.plugins.all],
            "store": {
                "pods": len(self.store.pods),
                "containers": len(self.store.containers),
                "pending": len(self.store.pending),
            },
        }
