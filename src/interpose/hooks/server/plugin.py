"""The plugin interface: a name, explicit lists of what it serves, a rule made of node inputs, and pure functions.

A plugin has no state and does no IO. Its rule is made once per change of its inputs, then passed to every function.
A function reads the request of its context and fills the response; how a value reaches the kernel is not its concern.
A plugin must not set what it does not list: such a value is dropped and counted as a failure of the plugin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from interpose.core.model.cgroup import Level, Parameter
from interpose.core.model.resources import empty_map
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext
from interpose.hooks.server.node.nodeslo import NodeSLO

R = TypeVar("R")


class PartialRuleError(ValueError):
    """A rule that was made although part of the inputs cannot be used; the text says which part and why.

    The unusable part is as it was before, or as if it were absent.
    """

    def __init__(self, rule: object, text: str) -> None:
        super().__init__(text)
        self.rule = rule


class Input(StrEnum):
    """Inputs of rules. A rule is made again when one of its inputs changes."""

    NODE_SLO = "NodeSLO"
    NODE_METADATA = "labels and annotations of the node"
    CPU_POOLS = "CPU pools"
    KERNEL = "features of the kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPool:
    """The CPUs of one NUMA node that pods may share, as a kernel list; empty if all of them are taken."""

    socket: int
    node: int
    cpus: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPools:
    """Share pools by NUMA node, in the order of (socket, node), and how the kubelet hands out CPUs.

    With a problem it is not known what takes CPUs out of the pools: they may have some that are not to be shared.
    """

    ls: tuple[CpuPool, ...] = ()
    be: tuple[CpuPool, ...] = ()
    cpu_manager_policy: str = ""  # of the kubelet: none, static, or empty if not known
    problem: str = ""  # which annotation or state of the node cannot be used


@dataclass(frozen=True, slots=True, kw_only=True)
class Resctrl:
    """Cache and bandwidth partitioning that the processor offers."""

    cbm_mask: int
    l3_ids: tuple[int, ...] = ()
    mb_ids: tuple[int, ...] = ()
    vendor: str = ""  # as /proc/cpuinfo names it: GenuineIntel, AuthenticAMD


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Features of this kernel, probed before each reconcile pass."""

    parameters: frozenset[Parameter] = frozenset()  # of cgroups, found where pods live
    group_identity: int | None = None  # the sysctl; None if there is none
    sched_core: int | None = None  # the sysctl; None if there is none
    core_sched: bool = False  # whether processes can have cookies
    resctrl: Resctrl | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInputs:
    """All inputs of rules at one time. `slo` is None until there is a NodeSLO."""

    slo: NodeSLO | None = None
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    pools: CpuPools = CpuPools()
    kernel: Kernel = Kernel()


class Plugin(Generic[R]):
    """Base class of all plugins, ours and those of other packages; `R` is the type of the plugin's rule.

    A subclass sets the class attributes and overrides `rule` and those of `group`, `pod` and `container` whose level is
    in `serves`. It keeps no state and does no IO.

    Who calls when: `rule` is called at the start and whenever one of `inputs` changes. Worker threads call the other
    functions: in proxy mode for a hook call at one of `stages`, in standalone mode for every target of each reconcile
    pass. A call may be repeated or abandoned at any point, so the same arguments must give the same values.

    What is passed: the rule in force and a context. `context.request` is the pod or container as it was originally
    requested, never with values of other plugins. Both are read-only.

    What may be returned: nothing. Values are set with `context.response.set(parameter, value, why)`, variables of a
    container that is being created with `set_env`; `why` is shown to people. A value is an int, a str, UNLIMITED or
    CLEAR. A parameter that is not set stays as it is or, if it was set before, is restored to its original value. A
    parameter that is not in `serves` is dropped and counted as a failure. If two plugins set different values, the
    later plugin wins and the conflict is reported.

    What may be raised: ValueError for an unusable annotation or input, with its name and value in the text. Any
    exception discards the response of this plugin for this target only; it is logged and counted, and values written
    before stay. A plugin that does not return in time is suspended for a while.

    Example, a package's plugin that gives every pod of the class BE the lowest CPU weight::

        class LowestShares(Plugin[bool]):
            name = "LowestShares"
            summary = "give pods of the class BE the lowest CPU weight"
            stages = frozenset((HookPoint.PRE_RUN_POD_SANDBOX,))
            serves = MappingProxyType({Level.POD: frozenset((Parameter.CPU_SHARES,))})

            def rule(self, node: NodeInputs, previous: bool | None) -> bool:
                return True

            def pod(self, rule: bool, context: PodContext) -> None:
                if context.qos is QosClass.BE:
                    context.response.set(Parameter.CPU_SHARES, 2, "class BE")
    """

    name: ClassVar[str]  # shown in logs, metrics and reasons; ours are known from koordlet
    switch: ClassVar[str]  # of ours: the flag that turns it on or off
    default: ClassVar[bool] = False  # of ours: whether it is enabled by default
    summary: ClassVar[str]  # one sentence for --help and the reference
    inputs: ClassVar[frozenset[Input]] = frozenset()
    stages: ClassVar[frozenset[HookPoint]] = frozenset()
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType({})
    envs: ClassVar[bool] = False  # whether it sets environment variables

    def rule(self, node: NodeInputs, previous: R | None) -> R:
        """The rule for these inputs. Raises ValueError with key and value if they cannot be used.

        Raises PartialRuleError if some of them can.

        `previous` is the rule in force, for plugins that ignore small changes. Rules are frozen and compared with ==.
        """
        raise NotImplementedError

    def group(self, rule: R, context: GroupContext) -> None:
        """Set values of the node, a QoS directory or a host application: `context.level` says which."""

    def pod(self, rule: R, context: PodContext) -> None:
        """Set values of a pod's cgroup; ValueError that names annotation and value if an annotation cannot be used."""

    def container(self, rule: R, context: ContainerContext) -> None:
        """Set values of a container or, if `serves` has the level SANDBOX, of the sandbox container of a pod."""


AnyPlugin = Plugin[Any]


class Watch(Protocol):
    """Observer of plugin runs."""

    def enter(self, plugin: str) -> bool:
        """Called before a plugin runs; False if it must not run."""

    def leave(self, plugin: str, failure: str) -> None:
        """Called after a plugin ran; `failure` is empty if it succeeded."""


class NoWatch:
    """A watch that lets every plugin run."""

    def enter(self, plugin: str) -> bool:
        return True

    def leave(self, plugin: str, failure: str) -> None:
        """Ignores the result of the run."""


SUSPENDED: Final = "left out, it did not return in time before"
