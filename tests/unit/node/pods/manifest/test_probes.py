"""Probes and lifecycle hooks in manifests."""

from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import (
    ContainerSpec,
    ExecAction,
    GrpcAction,
    HttpAction,
    LifecycleHandlers,
    Probe,
    SleepAction,
    TcpAction,
)


def text(part: str) -> str:
    """A container with a part."""
    return (
        "kind: Pod\nmetadata: {name: p}\n"
        f"spec: {{containers: [{{name: c, image: x, ports: [{{containerPort: 80, name: web}}], {part}}}]}}\n"
    )


def read(part: str) -> ContainerSpec:
    """The container."""
    [pod] = read_pods(text(part), "x")
    return pod.containers[0]


def problems(part: str) -> list[str]:
    """What is wrong."""
    with pytest.raises(ConfigError) as caught:
        read_pods(text(part), "x")
    return [one.partition(": spec.containers[0]")[2] for one in caught.value.problems]


@pytest.mark.parametrize(
    ("handler", "action"),
    [
        ("exec: {command: [a, b]}", ExecAction(command=("a", "b"))),
        ("httpGet: {port: 80}", HttpAction(port=80)),
        ("httpGet: {port: 80, scheme: '', path: ''}", HttpAction(port=80)),
        (
            "httpGet: {port: web, path: a, host: h, scheme: HTTPS, httpHeaders: [{name: A, value: b}, {name: C}]}",
            HttpAction(port="web", path="/a", host="h", scheme="HTTPS", headers=(("A", "b"), ("C", ""))),
        ),
        ("tcpSocket: {port: web, host: h}", TcpAction(port="web", host="h")),
        ("grpc: {port: 90, service: s}", GrpcAction(port=90, service="s")),
    ],
)
def test_what_a_probe_does(handler: str, action: Any) -> None:
    """With the numbers of Kubernetes where none are given."""
    assert read(f"livenessProbe: {{{handler}}}").liveness == Probe(action=action)


def test_the_numbers_of_a_probe() -> None:
    """All of them."""
    numbers = (
        "initialDelaySeconds: 0, timeoutSeconds: 2, periodSeconds: 3, successThreshold: 1, failureThreshold: 4, "
        "terminationGracePeriodSeconds: 5"
    )
    assert read(f"startupProbe: {{tcpSocket: {{port: 1}}, {numbers}}}").startup == Probe(
        action=TcpAction(port=1),
        timeout=2,
        period=3,
        failure_threshold=4,
        termination_grace_period=5,
    )


@pytest.mark.parametrize("kind", ["liveness", "readiness", "startup"])
def test_numbers_that_are_zero_are_not_said(kind: str) -> None:
    """The API server would put its defaults there."""
    numbers = "timeoutSeconds: 0, periodSeconds: 0, successThreshold: 0, failureThreshold: 0"
    found = read(f"{kind}Probe: {{tcpSocket: {{port: 1}}, {numbers}}}")
    assert getattr(found, kind) == Probe(
        action=TcpAction(port=1), timeout=1, period=10, success_threshold=1, failure_threshold=3
    )


def test_a_readiness_probe_may_want_several_successes() -> None:
    """It ends nothing, so it may go back and forth."""
    found = read("readinessProbe: {tcpSocket: {port: 1}, successThreshold: 3}").readiness
    assert found is not None
    assert found.success_threshold == 3


def test_lifecycle_hooks() -> None:
    """After the start, before the end, and the signal in between."""
    part = "lifecycle: {postStart: {sleep: {seconds: 0}}, preStop: {httpGet: {port: web}}, stopSignal: SIGUSR1}"
    assert read(part).lifecycle == LifecycleHandlers(
        post_start=SleepAction(seconds=0), pre_stop=HttpAction(port="web"), stop_signal="SIGUSR1"
    )


TCP = "tcpSocket: {port: 1}"
NUMBER = "expected a number from 0 to 2147483647"


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("livenessProbe: {}", ".livenessProbe: expected exactly one kind of it, found none"),
        (
            f"livenessProbe: {{{TCP}, exec: {{command: [a]}}}}",
            ".livenessProbe: expected exactly one kind of it, found tcpSocket and exec",
        ),
        ("livenessProbe: {exec: {}}", ".livenessProbe.exec: command is missing"),
        ("livenessProbe: {httpGet: {}}", ".livenessProbe.httpGet.port: is missing"),
        (
            "livenessProbe: {httpGet: {port: other}}",
            ": livenessProbe: 'other' is the name of no port of the container",
        ),
        (
            "lifecycle: {preStop: {tcpSocket: {port: other}}}",
            ": lifecycle.preStop: 'other' is the name of no port of the container",
        ),
        (f"livenessProbe: {{{TCP}, periodSeconds: -1}}", f".livenessProbe.periodSeconds: {NUMBER}, found '-1'"),
        (f"livenessProbe: {{{TCP}, timeoutSeconds: -1}}", f".livenessProbe.timeoutSeconds: {NUMBER}, found '-1'"),
        (f"livenessProbe: {{{TCP}, failureThreshold: -1}}", f".livenessProbe.failureThreshold: {NUMBER}, found '-1'"),
        (
            f"livenessProbe: {{{TCP}, terminationGracePeriodSeconds: 0}}",
            ".livenessProbe.terminationGracePeriodSeconds: expected a number from 1 to 2147483647, found '0'",
        ),
        (
            f"livenessProbe: {{{TCP}, successThreshold: 2}}",
            ".livenessProbe.successThreshold: expected a number from 0 to 1, found '2'",
        ),
        (
            f"livenessProbe: {{{TCP}, initialDelaySeconds: -1}}",
            f".livenessProbe.initialDelaySeconds: {NUMBER}, found '-1'",
        ),
        (
            f"readinessProbe: {{{TCP}, terminationGracePeriodSeconds: 1}}",
            ".readinessProbe.terminationGracePeriodSeconds: is not for readiness probes, which end nothing",
        ),
        (
            "livenessProbe: {grpc: {port: web}}",
            ".livenessProbe.grpc.port: expected a number from 1 to 65535, found text ('web')",
        ),
        (
            "livenessProbe: {httpGet: {port: 1, scheme: http}}",
            ".livenessProbe.httpGet.scheme: expected HTTP or HTTPS, found 'http'",
        ),
        ("livenessProbe: {sleep: {seconds: 1}}", ".livenessProbe.sleep: is not a known key"),
        (
            "lifecycle: {stopSignal: TERM}",
            ".lifecycle.stopSignal: expected the name of a signal such as SIGUSR1, found 'TERM'",
        ),
    ],
)
def test_probes_and_hooks_that_make_no_sense(part: str, problem: str) -> None:
    """Each with its place."""
    assert problems(part) == [problem]
