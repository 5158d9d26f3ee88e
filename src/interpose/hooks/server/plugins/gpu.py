"""GPUEnvInject: tells a container through variables which GPUs are its own, and how much of them.

The devices are those the scheduler wrote into the pod's annotation. A container gets all variables or, if something
about the devices cannot be used, none.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Final

from interpose.core.model.cgroup import Level
from interpose.core.model.pod import Container
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.plugin import NodeInputs, Plugin
from interpose.hooks.server.pods.pod_annotations import DEVICE_ALLOCATED, MAX_TEXT, AllocatedDevice, device_allocated

CONTAINERS: Final = "interpose/gpu-containers"
PROVIDER: Final = "koordinator.sh/gpu-isolation-provider"
_HAMI: Final = "HAMi-core"
_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
_MEMORY: Final = "koordinator.sh/gpu-memory"
_CORE: Final = "koordinator.sh/gpu-core"
_WHOLE: Final = 100

_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
_MEMORY_LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT"
_CORE_LIMIT: Final = "CUDA_DEVICE_SM_LIMIT"
_PRELOAD: Final = "LD_PRELOAD"


class GpuEnv(Plugin[bool]):
    """Needs nothing of the node, so its rule is a constant."""

    name = "GPUEnvInject"
    switch = "gpu-env"
    summary = "set the variables that name a container's GPUs, and the limits of shared ones for HAMi-core"
    stages = frozenset((HookPoint.PRE_CREATE_CONTAINER,))
    envs = True

    def __init__(self, library: str = "/usr/local/vgpu/libvgpu.so") -> None:
        self._library = library

    def rule(self, node: NodeInputs, previous: bool | None) -> bool:
        return True

    def container(self, rule: bool, context: ContainerContext) -> None:
        """Variables of a container that is not the one that holds the pod together."""
        if context.level is not Level.CONTAINER or not _selected(context):
            return
        devices = device_allocated(context.annotations).get("gpu", ())
        if not devices:
            return
        envs = {_DEVICES: ",".join(str(device.minor) for device in devices)}
        if context.pod.labels.get(PROVIDER) == _HAMI:
            envs |= self._hami_limits(devices, context.request)
        for name, value in envs.items():
            context.response.set_env(name, value, f"annotation {DEVICE_ALLOCATED}")

    def _hami_limits(self, devices: Sequence[AllocatedDevice], container: Container) -> dict[str, str]:
        """Limits for HAMi-core; none if all devices are the pod's alone."""
        ratios = [_amount(device, _RATIO) for device in devices]
        if all(ratio >= _WHOLE for ratio in ratios):
            return {}
        envs = _limits(_MEMORY_LIMIT, [_memory(device) for device in devices])
        cores = [device.resources.get(_CORE) for device in devices]
        if any(core is not None for core in cores):
            envs |= _limits(_CORE_LIMIT, [_WHOLE if not core else ceil(core) for core in cores])
        envs[_PRELOAD] = _preload(self._library, container)
        return envs


def _selected(context: ContainerContext) -> bool:
    names = context.annotations.get(CONTAINERS)
    if names is None:
        return True
    if len(names) > MAX_TEXT:
        raise ValueError(f"annotation {CONTAINERS}: has {len(names)} characters, more than {MAX_TEXT}")
    return context.request.name in (name.strip() for name in names.split(","))


def _limits(name: str, values: Sequence[int]) -> dict[str, str]:
    """One variable if it is right for all devices; else also one for each, by its place in the list of devices."""
    envs = {name: str(values[0])}
    if len(set(values)) > 1:
        envs |= {f"{name}_{index}": str(value) for index, value in enumerate(values)}
    return envs


def _memory(device: AllocatedDevice) -> int:
    amount = ceil(_amount(device, _MEMORY))
    if not amount:  # HAMi-core takes it for no limit
        raise ValueError(f"annotation {DEVICE_ALLOCATED}: gpu {device.minor}: {_MEMORY} is zero")
    return amount


def _amount(device: AllocatedDevice, resource: str) -> Fraction:
    amount = device.resources.get(resource)
    if amount is None:
        raise ValueError(f"annotation {DEVICE_ALLOCATED}: gpu {device.minor} has no {resource}, which {_HAMI} needs")
    return amount


def _preload(library: str, container: Container) -> str:
    """Our library first, then those the container has."""
    theirs = next((value for name, value in reversed(container.envs) if name == _PRELOAD), b"")
    try:
        others = theirs.decode().replace(":", " ").split()
    except UnicodeDecodeError:
        raise ValueError(f"variable {_PRELOAD} of container {container.name} is not UTF-8") from None
    return ":".join((library, *(other for other in others if other != library)))
