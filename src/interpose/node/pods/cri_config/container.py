"""The configuration of a container, as a kubelet makes it. No IO, no clock."""

from collections.abc import Sequence
from typing import Final

from interpose.core.model.text import quoted
from interpose.cri.messages import cri
from interpose.node.pods.cri_config.env import environment, expand_all
from interpose.node.pods.cri_config.resources import container_linux_resources
from interpose.node.pods.cri_config.resources_message import to_message
from interpose.node.pods.cri_config.security_context import ImageUser, check_non_root, container_security
from interpose.node.pods.labels import RESOURCES, container_annotations, container_labels, log_path, resources_text
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, PodSpec

_ROOT: Final = ImageUser(uid=0)
_SIGNAL: Final = "SIGNAL_"


class ContainerConfigError(ValueError):
    """A container cannot be made as its manifest says: nothing is wrong with the runtime, so asking it is of no use."""


def container_config(
    pod: PodSpec,
    container: ContainerSpec,
    *,
    node: NodeFacts,
    image: str,
    image_user: ImageUser | None,
    restart_count: int,
    ips: tuple[str, ...],
    mounts: Sequence[cri.Mount],
    target_id: str = "",
) -> cri.ContainerConfig:
    """The configuration of a container whose image is in the store under the id `image`.

    An image that names no user runs as root.
    """
    user = image_user if image_user is not None and image_user != ImageUser() else _ROOT
    try:
        check_non_root(pod, container, user)
        env = environment(pod, container, node.around(ips))
        signal = _stop_signal(container)
    except ValueError as error:
        raise ContainerConfigError(f"container {container.name}: {error}") from None
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=container.name, attempt=restart_count),
        image=cri.ImageSpec(image=image, user_specified_image=container.image),
        command=expand_all(container.command, env),
        args=expand_all(container.args, env),
        working_dir=container.working_dir,
        envs=[cri.KeyValue(key=key, value=value.encode()) for key, value in env.items()],
        mounts=mounts,
        labels=container_labels(pod, container),
        annotations=container_annotations(pod, container, restart_count),
        log_path=log_path(container.name, restart_count),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        stop_signal=signal,
        linux=cri.LinuxContainerConfig(
            resources=container_resources(pod, container, node),
            security_context=container_security(pod, container, node, user, target_id),
        ),
    )


def container_resources(pod: PodSpec, container: ContainerSpec, node: NodeFacts) -> cri.LinuxContainerResources:
    """What a container is given; also for a change in place."""
    return to_message(container_linux_resources(pod, container, node.rules))


def resize_annotations(container: ContainerSpec) -> dict[str, str]:
    """What goes with a change in place, so that it is known to whoever comes later."""
    return {RESOURCES: resources_text(container.resources)}


def _stop_signal(container: ContainerSpec) -> str:
    name = container.lifecycle.stop_signal
    if not name:
        return _SIGNAL + "RUNTIME_DEFAULT"
    # Names such as SIGRTMIN+3 have words for their signs in CRI.
    word = _SIGNAL + name.replace("+", "PLUS").replace("-", "MINUS")
    if word not in cri.Signal.keys():  # noqa: SIM118 - an enum of protobuf is no mapping
        raise ValueError(f"stopSignal {quoted(name)} is not known")
    return word
