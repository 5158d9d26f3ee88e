"""Hook servers in front of a real dockerd when somebody was away: the relay, dockerd, or both at different times.

Also what is made past the relay, and the relay under the name that Koordinator gives it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import LIFE, register, set_shares
from tests.support.docker.dockershim import DockerClient
from tests.support.lab.docker.cli import DockerCli
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.docker.pods import SKIP, DockerPod, assert_complete, described_docker_pod, end
from tests.support.lab.hook_plugin import HookPlugin
from tests.support.lab.images import FOREVER, TEST_IMAGE, ImageSpec
from tests.support.lab.pods import CGROUPS, MEBIBYTE
from tests.support.lab.relay import DOCKER, KoordRuntimeProxy, Relay, hook_options, hooks_dir

pytestmark = pytest.mark.e2e


def store_counts(relay: Relay) -> tuple[int, int]:
    """Pods and containers that the relay knows."""
    store = relay.hooks()["store"]
    return store["pods"], store["containers"]


def wait_store(relay: Relay, *counts: int) -> None:
    """Until the relay knows so many pods and containers."""
    relay.child.wait_until(
        lambda: store_counts(relay) == counts, what=f"a store of {counts}, not {store_counts(relay)}"
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


def test_an_image_does_not_speak_for_its_pod(dockerd: Dockerd, scratch: Path, plugin: HookPlugin) -> None:
    """dockerd mixes an image's labels into the container's: they are nobody's annotations, and skip no hook."""
    dockerd.add_images(
        ImageSpec(reference="localhost/forged:1", command=FOREVER, labels={"annotation.evil": "1", SKIP: "true"})
    )
    register(hooks_dir(scratch), "plugin", plugin.socket)
    with DockerClient(dockerd.socket) as direct, described_docker_pod(direct) as pod:
        pod.main.image = "localhost/forged:1"
        pod.run()
        pod.create()
        pod.start()
        assert pod.inspect()["Config"]["Labels"]["annotation.evil"] == "1"
        with (
            Relay(scratch, dockerd.socket, (*DOCKER, *hook_options(scratch))) as relay,
            DockerClient(relay.socket) as client,
        ):
            relay.wait_hooks(plugin="connected")
            pod.client = client
            pod.update(CpuShares=300)
            pod.client = direct
        request = plugin.last(HookPoint.PRE_UPDATE_CONTAINER_RESOURCES)
        assert_complete(pod, HookPoint.PRE_UPDATE_CONTAINER_RESOURCES, request, shares=300)
        assert "evil" not in request.container_annotations


def test_the_drop_in(dockerd: Dockerd, scratch: Path, plugin: HookPlugin) -> None:
    """koord-runtime-proxy with Koordinator's own flags: a pod with hooks, and the docker command."""
    register(hooks_dir(scratch), "plugin", plugin.socket)
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(300)
    with KoordRuntimeProxy(scratch, dockerd.socket) as proxy, DockerClient(proxy.socket) as client:
        proxy.wait_hooks(plugin="connected")
        with described_docker_pod(client) as pod:
            pod.run()
            pod.create()
            pod.start()
            assert pod.has("cpu", "cpu.shares") == "300"
        done = DockerCli(proxy.socket).run("run", "--rm", "--network", "host", TEST_IMAGE, "echo", "hello")
        assert (done.code, done.out) == (0, b"hello\n")


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
                    lambda: client.request("GET", "/_ping").status == 200, what="the relay to be connected"
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


def test_what_is_removed_past_the_relay_is_forgotten(
    shim: DockerClient, docker_relay: Relay, dockerd: Dockerd, plugin: HookPlugin
) -> None:
    """Containers that somebody removes past the relay are forgotten without anybody asking."""
    with docker_relay.registered("plugin", plugin.socket):
        pods, containers = store_counts(docker_relay)  # kept from now on, whoever is registered
    with DockerPod(shim, "short") as pod:
        wait_store(docker_relay, pods + 1, containers + 1)
        dockerd.docker("rm", "-f", pod.main.id, pod.sandbox_id)
        wait_store(docker_relay, pods, containers)
        assert not (CGROUPS / "cpu" / pod.cgroup_parent.strip("/") / pod.main.id).exists()
