"""Stopping and removing what is stopped, removed or was never there."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench


def _unknown_id() -> str:
    return (uuid.uuid4().hex * 2)[:64]


def stop_unknown_sandbox(bench: Bench) -> None:
    bench.call("StopPodSandbox", pod_sandbox_id=_unknown_id())


def stop_sandbox_twice(bench: Bench) -> None:
    pod = bench.pod()
    for _ in range(2):
        pod.stop()
        assert pod.status().status.state == cri.SANDBOX_NOTREADY


def remove_unknown_sandbox(bench: Bench) -> None:
    bench.call("RemovePodSandbox", pod_sandbox_id=_unknown_id())


def remove_sandbox_twice(bench: Bench) -> None:
    pod = bench.pod()
    pod.stop()
    for _ in range(2):
        pod.remove()
    assert bench.code("PodSandboxStatus", pod_sandbox_id=pod.id) == "NOT_FOUND"


def stop_unknown_container(bench: Bench) -> None:
    bench.call("StopContainer", container_id=_unknown_id(), timeout=0)


def stop_container_twice(bench: Bench) -> None:
    container = bench.container()
    container.stop()
    first = container.status()
    container.stop()
    assert container.status() == first


def stop_created(bench: Bench) -> None:
    container = bench.home.create()
    container.stop(1)
    assert container.status().state == cri.CONTAINER_CREATED


def remove_unknown_container(bench: Bench) -> None:
    bench.call("RemoveContainer", container_id=_unknown_id())


def remove_container_twice(bench: Bench) -> None:
    container = bench.home.create()
    for _ in range(2):
        container.remove()


def remove_unknown_image(bench: Bench) -> None:
    for _ in range(2):
        bench.call("RemoveImage", image=cri.ImageSpec(image="0" * 64))
    bench.call("RemoveImage", image=cri.ImageSpec(image="localhost/no/such:image"))


GROUPS = (
    Group(
        name="Idempotence",
        about="critest: 7 specs",
        points=(
            Point(name="StopPodSandbox of an unknown id", check=stop_unknown_sandbox),
            Point(name="StopPodSandbox twice", check=stop_sandbox_twice),
            Point(name="RemovePodSandbox of an unknown id", check=remove_unknown_sandbox),
            Point(name="RemovePodSandbox twice", check=remove_sandbox_twice),
            Point(name="StopContainer of an unknown id", check=stop_unknown_container),
            Point(name="StopContainer twice changes nothing", check=stop_container_twice),
            Point(name="StopContainer of one that was never started changes nothing", check=stop_created),
            Point(name="RemoveContainer of an unknown id", check=remove_unknown_container),
            Point(name="RemoveContainer twice", check=remove_container_twice),
            Point(name="RemoveImage of an unknown image", check=remove_unknown_image),
        ),
    ),
)
