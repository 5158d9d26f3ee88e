"""What containers carry is read back."""

import json
from fractions import Fraction

import pytest

from interpose.node.pods.labels import Hook, container_annotations, container_hash
from interpose.node.pods.spec import (
    ContainerSpec,
    ExecAction,
    HttpAction,
    LifecycleHandlers,
    PodSpec,
    Port,
    ResourceRequirements,
    SleepAction,
    TcpAction,
    TerminationMessagePolicy,
)
from interpose.node.pods.status.annotations import ContainerAnnotations, parse_annotations

HOOK = "io.kubernetes.container.preStopHandler"


@pytest.mark.parametrize(
    "hook",
    [
        ExecAction(command=("a", "b")),
        HttpAction(port=80),
        HttpAction(path="/x", port="web", host="h", scheme="HTTPS", headers=(("a", "b"),)),
        TcpAction(port="web", host="h"),
        SleepAction(seconds=3),
    ],
)
def test_everything_comes_back(hook: Hook) -> None:
    """As it was written."""
    container = ContainerSpec(
        name="c",
        image="i",
        termination_message_path="/m",
        termination_message_policy=TerminationMessagePolicy.FALLBACK_TO_LOGS,
        lifecycle=LifecycleHandlers(pre_stop=hook),
        ports=(Port(container_port=53, host_port=5353, host_ip="::", name="dns", protocol="UDP"),),
        resources=ResourceRequirements(requests={"cpu": Fraction(1, 7)}, limits={"memory": Fraction(10)}),
    )
    pod = PodSpec(name="p", uid="u", containers=(container,), termination_grace_period=5, deletion_grace_period=1)
    assert parse_annotations(container_annotations(pod, container, 4)) == ContainerAnnotations(
        hash=container_hash(container),
        restart_count=4,
        termination_message_path="/m",
        termination_message_policy=TerminationMessagePolicy.FALLBACK_TO_LOGS,
        grace=5,
        deletion_grace=1,
        pre_stop=hook,
        ports=container.ports,
        resources=container.resources,
    )


def test_nothing_there() -> None:
    """A container that no manager made."""
    assert parse_annotations({}) == ContainerAnnotations()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("io.kubernetes.container.restartCount", "many"),
        ("io.kubernetes.container.restartCount", "-1"),
        ("io.kubernetes.container.restartCount", "9" * 30),
        ("io.kubernetes.container.terminationMessagePolicy", "Other"),
        ("io.kubernetes.pod.terminationGracePeriod", ""),
        ("io.kubernetes.pod.deletionGracePeriod", "1.5"),
        (HOOK, "{"),
        (HOOK, "[]"),
        (HOOK, "{}"),
        (HOOK, '{"exec":{"command":[1]}}'),
        (HOOK, '{"httpGet":{"port":true}}'),
        (HOOK, '{"sleep":{"seconds":"1"}}'),
        (HOOK, "[" * 100_000),
        (HOOK, "x" * 300_000),
        ("io.kubernetes.container.ports", '[{"containerPort":"80"}]'),
        ("io.kubernetes.container.ports", "1"),
        ("interpose.io/resources", '{"limits":{"cpu":"much"}}'),
        ("interpose.io/resources", '{"limits":{"cpu":"1/0"}}'),
        ("interpose.io/resources", '{"limits":{"cpu":1}}'),
        ("interpose.io/resources", "[]"),
    ],
)
def test_what_is_not_understood_counts_as_not_there(key: str, text: str) -> None:
    """Whatever another program wrote, or a person."""
    assert parse_annotations({key: text}) == ContainerAnnotations()


def test_a_kubelets_own_words() -> None:
    """Fields that are left out have the API's defaults."""
    document = {"httpGet": {"port": 8080}}
    assert parse_annotations({HOOK: json.dumps(document)}).pre_stop == HttpAction(port=8080)
