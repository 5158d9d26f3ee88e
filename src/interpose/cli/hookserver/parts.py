"""The parts of a hook server put together: what the daemon, a single round and a dry run have in common."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from interpose.cli.common.admin_client import fetch_json
from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.cli.hookserver.checks import stage_problems, with_real_paths
from interpose.config.endpoint import WELL_KNOWN_RUNTIMES
from interpose.config.hookserver.settings import HookServerSettings
from interpose.config.relay.settings import RelaySettings
from interpose.core.model.cgroup import Parameter
from interpose.cri.api_version import RuntimeCalls
from interpose.cri.store.requested import NOT_REQUESTED
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.actuators.api import Actuator
from interpose.hooks.server.actuators.cgroup import BvtActuator, CgroupActuator, SysctlActuator
from interpose.hooks.server.actuators.core_sched import CoreSchedActuator
from interpose.hooks.server.actuators.oom import OomActuator
from interpose.hooks.server.actuators.resctrl import ResctrlActuator
from interpose.hooks.server.node.kernel_features import probe
from interpose.hooks.server.node.node_document import NodeDocument
from interpose.hooks.server.node.node_file import NodeFile
from interpose.hooks.server.node.node_inputs import NodeInputCollector
from interpose.hooks.server.node.relay_policy import PATH, Fetch, RelayPolicy
from interpose.hooks.server.plugin import AnyPlugin
from interpose.hooks.server.plugin_registry import all_plugins, enabled_plugins, stages_of
from interpose.hooks.server.pods.kubelet_client import KubeletPods, MetadataSource
from interpose.hooks.server.pods.pod_annotations import is_managed
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.cri_updates import ContainerUpdates
from interpose.hooks.server.reconcile.inventory import Inventory, default_layout
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.reconciler import Reconciler
from interpose.hooks.server.worker_threads import Runner
from interpose.host.cgroup.files import CgroupFiles, KernelFiles
from interpose.host.cgroup.parameters import TABLE
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.host.coresched import KernelCoreSched
from interpose.host.numa_cpus import kubelet_cpu_manager, read_cpus
from interpose.host.processes import Processes
from interpose.host.resctrl import ResctrlTree
from interpose.net.grpc.client import Client
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits

_log = logging.getLogger(__name__)

_JOURNAL = "hookserver.journal"
_DOCUMENT = "nodeslo.last-good"
_BOOT_ID = "sys/kernel/random/boot_id"


class HookServerParts:
    """All parts of a hook server that decide and act, without its sockets."""

    def __init__(
        self,
        settings: HookServerSettings,
        *,
        plugins: Sequence[AnyPlugin],
        hook_calls: Callable[[str], int] | None = None,
        dry_run: bool = False,
        on_document: Callable[[], None] = lambda: None,
        on_late_answer: Callable[[], None] = lambda: None,
        files: CgroupFiles | None = None,
    ) -> None:
        """`on_document` is called for a new document, `on_late_answer` when kubelet or relay answer
        late. `hook_calls` counts the hook calls about a container.

        `files` are the kernel's, unless a test has others.
        """
        self.settings = settings = with_real_paths(settings)
        places = settings.cgroups
        self.plugins = tuple(plugins)
        files = KernelFiles() if files is None else files
        self.tree = CgroupTree(files, places.root, version=detect_version(files, places.root))
        self.journal = open_journal(settings, reading_only=dry_run)
        self.hub = Hub()
        path, find = find_runtime_endpoint(settings)
        self.upstream = Upstream(path, hub=self.hub, limits=Limits(), wait=1.0, find=find)
        self.calls = RuntimeCalls(Client(self.upstream, self.hub))
        self.store = Store()
        self.sync = Synchronizer(self.store, self.calls)
        self.runner = Runner(timeout=settings.hooks.plugin_timeout)
        self.core_sched = CoreSchedActuator(self.tree, KernelCoreSched())
        self.resctrl = ResctrlActuator(self.tree, ResctrlTree(files, f"{places.sys_root}/fs/resctrl"))
        self.applier = Applier(
            self._actuators(files), self.journal, now=time.monotonic, dry_run=dry_run, allowed=self.allowed
        )
        self.inventory = Inventory(self.tree, self.journal)
        # These updates are not requests of a kubelet; a relay shall not take them for that.
        marked = RuntimeCalls(Client(self.upstream, self.hub), metadata=(NOT_REQUESTED,))
        self.updates = ContainerUpdates(
            self.store, marked, self.journal, allowed=self.allowed, refresh=self.sync.refresh, update_count=hook_calls
        )
        self.facts = MetadataSource(_kubelet(settings), on_late_answer)
        self.policy = RelayPolicy(_relay(settings), now=time.monotonic, on_change=on_late_answer)
        self.node_file = None
        if settings.nodeslo:
            keep = f"{settings.state_dir}/{_DOCUMENT}"
            self.node_file = NodeFile(
                settings.nodeslo, lambda _document: on_document(), copy_path=keep, save_copy=not dry_run
            )
        self.gatherer = NodeInputCollector(
            tree=self.tree,
            kubepods=places.kubepods,
            layout=default_layout(places.driver, places.kubepods),
            document=self.document,
            probe=lambda layout: probe(self.tree, files, places.proc_root, places.sys_root, layout),
            cpus=lambda: read_cpus(places.sys_root),
            kubelet=lambda: kubelet_cpu_manager(settings.kubelet_state_dir),
        )
        self.reconciler = Reconciler(
            plugins=self.plugins,
            sync=self.sync,
            inventory=self.inventory,
            applier=self.applier,
            updates=self.updates,
            runner=self.runner,
            collect_inputs=self.gatherer.collect,
            overlay=self.facts.poll,
            is_managed=is_managed,
            policy=self.policy.poll,
        )
        self._adopt()

    def document(self) -> NodeDocument:
        """The node's document in force; an empty one if there is none."""
        return (self.node_file.document if self.node_file is not None else None) or NodeDocument()

    def allowed(self, parameter: Parameter, directory: str) -> str:
        """All CPUs or memory nodes that children of a directory can have."""
        look = self.tree.allowed_cpus if parameter is Parameter.CPUSET_CPUS else self.tree.allowed_mems
        with suppress(OSError, ValueError):
            return look(directory)
        return ""

    async def close(self) -> None:
        """Close files and connections; the journal stays."""
        if self.node_file is not None:
            await self.node_file.close()
        await self.facts.close()
        await self.policy.close()
        await self.sync.close()
        await self.upstream.close()
        await self.runner.close()
        self.journal.close()

    def _actuators(self, files: CgroupFiles) -> Mapping[Parameter, Actuator]:
        proc = self.settings.cgroups.proc_root
        cgroup: Actuator = CgroupActuator(self.tree)
        sysctl: Actuator = SysctlActuator(files, proc)
        return {
            **dict.fromkeys(TABLE, cgroup),
            Parameter.CPU_BVT: BvtActuator(self.tree),
            Parameter.SCHED_CORE: sysctl,
            Parameter.SCHED_GROUP_IDENTITY: sysctl,
            Parameter.OOM_SCORE_ADJ: OomActuator(self.tree, Processes(files, proc)),
            Parameter.CORE_SCHED: self.core_sched,
            Parameter.RESCTRL: self.resctrl,
        }

    def _adopt(self) -> None:
        """Take core-scheduling groups from the journal: cookies have no names in the kernel."""
        for level, key in self.journal.targets():
            entry = self.journal.get(level, key, Parameter.CORE_SCHED)
            target = self.journal.target_of(level, key)
            if entry is not None and target is not None and isinstance(entry.written, str):
                with suppress(OSError):
                    self.core_sched.adopt(target, entry.written)


def open_journal(settings: HookServerSettings, *, reading_only: bool = False) -> Journal:
    """The journal of this node. One that is only read is not locked, and nothing is written to its file."""
    path = Path(settings.cgroups.proc_root, _BOOT_ID)
    try:
        boot = path.read_text().strip()
    except OSError as error:
        # Without it the journal may be of another boot, and its values would be lost or wrong.
        raise ConfigError(f"cgroups.proc_root (--proc-root): file {path}: cannot be read: {error.strerror}") from None
    journal = Journal(f"{settings.state_dir}/{_JOURNAL}", boot)
    with name_setting_in_errors(state_dir=settings.state_dir):
        if reading_only:
            journal.peek()
        else:
            journal.load()
    return journal


def find_runtime_endpoint(
    settings: HookServerSettings, known: Sequence[str] = WELL_KNOWN_RUNTIMES
) -> tuple[str, Callable[[], str] | None]:
    """The CRI socket, and a function that looks for it if the settings do not name it."""
    if settings.runtime_endpoint:
        return settings.runtime_endpoint, None
    if settings.serves_hooks:
        return RelaySettings().listen, None

    def first() -> str:
        return next((path for path in known if Path(path).exists()), known[0])

    return first(), first


def find_served_stages(settings: HookServerSettings, plugins: tuple[AnyPlugin, ...]) -> frozenset[HookPoint]:
    """The hook points that plugins serve and settings leave on; ConfigError for unknown names."""
    disabled = settings.hooks.disable_stages
    if problems := [f"hooks.disable_stages (--disable-stages): {text}" for text in stage_problems(disabled)]:
        raise ConfigError(problems)
    return stages_of(plugins, frozenset(map(HookPoint, disabled)))


def select_plugins(settings: HookServerSettings) -> tuple[AnyPlugin, ...]:
    """The plugins that are on: our own, then those of installed packages in the order of the setting."""
    own, wanted = enabled_plugins(settings.plugins), settings.plugins.external
    if not wanted:
        return own
    from interpose.hooks.server.entry_points import GROUP, UnusablePlugin, load_plugins
    from interpose.host.entry_points import find_entry_points

    external = load_plugins(wanted, find_entry_points(GROUP), [plugin.name for plugin in all_plugins(settings.plugins)])
    for plugin in external:
        if isinstance(plugin, UnusablePlugin):
            _log.error("Plugin cannot be loaded", extra={"kv": {"plugin": plugin.name, "err": plugin.problem}})
    return (*own, *external)


def _relay(settings: HookServerSettings) -> Fetch | None:
    address = settings.relay_admin
    return None if address == "none" else lambda: asyncio.to_thread(fetch_json, address, PATH)


def _kubelet(settings: HookServerSettings) -> KubeletPods | None:
    source = settings.reconcile
    if not source.kubelet_url:
        return None
    return KubeletPods(
        source.kubelet_url,
        token_file=source.kubelet_token_file,
        ca_file=source.kubelet_ca_file,
        insecure=source.kubelet_insecure,
    )
