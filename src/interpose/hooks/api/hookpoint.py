"""The hook points: when a hook server is called, and about what.

One table ties a hook point to its CRI method and to the method of the hook protocol. The stage is in the name, as
plugin authors know it: `Pre` before the runtime is called, `Post` after its answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

SERVICE = "runtime.v1alpha1.RuntimeHookService"

# Metadata of a call about an update: its resources are what was asked for, not what hook servers made of it before.
RESOURCES_ASKED = (b"interpose-resources", b"asked")


class HookPoint(StrEnum):
    """A moment in the life of a pod or container; values are the names in registration files."""

    PRE_RUN_POD_SANDBOX = "PreRunPodSandbox"
    POST_STOP_POD_SANDBOX = "PostStopPodSandbox"
    PRE_CREATE_CONTAINER = "PreCreateContainer"
    PRE_START_CONTAINER = "PreStartContainer"
    POST_START_CONTAINER = "PostStartContainer"
    PRE_UPDATE_CONTAINER_RESOURCES = "PreUpdateContainerResources"
    POST_STOP_CONTAINER = "PostStopContainer"

    @cached_property
    def rpc(self) -> bytes:
        """The `:path` of the hook server's method."""
        return f"/{SERVICE}/{self.value}Hook".encode()

    @cached_property
    def is_post(self) -> bool:
        """Whether the hook is called after the runtime's answer."""
        return self.value.startswith("Post")

    @cached_property
    def about_pod(self) -> bool:
        """Whether the messages of the hook point are about a pod; all others are about a container."""
        return self.value.endswith("PodSandbox")


class FailurePolicy(StrEnum):
    """What happens to a call when its hook server fails."""

    FAIL = "Fail"  # it is refused
    IGNORE = "Ignore"  # it goes on as if that hook server were not there


@dataclass(frozen=True, slots=True)
class HookedMethod:
    """The hook points of one CRI method."""

    pre: HookPoint | None = None
    post: HookPoint | None = None


HOOKED_METHODS: Mapping[str, HookedMethod] = MappingProxyType(
    {
        "RunPodSandbox": HookedMethod(pre=HookPoint.PRE_RUN_POD_SANDBOX),
        "StopPodSandbox": HookedMethod(post=HookPoint.POST_STOP_POD_SANDBOX),
        "CreateContainer": HookedMethod(pre=HookPoint.PRE_CREATE_CONTAINER),
        "StartContainer": HookedMethod(pre=HookPoint.PRE_START_CONTAINER, post=HookPoint.POST_START_CONTAINER),
        "UpdateContainerResources": HookedMethod(pre=HookPoint.PRE_UPDATE_CONTAINER_RESOURCES),
        "StopContainer": HookedMethod(post=HookPoint.POST_STOP_CONTAINER),
    }
)


def method_of(point: HookPoint) -> str:
    """The CRI method a hook point belongs to."""
    return next(name for name, row in HOOKED_METHODS.items() if point in (row.pre, row.post))
