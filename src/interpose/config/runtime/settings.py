"""The settings of the runtime: typed, grouped, frozen. What they mean stands once, in `runtime_table`."""

from dataclasses import dataclass, field

from interpose.config.relay.settings import AdminSettings, LoggingSettings
from interpose.core.model.cgroup import CGROUP_ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSocketSettings:
    """The CRI socket: who may connect and how many."""

    mode: int = 0o600
    allow_uids: tuple[int, ...] = ()  # empty: root and our own uid
    max_connections: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCgroupSettings:
    """Where cgroups are made, and by whom."""

    driver: str = "cgroupfs"
    root: str = CGROUP_ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Settings of the pod network (CNI)."""

    conf_dir: str = "/etc/cni/net.d"
    bin_dirs: tuple[str, ...] = ("/opt/cni/bin", "/usr/lib/cni")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """The server for exec, attach and port forwarding. Times in seconds."""

    listen: str = "127.0.0.1:0"
    idle_timeout: float = 14400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """Images and where they come from."""

    registries: str = "none"  # file with endpoints and certificates; "none": HTTPS to the registry itself


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """All settings of `interpose runtime`."""

    listen: str = "/var/run/interpose/runtime.sock"
    root: str = "/var/lib/interpose/runtime"
    state: str = "/run/interpose/runtime"
    executor: str = "auto"
    grace: float = 30.0
    socket: RuntimeSocketSettings = field(default_factory=RuntimeSocketSettings)
    cgroups: RuntimeCgroupSettings = field(default_factory=RuntimeCgroupSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    streams: StreamSettings = field(default_factory=StreamSettings)
    images: ImageSettings = field(default_factory=ImageSettings)
    admin: AdminSettings = field(default_factory=lambda: AdminSettings(listen="/var/run/interpose/runtime-admin.sock"))
    logging: LoggingSettings = field(default_factory=LoggingSettings)
