"""What containers may have and what they use: resources in the kernel's files, stats, commands and their limits."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.bench import FOREVER, Container, eventually
from conformance.points import Group, Need, Point
from interpose._pb import cri_pb2 as cri
from interpose.host.cgroup.parameters import weight_of

if TYPE_CHECKING:
    from conformance.bench import Bench

MEBIBYTE = 1 << 20
_V2 = Need(words="cgroup v2", met=lambda: Path("/sys/fs/cgroup/cgroup.controllers").exists())
_V1_FILES = (
    ("cpu", "cpu.shares"),
    ("cpu", "cpu.cfs_period_us"),
    ("cpu", "cpu.cfs_quota_us"),
    ("memory", "memory.limit_in_bytes"),
    ("cpuset", "cpuset.cpus"),
)


_V2_FILES = ("cpu.weight", "cpu.max", "memory.max", "cpuset.cpus")


def _values(container: Container) -> list[str]:
    files = [("", name) for name in _V2_FILES] if _V2.met() else _V1_FILES
    return [container.cgroup_file(*file).read_text().strip() for file in files]


def _expected(shares: int, quota: int, mebibytes: int, cpus: str) -> list[str]:
    """What the kernel's files have then; the period is 100 ms."""
    memory = str(mebibytes * MEBIBYTE)
    if _V2.met():
        return [str(weight_of(shares)), f"{quota} 100000", memory, cpus]
    return [str(shares), "100000", str(quota), memory, cpus]


def _update(bench: Bench, container: Container, **resources: Any) -> None:
    linux = cri.LinuxContainerResources(**resources)
    bench.call("UpdateContainerResources", container_id=container.id, linux=linux)


_FIRST = {
    "cpu_shares": 512,
    "cpu_period": 100_000,
    "cpu_quota": 50_000,
    "memory_limit_in_bytes": 64 * MEBIBYTE,
    "cpuset_cpus": "0",
}


def created_with(bench: Bench) -> None:
    container = bench.container(*FOREVER, resources=_FIRST)
    assert _values(container) == _expected(512, 50_000, 64, "0")


def updated(bench: Bench) -> None:
    container = bench.container(*FOREVER, resources=_FIRST)
    _update(bench, container, cpu_shares=256, cpu_quota=20_000, memory_limit_in_bytes=128 * MEBIBYTE)
    assert _values(container) == _expected(256, 20_000, 128, "0")


def patched(bench: Bench) -> None:
    container = bench.container(*FOREVER, resources=_FIRST)
    _update(bench, container, cpuset_cpus="0-1")
    assert _values(container) == _expected(512, 50_000, 64, "0-1")


def status_after_update(bench: Bench) -> None:
    container = bench.container(*FOREVER, resources=_FIRST)
    _update(bench, container, cpu_shares=256)
    linux = container.status().resources.linux
    assert (linux.cpu_shares, linux.cpu_quota, linux.memory_limit_in_bytes) == (256, 50_000, 64 * MEBIBYTE)


def before_start(bench: Bench) -> None:
    container = bench.home.create(resources=_FIRST)
    _update(bench, container, cpu_shares=256, memory_limit_in_bytes=32 * MEBIBYTE)
    container.start()
    assert _values(container) == _expected(256, 50_000, 32, "0")


def impossible(bench: Bench) -> None:
    container = bench.container(*FOREVER, resources=_FIRST)
    wanted = cri.LinuxContainerResources(cpu_shares=256, cpuset_cpus="4095")
    assert bench.code("UpdateContainerResources", container_id=container.id, linux=wanted) != "OK"
    assert _values(container)[-1] == "0"
    _update(bench, container, cpu_shares=300)
    assert _values(container) == _expected(300, 50_000, 64, "0")


def unified(bench: Bench) -> None:
    container = bench.container(*FOREVER, resources={"unified": {"memory.high": "50331648"}})
    assert container.cgroup_file("", "memory.high").read_text() == "50331648\n"


def stats(bench: Bench) -> None:
    container = bench.container("sh", "-c", "dd if=/dev/zero of=/file bs=1M count=3; while true; do true; done")
    asked = time.time_ns()

    def look() -> Any:
        found = bench.call("ContainerStats", container_id=container.id).stats
        return found if found.cpu.usage_core_nano_seconds.value > 1_000_000 else None

    found = eventually(look, "some CPU time to be used")
    assert found.attributes.metadata == container.config.metadata
    assert found.attributes.labels == container.config.labels
    assert found.cpu.timestamp >= asked
    assert 0 < found.memory.working_set_bytes.value < 1 << 30
    written = eventually(
        lambda: (
            bench.call("ContainerStats", container_id=container.id).stats.writable_layer.used_bytes.value
            >= 3 * MEBIBYTE
        ),
        "the writable layer to have grown",
    )
    assert written


def stats_grow(bench: Bench) -> None:
    container = bench.container("sh", "-c", "while true; do true; done")
    first = bench.call("ContainerStats", container_id=container.id).stats.cpu.usage_core_nano_seconds.value
    eventually(
        lambda: bench.call("ContainerStats", container_id=container.id).stats.cpu.usage_core_nano_seconds.value > first,
        "the CPU time to grow",
    )


def stats_listed(bench: Bench) -> None:
    pod = bench.pod()
    containers = [pod.run_container(), pod.run_container()]
    for wanted, expected in (
        ({"id": containers[0].id}, containers[:1]),
        ({"pod_sandbox_id": pod.id}, containers),
        ({"label_selector": {"name": containers[1].config.metadata.name}}, containers[1:]),
    ):
        found = bench.call("ListContainerStats", filter=cri.ContainerStatsFilter(**wanted)).stats
        assert {stats.attributes.id for stats in found} == {container.id for container in expected}
    every = {stats.attributes.id for stats in bench.call("ListContainerStats").stats}
    assert {container.id for container in containers} <= every


def exec_output(bench: Bench) -> None:
    answer = bench.container().exec("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"out\n", b"err\n", 3)


def exec_timeout(bench: Bench) -> None:
    container = bench.container()
    code, _ = bench.status("ExecSync", container_id=container.id, cmd=["sleep", "4321"], timeout=1)
    assert code == "DEADLINE_EXCEEDED", code
    eventually(lambda: "4321" not in container.says("ps"), "the command to be gone")


def exec_in_time(bench: Bench) -> None:
    answer = bench.container().exec("sh", "-c", "usleep 200000; echo in time", timeout=60)
    assert answer.stdout == b"in time\n"


def exec_missing(bench: Bench) -> None:
    container = bench.container()
    code, words = bench.status("ExecSync", container_id=container.id, cmd=["/no/such/program"], timeout=60)
    assert code == "UNKNOWN", code
    assert "no such file" in words.lower()


def exec_as_user(bench: Bench) -> None:
    container = bench.container(*FOREVER, security={"run_as_user": cri.Int64Value(value=1001)}, working_dir="/tmp")
    assert container.shell("id -u; pwd") == "1001\n/tmp\n"


def exec_in_cgroup(bench: Bench) -> None:
    container = bench.container()
    seen = container.says("cat", "/proc/self/cgroup")
    # On v2 a container may have its own view of cgroups, with itself at the top; who is elsewhere sees "/.." there.
    assert container.id in seen or (_V2.met() and seen == "0::/\n")


def exec_background(bench: Bench) -> None:
    answer = bench.container().exec("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo started", timeout=60)
    assert (answer.exit_code, answer.stdout) == (0, b"started\n")


def exec_limit(bench: Bench) -> None:
    container = bench.container()
    line = f"head -c {20 * MEBIBYTE} /dev/zero | tee /dev/stderr; exit 5"
    answer = bench.call("ExecSync", container_id=container.id, cmd=["sh", "-c", line], timeout=60)
    assert answer.exit_code == 5
    assert len(answer.stdout) + len(answer.stderr) > 15 * MEBIBYTE
    assert answer.ByteSize() <= 16 * MEBIBYTE


def many_execs(bench: Bench) -> None:
    container = bench.container()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: container.says("echo", str(number)), range(16)))
    assert found == [f"{number}\n" for number in range(16)]


GROUPS = (
    Group(
        name="Resources",
        about="what the kernel's files have",
        points=(
            Point(name="shares, quota, memory and CPUs of the configuration", check=created_with),
            Point(name="UpdateContainerResources of several", check=updated),
            Point(name="UpdateContainerResources is a patch: what is not said stays", check=patched),
            Point(name="UpdateContainerResources before the start", check=before_start),
            Point(name="an update the kernel refuses leaves a container that can be updated", check=impossible),
            Point(name="ContainerStatus has the resources in force", check=status_after_update),
            Point(name="unified files of cgroup v2", check=unified, need=_V2),
        ),
    ),
    Group(
        name="Stats",
        about="what kubelets and dashboards read",
        points=(
            Point(name="CPU, memory and writable layer of a container are plausible", check=stats),
            Point(name="CPU time grows", check=stats_grow),
            Point(name="lists by container, sandbox and labels, and of all", check=stats_listed),
        ),
    ),
    Group(
        name="ExecSync",
        about="exec probes and their limits",
        points=(
            Point(name="both outputs and the exit code", check=exec_output),
            Point(name="DEADLINE_EXCEEDED after the timeout, and the command is gone", check=exec_timeout),
            Point(name="a command that ends in time", check=exec_in_time),
            Point(name="a command that is not there", check=exec_missing),
            Point(name="as the container's user, in its folder", check=exec_as_user),
            Point(name="in the container's cgroup", check=exec_in_cgroup),
            Point(name="does not wait for what a command leaves in the background", check=exec_background),
            Point(name="more output than 16 MiB is cut, so that a kubelet takes the answer", check=exec_limit),
            Point(name="many at a time", check=many_execs),
        ),
    ),
)
