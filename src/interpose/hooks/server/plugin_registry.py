"""The one list of plugins. Its order is the order in which they run: where two want the same, the later one has it."""

from interpose.config.hookserver_settings import PluginSettings
from interpose.hookapi.hookpoint import HookPoint
from interpose.runtimehooks.plugin import AnyPlugin
from interpose.runtimehooks.plugins.batch_resource import BatchResource
from interpose.runtimehooks.plugins.core_sched import CoreSched
from interpose.runtimehooks.plugins.cpu_normalization import CpuNormalization
from interpose.runtimehooks.plugins.cpuset import CpusetPlugin
from interpose.runtimehooks.plugins.gpu import GpuEnv
from interpose.runtimehooks.plugins.group_identity import Fallback, GroupIdentity
from interpose.runtimehooks.plugins.oom_score import OomScoreAdj
from interpose.runtimehooks.plugins.resctrl import ResctrlPlugin


def all_plugins(settings: PluginSettings) -> tuple[AnyPlugin, ...]:
    """Every plugin, as the settings have it, whether it is on or not."""
    return (
        BatchResource(),
        CpuNormalization(),
        CpusetPlugin(
            unset_quota=settings.unset_cpu_quota,
            be_cpu_manager=settings.be_cpu_manager,
            numa_mems=settings.numa_mems,
        ),
        CoreSched(),
        GroupIdentity(Fallback(settings.group_identity_fallback)),
        OomScoreAdj(),
        ResctrlPlugin(),
        GpuEnv(settings.hami_library),
    )


def plugins_on(settings: PluginSettings) -> tuple[AnyPlugin, ...]:
    """The plugins that are switched on, in their order."""
    return tuple(one for one in all_plugins(settings) if getattr(settings, one.switch.replace("-", "_")))


def stages_of(plugins: tuple[AnyPlugin, ...], disabled: frozenset[HookPoint]) -> frozenset[HookPoint]:
    """The hook points that these plugins need, but for those somebody disabled."""
    return frozenset(point for plugin in plugins for point in plugin.stages) - disabled
