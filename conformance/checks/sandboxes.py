"""Life of pods: run, stop, remove, their kernel settings, what they count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.bench import FOREVER, Pod, cgroup_of
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri
from tests.support.lab.pods import CGROUPS

if TYPE_CHECKING:
    from conformance.bench import Bench


def run(bench: Bench) -> None:
    pod = bench.pod()
    found = bench.call("ListPodSandbox", filter=cri.PodSandboxFilter(id=pod.id)).items
    assert [(sandbox.id, sandbox.state) for sandbox in found] == [(pod.id, cri.SANDBOX_READY)]


def stop(bench: Bench) -> None:
    pod = bench.pod()
    container = pod.run_container()
    pod.stop()
    assert pod.status().status.state == cri.SANDBOX_NOTREADY
    assert container.status().state == cri.CONTAINER_EXITED


def remove(bench: Bench) -> None:
    pod = bench.pod()
    container = pod.run_container()
    pod.stop()
    pod.remove()
    assert not bench.call("ListPodSandbox", filter=cri.PodSandboxFilter(id=pod.id)).items
    assert bench.code("ContainerStatus", container_id=container.id) == "NOT_FOUND"


def remove_ready(bench: Bench) -> None:
    pod = bench.pod()
    pod.run_container()
    pod.remove()
    assert bench.code("PodSandboxStatus", pod_sandbox_id=pod.id) == "NOT_FOUND"


def attempts(bench: Bench) -> None:
    pod = bench.pod()
    pod.stop()
    other = pod.again(1)
    found = bench.call("ListPodSandbox", filter=cri.PodSandboxFilter(label_selector=dict(pod.config.labels))).items
    assert {sandbox.id for sandbox in found} == {pod.id, other.id}


def name_in_use(bench: Bench) -> None:
    pod = bench.pod()
    code, words = bench.status("RunPodSandbox", config=pod.config)
    assert code in ("ALREADY_EXISTS", "UNKNOWN"), code
    assert "is reserved for" in words


def handler(bench: Bench) -> None:
    name = handler_name(bench)
    pod = bench.pod(handler=name)
    assert pod.status().status.runtime_handler == name


def handler_name(bench: Bench) -> str:
    """One that is there; runtimes that do not tell are all called the same."""
    return next((str(handler.name) for handler in bench.call("Status").runtime_handlers if handler.name), "runc")


def no_handler(bench: Bench) -> None:
    code, words = bench.status("RunPodSandbox", config=Pod(bench).config, runtime_handler="no-such")
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code
    assert "no-such" in words


def safe_sysctl(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD, linux={"sysctls": {"net.ipv4.ip_local_port_range": "1024 1048"}})
    assert pod.output("cat", "/proc/sys/net/ipv4/ip_local_port_range").split() == ["1024", "1048"]


def unsafe_sysctl(bench: Bench) -> None:
    pod = bench.pod(linux={"sysctls": {"fs.mqueue.msg_max": "100", "kernel.shm_rmid_forced": "1"}})
    shown = pod.output("cat", "/proc/sys/fs/mqueue/msg_max", "/proc/sys/kernel/shm_rmid_forced")
    assert shown.split() == ["100", "1"]


def foreign_sysctl(bench: Bench) -> None:
    config = Pod(bench, linux={"sysctls": {"kernel.panic": "1"}}).config
    code, words = bench.status("RunPodSandbox", config=config)
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code
    assert "kernel.panic" in words


def cgroup(bench: Bench) -> None:
    container = bench.container(*FOREVER)
    assert container.cgroup_file("memory", "cgroup.procs").read_text().split()
    pid = container.info()["pid"]
    assert str(pid) in container.cgroup_file("memory", "cgroup.procs").read_text().split()


def cgroup_goes(bench: Bench) -> None:
    pod = bench.pod()
    container = pod.run_container()
    pod.stop()
    pod.remove()
    for tree in (CGROUPS, *(path for path in CGROUPS.iterdir() if path.is_dir())):
        assert not cgroup_of(tree, pod.cgroup, container.id).exists()
        assert not cgroup_of(tree, pod.cgroup, pod.id).exists()


def pod_stats(bench: Bench) -> None:
    pod = bench.pod()
    container = pod.run_container()
    stats = bench.call("PodSandboxStats", pod_sandbox_id=pod.id).stats
    assert stats.attributes.id == pod.id
    assert stats.attributes.metadata == pod.config.metadata
    assert [container.attributes.id for container in stats.linux.containers] == [container.id]
    listed = bench.call("ListPodSandboxStats", filter=cri.PodSandboxStatsFilter(id=pod.id)).stats
    assert [entry.attributes.id for entry in listed] == [pod.id]


def pod_network_stats(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD)
    network = bench.call("PodSandboxStats", pod_sandbox_id=pod.id).stats.linux.network
    assert network.default_interface.name == "eth0"


def resize(bench: Bench) -> None:
    pod = bench.pod()
    bench.call("UpdatePodSandboxResources", pod_sandbox_id=pod.id, resources=cri.LinuxContainerResources(cpu_shares=99))


GROUPS = (
    Group(
        name="PodSandbox",
        about="critest: 6 specs (basic operations, sysctls)",
        points=(
            Point(name="a sandbox that was run is READY", check=run),
            Point(name="a stopped one is NOTREADY and its containers have ended", check=stop),
            Point(name="a removed one is gone with its containers", check=remove),
            Point(name="removing one that is ready stops it first", check=remove_ready),
            Point(name="a further attempt of the same pod beside the old one", check=attempts),
            Point(name="a second one with the same name and attempt is refused", check=name_in_use),
            Point(name="a runtime handler by its name", check=handler),
            Point(name="an unknown runtime handler is refused", check=no_handler),
            Point(name="sysctls of the network", check=safe_sysctl),
            Point(name="sysctls of IPC, also those a kubelet calls unsafe", check=unsafe_sysctl),
            Point(name="sysctls of the whole node are refused", check=foreign_sysctl),
            Point(name="containers are below the cgroup parent", check=cgroup),
            Point(name="cgroups of sandbox and containers go with the sandbox", check=cgroup_goes),
            Point(name="stats of a pod have those of its containers", check=pod_stats),
            Point(name="stats of a pod have its network", check=pod_network_stats),
            Point(name="UpdatePodSandboxResources is taken", check=resize),
        ),
    ),
)
