"""The generated classes of the hook protocol, and which of them each hook point uses."""

from typing import Any

from interpose._pb import hook_pb2
from interpose.hooks.api.hookpoint import HookPoint

PodSandboxHookRequest = hook_pb2.PodSandboxHookRequest
PodSandboxHookResponse = hook_pb2.PodSandboxHookResponse
ContainerResourceHookRequest = hook_pb2.ContainerResourceHookRequest
ContainerResourceHookResponse = hook_pb2.ContainerResourceHookResponse
LinuxContainerResources = hook_pb2.LinuxContainerResources
PodSandboxMetadata = hook_pb2.PodSandboxMetadata


def request_class(point: HookPoint) -> Any:
    """The message class of requests at this hook point."""
    return PodSandboxHookRequest if point.about_pod else ContainerResourceHookRequest


def response_class(point: HookPoint) -> Any:
    """The message class of responses at this hook point."""
    return PodSandboxHookResponse if point.about_pod else ContainerResourceHookResponse
