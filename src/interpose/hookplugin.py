"""What an in-process plugin of the hook server may import: a stable interface for packages of others.

A package offers a plugin by an entry point in the group `interpose.hook_plugins`; docs/hooks has the page. Names here
keep their meaning; everything else in `interpose` may change with any version.
"""

from interpose.core.model.cgroup import CLEAR, UNLIMITED, KubeQos, Level, Parameter, Special, Value
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.qos import QosClass
from interpose.core.model.resources import LinuxResources
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Response, Wish
from interpose.hooks.server.plugin import CpuPool, CpuPools, Input, Kernel, NodeInputs, Plugin, Resctrl
from interpose.hooks.server.plugin import PartialRuleError as Partly

__all__ = [
    "CLEAR",
    "UNLIMITED",
    "Container",
    "ContainerContext",
    "ContainerState",
    "CpuPool",
    "CpuPools",
    "GroupContext",
    "HookPoint",
    "Input",
    "Kernel",
    "KubeQos",
    "Level",
    "LinuxResources",
    "NodeInputs",
    "Parameter",
    "Partly",
    "Plugin",
    "Pod",
    "PodContext",
    "QosClass",
    "Resctrl",
    "Response",
    "Special",
    "Value",
    "Wish",
]
