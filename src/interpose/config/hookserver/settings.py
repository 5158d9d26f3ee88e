"""The settings of the hook server: typed, grouped, frozen. What they mean stands once, in `hookserver`."""

from dataclasses import dataclass, field

from interpose.config.relay.settings import AdminSettings, LoggingSettings
from interpose.core.model.cgroup import CGROUP_ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationSettings:
    """What the registration file says, and where it is."""

    dir: str = "/etc/runtime/hookserver.d"
    name: str = "interpose-hookserver"
    host_endpoint: str = ""  # empty: the path we listen on
    failure_policy: str = "Ignore"
    priority: int = 100
    timeout: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings:
    """Hook calls: what is served to whom, and how plugins are kept in check."""

    plugin_failure_policy: str = "Ignore"
    plugin_timeout: float = 0.5
    disable_stages: tuple[str, ...] = ()
    allow_uids: tuple[int, ...] = ()  # empty: root and our own uid


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileSettings:
    """Rounds of comparing, and the kubelet as a source. Times in seconds."""

    interval: float = 10.0
    kubelet_url: str = ""
    kubelet_token_file: str = ""
    kubelet_ca_file: str = ""
    kubelet_insecure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupSettings:
    """Where the kernel's files are."""

    root: str = CGROUP_ROOT
    driver: str = "auto"
    kubepods: str = "kubepods"
    proc_root: str = "/proc"
    sys_root: str = "/sys"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """Which plugins are on, and their options."""

    group_identity: bool = True
    group_identity_fallback: str = "none"
    cpuset: bool = True
    unset_cpu_quota: bool = True
    be_cpu_manager: bool = False
    numa_mems: bool = False
    batch_resource: bool = True
    cpu_normalization: bool = False
    core_sched: bool = False
    oom_score: bool = False
    resctrl: bool = False
    gpu_env: bool = False
    hami_library: str = "/usr/local/vgpu/libvgpu.so"
    external: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookServerSettings:
    """All settings of `interpose hookserver`."""

    mode: str = "both"
    listen: str = "/var/run/interpose/hookserver.sock"
    nodeslo: str = ""
    runtime_endpoint: str = ""
    relay_admin: str = "/var/run/interpose/admin.sock"
    state_dir: str = "/var/lib/interpose"
    kubelet_state_dir: str = "/var/lib/kubelet"
    admin: AdminSettings = field(
        default_factory=lambda: AdminSettings(listen="/var/run/interpose/hookserver-admin.sock")
    )
    registration: RegistrationSettings = field(default_factory=RegistrationSettings)
    hooks: ServingSettings = field(default_factory=ServingSettings)
    reconcile: ReconcileSettings = field(default_factory=ReconcileSettings)
    cgroups: CgroupSettings = field(default_factory=CgroupSettings)
    plugins: PluginSettings = field(default_factory=PluginSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)

    @property
    def serves_hooks(self) -> bool:
        """Whether hook calls are answered."""
        return self.mode != "standalone"

    @property
    def reconciles(self) -> bool:
        """Whether rounds come by themselves."""
        return self.mode != "proxy"
