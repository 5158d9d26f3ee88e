"""Hook servers, the real relay and a real dockerd: what plugins ask for is what containers have.

Pods are made call by call as a dockershim makes them; values are those of the kernel, and of dockerd asked directly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from interpose.api import hook_pb2 as hook
from interpose.hookapi.hookpoint import HookPoint
from interpose.testing.dockershim import DockerClient, DockerError
from interpose.testing.hookserver import echo, register, set_shares
from interpose.testing.lab.dockercli import DockerCli
from interpose.testing.lab.dockerd import Dockerd
from interpose.testing.lab.dockerpods import DockerPod, described_docker_pod
from interpose.testing.lab.hookplugin import HookPlugin, Refusal
from interpose.testing.lab.images import TEST_IMAGE
from interpose.testing.lab.pods import CGROUPS, MEBIBYTE
from interpose.testing.lab.relay import DOCKER, Relay, hook_options, hooks_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

SKIP = "runtimeproxy.koordinator.sh/skip-hookserver"
LIFE = [
    HookPoint.PRE_RUN_POD_SANDBOX,
    HookPoint.PRE_CREATE_CONTAINER,
    HookPoint.PRE_START_CONTAINER,
    HookPoint.POST_START_CONTAINER,
    HookPoint.PRE_UPDATE_CONTAINER_RESOURCES,
    HookPoint.POST_STOP_CONTAINER,
    HookPoint.POST_STOP_POD_SANDBOX,
]


@pytest.fixture
def shim(docker_relay: Relay) -> Iterator[DockerClient]:
    """A dockershim whose Docker is the relay."""
    with DockerClient(docker_relay.socket) as connected:
        yield connected


@pytest.fixture
def direct(dockerd: Dockerd) -> Iterator[DockerClient]:
    """A client straight to dockerd: what it says is so."""
    with DockerClient(dockerd.socket, "/v1.41") as connected:
        yield connected


def assert_complete(pod: DockerPod, point: HookPoint, request: Any, *, shares: int = 512) -> None:
    """Nothing is missing in what a hook server was told of this pod and its container."""
    assert (request.pod_meta.name, request.pod_meta.uid, request.pod_meta.namespace) == (pod.name, pod.uid, "lab")
    if point.about_pod:
        assert request.labels["app"] == "web"
        assert request.annotations["team"] == "blue"
        assert request.cgroup_parent == pod.cgroup_parent
        assert request.resources.cpu_shares == 600
        assert request.runtime_handler == "docker"
        return
    assert request.container_meta.name == "main"
    assert request.container_meta.id == ("" if point is HookPoint.PRE_CREATE_CONTAINER else pod.main.id)
    assert request.pod_labels["app"] == "web"
    assert request.pod_annotations["team"] == "blue"
    assert request.pod_cgroup_parent == pod.cgroup_parent
    assert request.pod_resources.cpu_shares == 600
    assert request.container_annotations["port"] == "80"
    assert dict(request.container_envs) == {"A": "1"}
    told = request.container_resources
    assert (told.cpu_period, told.cpu_shares, told.oom_score_adj) == (100_000, shares, 500)
    assert told.memory_limit_in_bytes == 100 * MEBIBYTE


def end(pod: DockerPod) -> None:
    """The end of a pod's life, in the order of a kubelet."""
    pod.stop()
    pod.stop_sandbox()


# -- what plugins change


def test_answers_are_what_the_container_has(
    shim: DockerClient, direct: DockerClient, docker_relay: Relay, plugin: HookPlugin
) -> None:
    """Each kind of field of both answers: in what dockerd reports, inside the container, in its control files."""
    with docker_relay.registered("plugin", plugin.socket), described_docker_pod(shim) as pod:
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
        pod.create()
        pod.start()
        pod.cgroup_parent = moved
        pod.client = direct
        sandbox, container = pod.inspect_sandbox(), pod.inspect()
        labels = sandbox["Config"]["Labels"]
        assert (labels["app"], labels["added"], labels["annotation.team"]) == ("web", "1", "red")
        assert sandbox["HostConfig"]["CgroupParent"] == container["HostConfig"]["CgroupParent"] == moved
        labels = container["Config"]["Labels"]
        assert (labels["annotation.port"], labels["annotation.zone"]) == ("80", "7")
        host = container["HostConfig"]
        assert (host["CpuShares"], host["CpuQuota"], host["CpuPeriod"]) == (128, 50_000, 100_000)
        assert (host["CpusetCpus"], host["Memory"], host["OomScoreAdj"]) == ("1", 64 * MEBIBYTE, 700)
        assert host["SecurityOpt"] == ["seccomp=unconfined"]  # what nobody touched
        assert pod.environment() >= {"A=2", "NEW=x=y"}
        for controller, name, value in (
            ("cpu", "cpu.shares", "128"),
            ("cpu", "cpu.cfs_quota_us", "50000"),
            ("cpuset", "cpuset.cpus", "1"),
            ("memory", "memory.limit_in_bytes", str(64 * MEBIBYTE)),
        ):
            assert pod.has(controller, name) == value
        pid = container["State"]["Pid"]
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "700\n"


def test_update_changes_control_files(shim: DockerClient, docker_relay: Relay, plugin: HookPlugin) -> None:
    """The plugin overrules the shares of the kubelet; memory goes up although swap would be in the way."""
    with docker_relay.registered("plugin", plugin.socket), described_docker_pod(shim) as pod:
        pod.main.resources["CpusetCpus"] = "0"
        pod.run()
        pod.create()
        pod.start()
        assert (pod.cpus, pod.has("cpu", "cpu.shares")) == ("0", "512")

        def more(request: Any) -> Any:
            answer = echo(request)
            answer.container_resources.cpu_shares = 77
            answer.container_resources.cpuset_cpus = "0-1"
            answer.container_resources.memory_limit_in_bytes = 200 * MEBIBYTE
            return answer

        plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = more
        assert pod.update(CpuShares=2048).status == 200
        asked = plugin.last(HookPoint.PRE_UPDATE_CONTAINER_RESOURCES).container_resources
        assert (asked.cpu_shares, asked.cpuset_cpus) == (2048, "0")
        assert (pod.cpus, pod.has("cpu", "cpu.shares")) == ("0-1", "77")
        assert pod.has("memory", "memory.limit_in_bytes") == str(200 * MEBIBYTE)


# -- what plugins are told


def test_all_hook_points_with_complete_information(shim: DockerClient, docker_relay: Relay, plugin: HookPlugin) -> None:
    """In the order of a pod's life."""
    with docker_relay.registered("plugin", plugin.socket), described_docker_pod(shim) as pod:
        pod.run()
        pod.create()
        pod.start()
        pod.update(CpuShares=300)
        end(pod)
        assert plugin.points == LIFE
        for call in plugin.calls:
            assert_complete(pod, call.point, call.request, shares=300 if call.point in LIFE[4:] else 512)
            if call.point.is_post:
                assert call.metadata["interpose-runtime-code"] == "0"
        pod.remove_container()
        pod.remove_sandbox()
        assert docker_relay.hooks()["store"] | {"pods": 0, "containers": 0} == docker_relay.hooks()["store"]


def test_a_labelled_pod_is_left_alone(shim: DockerClient, docker_relay: Relay, plugin: HookPlugin) -> None:
    """Nobody is asked about it, from its sandbox to its end."""
    with docker_relay.registered("plugin", plugin.socket, failure_policy="Fail"), described_docker_pod(shim) as pod:
        plugin.default = set_shares(99)
        pod.labels[SKIP] = "true"
        pod.run()
        pod.create()
        pod.start()
        assert pod.has("cpu", "cpu.shares") == "512"
        pod.update(CpuShares=300)
        end(pod)
        assert plugin.calls == []


# -- who refuses


def test_fail_refuses_in_dockers_words(
    shim: DockerClient, direct: DockerClient, docker_relay: Relay, plugin: HookPlugin
) -> None:
    """A plugin that is down: 403 with a message, no container; nobody else's containers are concerned."""
    with docker_relay.registered("plugin", plugin.socket, failure_policy="Fail"), described_docker_pod(shim) as pod:
        pod.run()
        plugin.leave()
        docker_relay.wait_hooks(plugin="unreachable")
        names = {row["Names"][0] for row in direct.call("GET", "/containers/json", {"all": "1"}).document}
        with pytest.raises(DockerError) as refused:
            pod.create()
        assert refused.value.status == 403
        assert "hook server plugin (failure policy Fail) at PreCreateContainer" in refused.value.message
        assert {row["Names"][0] for row in direct.call("GET", "/containers/json", {"all": "1"}).document} == names
        # The connection goes on, and so does everything that is not about pods.
        assert shim.call("GET", "/_ping").body == b"OK"
        byhand = DockerCli(docker_relay.socket).run("run", "--rm", "--network", "host", TEST_IMAGE, "echo", "hello")
        assert (byhand.code, byhand.out) == (0, b"hello\n")


def test_a_refusal_of_the_plugin_is_shown(shim: DockerClient, docker_relay: Relay, plugin: HookPlugin) -> None:
    """What it says is what a kubelet puts into the events of the pod."""

    def refuse(_: Any) -> Any:
        raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "not on this node")

    with docker_relay.registered("plugin", plugin.socket, failure_policy="Fail"), described_docker_pod(shim) as pod:
        plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = refuse
        with pytest.raises(DockerError) as refused:
            pod.run()
        assert refused.value.status == 403
        assert "not on this node" in refused.value.message


def test_ignore_lets_pods_start(shim: DockerClient, docker_relay: Relay, plugin: HookPlugin) -> None:
    """A plugin that is down under Ignore: pods are what the kubelet asked for."""
    with docker_relay.registered("plugin", plugin.socket), described_docker_pod(shim) as pod:
        plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(99)
        plugin.leave()
        docker_relay.wait_hooks(plugin="unreachable")
        pod.run()
        pod.create()
        pod.start()
        assert pod.has("cpu", "cpu.shares") == "512"


# -- who was away


def store_counts(relay: Relay) -> tuple[int, int]:
    """Pods and containers that the relay knows."""
    store = relay.hooks()["store"]
    return store["pods"], store["containers"]


def wait_store(relay: Relay, *counts: int) -> None:
    """Until the relay knows so many pods and containers."""
    relay.child.wait_until(
        lambda: store_counts(relay) == counts, within=15, what=f"a store of {counts}, not {store_counts(relay)}"
    )


def test_restarted_relay_tells_the_same(dockerd: Dockerd, scratch: Path, plugin: HookPlugin) -> None:
    """After kill -9 nothing is forgotten: resources as updated, the cgroup that a plugin chose, variables, labels."""
    register(hooks_dir(scratch), "plugin", plugin.socket)
    with (
        Relay(scratch, dockerd.socket, (*DOCKER, *hook_options(scratch))) as relay,
        DockerClient(dockerd.socket) as direct,
        DockerClient(relay.socket) as before,
        described_docker_pod(direct) as pod,
    ):
        relay.wait_hooks(plugin="connected")
        pod.client = before
        plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = lambda _: hook.PodSandboxHookResponse(
            cgroup_parent=f"{asked}-batch"
        )
        plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(99)
        asked = pod.cgroup_parent
        pod.run()
        pod.create()
        pod.cgroup_parent = f"{asked}-batch"
        pod.start()
        assert pod.has("cpu", "cpu.shares") == "99"
        relay.kill()
        relay.start()
        relay.wait_hooks(plugin="connected")
        wait_store(relay, 1, 1)
        plugin.calls.clear()
        with DockerClient(relay.socket) as after:
            pod.client = after
            pod.update(Memory=100 * MEBIBYTE)
            end(pod)
            assert plugin.points == [LIFE[4], *LIFE[5:]]
            for call in plugin.calls:
                # An update starts from what was asked for; everything else tells what there is.
                told = 512 if call.point is HookPoint.PRE_UPDATE_CONTAINER_RESOURCES else 99
                assert_complete(pod, call.point, call.request, shares=told)
            pod.client = direct


def test_containers_made_behind_the_relay(dockerd: Dockerd, scratch: Path, plugin: HookPlugin) -> None:
    """Before it existed, or past it: all that comes later is told completely, and answers have their effect."""
    register(hooks_dir(scratch), "plugin", plugin.socket)
    with (
        DockerClient(dockerd.socket) as direct,
        described_docker_pod(direct, "before") as before,
        described_docker_pod(direct, "past") as past,
    ):
        before.run()
        before.create()
        with Relay(scratch, dockerd.socket, (*DOCKER, *hook_options(scratch))) as relay:
            relay.wait_hooks(plugin="connected")
            past.run()
            past.create()
            with DockerClient(relay.socket) as client:
                plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(300)
                for pod in (before, past):
                    plugin.calls.clear()
                    pod.client = client
                    pod.start()
                    pod.update(Memory=100 * MEBIBYTE)
                    assert pod.has("cpu", "cpu.shares") == "300"
                    end(pod)
                    assert plugin.points == LIFE[2:]
                    for call in plugin.calls:
                        told = 300 if call.point is HookPoint.POST_STOP_CONTAINER else 512
                        assert_complete(pod, call.point, call.request, shares=told)
                    pod.client = direct


def test_dockerd_restarts(scratch: Path, plugin: HookPlugin) -> None:
    """Its containers end with it; the relay stays, follows, and serves the next pod."""
    if reason := Dockerd.missing():
        pytest.skip(f"no dockerd: {reason}")
    register(hooks_dir(scratch), "plugin", plugin.socket)
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(300)
    with Dockerd(scratch / "d") as dockerd:
        dockerd.add_images()
        with (
            Relay(scratch, dockerd.socket, (*DOCKER, *hook_options(scratch))) as relay,
            DockerClient(relay.socket) as client,
        ):
            relay.wait_hooks(plugin="connected")
            with described_docker_pod(client) as pod:
                pod.run()
                pod.create()
                pod.start()
                wait_store(relay, 1, 1)
                dockerd.stop()
                assert shown_refusal(client) == 503
                dockerd.start()
                pod.client.close()
                relay.child.wait_until(
                    lambda: client.request("GET", "/_ping").status == 200, within=15, what="the relay to be connected"
                )
                assert pod.inspect()["State"]["Status"] == "exited"
                client.call("POST", f"/containers/{pod.sandbox_id}/start")
                pod.start()
                assert pod.has("cpu", "cpu.shares") == "300"
                assert_complete(
                    pod, HookPoint.PRE_START_CONTAINER, plugin.last(HookPoint.PRE_START_CONTAINER), shares=300
                )
                end(pod)
                pod.remove_container()
                pod.remove_sandbox()
                wait_store(relay, 0, 0)


def shown_refusal(client: DockerClient) -> int:
    """What somebody reads while dockerd is away."""
    answer = client.request("GET", "/containers/json")
    client.close()
    assert "docker.sock" in answer.message
    return answer.status


def test_an_exit_is_learned(shim: DockerClient, docker_relay: Relay, dockerd: Dockerd) -> None:
    """Containers that somebody removes past the relay are forgotten without anybody asking."""
    pods, containers = store_counts(docker_relay)
    with DockerPod(shim, "short") as pod:
        wait_store(docker_relay, pods + 1, containers + 1)
        dockerd.docker("rm", "-f", pod.main.id, pod.sandbox_id)
        wait_store(docker_relay, pods, containers)
        assert not (CGROUPS / "cpu" / pod.cgroup_parent.strip("/") / pod.main.id).exists()
