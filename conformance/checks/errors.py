"""The status codes that kubelets react to, and requests that cannot be meant."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from conformance.bench import FOREVER, Pod
from conformance.points import Group, Point, refused
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench

_BAD = ("INVALID_ARGUMENT", "UNKNOWN")
_NOT_NOW = ("FAILED_PRECONDITION", "NOT_FOUND", "UNKNOWN")


def _unknown_id() -> str:
    return (uuid.uuid4().hex * 2)[:64]


def unknown_containers(bench: Bench) -> None:
    for method, more in (
        ("ContainerStatus", {}),
        ("StartContainer", {}),
        ("ContainerStats", {}),
        ("UpdateContainerResources", {"linux": cri.LinuxContainerResources(cpu_shares=2)}),
        ("ReopenContainerLog", {}),
        ("ExecSync", {"cmd": ["true"]}),
        ("Exec", {"cmd": ["true"], "stdout": True}),
        ("Attach", {"stdout": True}),
    ):
        assert bench.code(method, container_id=_unknown_id(), **more) == "NOT_FOUND", method


def unknown_sandboxes(bench: Bench) -> None:
    pod = Pod(bench)
    for method, more in (
        ("PodSandboxStatus", {}),
        ("PodSandboxStats", {}),
        ("PortForward", {"port": [80]}),
        ("CreateContainer", {"config": pod.configure(*FOREVER), "sandbox_config": pod.config}),
    ):
        assert bench.code(method, pod_sandbox_id=_unknown_id(), **more) == "NOT_FOUND", method


def unknown_image(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER, image="localhost/no/such:image")
    code, words = bench.status("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code == "NOT_FOUND", code
    assert "no/such" in words


def no_metadata(bench: Bench) -> None:
    code, words = bench.status("RunPodSandbox", config=cri.PodSandboxConfig())
    assert code in _BAD, code
    assert "metadata" in words
    pod = bench.home
    config = pod.configure(*FOREVER)
    config.ClearField("metadata")
    code, words = bench.status("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in _BAD, code
    assert "metadata" in words


def start_twice(bench: Bench) -> None:
    container = bench.container()
    assert bench.code("StartContainer", container_id=container.id) in ("FAILED_PRECONDITION", "UNKNOWN")
    container.stop()
    assert bench.code("StartContainer", container_id=container.id) in ("FAILED_PRECONDITION", "UNKNOWN")


def same_name(bench: Bench) -> None:
    pod = bench.pod()
    config = pod.create(name="main").config
    code, words = bench.status("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in ("ALREADY_EXISTS", "UNKNOWN"), code
    assert "is reserved for" in words


def same_name_after_removal(bench: Bench) -> None:
    pod = bench.pod()
    pod.create(name="main").remove()
    pod.create(name="main")


def not_ready(bench: Bench) -> None:
    pod = bench.pod()
    created = pod.create()
    pod.stop()
    config = pod.configure(*FOREVER)
    code = bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in _NOT_NOW, code
    assert bench.code("StartContainer", container_id=created.id) in _NOT_NOW


def failed_leaves_nothing(bench: Bench) -> None:
    pod = bench.pod()
    mounts = [cri.Mount(host_path="/dev/null/not/a/folder", container_path="/mnt/v")]
    config = pod.configure(*FOREVER, name="main", mounts=mounts)
    assert bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config) != "OK"
    assert not bench.call("ListContainers", filter=cri.ContainerFilter(pod_sandbox_id=pod.id)).containers
    pod.create(name="main")


def update_stopped(bench: Bench) -> None:
    container = bench.container()
    container.stop()
    wanted = cri.LinuxContainerResources(cpu_shares=100)
    code = bench.code("UpdateContainerResources", container_id=container.id, linux=wanted)
    assert code in ("FAILED_PRECONDITION", "UNKNOWN"), code


def escaping_log(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER)
    config.log_path = "../../outside.log"
    code = bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code == "INVALID_ARGUMENT", code


def checkpoint(bench: Bench) -> None:
    container = bench.container()
    bench.call("CheckpointContainer", container_id=container.id, location=str(bench.folder() / "checkpoint.tar"))


def checkpoint_pod(bench: Bench) -> None:
    bench.call("CheckpointPod", pod_sandbox_id=bench.home.id, output_path=str(bench.folder()))


def restore_pod(bench: Bench) -> None:
    bench.call("RestorePod")


def cdi(bench: Bench) -> None:
    container = bench.container(*FOREVER, CDI_devices=[cri.CDIDevice(name="vendor.com/device=one")])
    assert container.exec("test", "-e", "/dev/one").exit_code == 0


def windows(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER, windows=cri.WindowsContainerConfig())
    code = bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code == "INVALID_ARGUMENT", code


def empty_id(bench: Bench) -> None:
    for method, field in (("ContainerStatus", "container_id"), ("PodSandboxStatus", "pod_sandbox_id")):
        wanted: dict[str, Any] = {field: ""}
        assert bench.code(method, **wanted) in ("INVALID_ARGUMENT", "NOT_FOUND", "UNKNOWN"), method


_CHECKPOINTS = refused("UNIMPLEMENTED", "checkpoint and restore are not there")

GROUPS = (
    Group(
        name="Errors",
        about="codes that kubelets react to",
        points=(
            Point(name="NOT_FOUND for containers nobody knows", check=unknown_containers),
            Point(name="NOT_FOUND for sandboxes nobody knows", check=unknown_sandboxes),
            Point(name="NOT_FOUND for an image that is not there", check=unknown_image),
            Point(name="an empty id is refused", check=empty_id),
            Point(name="configurations without metadata are refused by name of the field", check=no_metadata),
            Point(name="a container starts once", check=start_twice),
            Point(name="a second container of the same name and attempt is refused", check=same_name),
            Point(name="after a removal the name is free", check=same_name_after_removal),
            Point(name="nothing is created or started in a stopped sandbox", check=not_ready),
            Point(name="a creation that failed leaves nothing and frees the name", check=failed_leaves_nothing),
            Point(name="an update of a stopped container is refused", check=update_stopped),
            Point(name="a log path that leaves the folder of logs is refused", check=escaping_log),
            Point(name="a configuration for Windows is refused", check=windows),
            Point(name="CheckpointContainer", check=checkpoint, ours=_CHECKPOINTS),
            Point(name="CheckpointPod", check=checkpoint_pod, ours=_CHECKPOINTS),
            Point(name="RestorePod", check=restore_pod, ours=_CHECKPOINTS),
            Point(
                name="CDI devices",
                check=cdi,
                ours=refused("UNIMPLEMENTED", "the container device interface is not there; plain devices are"),
            ),
        ),
    ),
)
