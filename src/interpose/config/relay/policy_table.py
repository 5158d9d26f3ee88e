"""The settings about resource policies: rows of the relay's table, and which of them exclude each other."""

from collections.abc import Mapping
from typing import Final

from interpose.config.relay.settings import RelaySettings
from interpose.config.schema import Setting, value_of
from interpose.config.values import SettingKind, directory, duration, refuse, socket_or_none, switch
from interpose.core.policy.names import NAMES, NONE, POLICIES


def _policy() -> SettingKind:
    """A policy by any of its names, kept under the first of them."""

    def parse(text: str, where: str) -> str:
        if text and text not in NAMES:
            raise refuse(where, text, f"is not one of {', '.join(NAMES)}")
        return NAMES.get(text, NONE)

    form = {"type": "string", "enum": ["", *NAMES]}
    return SettingKind(
        name=" or ".join(policy.name for policy in POLICIES), accepts=frozenset({"str"}), parse=parse, form=form
    )


def _resources(*, amounts: bool) -> SettingKind:
    """What `constraints.parse_resources` reads, kept as text. Without `amounts` it must say which CPUs."""

    def parse(text: str, where: str) -> str:
        if not text.strip():
            return ""
        # A relay without a policy does without exact arithmetic.
        from interpose.config.documents.amounts import CPU, CpuAmount, parse_resources

        cpu = parse_resources(text, where).get(CPU)
        if not amounts and isinstance(cpu, CpuAmount) and cpu.milli is not None:
            raise refuse(where, text, "is an amount, it must say which CPUs: cpu=0-7 or cpu=cgroup:DIR")
        return text.strip()

    name = "cpu=AMOUNT, cpu=CPUS or cpu=cgroup:DIR" if amounts else "cpu=CPUS or cpu=cgroup:DIR"
    return SettingKind(name=name, accepts=frozenset({"str"}), parse=parse)


POLICY_SETTINGS: Final = (
    Setting(
        key="policy.name",
        flag="--policy",
        kind=_policy(),
        help="Policy that gives CPUs and memory nodes to containers. It beats what a policy document says.",
        why="A relay that nobody told to decide passes on what the kubelet decided.",
    ),
    Setting(
        key="policy.reserved",
        flag="--reserved-resources",
        kind=_resources(amounts=True),
        help="CPUs kept for the system and for Kubernetes: cpu=1000m, cpu=0,2 or cpu=cgroup:DIR. Empty: not said.",
        why="Only the owner of a node knows what its daemons need; most policies insist on it.",
    ),
    Setting(
        key="policy.available",
        flag="--available-resources",
        kind=_resources(amounts=False),
        help="CPUs that may be given to containers at all: cpu=1-7 or cpu=cgroup:DIR. Empty: all.",
        why="A node is there for its containers.",
    ),
    Setting(
        key="policy.config",
        flag="--policy-config",
        kind=directory(optional=True),
        help="Policy document in YAML that is in force whatever an agent sends; changes take effect. Empty: none.",
        why="The flags are enough for most nodes.",
    ),
    Setting(
        key="policy.fallback",
        flag="--policy-fallback",
        kind=directory(optional=True),
        help="Policy document in YAML that is in force until an agent has sent one. Empty: none.",
        why="The flags are enough for most nodes.",
    ),
    Setting(
        key="policy.state_dir",
        flag="--state-dir",
        kind=directory(),
        help="Directory for what must survive a restart: who has which CPUs, and what an agent has sent.",
        why="The place for the state of services.",
    ),
    Setting(
        key="policy.config_socket",
        flag="--config-socket",
        kind=socket_or_none(),
        help='Socket on which an agent of the node may send policy documents. "none" turns it off.',
        why="Who is not there cannot change what a node does.",
    ),
    Setting(
        key="policy.agent_socket",
        flag="--agent-socket",
        kind=socket_or_none(),
        help="Socket of the agent of the node, through which static-pools publishes exclusive cores, label and taint. "
        '"none": nothing is published.',
        why="Not every node has an agent, and most policies publish nothing.",
    ),
    Setting(
        key="policy.static_relaxed_isolation",
        flag="--static-relaxed-isolation",
        kind=switch(),
        help="Policy static: isolated CPUs first, whoever asks for CPUs of its own.",
        why="Off: isolated CPUs are for programs that are made for them.",
    ),
    Setting(
        key="policy.topology_pin_cpu",
        flag="--topology-aware-pin-cpu",
        kind=switch(),
        help="Policy topology-aware: keep containers on the CPUs of their pool.",
        why="A policy that pins nothing only counts.",
    ),
    Setting(
        key="policy.topology_pin_memory",
        flag="--topology-aware-pin-memory",
        kind=switch(),
        help="Policy topology-aware: keep containers on memory nodes of their pool.",
        why="Memory next to the CPUs is what the pools are for.",
    ),
    Setting(
        key="policy.topology_prefer_isolated",
        flag="--topology-aware-prefer-isolated-cpus",
        kind=switch(),
        help="Policy topology-aware: isolated CPUs for containers that get one CPU of their own.",
        why="Whoever isolates CPUs wants them used.",
    ),
    Setting(
        key="policy.topology_prefer_shared",
        flag="--topology-aware-prefer-shared-cpus",
        kind=switch(),
        help="Policy topology-aware: CPUs of its own only for a container that asks for them by an annotation.",
        why="Guaranteed containers with whole CPUs mostly want them for themselves.",
    ),
    Setting(
        key="policy.pools_file",
        flag="--static-pools-conf-file",
        kind=directory(optional=True),
        help="Policy static-pools: YAML file with the pools. Empty: not said.",
        why="Pools are best written in the policy document.",
    ),
    Setting(
        key="policy.pools_dir",
        flag="--static-pools-conf-dir",
        kind=directory(optional=True),
        help="Policy static-pools: directory with the pools, as CMK makes it. Empty: as a document says, or /etc/cmk.",
        why="A node that had CMK before has it where CMK put it.",
    ),
    Setting(
        key="policy.pools_label_node",
        flag="--static-pools-label-node",
        kind=switch(),
        help="Policy static-pools: label the node cmk.intel.com/cmk-node=true. Takes --agent-socket.",
        why="Only pods written for CMK look for that label.",
    ),
    Setting(
        key="policy.pools_taint_node",
        flag="--static-pools-taint-node",
        kind=switch(),
        help="Policy static-pools: taint the node, so that only pods written for CMK come. Takes --agent-socket.",
        why="Off: it would keep all others away.",
    ),
    Setting(
        key="policy.switch",
        flag="--policy-switch",
        kind=switch(),
        help="Go on with the containers of another policy that was in force before.",
        why="Whoever changes the policy means it; what containers have already is kept where it fits.",
    ),
    Setting(
        key="policy.rebalance_interval",
        flag="--rebalance-interval",
        kind=duration(0.0, 3600.0),
        help="Policy dynamic-pools: how often pools are fitted to the load of their CPUs, in whole seconds. "
        "0: never, requests alone count.",
        why="Long enough for a load that stays, and each move updates all containers of two pools.",
    ),
    Setting(
        key="policy.resources_mount",
        flag="--resources-mount",
        kind=directory(optional=True),
        help="Path in new containers of a directory with the file resources.sh, which says what the container was "
        "given. Empty: none.",
        why="Most programs need not know; those written for other resource managers look at a path of their own.",
    ),
    Setting(
        key="policy.host_root",
        flag="--host-root",
        kind=directory(),
        help="Where the file system of the host is, for reading the topology and cgroups below its sys.",
        why="The relay runs on the host.",
    ),
)


def policy_contradictions(settings: RelaySettings, origins: Mapping[str, str]) -> list[str]:
    """What no single value shows."""
    policy = settings.policy
    problems = []
    if policy.config and policy.fallback:
        problems.append(
            f"{origins['policy.fallback']}: policy.fallback contradicts policy.config ({origins['policy.config']}), "
            "which is in force from the start; drop one"
        )
    others = ("listen", "runtime_endpoint", "image_endpoint", "admin.listen")
    problems += [
        f"{origins[own]}: {own} is the socket of {key}: {path!r}"
        for own, keys in (("policy.config_socket", others), ("policy.agent_socket", (*others, "policy.config_socket")))
        for key in keys
        if (path := value_of(settings, own)) != "none" and value_of(settings, key) == path
    ]
    return problems
