"""The stable interface for plugins of others."""

from interpose import hookplugin

# A name that is missing here was added; a name that is only here was taken away from packages that use it.
NAMES = """
    CLEAR UNLIMITED Container ContainerContext ContainerState CpuPool CpuPools GroupContext HookPoint Input Kernel
    KubeQos Level LinuxResources NodeInputs Parameter Partly Plugin Pod PodContext QosClass Resctrl Response Special
    Value Wish
"""


def test_names_stay() -> None:
    """Each can be imported."""
    assert set(hookplugin.__all__) == set(NAMES.split())
    assert all(hasattr(hookplugin, name) for name in hookplugin.__all__)


def test_what_plugins_override_and_call_stays() -> None:
    """Attributes and methods of the page."""
    for name in ("rule", "group", "pod", "container", "inputs", "stages", "serves", "envs"):
        assert hasattr(hookplugin.Plugin, name)
    for name in ("set", "set_env"):
        assert hasattr(hookplugin.Response, name)
