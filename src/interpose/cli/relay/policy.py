"""The policy of a relay, put together: machine, configuration, state file, config socket, books and interceptor.

Everything that can be wrong with a configuration is found in the constructor, before the relay has its sockets. What
an earlier run remembered is read here too; a file that does not fit is set aside and the runtime is believed instead.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from interpose.cli.common.setting_errors import about_setting
from interpose.cli.relay.policy_views import PolicyViews
from interpose.cli.relay.policy_wanted import state_path
from interpose.cli.relay.publishing import Publishing
from interpose.config.relay.settings import RelaySettings
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.names import NONE
from interpose.core.policy.registry import make
from interpose.core.policy.request import Request
from interpose.core.topology.topology import Topology
from interpose.cri.store.starts import Starts
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.errors import ConfigError, NotReadyError, SocketInUseError
from interpose.host.atomic_file import replace_file
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.host.cpusets import resolve
from interpose.host.sysfs import online_now, read_topology
from interpose.log import RateLimited
from interpose.metrics import Family
from interpose.net.grpc.transport import Hub
from interpose.net.httpd.routes import Handler
from interpose.relay.internal_calls import OwnCalls
from interpose.relay.subscriptions import Switchboard
from interpose.resmgr.config.apply import Reconfiguring
from interpose.resmgr.config.configuration import (
    AgentConfig,
    Configuration,
    describe_offline_reserved,
    effective_reserved,
)
from interpose.resmgr.config.files import ConfigFiles
from interpose.resmgr.config.server import ConfigServer, ConfigSocket, bind_config_socket
from interpose.resmgr.config.sources import Outside, Sources
from interpose.resmgr.handover import read_estate, write_estate
from interpose.resmgr.interceptor import Manager
from interpose.resmgr.metrics import policy_collector, state_collector
from interpose.resmgr.state.checkpoint import Checkpoint, load, set_aside
from interpose.resmgr.state.state import Entry, State
from interpose.resmgr.tracker import Books
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_LOOK: Final = 5  # ticks after which the machine is looked at again
# Ticks after which all containers are looked at again: what a relay sent before it was killed may be carried out late.
_AGAIN: Final = frozenset((3, 15, 60))


def make_policy(configuration: Configuration, topology: Topology) -> Policy:
    """The policy of a configuration on a machine; ConfigError if it cannot work there."""
    reserved = effective_reserved(configuration, topology)
    setup = Setup(topology=topology, available=configuration.available, reserved=reserved)
    return make(configuration.policy, setup, configuration.options)


class PolicyPart:
    """What the relay has of policies."""

    def __init__(
        self,
        settings: RelaySettings,
        origins: Mapping[str, str],
        hub: Hub,
        *,
        write: Callable[[str, bytes], None] = replace_file,
    ) -> None:
        """`write` replaces the state file."""
        self._settings = settings.policy
        self._take_over = settings.process.take_over
        self._hub = hub
        self._sys = str(Path(self._settings.host_root, "sys"))
        self._tasks = TaskBag()
        self._retired = False
        self._ticks = 0
        self._looking: asyncio.Task[None] | None = None
        self._trouble = ""  # why the machine could not be looked at, or not be followed
        self._read_again = False  # whether files were read since the books are ready
        self._remarks = RateLimited(_log)
        self._told = ""  # about reserved CPUs that are offline
        try:
            self._online = online_now(self._sys)
            self._topology = read_topology(self._sys)
        except (OSError, ValueError) as error:
            raise ConfigError(f"policy.host_root: the machine cannot be read: {error}") from None
        path = str(state_path(self._settings))
        loaded = load(path)
        if loaded.message:
            _log.error("Saved policy state set aside", extra={"kv": {"why": loaded.message}})
        self._state = loaded.state or State()
        if self._state.entries and self._state.fingerprint != self._topology.fingerprint:
            self._set_aside(path)
            self._state = replace(self._state, policy="", fingerprint="", entries=())
        sent = AgentConfig(node_name=self._state.config_node, data=self._state.config) if self._state.config else None
        outside = Outside(resolve=partial(resolve, root=Path(self._settings.host_root)))
        self._sources = Sources(self._settings, origins, sent=sent, outside=outside)
        self._configuration = self._first_configuration()
        self._check_switch()
        if self._configuration.policy == NONE and self._state == State(
            policy=NONE, fingerprint=self._state.fingerprint
        ):
            # Nothing of an earlier policy is left: without the file, the next start need not load any of this.
            with suppress(OSError):
                Path(path).unlink(missing_ok=True)
        self._blank = not Path(path).exists()  # nothing is remembered
        self.checkpoint = Checkpoint(path, now=time.time, write=write)
        self._manager: Manager | None = None
        self._calls: OwnCalls | None = None
        self._reconfiguring: Reconfiguring | None = None
        self._files: ConfigFiles | None = None
        self._server: ConfigServer | None = None
        self._socket: ConfigSocket | None = None
        self._publishing = Publishing(self._settings, hub)
        self._pending: tuple[Request, ...] = ()  # creates that a predecessor has in flight

    def _set_aside(self, path: str) -> None:
        kv = {"file": path, "why": "it is of a machine with other CPUs"}
        try:
            kv["kept_as"] = set_aside(path)
        except OSError as error:
            kv["err"] = str(error)
        _log.warning("Saved policy state set aside", extra={"kv": kv})

    def _first_configuration(self) -> Configuration:
        """What an agent sent once may not fit now: then something else stands in for it."""
        configuration = self._sources.at_start(lambda one: make_policy(one, self._topology))
        for why in configuration.stands_in:
            kv = {"policy": configuration.policy, "why": why}
            _log.error("Configured policy could not be put in force", extra={"kv": kv})
        if configuration.stands_in and not self._settings.switch and configuration.policy != self._state.policy:
            # Whatever stands in may not take over either: nobody decides until the right one is back.
            configuration = replace(configuration, policy=NONE, available=None, reserved=None, options=None)
        self._tell_unplugged(configuration)
        return configuration

    def _check_switch(self) -> None:
        before, now = self._state.policy, self._configuration.policy
        if self._configuration.stands_in and now == NONE:
            return  # nothing changes for containers
        if before and before != now and self._state.entries:
            self._refuse_switch(before, now)
            _log.info("Policy was switched", extra={"kv": {"before": before, "now": now}})

    def _refuse_switch(self, before: str, now: str) -> None:
        if not self._settings.switch:
            raise ConfigError(f"policy.switch: containers run under policy {before}, and {now} may not take over")

    def _tell_unplugged(self, configuration: Configuration) -> None:
        """Once, until it is something else."""
        text = describe_offline_reserved(configuration, self._topology)
        if text and text != self._told:
            _log.warning("Reserved CPUs are offline", extra={"kv": {"what": text}})
        self._told = text

    # -- parts

    def manage(self, relay: Switchboard, store: Store, sync: Synchronizer, starts: Starts) -> Manager:
        """The interceptor, in its place above the store."""
        clock = asyncio.get_running_loop().time
        calls = OwnCalls(relay, "policy")
        books = Books(
            configuration=self._configuration,
            topology=self._topology,
            make=make_policy,
            store=store,
            sync=sync,
            send=calls,
            starts=starts,
            cgroups=self._cgroups,
            capacity=sum(node.memory_bytes for node in self._topology.nodes),
            clock=clock,
            now=time.time,
        )
        books.beginning.remember(self._state.policy, self._state.entries, anew=self._state.anew)
        books.beginning.expect(self._pending)
        books.on_change = self._changed
        store.on_container = books.seen
        starts.on_lost = books.lost
        sync.on_listed = books.beginning.listed
        books.on_configured = relay.refresh
        manager = Manager(books, clock=clock, now=time.time)
        calls.below = manager
        self._manager, self._calls = manager, calls
        self._reconfiguring = Reconfiguring(
            self._sources, self._configuration, self._apply, remember=self._remember, watch=self._watch
        )
        return manager

    @property
    def manager(self) -> Manager:
        """The interceptor; there once `manage` was called."""
        if self._manager is None:
            raise RuntimeError("the policy has no place in the chain yet")
        return self._manager

    # -- life

    def start(self) -> None:
        """Follow configuration files, and listen to the agent."""
        if self._reconfiguring is not None:
            self._files = ConfigFiles(self._reconfiguring.by_files)
            self._files.watch(self._sources.watched)
            self._publishing.start(self.manager.books)
        self._open_socket(patient=self._take_over)

    def _open_socket(self, *, patient: bool) -> None:
        path = self._settings.config_socket
        if path == "none" or self._socket is not None or self._retired or self._reconfiguring is None:
            return
        try:
            with about_setting(config_socket=path):
                bound = bind_config_socket(path)
        except (SocketInUseError, ConfigError, OSError) as error:
            if not patient:
                raise
            # Our predecessor's, perhaps; the next tick tries again.
            self._remarks.log(logging.WARNING, "Config socket cannot be opened yet", path=path, err=str(error))
            return
        # What something stands in for is not in force: sent again, it is tried again.
        accepted = self._sources.sent if self._sources.again() is None else None
        self._server = ConfigServer(self._reconfiguring.by_agent, forced=self._sources.forced, accepted=accepted)
        self._socket = ConfigSocket(bound, self._server, hub=self._hub)
        self._tasks.spawn(self._socket.start(), name="serve the config socket")

    def tick(self) -> None:
        """A second has passed."""
        manager = self.manager
        manager.books.tick()
        if not self._retired:
            self.checkpoint.tick()
            self._open_socket(patient=True)
        if self._socket is not None:
            self._socket.tick()
        self._publishing.tick(manager.books)
        self._ticks += 1
        if self._ticks in _AGAIN and not self._retired:
            manager.books.sync.resync_soon(completely=True)
        if manager.books.ready.is_set() and not self._read_again and self._reconfiguring is not None:
            # What was asked for before there were books could not be done.
            self._read_again = True
            self._tasks.spawn(self._reconfiguring.by_files(), name="look at the configuration again")
        due = self._ticks % _LOOK == 0 and not self._retired and manager.books.ready.is_set()
        if due and (self._looking is None or self._looking.done()):
            self._looking = self._tasks.spawn(self._look_at_machine(), name="look at the CPUs")

    def runtime_up(self) -> None:
        """The runtime came (back), perhaps another one."""
        if self._calls is not None:
            self._calls.forget_version()
        self.manager.books.writers.retry_now()

    async def _look_at_machine(self) -> None:
        """CPUs come and go: everybody moves then, and who finds no place shares."""
        try:
            online = await asyncio.to_thread(online_now, self._sys)
            if online == self._online:
                self._trouble = ""
                return
            topology = await asyncio.to_thread(read_topology, self._sys)
            await self._follow(topology)
        except (OSError, ValueError, ConfigError) as error:
            known = self.manager.books.topology.online
            text = f"CPU topology changed and the policy cannot adapt: {error}; it still works with CPUs {known}"
            if text != self._trouble:  # told once: the machine is looked at again and again
                self._trouble = text
                _log.error("CPU topology changed and the policy cannot adapt", extra={"kv": {"err": str(error)}})
            return
        self._trouble = ""
        self._online, self._topology = online, topology
        self._tell_unplugged(self.manager.books.configuration)
        _log.warning("CPUs changed", extra={"kv": {"online": str(topology.online), "offline": str(topology.offline)}})

    async def _follow(self, topology: Topology) -> None:
        async def become(configuration: Configuration) -> None:
            self._check_running_switch(configuration)
            await self.manager.books.changing.to(configuration, topology, forced=True)

        if self._reconfiguring is not None:
            await self._reconfiguring.by_machine(become)

    def retire(self) -> None:
        """A successor has taken over: state file, config socket and what the node shows are its own."""
        self._retired = True
        self._tasks.spawn(self._publishing.close(), name="leave the agent")
        self.manager.books.retire()
        if self._socket is not None:
            socket, self._socket = self._socket, None
            self._tasks.spawn(socket.close(), name="leave the config socket")

    async def close(self) -> None:
        """Leave nothing behind."""
        if self._files is not None:
            await self._files.close()
        if self._socket is not None:
            await self._socket.close()
        await self._publishing.close()
        await self._tasks.cancel()
        if self._manager is not None:
            await self._manager.books.close()
        if not self._retired:
            await self.checkpoint.flush()

    # -- configuration at run time

    async def _apply(self, configuration: Configuration) -> None:
        manager = self.manager
        if not manager.books.ready.is_set():
            raise NotReadyError("the runtime has not listed its containers yet")
        self._check_running_switch(configuration)
        await manager.books.changing.to(configuration)
        self._tell_unplugged(configuration)

    def _check_running_switch(self, configuration: Configuration) -> None:
        """ConfigError if containers are under another policy, and it may not be switched."""
        books = self.manager.books
        before, now = books.configuration.policy, configuration.policy
        if before == NONE and books.asleep:
            before = self._state.policy or before  # something stands in for it
        if before not in (NONE, now) and books.ledger.held:
            self._refuse_switch(before, now)

    def _remember(self, _sent: AgentConfig) -> None:
        self._changed()

    def _watch(self, paths: tuple[str, ...]) -> None:
        if self._files is not None:
            self._files.watch(paths)

    # -- what is remembered

    def _changed(self) -> None:
        books, sent = self.manager.books, self._sources.sent
        # Without a policy, now and before, there is no file; where there was one, it says that the policy has ended.
        decides = books.configuration.policy != NONE or books.configuration.stands_in
        blank = not decides and (sent is None or not sent.data)
        if self._retired or (blank and self._blank):
            return
        self._blank = blank and books.ready.is_set()
        self.checkpoint.save_soon(self._now)

    def _now(self) -> State:
        """Everything worth remembering, as a value."""
        books = self.manager.books
        configuration, sent = books.configuration, self._sources.sent
        policy, grants = configuration.policy, books.ledger.policy.book.grants
        if policy == NONE:
            # What stands in decides nothing: containers are still what they were under the policy before.
            policy, grants = (self._state.policy if configuration.stands_in else NONE), books.asleep
        state = State(
            policy=policy,
            fingerprint=books.topology.fingerprint,
            entries=tuple(
                Entry(key=key, container_id=held.id, grant=grants[key], amounts=held.request.amounts)
                for key, held in books.ledger.held.items()
                if key in grants
            ),
        )
        if not books.ready.is_set():  # nobody has looked at what was remembered yet
            state = self._state
        config, node = (sent.data, sent.node_name) if sent is not None else ({}, "")
        return replace(state, config=config, config_node=node)

    def memory(self) -> Mapping[str, object]:
        """For a successor: what is not on the disk yet, and what is in flight."""
        return write_estate(self._now(), self.manager.books)

    def inherit(self, memory: object) -> None:
        """The other side of `memory`."""
        estate = read_estate(memory)
        if estate is None or estate.state.fingerprint != self._topology.fingerprint:
            return
        self._state, self._pending = estate
        sent = AgentConfig(node_name=self._state.config_node, data=self._state.config)
        if sent != (self._sources.sent or AgentConfig()):
            # It did not reach the disk, or something newer did not.
            self._sources.accept(sent)
            self._configuration = self._first_configuration()

    # -- views

    def collect(self) -> Iterable[Family]:
        """Metrics."""
        yield from policy_collector(self.manager)()
        yield from state_collector(self.checkpoint, self._server)()
        yield from self._publishing.collect()

    def summary(self) -> dict[str, object]:
        """What a status says of policies."""
        books = self.manager.books
        return {"name": books.configuration.policy, "containers": len(books.ledger.held), "ready": books.ready.is_set()}

    def routes(self) -> Mapping[tuple[str, str], Handler]:
        """What the admin socket answers about policies."""
        return PolicyViews(self.manager, self.checkpoint, self._cgroups, self._problems).routes()

    def _cgroups(self) -> CgroupTree:
        """Of this machine; ConfigError if there are none. Reads files: not for the loop."""
        files, root = KernelFiles(), f"{self._sys}/fs/cgroup"
        return CgroupTree(files, root, version=detect_version(files, root))

    def _problems(self) -> list[str]:
        """What an operator has to know, besides what the books show themselves."""
        books = self.manager.books
        of_files = self._reconfiguring.problems if self._reconfiguring is not None else ()
        waits = "" if books.ready.is_set() else "running containers are not known yet: no exclusive CPUs are granted"
        troubles = [f"{what} cannot be looked up: {why}" for what, why in books.sync.troubles.items()]
        own = (waits, self._trouble, describe_offline_reserved(books.configuration, books.topology))
        return [*filter(None, own), *of_files, *troubles, *self._publishing.problems()]
