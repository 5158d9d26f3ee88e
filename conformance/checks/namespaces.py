"""Namespaces that containers share with the node, the pod or another container."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.bench import FOREVER, machine
from conformance.points import Point
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench, Container


def _namespace(container: Container, kind: str) -> str:
    return container.says("readlink", f"/proc/1/ns/{kind}").strip()


def _ours(kind: str) -> str:
    return str(Path(f"/proc/self/ns/{kind}").readlink())


def host_processes(bench: Bench) -> None:
    container = bench.pod(pid=cri.NODE).run_container()
    pid = container.info()["pid"]
    assert "sleep" in container.says("cat", f"/proc/{pid}/cmdline")
    assert container.says("readlink", "/proc/self/ns/pid").strip() == _ours("pid")


def pod_processes(bench: Bench) -> None:
    pod = bench.pod(pid=cri.POD)
    first = pod.run_container("/bin/sleep", "123456")
    second = pod.run_container()
    assert "123456" not in first.says("cat", "/proc/1/cmdline")
    assert "123456" in second.says("ps")
    assert first.says("readlink", "/proc/self/ns/pid") == second.says("readlink", "/proc/self/ns/pid")


def container_processes(bench: Bench) -> None:
    pod = bench.pod(pid=cri.CONTAINER)
    first, second = pod.run_container("/bin/sleep", "123456"), pod.run_container()
    assert "123456" in first.says("cat", "/proc/1/cmdline")
    assert "123456" not in second.says("ps")


def target_processes(bench: Bench) -> None:
    pod = bench.pod(pid=cri.CONTAINER)
    target = pod.run_container("/bin/sleep", "123456")
    options = cri.NamespaceOption(network=cri.NODE, pid=cri.TARGET, target_id=target.id)
    config = pod.configure(*FOREVER)
    config.linux.security_context.namespace_options.CopyFrom(options)
    debugger = pod.create_configured(config).start()
    assert "123456" in debugger.says("cat", "/proc/1/cmdline")
    target.stop()
    assert debugger.ended().exit_code == 137


def target_elsewhere(bench: Bench) -> None:
    other, pod = bench.container(), bench.pod()
    config = pod.configure(*FOREVER)
    config.linux.security_context.namespace_options.pid = cri.TARGET
    config.linux.security_context.namespace_options.target_id = other.id
    code = bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code


def _segment(bench: Bench) -> str:
    number = machine("ipcmk", "-M", "4096").strip().rsplit(" ", 1)[1]
    bench.later(machine, "ipcrm", "-m", number)
    return number


def _segments(container: Container) -> list[str]:
    lines = container.says("cat", "/proc/sysvipc/shm").splitlines()[1:]
    return [line.split()[1] for line in lines]


def host_ipc(bench: Bench) -> None:
    number = _segment(bench)
    assert number in _segments(bench.pod(ipc=cri.NODE).run_container())


def pod_ipc(bench: Bench) -> None:
    number = _segment(bench)
    pod = bench.pod()
    first, second = pod.run_container(), pod.run_container()
    assert number not in _segments(first)
    assert _namespace(first, "ipc") == _namespace(second, "ipc") != _ours("ipc")
    first.shell("echo shared >/dev/shm/file")
    assert second.says("cat", "/dev/shm/file") == "shared\n"


def _listens(container: Container, port: int) -> bool:
    return f"{port:04X} 00000000" in container.says("cat", "/proc/net/tcp")


def host_network(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert _listens(bench.container(), server.getsockname()[1])


def pod_network(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD)
    first, second = pod.run_container(), pod.run_container()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not _listens(first, server.getsockname()[1])
    assert _namespace(first, "net") == _namespace(second, "net") != _ours("net")


def host_network_has_no_address(bench: Bench) -> None:
    assert bench.home.ip == ""


def names_in_status(bench: Bench) -> None:
    pod = bench.pod(pid=cri.NODE)
    options = pod.status().status.linux.namespaces.options
    assert (options.network, options.pid, options.ipc) == (cri.NODE, cri.NODE, cri.POD)


def own_mounts(bench: Bench) -> None:
    container = bench.container()
    assert _namespace(container, "mnt") != _ours("mnt")
    assert container.exec("ls", str(bench.world.folder)).exit_code != 0


POINTS = (
    Point(name="processes of the node (HostPID)", check=host_processes),
    Point(name="processes of the pod (PodPID)", check=pod_processes),
    Point(name="processes of the container (ContainerPID)", check=container_processes),
    Point(name="processes of another container (TARGET), and its end", check=target_processes),
    Point(name="a target in another pod is refused", check=target_elsewhere),
    Point(name="IPC of the node", check=host_ipc),
    Point(name="IPC of the pod, with its shared memory", check=pod_ipc),
    Point(name="network of the node", check=host_network),
    Point(name="network of the pod", check=pod_network),
    Point(name="a pod in the node's network has no address of its own", check=host_network_has_no_address),
    Point(name="PodSandboxStatus tells the modes", check=names_in_status),
    Point(name="mounts of the container are its own", check=own_mounts),
)
