"""The settings of the agent: typed, grouped, frozen. What they mean stands once, in `agent_table`."""

from dataclasses import dataclass, field

from interpose.config.relay.settings import AdminSettings, LoggingSettings

# How results are reported.
REPORTS = ("annotation", "condition", "event", "status")
# Kinds of objects that may be the configuration of a node.
CONFIG_SOURCES = ("ConfigMap", "TopologyAwarePolicy", "BalloonsPolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """The API server. Times in seconds."""

    kubeconfig: str = ""  # empty: the service account of the pod we run in
    timeout: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSettings:
    """The configuration of the cluster and the relay that gets it. Times in seconds."""

    namespace: str = "kube-system"
    map: str = "cri-resmgr-config"
    group_label: str = "cri-resource-manager.intel.com/group"
    sources: tuple[str, ...] = CONFIG_SOURCES[:1]  # in this order
    object_group_labels: tuple[str, ...] = ("config.nri/group", "group.config.nri", "resource-policy.nri.io/group")
    when_missing: str = "withdraw"
    missing_grace: float = 30.0
    socket: str = "/var/run/interpose/config.sock"  # "none": nothing is pushed
    push_interval: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """What the relay may ask us for."""

    socket: str = "/var/run/interpose/agent.sock"  # "none" turns it off
    allow_uids: tuple[int, ...] = ()  # empty: root and our own uid
    allow_keys: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStateSettings:
    """The file that feeds the hook server."""

    file: str = "/var/run/interpose/node/state.json"  # "none" turns it off
    nodeslo_deleted: str = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """All settings of `interpose agent`."""

    node_name: str = ""  # empty: $NODE_NAME, else the name of the host
    report: tuple[str, ...] = REPORTS
    api: ApiSettings = field(default_factory=ApiSettings)
    config: ConfigSettings = field(default_factory=ConfigSettings)
    service: ServiceSettings = field(default_factory=ServiceSettings)
    node_state: NodeStateSettings = field(default_factory=NodeStateSettings)
    admin: AdminSettings = field(default_factory=lambda: AdminSettings(listen="/var/run/interpose/agent-admin.sock"))
    logging: LoggingSettings = field(default_factory=LoggingSettings)

    @property
    def pushes(self) -> bool:
        """Whether a relay gets the configuration."""
        return self.config.socket != "none"

    @property
    def follows_objects(self) -> bool:
        """Whether objects of policies may be the configuration."""
        return self.pushes and self.config.sources != CONFIG_SOURCES[:1]

    @property
    def serves(self) -> bool:
        """Whether the relay may ask us."""
        return self.service.socket != "none"

    @property
    def feeds(self) -> bool:
        """Whether the hook server gets the state of the node."""
        return self.node_state.file != "none"
