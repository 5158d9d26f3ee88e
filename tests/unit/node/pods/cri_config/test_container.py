"""The configuration of a container."""

from fractions import Fraction
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.pods.cri_config.container import (
    ContainerConfigError,
    container_config,
    container_resources,
    resize_annotations,
)
from interpose.node.pods.cri_config.security_context import ImageUser, container_security
from interpose.node.pods.labels import container_annotations, container_labels
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import (
    ContainerSpec,
    EnvVar,
    FieldRef,
    LifecycleHandlers,
    PodSecurityContext,
    PodSpec,
    ResourceRequirements,
    SecurityContext,
)

NODE = NodeFacts(name="n", memory=1000, allocatable={"cpu": Fraction(2)})


def config(container: ContainerSpec, pod: PodSpec | None = None, **more: Any) -> cri.ContainerConfig:
    """The configuration of a container of a pod."""
    given: dict[str, Any] = {"image": "sha256:1", "image_user": None, "restart_count": 0, "ips": (), "mounts": ()}
    pod = pod or PodSpec(name="p", uid="u", containers=(container,))
    return container_config(pod, container, node=NODE, **{**given, **more})


def test_a_whole_one() -> None:
    """Every field, as a kubelet fills it."""
    container = ContainerSpec(
        name="c",
        image="busybox:1",
        command=("$(NAME)", "$$(NAME)"),
        args=("at", "$(IP)", "$(OTHER)"),
        working_dir="/w",
        env=(
            EnvVar(name="NAME", source=FieldRef(path="metadata.name")),
            EnvVar(name="IP", source=FieldRef(path="status.podIP")),
            EnvVar(name="UML", value="ü"),
        ),
        resources=ResourceRequirements(limits={"cpu": Fraction(1), "memory": Fraction(500)}),
        stdin=True,
        stdin_once=True,
        tty=True,
        lifecycle=LifecycleHandlers(stop_signal="SIGUSR1"),
    )
    pod = PodSpec(name="p", uid="u", containers=(container,))
    mount = cri.Mount(container_path="/a", host_path="/b")
    user = ImageUser(uid=7)
    found = config(container, pod, image_user=user, restart_count=3, ips=("10.1.0.1",), mounts=[mount])
    assert found == cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="c", attempt=3),
        image=cri.ImageSpec(image="sha256:1", user_specified_image="busybox:1"),
        command=["p", "$(NAME)"],
        args=["at", "10.1.0.1", "$(OTHER)"],
        working_dir="/w",
        envs=[
            cri.KeyValue(key="NAME", value=b"p"),
            cri.KeyValue(key="IP", value=b"10.1.0.1"),
            cri.KeyValue(key="UML", value="ü".encode()),
        ],
        mounts=[mount],
        labels=container_labels(pod, container),
        annotations=container_annotations(pod, container, 3),
        log_path="c/3.log",
        stdin=True,
        stdin_once=True,
        tty=True,
        stop_signal=cri.SIGNAL_SIGUSR1,
        linux=cri.LinuxContainerConfig(
            resources=cri.LinuxContainerResources(
                cpu_shares=1024, cpu_period=100_000, cpu_quota=100_000, memory_limit_in_bytes=500, oom_score_adj=-997
            ),
            security_context=container_security(pod, container, NODE, user),
        ),
    )


@pytest.mark.parametrize("user", [None, ImageUser()])
def test_an_image_that_names_no_user_runs_as_root(user: ImageUser | None) -> None:
    """As number 0."""
    context = config(ContainerSpec(name="c", image="i"), image_user=user).linux.security_context
    assert context.HasField("run_as_user")
    assert context.run_as_user.value == 0


def test_a_user_with_a_name_is_the_runtimes_business() -> None:
    """It reads the image's /etc/passwd."""
    context = config(ContainerSpec(name="c", image="i"), image_user=ImageUser(username="www")).linux.security_context
    assert (context.run_as_username, context.HasField("run_as_user")) == ("www", False)


def test_a_container_that_looks_at_another() -> None:
    """Sees its processes."""
    options = config(ContainerSpec(name="e", image="i"), target_id="abc").linux.security_context.namespace_options
    assert (options.pid, options.target_id) == (cri.TARGET, "abc")


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("", cri.SIGNAL_RUNTIME_DEFAULT),
        ("SIGTERM", cri.SIGNAL_SIGTERM),
        ("SIGRTMIN+3", cri.SIGNAL_SIGRTMINPLUS3),
        ("SIGRTMAX-2", cri.SIGNAL_SIGRTMAXMINUS2),
    ],
)
def test_signals(name: str, signal: int) -> None:
    """In the words of CRI."""
    assert (
        config(ContainerSpec(name="c", image="i", lifecycle=LifecycleHandlers(stop_signal=name))).stop_signal == signal
    )


@pytest.mark.parametrize(
    ("container", "words"),
    [
        (
            ContainerSpec(name="c", image="i", lifecycle=LifecycleHandlers(stop_signal="KILL")),
            "stopSignal 'KILL' is not known",
        ),
        (ContainerSpec(name="c", image="i", env=(EnvVar(name="X", source=FieldRef(path="y")),)), "variable 'X'"),
        (ContainerSpec(name="c", image="i", security=SecurityContext(run_as_non_root=True)), "the image runs as root"),
    ],
)
def test_what_cannot_be_made(container: ContainerSpec, words: str) -> None:
    """The error names the container and what is wrong."""
    with pytest.raises(ContainerConfigError, match=f"container c: .*{words}"):
        config(container)


def test_a_pod_that_must_not_be_root() -> None:
    """Its rule counts for all of its containers."""
    container = ContainerSpec(name="c", image="i")
    pod = PodSpec(name="p", uid="u", containers=(container,), security=PodSecurityContext(run_as_non_root=True))
    with pytest.raises(ContainerConfigError, match="runAsNonRoot"):
        config(container, pod)
    assert config(container, pod, image_user=ImageUser(uid=5)).metadata.name == "c"


def test_a_change_in_place() -> None:
    """The same numbers as at the beginning, with what they were made of."""
    container = ContainerSpec(name="c", image="i", resources=ResourceRequirements(requests={"cpu": Fraction(1, 2)}))
    pod = PodSpec(name="p", uid="u", containers=(container,))
    assert container_resources(pod, container, NODE) == config(container, pod).linux.resources
    assert resize_annotations(container) == {"interpose.io/resources": '{"requests":{"cpu":"500m"}}'}
