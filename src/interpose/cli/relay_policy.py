"""The policy of a relay, put together: machine, configuration, state file, config socket, books and interceptor.

Everything that can be wrong with a configuration is found in the constructor, before the relay has its sockets. What
an earlier run remembered is read here too; a file that does not fit is set aside and the runtime is believed instead.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from interpose.admin.routes import Handler, Request, Response
from interpose.admin.routes import json_response as json
from interpose.cli.policy_wanted import state_path
from interpose.config.settings import RelaySettings
from interpose.errors import ConfigError, SocketInUseError
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.host.sysfs import online_now, read_topology
from interpose.instrumentation.metrics import Family
from interpose.policy.names import NONE
from interpose.policy.policy import Policy, Setup
from interpose.policy.registry import make
from interpose.policy.request import Request as ContainerRequest
from interpose.relay.owncalls import OwnCalls
from interpose.relay.relay import Relay
from interpose.resmgr.books import Books
from interpose.resmgr.checkpoint import Checkpoint, load
from interpose.resmgr.configfiles import ConfigFiles
from interpose.resmgr.configserver import ConfigServer, ConfigSocket, bind_config_socket
from interpose.resmgr.configuration import Configuration
from interpose.resmgr.durable import set_aside
from interpose.resmgr.estate import read_estate, write_estate
from interpose.resmgr.manager import Manager
from interpose.resmgr.metrics import policy_collector, state_collector
from interpose.resmgr.reconfiguring import Reconfiguring
from interpose.resmgr.report import cgroup_report, container_report, find, policy_report, topology_report
from interpose.resmgr.sent import Sent
from interpose.resmgr.sources import Sources
from interpose.resmgr.statefile import Entry, State
from interpose.rpc.tasks import TaskBag
from interpose.rpc.transport import Hub
from interpose.store.store import Store
from interpose.store.sync import Synchronizer
from interpose.topology.topology import Topology

_log = logging.getLogger(__name__)

_LOOK: Final = 5  # ticks after which the machine is looked at again
_MOST_MATCHES: Final = 20


def make_policy(configuration: Configuration, topology: Topology) -> Policy:
    """The policy of a configuration on a machine; ConfigError if it cannot work there."""
    setup = Setup(topology=topology, available=configuration.available, reserved=configuration.reserved)
    return make(configuration.policy, setup, configuration.options)


class PolicyPart:
    """What the relay has of policies."""

    def __init__(self, settings: RelaySettings, origins: Mapping[str, str], hub: Hub) -> None:
        self._settings = settings.policy
        self._take_over = settings.process.take_over
        self._hub = hub
        self._sys = str(Path(self._settings.host_root, "sys"))
        self._tasks = TaskBag()
        self._retired = False
        self._ticks = 0
        self._looking: asyncio.Task[None] | None = None
        self._trouble = ""  # why the machine could not be looked at, or not be followed
        try:
            self._online = online_now(self._sys)
            self._topology = read_topology(self._sys)
        except (OSError, ValueError) as error:
            raise ConfigError(f"policy.host_root: the machine cannot be read: {error}") from None
        path = str(state_path(self._settings))
        loaded = load(path)
        if loaded.message:
            _log.error("State of an earlier run was set aside", extra={"kv": {"why": loaded.message}})
        self._state = loaded.state or State()
        if self._state.entries and self._state.fingerprint != self._topology.fingerprint:
            self._set_aside(path)
            self._state = State(config=self._state.config, config_node=self._state.config_node)
        sent = Sent(node_name=self._state.config_node, data=self._state.config) if self._state.config else None
        self._sources = Sources(self._settings, origins, sent=sent)
        self._configuration = self._first_configuration()
        self._check_switch()
        if self._configuration.policy == NONE and self._state == State(
            policy=NONE, fingerprint=self._state.fingerprint
        ):
            # Nothing of an earlier policy is left: without the file, the next start need not load any of this.
            Path(path).unlink(missing_ok=True)
        self.checkpoint = Checkpoint(path, now=time.time)
        self._manager: Manager | None = None
        self._relay: Relay | None = None
        self._calls: OwnCalls | None = None
        self._reconfiguring: Reconfiguring | None = None
        self._files: ConfigFiles | None = None
        self._server: ConfigServer | None = None
        self._socket: ConfigSocket | None = None
        self._pending: tuple[ContainerRequest, ...] = ()  # creates that a predecessor has in flight

    def _set_aside(self, path: str) -> None:
        kv = {"file": path, "why": "it is of a machine with other CPUs"}
        try:
            kv["kept_as"] = set_aside(path)
        except OSError as error:
            kv["err"] = str(error)
        _log.warning("State of an earlier run was set aside", extra={"kv": kv})

    def _first_configuration(self) -> Configuration:
        """What an agent sent once may not fit any more: then the node goes on without it."""
        configuration = self._sources.at_start()
        try:
            make_policy(configuration, self._topology)
        except ConfigError as error:
            if self._sources.sent is None or self._sources.forced:
                raise
            self._sources.set_aside(error.problems)
            configuration = self._sources.at_start()
            make_policy(configuration, self._topology)
        return configuration

    def _check_switch(self) -> None:
        before, now = self._state.policy, self._configuration.policy
        if before and before != now and self._state.entries:
            if not self._settings.switch:
                raise ConfigError(f"policy.switch: containers run under policy {before}, and {now} may not take over")
            _log.info("Policy was switched", extra={"kv": {"before": before, "now": now}})

    # -- parts

    def manage(self, relay: Relay, store: Store, sync: Synchronizer) -> Manager:
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
            capacity=sum(node.memory_bytes for node in self._topology.nodes),
            clock=clock,
            now=time.time,
        )
        books.remember(self._state.policy, self._state.entries)
        books.expect(self._pending)
        books.on_change = self._changed
        store.on_container = books.seen
        sync.on_in_step = books.in_step
        manager = Manager(books, clock=clock, now=time.time)
        calls.below = manager
        self._manager, self._relay, self._calls = manager, relay, calls
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
        self._open_socket(patient=self._take_over)

    def _open_socket(self, *, patient: bool) -> None:
        path = self._settings.config_socket
        if path == "none" or self._socket is not None or self._retired or self._reconfiguring is None:
            return
        try:
            bound = bind_config_socket(path)
        except SocketInUseError:
            if not patient:
                raise
            return  # our predecessor's; the next tick tries again
        self._server = ConfigServer(
            self._reconfiguring.by_agent, forced=self._sources.forced, accepted=self._sources.sent
        )
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
        self._ticks += 1
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
            await self.manager.books.change(self.manager.books.configuration, topology, forced=True)
        except (OSError, ValueError, ConfigError) as error:
            if str(error) != self._trouble:  # told once: the machine is looked at again and again
                self._trouble = str(error)
                _log.error("CPUs changed and the policy cannot follow", extra={"kv": {"err": self._trouble}})
            return
        self._trouble = ""
        self._online, self._topology = online, topology
        _log.warning("CPUs changed", extra={"kv": {"online": str(topology.online), "offline": str(topology.offline)}})

    def retire(self) -> None:
        """A successor has taken over: state file and config socket are its own."""
        self._retired = True
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
        await self._tasks.cancel()
        if self._manager is not None:
            await self._manager.books.close()
        if not self._retired:
            await self.checkpoint.flush()

    # -- configuration at run time

    async def _apply(self, configuration: Configuration) -> None:
        manager = self.manager
        if not manager.books.ready.is_set():
            raise ConfigError("the runtime has not told yet what runs: try again")
        await manager.books.change(configuration)
        if self._relay is not None:
            self._relay.refresh()

    def _remember(self, _sent: Sent) -> None:
        self._changed()

    def _watch(self, paths: tuple[str, ...]) -> None:
        if self._files is not None:
            self._files.watch(paths)

    # -- what is remembered

    def _changed(self) -> None:
        if not self._retired:
            self.checkpoint.save_soon(self._now)

    def _now(self) -> State:
        """Everything worth remembering, as a value."""
        books = self.manager.books
        grants = books.ledger.policy.book.grants
        none = books.configuration.policy == NONE
        sent = self._sources.sent
        return State(
            policy=books.configuration.policy,
            fingerprint=books.topology.fingerprint,
            entries=()
            if none
            else tuple(
                Entry(key=key, container_id=held.id, grant=grants[key], amounts=held.request.amounts)
                for key, held in books.ledger.held.items()
                if key in grants
            ),
            config=sent.data if sent is not None else {},
            config_node=sent.node_name if sent is not None else "",
        )

    def memory(self) -> Mapping[str, object]:
        """For a successor: what is not on the disk yet, and what is in flight."""
        return write_estate(self._now(), self.manager.books)

    def inherit(self, memory: object) -> None:
        """The other side of `memory`."""
        estate = read_estate(memory)
        if estate is not None and estate.state.fingerprint == self._topology.fingerprint:
            self._state, self._pending = estate

    # -- views

    def collect(self) -> Iterable[Family]:
        """Metrics."""
        yield from policy_collector(self.manager)()
        yield from state_collector(self.checkpoint, self._server)()

    def summary(self) -> dict[str, object]:
        """What a status says of policies."""
        books = self.manager.books
        return {"name": books.configuration.policy, "containers": len(books.ledger.held), "ready": books.ready.is_set()}

    def routes(self) -> Mapping[tuple[str, str], Handler]:
        """What the admin socket answers about policies."""
        return {
            ("GET", "/v1/policy"): self._show,
            ("GET", "/v1/policy/containers/*"): self._explain,
            ("GET", "/v1/topology"): self._show_topology,
        }

    async def _show(self, _request: Request) -> Response:
        problems = list(self._reconfiguring.problems) if self._reconfiguring is not None else []
        return json(policy_report(self.manager, problems=problems, state_file=self._state_file()))

    def _state_file(self) -> dict[str, object]:
        one = self.checkpoint
        return {"path": one.path, "saved": one.saved, "failed": one.failed, "error": one.error, "dirty": one.dirty}

    async def _show_topology(self, _request: Request) -> Response:
        return json(topology_report(self.manager))

    async def _explain(self, request: Request) -> Response:
        books = self.manager.books
        found = find(books, request.rest)
        if len(found) != 1:
            what = "more than one container is called" if found else "no container under the policy is called"
            matches = [f"{one.request.title} ({one.id[:12]})" for one in found[:_MOST_MATCHES]]
            return json({"error": f"{what} {request.rest!r:.80}", "matches": matches}, 404)
        report = container_report(books, found[0])
        container = books.store.containers.get(found[0].id)
        return json({**report, "cgroup": await asyncio.to_thread(cgroup_report, container, self._cgroups)})

    def _cgroups(self) -> CgroupTree:
        files, root = KernelFiles(), f"{self._sys}/fs/cgroup"
        return CgroupTree(files, root, version=detect_version(files, root))
