"""Hook servers, the real relay and a real containerd: what plugins ask for is what containers have.

The relay is a process of its own, and the hook servers are on grpcio: all that this project has of the hook protocol is
on one side only.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import LIFE, echo, register, set_shares
from tests.support.lab.cri import CriClient
from tests.support.lab.hook_plugin import HookPlugin
from tests.support.lab.load.load import Load
from tests.support.lab.pods import CGROUPS, MEBIBYTE, LabPod, described_pod
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import Relay, hook_options, hooks_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.containerd import Containerd

pytestmark = pytest.mark.e2e


@pytest.fixture
def both_versions(version: str, hooked_relay: Relay) -> Iterator[CriClient]:
    """A client of each API version, through the relay that asks hook servers."""
    with CriClient(hooked_relay.socket, version) as connected:
        yield connected


def assert_complete(pod: LabPod, point: HookPoint, request: Any, *, shares: int = 512) -> None:
    """Nothing is missing in what a hook server was told of this pod and its container."""
    assert (request.pod_meta.name, request.pod_meta.uid, request.pod_meta.namespace) == (pod.name, pod.uid, "lab")
    if point.about_pod:
        assert dict(request.labels).items() >= dict(pod.sandbox_config.labels).items()
        assert request.annotations["team"] == "blue"
        assert request.cgroup_parent == pod.cgroup_parent
        assert (request.resources.cpu_shares, request.overhead.memory_limit_in_bytes) == (600, MEBIBYTE)
        return
    assert request.container_meta.name == "main"
    assert request.container_meta.id == ("" if point is HookPoint.PRE_CREATE_CONTAINER else pod.container_id)
    assert dict(request.pod_labels).items() >= dict(pod.sandbox_config.labels).items()
    assert request.pod_annotations["team"] == "blue"
    assert request.pod_cgroup_parent == pod.cgroup_parent
    assert request.pod_resources.cpu_shares == 600
    assert request.container_annotations["port"] == "80"
    assert dict(request.container_envs) == {"A": "1"}
    assert request.container_resources == hook.LinuxContainerResources(
        cpu_period=100_000, cpu_shares=shares, memory_limit_in_bytes=100 * MEBIBYTE, oom_score_adj=500
    )


def stop_all(pod: LabPod) -> None:
    """The end of a pod's life, in the order of a kubelet."""
    pod.stop()
    pod.client.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox_id))


# -- what plugins change


def test_answers_are_what_the_container_has(
    both_versions: CriClient, runtime: CriClient, hooked_relay: Relay, plugin: HookPlugin
) -> None:
    """Each kind of field of both answers: in what containerd reports, inside the container, in its control files."""
    with hooked_relay.registered("plugin", plugin.socket), described_pod(both_versions) as pod:
        moved = f"{pod.cgroup_parent}-batch"
        plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = lambda _: hook.PodSandboxHookResponse(
            labels={"added": "1"}, annotations={"team": "red"}, cgroup_parent=moved
        )
        plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = lambda _: hook.ContainerResourceHookResponse(
            container_annotations={"zone": "7"},
            container_envs={"A": "2", "NEW": "x=y"},
            container_resources=hook.LinuxContainerResources(
                cpu_shares=128,
                cpu_quota=50_000,
                cpuset_cpus="1",
                memory_limit_in_bytes=64 * MEBIBYTE,
                oom_score_adj=700,
            ),
        )
        pod.run()
        pod.cgroup_parent = moved
        pod.create()
        pod.start()
        pod.client = runtime

        answer = pod.sandbox_status()
        assert json.loads(answer.info["info"])["config"]["linux"]["cgroup_parent"] == moved
        sandbox = answer.status
        assert (sandbox.labels["app"], sandbox.labels["added"], sandbox.annotations["team"]) == ("web", "1", "red")
        status, spec = pod.status(), pod.info()["runtimeSpec"]
        assert (status.annotations["port"], status.annotations["zone"]) == ("80", "7")
        assert spec["linux"]["cgroupsPath"] == f"{moved}/{pod.container_id}"
        assert spec["linux"]["resources"]["cpu"] == {"shares": 128, "quota": 50_000, "period": 100_000, "cpus": "1"}
        assert {"A=2", "NEW=x=y"} < set(pod.exec("env").stdout.decode().splitlines())
        assert pod.oom_score() == 700
        for controller, name, value in (
            ("cpu", "cpu.shares", "128"),
            ("cpu", "cpu.cfs_quota_us", "50000"),
            ("cpuset", "cpuset.cpus", "1"),
            ("memory", "memory.limit_in_bytes", str(64 * MEBIBYTE)),
        ):
            assert pod.cgroup_file(controller, name).read_text().strip() == value
        # The kubelet sees what it asked for, or it would update for ever.
        pod.client = both_versions
        asked = pod.container_config.linux.resources
        seen = pod.status().resources.linux
        assert (seen.cpu_shares, seen.memory_limit_in_bytes) == (asked.cpu_shares, asked.memory_limit_in_bytes)


def test_unified_reaches_containerd(
    kubelet: CriClient, runtime: CriClient, hooked_relay: Relay, plugin: HookPlugin
) -> None:
    """In a container that is not started: runc takes these files on a node with cgroup v2 only."""
    files = {"memory.high": "1000000", "io.weight": "default 50"}
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = lambda _: hook.ContainerResourceHookResponse(
        container_resources=hook.LinuxContainerResources(unified=files)
    )
    with hooked_relay.registered("plugin", plugin.socket), described_pod(kubelet) as pod:
        pod.run()
        pod.create()
        pod.client = runtime
        assert pod.info()["runtimeSpec"]["linux"]["resources"]["unified"] == files


def test_update_changes_control_files(kubelet: CriClient, hooked_relay: Relay, plugin: HookPlugin) -> None:
    """The plugin overrules the shares of the kubelet, and what it clears is lifted: the full CPU set is written."""
    with hooked_relay.registered("plugin", plugin.socket), described_pod(kubelet) as pod:
        pod.container_config.linux.resources.cpuset_cpus = "0"
        pod.run()
        pod.create()
        pod.start()
        cpus, shares = pod.cgroup_file("cpuset", "cpuset.cpus"), pod.cgroup_file("cpu", "cpu.shares")
        assert (cpus.read_text(), shares.read_text()) == ("0\n", "512\n")

        def unpin(request: Any) -> Any:
            answer = echo(request)
            answer.container_resources.cpuset_cpus = ""
            answer.container_resources.cpu_shares = 77
            return answer

        plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = unpin
        pod.update(cpu_shares=2048)
        asked = plugin.last(HookPoint.PRE_UPDATE_CONTAINER_RESOURCES).container_resources
        assert (asked.cpu_shares, asked.cpuset_cpus) == (2048, "0")
        everything = (CGROUPS / "cpuset" / pod.cgroup_parent.strip("/") / "cpuset.effective_cpus").read_text()
        assert (cpus.read_text(), shares.read_text()) == (everything, "77\n")
        assert everything != "0\n"


def test_one_container_can_be_placed_elsewhere(containerd: Containerd, scratch: Path, plugin: HookPlugin) -> None:
    """A cgroup parent chosen for a container is where it runs, and what hook servers hear, also from a new relay."""
    register(hooks_dir(scratch), "plugin", plugin.socket)
    with (
        Relay(scratch, containerd.socket, hook_options(scratch)) as relay,
        CriClient(containerd.socket) as direct,
        described_pod(direct) as pod,
    ):
        relay.wait_hooks(plugin="connected")
        elsewhere = f"{pod.cgroup_parent}-elsewhere"
        plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = lambda _: hook.ContainerResourceHookResponse(
            pod_cgroup_parent=elsewhere
        )
        pod.run()
        pod.cgroup_parent = elsewhere
        with CriClient(relay.socket) as client:
            pod.client = client
            pod.create()
            pod.start()
        assert pod.cgroup_file("cpu", "cpu.shares").read_text() == "512\n"
        assert plugin.last(HookPoint.PRE_START_CONTAINER).pod_cgroup_parent == elsewhere
        relay.kill()
        relay.start()
        relay.wait_hooks(plugin="connected")
        with CriClient(relay.socket) as client:
            pod.client = client
            pod.stop()
        assert plugin.last(HookPoint.POST_STOP_CONTAINER).pod_cgroup_parent == elsewhere


# -- what plugins are told


def test_all_hook_points_with_complete_information(
    both_versions: CriClient, hooked_relay: Relay, plugin: HookPlugin
) -> None:
    """In the order of a pod's life, at both API versions."""
    with hooked_relay.registered("plugin", plugin.socket), described_pod(both_versions) as pod:
        pod.run()
        pod.create()
        pod.start()
        pod.update(cpu_shares=300)
        stop_all(pod)
        assert plugin.points == LIFE
        for call in plugin.calls:
            updated = call.point in LIFE[4:]
            assert_complete(pod, call.point, call.request, shares=300 if updated else 512)
            if call.point.is_post:
                assert call.metadata["interpose-runtime-code"] == "0"


def test_restarted_relay_tells_the_same(containerd: Containerd, scratch: Path, plugin: HookPlugin) -> None:
    """After kill -9 nothing is forgotten: resources as updated, the cgroup that a plugin chose, what was asked for."""
    register(hooks_dir(scratch), "plugin", plugin.socket)
    with (
        Relay(scratch, containerd.socket, hook_options(scratch)) as relay,
        CriClient(containerd.socket) as direct,
        CriClient(relay.socket) as before,
        described_pod(direct) as pod,
    ):
        relay.wait_hooks(plugin="connected")
        pod.client = before
        asked_parent = pod.cgroup_parent
        plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = lambda _: hook.PodSandboxHookResponse(
            cgroup_parent=f"{asked_parent}-batch"
        )
        pod.run()
        pod.cgroup_parent = f"{asked_parent}-batch"
        plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(99)
        pod.create()
        pod.start()
        relay.kill()
        relay.start()
        relay.wait_hooks(plugin="connected")
        plugin.calls.clear()
        with CriClient(relay.socket) as after:
            pod.client = after
            pod.update(memory_limit_in_bytes=100 * MEBIBYTE)
            # Hooks had everything for that first call already; a status is what the runtime says until then.
            wait_for(lambda: relay.hooks()["store"]["containers"], what="the store to be in step")
            assert pod.status().resources.linux.cpu_shares == 512  # what was asked for
            # A second container: its request still names the cgroup that the kubelet had asked for.
            first, pod.container_config.metadata.name = pod.container_id, "second"
            pod.create()
            assert pod.info()["runtimeSpec"]["linux"]["cgroupsPath"] == f"{pod.cgroup_parent}/{pod.container_id}"
            pod.container_id = first
            stop_all(pod)
            assert plugin.points == [LIFE[4], LIFE[1], *LIFE[5:]]
            for call in plugin.calls:
                if call.point is not HookPoint.PRE_CREATE_CONTAINER:
                    # An update starts from what was asked for; everything else tells what there is.
                    told = 512 if call.point is HookPoint.PRE_UPDATE_CONTAINER_RESOURCES else 99
                    assert_complete(pod, call.point, call.request, shares=told)


def test_upgraded_relay_asks_about_every_call(containerd: Containerd, scratch: Path, plugin: HookPlugin) -> None:
    """With --take-over, under load and under Fail: no call fails, and none gets past the hook server."""
    register(hooks_dir(scratch), "plugin", plugin.socket, failure_policy="Fail")
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(300)
    with (
        Relay(scratch, containerd.socket, hook_options(scratch)) as relay,
        CriClient(containerd.socket) as direct,
        described_pod(direct) as pod,
    ):
        relay.wait_hooks(plugin="connected")
        pod.run()
        pod.create()
        pod.start()
        update = cri.UpdateContainerResourcesRequest(container_id=pod.container_id)
        update.linux.cpu_shares = 55
        request = update.SerializeToString()
        with Load(relay.socket, method="UpdateContainerResources", request=request, threads=2) as load:
            load.wait_ok(5, since=0)
            relay.take_over()
            load.wait_ok(5, since=time.monotonic())
        assert load.failures() == []
        assert plugin.points == [HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] * len(load.samples())
        assert pod.cgroup_file("cpu", "cpu.shares").read_text() == "300\n"


def test_containers_made_behind_the_relay(
    containerd: Containerd, scratch: Path, plugin: HookPlugin, version: str
) -> None:
    """Before it existed, or past it: all that comes later is told completely, and answers have their effect."""
    register(hooks_dir(scratch), "plugin", plugin.socket)
    with (
        CriClient(containerd.socket, version) as direct,
        described_pod(direct, "before") as before,
        described_pod(direct, "past") as past,
    ):
        before.run()
        before.create()
        with Relay(scratch, containerd.socket, hook_options(scratch)) as relay:
            relay.wait_hooks(plugin="connected")
            past.run()
            past.create()
            with CriClient(relay.socket, version) as client:
                plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(300)
                for pod in (before, past):
                    plugin.calls.clear()
                    pod.client = client
                    pod.start()
                    pod.update(memory_limit_in_bytes=100 * MEBIBYTE)
                    assert pod.cgroup_file("cpu", "cpu.shares").read_text() == "300\n"
                    stop_all(pod)
                    assert plugin.points == LIFE[2:]
                    for call in plugin.calls:
                        told = 300 if call.point is HookPoint.POST_STOP_CONTAINER else 512
                        assert_complete(pod, call.point, call.request, shares=told)


def test_containerd_restarts(own_containerd: Containerd, scratch: Path, plugin: HookPlugin) -> None:
    """The relay stays, and hook servers hear as much as before."""
    own_containerd.add_images()
    register(hooks_dir(scratch), "plugin", plugin.socket)
    with (
        Relay(scratch, own_containerd.socket, hook_options(scratch)) as relay,
        CriClient(relay.socket) as client,
        described_pod(client) as pod,
    ):
        relay.wait_hooks(plugin="connected")
        pod.run()
        pod.create()
        pod.start()
        own_containerd.restart()
        wait_for(lambda: client.outcome("Version").code == "OK", what="the relay to be connected again")
        plugin.calls.clear()
        plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(300)
        pod.update(memory_limit_in_bytes=100 * MEBIBYTE)
        assert pod.cgroup_file("cpu", "cpu.shares").read_text() == "300\n"
        stop_all(pod)
        assert plugin.points == LIFE[4:]
        for call in plugin.calls:
            told = 300 if call.point is HookPoint.POST_STOP_CONTAINER else 512
            assert_complete(pod, call.point, call.request, shares=told)
