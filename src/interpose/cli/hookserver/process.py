"""The life of a hook server process: the composition root of `interpose hookserver`.

Rules are made before the socket listens, and the socket listens before it is registered: a relay that finds us gets
right answers. Under Fail the registration stays behind at the end, so that a restart lifts no protection.
"""

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from interpose import __version__
from interpose.cli.common.admin_socket import AdminSockets
from interpose.cli.common.daemon import Daemon, run_daemon
from interpose.cli.common.heartbeat import Ticker
from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.cli.hookserver.admin import HookServerViews
from interpose.cli.hookserver.parts import HookServerParts, find_served_stages, select_plugins
from interpose.config.hookserver.settings import HookServerSettings
from interpose.core.backoff import Backoff
from interpose.core.model.cgroup import Level, Parameter
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.server.proxy.proxy_mode import ProxyServer
from interpose.hooks.server.proxy.self_registration import Registrar
from interpose.hooks.server.proxy.side_effects import ProxyEffects
from interpose.hooks.server.reconcile.reconciler import ReconcilePass
from interpose.hooks.server.reconcile.scheduler import SHORTEST, TICK, NewCgroups, ReconcileLoop
from interpose.host.cgroup.watch import CgroupWatch
from interpose.host.peer_credentials import peer_credentials
from interpose.host.unix_sockets import bind_unix
from interpose.log import LogControl
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.server import LocalServer
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# In proxy mode passes only follow rules; now and then one removes entries of pods that are gone.
_HOUSEKEEPING = 600.0
_SETTLE = 0.5
_AFTER_STARTS = Backoff(SHORTEST, 30.0)
_AFTER_TROUBLE = Backoff(1.0, 30.0)
DOCUMENT = "NodeSLO"
CGROUPS = "cgroups"
RUNTIME = "runtime"
POOLS = "CPU pools"
KUBELET = "kubelet"
NEWCOMERS = "newcomers"
AGAIN = "again"


def run(settings: HookServerSettings, origins: Mapping[str, str]) -> int:
    """Run a hook server until a signal ends it; the exit code."""

    async def open_daemon(log: LogControl, _stop: "asyncio.Future[str]") -> HookServerDaemon:
        return HookServerDaemon(settings, origins, log)

    return run_daemon(settings.logging, open_daemon, on_hangup="files are watched")


def _registrar(settings: HookServerSettings, served: frozenset[HookPoint]) -> Registrar:
    registration = settings.registration
    return Registrar(
        registration.dir,
        registration.name,
        endpoint=registration.host_endpoint or settings.listen,
        hooks=served,
        failure_policy=FailurePolicy(registration.failure_policy),
        priority=registration.priority,
        timeout=registration.timeout,
    )


class HookServerDaemon(Daemon):
    """A hook server with its sockets, its reconcile loop and its admin server."""

    def __init__(self, settings: HookServerSettings, origins: Mapping[str, str], log: LogControl) -> None:
        super().__init__()
        self._settings = settings
        plugins = select_plugins(settings)
        served = find_served_stages(settings, plugins) if settings.serves_hooks else frozenset()
        # The socket comes first: a second hook server must not get as far as the journal.
        with ExitStack() as bound:
            with name_setting_in_errors(listen=settings.listen):
                self._socket = bind_unix(settings.listen, mode=0o600) if settings.serves_hooks else None
            if self._socket is not None:
                bound.callback(self._socket.close)
            self._http = AdminSockets.bind(settings.admin.listen, settings.admin.metrics_listen)
            bound.callback(self._http.close)
            self.parts = parts = HookServerParts(
                settings,
                plugins=plugins,
                hook_calls=self._count_hook_calls if settings.serves_hooks else None,
                on_document=self._on_document,
                on_late_answer=lambda: self._rounds.trigger(KUBELET),
            )
            self._sockets = bound.pop_all()
        effects = ProxyEffects(
            plugins=plugins,
            rules=lambda: parts.reconciler.rules,
            runner=parts.runner,
            inventory=parts.inventory,
            applier=parts.applier,
            journal=parts.journal,
            sync=parts.sync,
            remove_pod_state=parts.resctrl.drop,
            pools_changed=lambda: self._rounds.trigger(POOLS),
            overlay=parts.facts.of,
            owned=lambda: parts.policy.owned,
            started=self._on_started,
            is_refreshed=lambda container: container in parts.updates.sending,
        )
        self.proxy = ProxyServer(
            plugins=plugins,
            rules=lambda: parts.reconciler.rules,
            runner=parts.runner,
            effects=effects,
            originals=effects,
            stages=served,
            plugin_failure_policy=FailurePolicy(settings.hooks.plugin_failure_policy),
            owned=lambda: parts.policy.owned,
        )
        allowed = frozenset(settings.hooks.allow_uids or (0, os.getuid()))
        admission = Admission(identify=peer_credentials, uids=allowed)
        self._server = LocalServer(self.proxy.handlers(), hub=parts.hub, admission=admission)
        self.registrar = _registrar(settings, served)
        self._rounds = ReconcileLoop(
            self._reconcile, settings.reconcile.interval if settings.reconciles else _HOUSEKEEPING
        )
        # Groups of a koordlet have the same names: without the plugin they are not ours to sweep.
        self._has_groups = any(Parameter.RESCTRL in plugin.serves.get(Level.POD, ()) for plugin in plugins)
        self._watch: CgroupWatch | None = None
        self._new_cgroups: NewCgroups | None = None
        self._views = HookServerViews(settings, origins, self, log)
        self._tasks = TaskBag()
        self._failed_passes = 0  # passes in a row with something left to do
        self._starting = 0  # passes in a row with containers that are being started
        self._ticker = Ticker(self._tick)
        self._beginning: asyncio.TimerHandle | None = None

    @property
    def rounds(self) -> ReconcileLoop:
        """The loop of reconcile passes."""
        return self._rounds

    async def start(self) -> None:
        """Make rules, listen, register, and start the reconcile passes."""
        parts, settings = self.parts, self._settings
        if parts.node_file is not None:
            parts.node_file.load()
        await parts.reconciler.remake_rules((), complete=False)
        await parts.policy.poll()  # before the first hook call is answered
        if self._socket is not None:
            await self._server.start(self._socket.sock)
            self.registrar.write()
        parts.upstream.start()
        if parts.node_file is not None:
            parts.node_file.start()
        if settings.reconciles:
            self._watch = CgroupWatch(parts.tree.watch_root, partial(self._rounds.trigger, CGROUPS))
            self._new_cgroups = NewCgroups(parts.tree, self._watch, now=time.monotonic)
        self._views.start(self._http)
        if self._socket is None:
            self._start_reconciling()
        else:
            # A relay reads our registration within a tenth of a second; an update before that would pass it unasked.
            self._beginning = asyncio.get_running_loop().call_later(_SETTLE, self._start_reconciling)
        self._ticker.start()
        kv = {
            "version": __version__,
            "mode": settings.mode,
            "listen": settings.listen if self._socket is not None else "none",
            "runtime": parts.upstream.path,
            "cgroup": f"v{parts.tree.version}",
            "plugins": ", ".join(plugin.name for plugin in parts.plugins),
            "pid": os.getpid(),
        }
        _log.info("Hook server is ready", extra={"kv": kv})
        self.announce(f"{settings.mode} mode")

    def _start_reconciling(self) -> None:
        self.parts.upstream.on_up = partial(self._rounds.trigger, RUNTIME)
        self._rounds.start()

    async def shut_down(self, reason: str) -> int:
        _log.info("Hook server is stopping", extra={"kv": {"reason": reason}})
        return 0

    async def close(self) -> None:
        """Stop answering first, then everything that acts; values stay as they are."""
        self.notifier.stopping("stopping")
        self._ticker.stop()
        if self._beginning is not None:
            self._beginning.cancel()
        self.registrar.close()
        await self._server.close()
        await self._tasks.cancel()
        await self._rounds.close()
        if self._watch is not None:
            self._watch.close()
        await self._views.close()
        await self.parts.close()
        self._sockets.close()

    def _on_document(self) -> None:
        """Remake the rules at once: hook calls do not wait for the runtime or a reconcile pass."""
        self._tasks.spawn(self._follow_document(), name="make rules of a new document")

    async def _follow_document(self) -> None:
        parts = self.parts
        ready = [pod for pod in parts.store.pods.values() if pod.ready]
        await parts.reconciler.remake_rules(ready, complete=parts.sync.in_step)
        self._rounds.trigger(DOCUMENT)

    def _pause_after(self, done: ReconcilePass) -> float | None:
        """Seconds until a pass is repeated that could not do everything; None if it could."""
        self._starting = self._starting + 1 if done.starting else 0
        if self._starting:
            return _AFTER_STARTS.delay(self._starting)
        if done.listed and not done.errors and not self.parts.applier.held and not self.parts.updates.unconfirmed:
            self._failed_passes = 0
            return None
        self._failed_passes += 1
        return _AFTER_TROUBLE.delay(self._failed_passes)

    def _on_started(self, container: str) -> None:
        """A container was started; in proxy mode only this checks an update that was sent meanwhile."""
        if container in self.parts.updates.unconfirmed:
            self._rounds.trigger(NEWCOMERS)

    def _count_hook_calls(self, container: str) -> int:
        return self.proxy.update_counts.get(container, 0)

    def _tick(self) -> None:
        self.registrar.check()
        self.notifier.watchdog()

    async def _reconcile(self, reason: str) -> None:
        parts, settings = self.parts, self._settings
        reasons = frozenset(reason.split(", "))
        changes = parts.reconciler.rule_changes
        # In proxy mode values are not watched, but corrected when something that decides about them has changed.
        acts = settings.reconciles or reasons != {TICK}
        done = await parts.reconciler.reconcile(reason, apply=acts)
        if not acts and parts.reconciler.rule_changes != changes:
            done = await parts.reconciler.reconcile(reason)
        pauses = {AGAIN: self._pause_after(done)}
        if self._new_cgroups is not None:
            layout = parts.reconciler.node.layout
            pauses[NEWCOMERS] = await self._new_cgroups.next_pause(done.subjects, layout, changed=done.written > 0)
        for cause, pause in pauses.items():
            if pause is not None:
                self._rounds.trigger_later(cause, pause)
        if done.listed and self._has_groups:
            uids = {subject.pod.uid for subject in done.subjects}
            await asyncio.to_thread(parts.resctrl.remove_orphans, uids)
