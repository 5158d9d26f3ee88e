"""The one list of plugins and the switches of the settings."""

from dataclasses import fields, replace

import pytest

from interpose.config.hookserver.settings import PluginSettings
from interpose.config.hookserver.table import HOOKSERVER_SETTINGS
from interpose.core.model.cgroup import CREATE_FIELDS, Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.plugin import AnyPlugin
from interpose.hooks.server.plugin_registry import all_plugins, enabled_plugins, stages_of
from interpose.hooks.server.plugins.cpuset import CpusetPlugin, CpusetRule
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS

ALL = all_plugins(PluginSettings())
BY_NAME = pytest.mark.parametrize("plugin", ALL, ids=lambda one: one.name)


def switch_of(plugin: AnyPlugin) -> str:
    """The setting that turns a plugin on or off."""
    return plugin.switch.replace("-", "_")


def only(*names: str) -> PluginSettings:
    """Settings with only these switches on."""
    off = PluginSettings(**{switch_of(one): False for one in ALL})  # type: ignore[arg-type]
    return replace(off, **dict.fromkeys(names, True))  # type: ignore[arg-type]


def test_the_order_is_the_order_in_which_plugins_have_their_say() -> None:
    """Scaling comes after batch limits, CPUs of one's own come after scaling: what is later has it."""
    assert [one.name for one in ALL] == [
        "BatchResource",
        "CPUNormalization",
        "CPUSetAllocator",
        "CoreSched",
        "GroupIdentity",
        "OOMScoreAdj",
        "Resctrl",
        "GPUEnvInject",
    ]


def test_names_and_switches_are_used_once() -> None:
    """Rules, metrics and journals go by names."""
    assert len({one.name for one in ALL}) == len(ALL)
    assert len({one.switch for one in ALL}) == len(ALL)


@BY_NAME
def test_every_plugin_has_its_switch(plugin: AnyPlugin) -> None:
    """With the same default, and a flag of that name."""
    defaults = {one.name: one.default for one in fields(PluginSettings)}
    assert defaults[switch_of(plugin)] is plugin.default
    flags = {setting.key: setting.flag for setting in HOOKSERVER_SETTINGS}
    assert flags[f"plugins.{switch_of(plugin)}"] == f"--{plugin.switch}"


@BY_NAME
def test_every_plugin_says_what_it_is(plugin: AnyPlugin) -> None:
    """One line for the help and the reference, and at least one place where it acts."""
    assert plugin.summary
    assert "\n" not in plugin.summary
    assert plugin.stages
    assert plugin.serves or plugin.envs


@BY_NAME
def test_a_plugin_that_requests_could_carry_for_is_asked_when_they_come(plugin: AnyPlugin) -> None:
    """Otherwise its values would come after the first process."""
    if plugin.envs or plugin.serves.get(Level.CONTAINER, frozenset()) & CREATE_FIELDS.keys():
        assert HookPoint.PRE_CREATE_CONTAINER in plugin.stages


@BY_NAME
def test_each_plugin_can_be_the_only_one(plugin: AnyPlugin) -> None:
    """Its switch turns on it and nothing else."""
    assert [one.name for one in enabled_plugins(only(switch_of(plugin)))] == [plugin.name]


def test_by_default_the_plugins_of_koordlets_defaults_are_on() -> None:
    """In their order."""
    assert [one.name for one in enabled_plugins(PluginSettings())] == [one.name for one in ALL if one.default]
    assert [one.name for one in ALL if one.default] == ["BatchResource", "CPUSetAllocator", "GroupIdentity"]


def test_all_off_is_none() -> None:
    """A hook server that only restores."""
    assert enabled_plugins(only()) == ()


def test_a_fallback_that_is_none_is_refused() -> None:
    """Though no settings file can get that far."""
    with pytest.raises(ValueError, match="sometimes"):
        all_plugins(replace(PluginSettings(), group_identity_fallback="sometimes"))


@pytest.mark.parametrize("unset", [True, False])
def test_plugins_are_told_what_the_settings_say(unset: bool) -> None:
    """Such as whether the quota of pods with CPUs of their own is lifted."""
    plugins = all_plugins(replace(PluginSettings(), unset_cpu_quota=unset))
    (cpuset,) = [one for one in plugins if isinstance(one, CpusetPlugin)]
    pod = Pod(id="s", annotations={RESOURCE_STATUS: '{"cpuset":"2-3"}'})
    context = ContainerContext(pod=pod, request=Container(id="c"))
    cpuset.container(CpusetRule(), context)
    assert (Parameter.CPU_QUOTA in context.response.wishes) is unset


def test_stages_are_those_of_the_plugins_that_are_on() -> None:
    """Nobody is asked about what nobody needs."""
    on = enabled_plugins(only("oom_score"))
    assert stages_of(on, frozenset()) == on[0].stages
    assert stages_of((), frozenset()) == frozenset()


def test_stages_that_were_disabled_are_not_served() -> None:
    """The others are."""
    every = stages_of(ALL, frozenset())
    off = frozenset((HookPoint.PRE_RUN_POD_SANDBOX,))
    assert stages_of(ALL, off) == every - off
    assert off <= every
