"""The settings of a relay: typed, grouped, frozen. A value that got here has been checked.

Unit, range, the meaning of an empty value and the reason for each default stand once, in `table.RELAY_SETTINGS`;
flags, environment, file keys and the reference page come from there too. Dataclasses instead of msgspec structs:
the relay loads this before it listens, and msgspec would add 1.6 MB where dataclasses add 0.2 MB.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketSettings:
    """The CRI socket: who may connect and how many."""

    mode: int = 0o600
    owner: str = ""  # "user[:group]"; empty: whoever runs the relay
    like_backend: bool = False
    allow_uids: tuple[int, ...] = ()  # empty: root and our own uid
    max_connections: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """The admin socket: health, metrics, views for people. Of every program; the default is the relay's."""

    listen: str = "/var/run/interpose/admin.sock"  # "none" turns it off
    metrics_listen: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """Hook servers: where they register, how long they may take, whom they do not see. Times in seconds."""

    enabled: bool = True
    dir: str = "/etc/runtime/hookserver.d"
    timeout: float = 2.0
    budget: float = 4.0
    skip_key: str = "runtimeproxy.koordinator.sh/skip-hookserver"  # empty: no pod is skipped
    skip_value: str = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """Resource policies: which one, what it works with, what it remembers. Where empty is allowed it is "not said"."""

    name: str = "none"  # no alias
    reserved: str = ""  # what constraints.parse_resources reads
    available: str = ""
    config: str = ""  # policy document that is forced
    fallback: str = ""  # policy document until an agent sends one
    state_dir: str = "/var/lib/interpose"
    config_socket: str = "none"
    agent_socket: str = "none"
    static_relaxed_isolation: bool = False
    topology_pin_cpu: bool = True
    topology_pin_memory: bool = True
    topology_prefer_isolated: bool = True
    topology_prefer_shared: bool = False
    pools_file: str = ""
    pools_dir: str = ""
    pools_label_node: bool = False
    pools_taint_node: bool = False
    switch: bool = True
    rebalance_interval: float = 10.0  # 0: never
    resources_mount: str = ""  # where containers see what they were given
    host_root: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSettings:
    """What is written down of the calls that pass. Sizes in bytes, times in seconds."""

    rules: tuple[str, ...] = ()  # each what dump_rules.parse_rules reads; empty: no text dump
    file: str = ""  # empty: none
    log: bool = True
    count_period: float = 60.0
    redact: str = "default"
    record: str = ""  # empty: no recording
    record_size: int = 67108864
    record_files: int = 4
    queue: int = 16777216


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """What a peer may cost us. Sizes in bytes, times in seconds, rates per second."""

    max_streams: int = 1000
    max_total_streams: int = 4000
    header_list: int = 65536
    backend_header_list: int = 1048576
    stream_window: int = 262144
    buffered: int = 67108864
    message: int = 33554432
    idle_frames: int = 10000
    resets: int = 2000
    handshake_timeout: float = 10.0
    backend_wait: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """Start, stop and succession of the process. Times in seconds."""

    grace: float = 30.0
    take_over: bool = False
    take_over_cap: float = 900.0
    detach: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """What is written to stderr, and in which form."""

    level: str = "info"
    debug: tuple[str, ...] = ()
    format: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """All settings of `interpose relay`."""

    listen: str = "/var/run/interpose/cri.sock"
    runtime_endpoint: str = ""  # empty: the first existing well-known runtime socket
    image_endpoint: str = ""  # empty: the same as runtime_endpoint
    backend: str = "cri"
    embedded: bool = False
    report_real_resources: bool = False
    socket: SocketSettings = field(default_factory=SocketSettings)
    admin: AdminSettings = field(default_factory=AdminSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    dump: DumpSettings = field(default_factory=DumpSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    process: ProcessSettings = field(default_factory=ProcessSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
