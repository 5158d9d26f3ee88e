"""The list of plugins. Its order is the order in which they run: if two set the same parameter, the later one wins."""

from interpose.config.hookserver.settings import PluginSettings
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.plugin import AnyPlugin
from interpose.hooks.server.plugins.batch_resource import BatchResource
from interpose.hooks.server.plugins.core_sched import CoreSchedPlugin
from interpose.hooks.server.plugins.cpu_normalization import CpuNormalization
from interpose.hooks.server.plugins.cpuset import CpusetPlugin
from interpose.hooks.server.plugins.gpu import GpuEnv
from interpose.hooks.server.plugins.group_identity import Fallback, GroupIdentity
from interpose.hooks.server.plugins.oom_score import OomScoreAdj
from interpose.hooks.server.plugins.resctrl import ResctrlPlugin


def all_plugins(settings: PluginSettings) -> tuple[AnyPlugin, ...]:
    """Every plugin with its settings, enabled or not."""
    return (
        BatchResource(),
        CpuNormalization(),
        CpusetPlugin(
            unset_quota=settings.unset_cpu_quota,
            be_cpu_manager=settings.be_cpu_manager,
            numa_mems=settings.numa_mems,
        ),
        CoreSchedPlugin(),
        GroupIdentity(Fallback(settings.group_identity_fallback)),
        OomScoreAdj(),
        ResctrlPlugin(),
        GpuEnv(settings.hami_library),
    )


def enabled_plugins(settings: PluginSettings) -> tuple[AnyPlugin, ...]:
    """The enabled plugins, in their order."""
    return tuple(plugin for plugin in all_plugins(settings) if getattr(settings, plugin.switch.replace("-", "_")))


def stages_of(plugins: tuple[AnyPlugin, ...], disabled: frozenset[HookPoint]) -> frozenset[HookPoint]:
    """The hook points that these plugins need, without the disabled ones."""
    return frozenset(point for plugin in plugins for point in plugin.stages) - disabled
