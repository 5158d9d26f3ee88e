"""The policy service of a relay: machine, configuration, state file, config socket, tracker and interceptor.

It decides which configuration is in force and whether a switch of policies is allowed, follows CPUs that go offline or
return, and composes the state file. Everything that can be wrong with a configuration is found in the constructor,
before the relay has its sockets. What an earlier run saved is read there too; a file that does not fit is set aside and
the runtime is believed instead.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.config.relay.settings import PolicySettings
from interpose.core.model.cpuset import EMPTY
from interpose.core.policy.api import Policy
from interpose.core.policy.constraints import make_setup
from interpose.core.policy.names import NONE
from interpose.core.policy.registry import make
from interpose.core.policy.request import Request
from interpose.core.topology.topology import Topology
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.errors import ConfigError, NotReadyError, SocketInUseError
from interpose.host.atomic_file import replace_file
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.host.cpusets import resolve
from interpose.host.sysfs import read_node_memory, read_online_cpus, read_topology
from interpose.host.unix_sockets import BoundSocket
from interpose.log import RateLimited
from interpose.metrics import Family
from interpose.net.grpc.transport import Hub
from interpose.relay.internal_calls import InternalCalls
from interpose.relay.subscriptions import Subscriptions
from interpose.resmgr.config.apply import ConfigApplier
from interpose.resmgr.config.configuration import (
    AgentConfig,
    Configuration,
    describe_offline_reserved,
    effective_reserved,
)
from interpose.resmgr.config.files import ConfigFiles
from interpose.resmgr.config.server import ConfigServer, ConfigSocket, bind_config_socket
from interpose.resmgr.config.sources import HostAccess, Sources, find_devices
from interpose.resmgr.control.cold_starts import ColdStarts
from interpose.resmgr.control.memory_watch import MemoryWatch
from interpose.resmgr.exports.resource_files import ResourceFiles
from interpose.resmgr.handover import decode_handover, encode_handover
from interpose.resmgr.hints.devices import DeviceHints
from interpose.resmgr.hints.resolver import HintResolver
from interpose.resmgr.interceptor import PolicyInterceptor
from interpose.resmgr.metrics import load_collector, policy_collector, state_collector
from interpose.resmgr.pool_balancer import PoolBalancer
from interpose.resmgr.publish.node_publisher import NodePublisher
from interpose.resmgr.reconcile import AllocationReconciler
from interpose.resmgr.reconfigure import MakePolicy, Reconfigurer
from interpose.resmgr.restore import ContainerRestorer
from interpose.resmgr.state.checkpoint import Checkpoint, load, set_aside
from interpose.resmgr.state.state import SavedEntry, State
from interpose.resmgr.tracker import AllocationTracker
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_MACHINE_PERIOD: Final = 5  # ticks from one check of the machine to the next
# Ticks after which all containers are listed again: what a relay sent before it was killed may be carried out late.
_RESYNCS: Final = frozenset((3, 15, 60))


def make_policy(configuration: Configuration, topology: Topology) -> Policy:
    """The policy of a configuration on a machine; ConfigError if it cannot work there."""
    reserved = effective_reserved(configuration, topology)
    setup = make_setup(topology, configuration.available, reserved)
    return make(configuration.policy, setup, configuration.options)


class PolicyParts(NamedTuple):
    """A tracker, in its interceptor, and what works on it from outside."""

    interceptor: PolicyInterceptor
    restorer: ContainerRestorer
    reconfigurer: Reconfigurer
    reconciler: AllocationReconciler


def connect_tracker(
    tracker: AllocationTracker,
    make: MakePolicy,
    *,
    hints: HintResolver | None = None,
    files: ResourceFiles | None = None,
    clock: Callable[[], float],
    now: Callable[[], float],
) -> PolicyParts:
    """The parts around a tracker, connected to the events of its store, its starts and its synchronizer."""
    restorer = ContainerRestorer(tracker, clock)
    tracker.store.on_container = tracker.on_container
    tracker.starts.on_lost = tracker.on_update_lost
    tracker.sync.on_listed = restorer.on_listed
    interceptor = PolicyInterceptor(tracker, hints=hints, files=files, clock=clock, now=now)
    return PolicyParts(interceptor, restorer, Reconfigurer(tracker, make, clock, now), AllocationReconciler(tracker))


class PolicyService:
    """Policies of one relay, from its start to its end. `connect` gives the service its place in the chain of calls."""

    def __init__(
        self,
        settings: PolicySettings,
        origins: Mapping[str, str],
        hub: Hub,
        *,
        state_file: str,
        take_over: bool = False,
        bind: Callable[[str], BoundSocket] = bind_config_socket,
        write: Callable[[str, bytes], None] = replace_file,
    ) -> None:
        """`origins` says where each setting is from, by key.

        `take_over`: a previous relay may still have the config socket, which `bind` opens. `write` replaces the state
        file. ConfigError if the machine cannot be read or the configuration cannot be used on it.
        """
        self._settings = settings
        self._take_over = take_over
        self._bind = bind
        self._hub = hub
        self._sys = str(Path(self._settings.host_root, "sys"))
        self._tasks = TaskBag()
        self._retired = False
        self._ticks = 0
        self._checking: asyncio.Task[None] | None = None
        self._machine_problem = ""  # why the machine could not be read, or the policy not adapt to it
        self._read_again = False  # whether files were read since running containers are tracked
        self._rate_limited = RateLimited(_log)
        self._logged_offline = ""  # about reserved CPUs, what was logged last
        try:
            self._online = read_online_cpus(self._sys)
            self._topology = read_topology(self._sys)
        except (OSError, ValueError) as error:
            raise ConfigError(f"policy.host_root: the machine cannot be read: {error}") from None
        path = state_file
        loaded = load(path)
        if loaded.message:
            _log.error("Saved policy state set aside", extra={"kv": {"why": loaded.message}})
        self._state = loaded.state or State()
        if self._state.entries and self._state.fingerprint != self._topology.fingerprint:
            self._set_aside(path)
            self._state = replace(self._state, policy="", fingerprint="", entries=())
        sent = AgentConfig(node_name=self._state.config_node, data=self._state.config) if self._state.config else None
        root = self._settings.host_root
        host = HostAccess(resolve=partial(resolve, root=Path(root)), load_devices=partial(find_devices, root=root))
        self._sources = Sources(self._settings, origins, sent=sent, host=host)
        self._configuration = self._first_configuration()
        self._check_switch()
        if self._configuration.policy == NONE and self._state == State(
            policy=NONE, fingerprint=self._state.fingerprint
        ):
            # Nothing of an earlier policy is left: without the file, the next start need not load any of this.
            with suppress(OSError):
                Path(path).unlink(missing_ok=True)
        self._blank = not Path(path).exists()  # nothing is saved
        self.checkpoint = Checkpoint(path, now=time.time, write=write)
        self._parts: PolicyParts | None = None
        self._calls: InternalCalls | None = None
        self._applier: ConfigApplier | None = None
        self._files: ConfigFiles | None = None
        self._server: ConfigServer | None = None
        self._socket: ConfigSocket | None = None
        self._resource_files: ResourceFiles | None = None
        self._publishing = NodePublisher(self._settings, hub)
        self._balancer = PoolBalancer(Path(settings.host_root, "proc"), round(settings.rebalance_interval))
        self.memory_watch = MemoryWatch(partial(read_node_memory, self._sys), self.cgroup_tree)
        self._cold_starts = ColdStarts()
        self._pending: tuple[Request, ...] = ()  # creates that a previous relay has in flight

    def _set_aside(self, path: str) -> None:
        kv = {"file": path, "why": "it is of a machine with other CPUs"}
        try:
            kv["kept_as"] = set_aside(path)
        except OSError as error:
            kv["err"] = str(error)
        _log.warning("Saved policy state set aside", extra={"kv": kv})

    def _first_configuration(self) -> Configuration:
        """The configuration to start with; a fallback if what an agent sent once does not fit now."""
        configuration = self._sources.load_initial(lambda configuration: make_policy(configuration, self._topology))
        for reason in configuration.fallback_reasons:
            kv = {"policy": configuration.policy, "why": reason}
            _log.error("Configured policy could not be put in force", extra={"kv": kv})
        if configuration.fallback_reasons and not self._settings.switch and configuration.policy != self._state.policy:
            # The fallback may not take over either: nothing is decided until the right policy is back.
            configuration = replace(configuration, policy=NONE, available=None, reserved=None, options=None)
        self._log_offline_reserved(configuration)
        return configuration

    def _check_switch(self) -> None:
        before, now = self._state.policy, self._configuration.policy
        if self._configuration.fallback_reasons and now == NONE:
            return  # nothing changes for containers
        if before and before != now and self._state.entries:
            self._refuse_switch(before, now)
            _log.info("Policy was switched", extra={"kv": {"before": before, "now": now}})

    def _refuse_switch(self, before: str, now: str) -> None:
        if not self._settings.switch:
            raise ConfigError(f"policy.switch: containers run under policy {before}, and {now} may not take over")

    def _log_offline_reserved(self, configuration: Configuration) -> None:
        """Log reserved CPUs that are offline, once until they are others."""
        text = describe_offline_reserved(configuration, self._topology)
        if text and text != self._logged_offline:
            _log.warning("Reserved CPUs are offline", extra={"kv": {"what": text}})
        self._logged_offline = text

    # -- parts

    def connect(
        self, relay: Subscriptions, store: Store, sync: Synchronizer, starts: StartTracker
    ) -> PolicyInterceptor:
        """The interceptor, in its place above the store. To be called once, in the loop."""
        clock = asyncio.get_running_loop().time
        calls = InternalCalls(relay, "policy")
        tracker = AllocationTracker(
            configuration=self._configuration,
            topology=self._topology,
            policy=make_policy(self._configuration, self._topology),
            store=store,
            sync=sync,
            send=calls,
            starts=starts,
            cgroups=self.cgroup_tree,
            capacity=sum(node.memory_bytes for node in self._topology.nodes),
            clock=clock,
            now=time.time,
        )
        hints = HintResolver(DeviceHints(self._settings.host_root).find)
        files = self._resource_files = ResourceFiles(
            str(Path(self._settings.state_dir, "containers")),
            self._settings.resources_mount,
            lambda: tracker.allocations.by_key,
            tracker.resources_text,
        )
        parts = connect_tracker(tracker, make_policy, hints=hints, files=files, clock=clock, now=time.time)
        parts.restorer.load(self._state.policy, self._state.entries, reset=self._state.reset)
        parts.restorer.expect(self._pending)
        tracker.pod_quotas.restore(self._state.pod_quotas)
        tracker.pod_quotas.save = self._save
        tracker.on_change = self._on_change
        tracker.on_configured = relay.refresh
        tracker.on_granted = partial(self.memory_watch.on_granted, tracker)
        calls.below = parts.interceptor
        self._parts, self._calls = parts, calls
        self._applier = ConfigApplier(
            self._sources, self._configuration, self._apply, remember=self._on_agent_config, watch=self._watch
        )
        return parts.interceptor

    @property
    def _connected(self) -> PolicyParts:
        if self._parts is None:
            raise RuntimeError("the policy has no place in the chain yet")
        return self._parts

    @property
    def interceptor(self) -> PolicyInterceptor:
        """The interceptor; RuntimeError before `connect`."""
        return self._connected.interceptor

    @property
    def tracker(self) -> AllocationTracker:
        """The tracker; RuntimeError before `connect`."""
        return self._connected.interceptor.tracker

    @property
    def reconfigurer(self) -> Reconfigurer:
        """Applies configurations; RuntimeError before `connect`."""
        return self._connected.reconfigurer

    @property
    def reconciler(self) -> AllocationReconciler:
        """Reconciles the tracker with the store; RuntimeError before `connect`."""
        return self._connected.reconciler

    # -- life

    def start(self) -> None:
        """Follow configuration files, and listen to the agent."""
        if self._applier is not None:
            self._files = ConfigFiles(self._applier.reload_files)
            self._files.watch(self._sources.watched)
            self._publishing.start(self.tracker)
        self._open_socket(patient=self._take_over)

    def _open_socket(self, *, patient: bool) -> None:
        path = self._settings.config_socket
        if path == "none" or self._socket is not None or self._retired or self._applier is None:
            return
        try:
            bound = self._bind(path)
        except (SocketInUseError, ConfigError, OSError) as error:
            if not patient:
                raise
            # A previous relay may have it; the next tick tries again.
            self._rate_limited.log(logging.WARNING, "Config socket cannot be opened yet", path=path, err=str(error))
            return
        # A configuration that a fallback replaces is not in force: sent again, it is tried again.
        accepted = self._sources.sent if self._sources.unfit_agent_config() is None else None
        self._server = ConfigServer(self._applier.apply_agent_config, forced=self._sources.forced, accepted=accepted)
        self._socket = ConfigSocket(bound, self._server, hub=self._hub)
        self._tasks.spawn(self._socket.start(), name="serve the config socket")

    def tick(self) -> None:
        """Do what is due; to be called once a second."""
        tracker = self.tracker
        self._connected.reconciler.tick()
        if not self._retired:
            self.checkpoint.tick()
            self._open_socket(patient=True)
        if self._socket is not None:
            self._socket.tick()
        self._publishing.tick(tracker)
        if not self._retired:
            self._balancer.tick(tracker)
            self.memory_watch.tick(tracker)
            self._cold_starts.tick(tracker, asyncio.get_running_loop().time())
            if self._resource_files is not None and self._resource_files.is_due:
                self._refresh_files()
        self._ticks += 1
        if self._ticks in _RESYNCS and not self._retired:
            tracker.sync.resync_soon(completely=True)
        if tracker.ready.is_set() and not self._read_again and self._applier is not None:
            # What was asked for before could not be done.
            self._read_again = True
            self._tasks.spawn(self._applier.reload_files(), name="read the configuration again")
        due = self._ticks % _MACHINE_PERIOD == 0 and not self._retired and tracker.ready.is_set()
        if due and (self._checking is None or self._checking.done()):
            self._checking = self._tasks.spawn(self._check_machine(), name="check the CPUs")

    def runtime_up(self) -> None:
        """The runtime is connected (again), perhaps another version of it."""
        if self._calls is not None:
            self._calls.forget_version()
        self.tracker.updaters.retry_now()

    async def _check_machine(self) -> None:
        """Follow CPUs that came or went: containers move then, and one that finds no place shares CPUs."""
        try:
            online = await asyncio.to_thread(read_online_cpus, self._sys)
            if online == self._online:
                self._machine_problem = ""
                return
            topology = await asyncio.to_thread(read_topology, self._sys)
            await self._follow(topology)
        except (OSError, ValueError, ConfigError) as error:
            known = self.tracker.topology.online
            text = f"CPU topology changed and the policy cannot adapt: {error}; it still works with CPUs {known}"
            if text != self._machine_problem:  # logged once: the machine is checked again and again
                self._machine_problem = text
                _log.error("CPU topology changed and the policy cannot adapt", extra={"kv": {"err": str(error)}})
            return
        self._machine_problem = ""
        self._online, self._topology = online, topology
        self._log_offline_reserved(self.tracker.configuration)
        _log.warning("CPUs changed", extra={"kv": {"online": str(topology.online), "offline": str(topology.offline)}})

    async def _follow(self, topology: Topology) -> None:
        async def apply(configuration: Configuration) -> None:
            self._check_running_switch(configuration)
            await self.reconfigurer.apply(configuration, topology, forced=True)

        if self._applier is not None:
            await self._applier.follow_machine(apply)

    def retire(self) -> None:
        """A successor has taken over: state file, config socket and what the node shows are its own."""
        self._retired = True
        self._tasks.spawn(self._publishing.close(), name="leave the agent")
        self.tracker.retire()
        if self._socket is not None:
            socket, self._socket = self._socket, None
            self._tasks.spawn(socket.close(), name="leave the config socket")

    async def close(self) -> None:
        """Close files, sockets and background work; the state file is written unless a successor has it."""
        if self._files is not None:
            await self._files.close()
        if self._socket is not None:
            await self._socket.close()
        await self._publishing.close()
        await self._tasks.cancel()
        if self._resource_files is not None:
            await self._resource_files.close()
        if self._parts is not None:
            await self._parts.interceptor.tracker.close()
        if not self._retired:
            await self.checkpoint.flush()

    # -- configuration at run time

    async def _apply(self, configuration: Configuration) -> None:
        if not self.tracker.ready.is_set():
            raise NotReadyError("the runtime has not listed its containers yet")
        self._check_running_switch(configuration)
        await self.reconfigurer.apply(configuration)
        self._log_offline_reserved(configuration)

    def _check_running_switch(self, configuration: Configuration) -> None:
        """ConfigError if containers are under another policy, and it may not be switched."""
        tracker = self.tracker
        before, now = tracker.configuration.policy, configuration.policy
        if before == NONE and tracker.suspended:
            before = self._state.policy or before  # a fallback configuration replaces it
        if before not in (NONE, now) and tracker.allocations.by_key:
            self._refuse_switch(before, now)

    def _on_agent_config(self, _sent: AgentConfig) -> None:
        self._on_change()

    def _watch(self, paths: tuple[str, ...]) -> None:
        if self._files is not None:
            self._files.watch(paths)

    def _refresh_files(self) -> None:
        """Tell containers what they have now, unless nothing is known of them or nothing was decided about them."""
        tracker = self.tracker
        known = tracker.ready.is_set() and not self._retired and not tracker.decides_nothing
        if known and self._resource_files is not None:
            self._resource_files.refresh_soon()

    # -- state file

    def _on_change(self) -> None:
        self._refresh_files()
        tracker, sent = self.tracker, self._sources.sent
        # Without a policy, now and before, there is no file; where there was one, it says that the policy has ended.
        decides = tracker.configuration.policy != NONE or tracker.configuration.fallback_reasons
        blank = not decides and (sent is None or not sent.data)
        blank = blank and not tracker.pod_quotas.originals
        if self._retired or (blank and self._blank):
            return
        self._blank = blank and tracker.ready.is_set()
        self.checkpoint.save_soon(self._current_state)

    async def _save(self) -> bool:
        """Bring the state to the disk; whether it is there."""
        self._on_change()
        return await self.checkpoint.flush()

    def _current_state(self) -> State:
        """Everything that the state file holds, as a value."""
        tracker = self.tracker
        configuration, sent = tracker.configuration, self._sources.sent
        policy, grants = configuration.policy, tracker.allocations.policy.state.grants
        if policy == NONE:
            # The fallback decides nothing: containers are still what they were under the policy before.
            policy, grants = (self._state.policy if configuration.fallback_reasons else NONE), tracker.suspended
        state = State(
            policy=policy,
            fingerprint=tracker.topology.fingerprint,
            entries=tuple(
                SavedEntry(
                    key=key,
                    container_id=held.id,
                    grant=grants[key],
                    amounts=held.request.amounts,
                    extra_mems=held.widening.nodes if held.widening is not None else EMPTY,
                )
                for key, held in tracker.allocations.by_key.items()
                if key in grants
            ),
        )
        if not tracker.ready.is_set():  # what was saved is not restored yet
            state = self._state
        config, node = (sent.data, sent.node_name) if sent is not None else ({}, "")
        quotas = MappingProxyType(tracker.pod_quotas.originals)
        return replace(state, config=config, config_node=node, pod_quotas=quotas)

    def memory(self) -> Mapping[str, object]:
        """For a successor: what is not on the disk yet, and what is in flight."""
        return encode_handover(self._current_state(), self.tracker)

    def inherit(self, memory: object) -> None:
        """Use what the `memory` of a previous relay holds; what cannot be read is ignored."""
        handover = decode_handover(memory)
        if handover is None or handover.state.fingerprint != self._topology.fingerprint:
            return
        self._state, self._pending = handover
        sent = AgentConfig(node_name=self._state.config_node, data=self._state.config)
        if sent != (self._sources.sent or AgentConfig()):
            # It did not reach the disk, or something newer did not.
            self._sources.accept(sent)
            self._configuration = self._first_configuration()

    # -- views

    def collect(self) -> Iterable[Family]:
        """Metrics of policy, state file, config socket and publishing."""
        yield from policy_collector(self.interceptor)()
        yield from state_collector(self.checkpoint, self._server)()
        yield from self._publishing.collect()
        yield from load_collector(self._balancer, self.memory_watch, self._cold_starts)()

    def summary(self) -> dict[str, object]:
        """Policy, number of containers and readiness, for the relay's status."""
        tracker = self.tracker
        return {
            "name": tracker.configuration.policy,
            "containers": len(tracker.allocations.by_key),
            "ready": tracker.ready.is_set(),
        }

    def cgroup_tree(self) -> CgroupTree:
        """The cgroups of this machine; ConfigError if there are none. Reads files: not for the loop."""
        files, root = KernelFiles(), f"{self._sys}/fs/cgroup"
        return CgroupTree(files, root, version=detect_version(files, root))

    def problems(self) -> list[str]:
        """Problems for an operator, besides those that the tracker itself shows."""
        tracker = self.tracker
        of_files = self._applier.problems if self._applier is not None else ()
        waits = "" if tracker.ready.is_set() else "running containers are not known yet: no exclusive CPUs are granted"
        troubles = [f"{subject} cannot be looked up: {error}" for subject, error in tracker.sync.troubles.items()]
        own = (
            waits,
            self._machine_problem,
            self._balancer.problem,
            self.memory_watch.problem,
            "" if self._resource_files is None else self._resource_files.problem,
            describe_offline_reserved(tracker.configuration, tracker.topology),
        )
        return [*filter(None, own), *of_files, *troubles, *self._publishing.problems()]
