"""Hook servers, the real relay and a real dockerd: what plugins ask for is what containers have.

Pods are made call by call as a dockershim makes them; values are those of the kernel, and of dockerd asked directly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import LIFE, echo, set_shares
from tests.support.docker.dockershim import DockerClient, DockerError
from tests.support.lab.docker.cli import DockerCli
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.docker.pods import SKIP, assert_complete, described_docker_pod, end
from tests.support.lab.hook_plugin import HookPlugin, Refusal
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.pods import MEBIBYTE
from tests.support.lab.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e


@pytest.fixture
def direct(dockerd: Dockerd) -> Iterator[DockerClient]:
    """A client straight to dockerd: what it says is so."""
    with DockerClient(dockerd.socket, "/v1.41") as connected:
        yield connected


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
