"""Ways around hook servers that a real dockerd offers: none of them may work for whoever comes through the relay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interpose.hooks.api.hookpoint import HookPoint
from tests.support.docker.dockershim import BUSYBOX, SANDBOX_LABEL, TYPE_LABEL, DockerClient
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.docker.pods import DockerPod, described_docker_pod
from tests.support.lab.hook_plugin import HookPlugin
from tests.support.lab.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def direct(dockerd: Dockerd) -> Iterator[DockerClient]:
    """A client straight to dockerd: what it says is so."""
    with DockerClient(dockerd.socket) as connected:
        yield connected


@pytest.fixture
def guarded(docker_relay: Relay, plugin: HookPlugin) -> Iterator[None]:
    """A hook server that must see everything, and is away."""
    with docker_relay.registered("guard", plugin.socket, failure_policy="Fail"):
        plugin.leave()
        docker_relay.wait_hooks(guard="unreachable")
        yield


@pytest.fixture
def pod(direct: DockerClient) -> Iterator[DockerPod]:
    """A pod that was made past the relay; its container is not started."""
    with described_docker_pod(direct) as made:
        made.run()
        made.create()
        yield made


@pytest.mark.usefixtures("guarded")
def test_start_that_sets_resources_anew(shim: DockerClient, pod: DockerPod) -> None:
    """Old APIs take the body of a start for everything the container is to have."""
    before = pod.inspect()["HostConfig"]
    anew = {"NetworkMode": "host", "CpuShares": 4000, "Privileged": True}
    for object_id in (pod.main.id, pod.sandbox_id):
        answer = shim.request("POST", f"/v1.23/containers/{object_id}/start", document=anew)
        assert answer.status == 403
    assert pod.inspect()["HostConfig"] == before


@pytest.mark.usefixtures("guarded")
def test_name_that_was_the_id_of_another_container(shim: DockerClient, direct: DockerClient, pod: DockerPod) -> None:
    """dockerd takes for a name what is no id any more; who was nobody's under it is no more."""
    byhand = shim.call("POST", "/containers/create", document={"Image": BUSYBOX}).document["Id"]
    assert shim.request("POST", f"/containers/{byhand}/update", document={"CpuShares": 7}).status == 200
    direct.call("DELETE", f"/containers/{byhand}")
    shim.call("POST", f"/containers/{pod.main.id}/rename", {"name": byhand})
    assert shim.request("POST", f"/containers/{byhand}/update", document={"CpuShares": 4000}).status == 403
    assert pod.inspect()["HostConfig"]["CpuShares"] == 512


@pytest.mark.usefixtures("guarded")
def test_labels_that_come_with_the_image(shim: DockerClient, direct: DockerClient, pod: DockerPod) -> None:
    """dockerd gives them to the container, and it is one of Kubernetes."""
    labels = {TYPE_LABEL: "container", SANDBOX_LABEL: pod.sandbox_id, "io.kubernetes.pod.uid": pod.uid}
    changes = "LABEL " + " ".join(f"{key}={value}" for key, value in labels.items())
    direct.call("POST", "/commit", {"container": pod.main.id, "repo": "forged", "changes": changes}, {})
    try:
        for document in ({"Image": "forged"}, {"image": "forged:latest", "Labels": {"a": "b"}}):
            assert shim.request("POST", "/containers/create", document=document).status == 403
    finally:
        direct.call("DELETE", "/images/forged")


@pytest.mark.parametrize(
    ("query", "form", "kills"),
    [
        ({"signal": "WINCH"}, b"signal=KILL", True),
        ({"signal": "KILL"}, b"signal=WINCH", False),
        ({"signal": "0" * 40 + "9"}, b"", True),
        ({"signal": "k\u0131ll"}, b"", True),
    ],
)
def test_signals_in_odd_places(
    shim: DockerClient,
    docker_relay: Relay,
    plugin: HookPlugin,
    pod: DockerPod,
    query: dict[str, str],
    form: bytes,
    kills: bool,
) -> None:
    """Hook servers hear of an end if there is one, and of none if there is none."""
    pod.start()
    with docker_relay.registered("plugin", plugin.socket):
        assert shim.request("POST", f"/containers/{pod.main.id}/kill", query, form, kind=FORM).status == 204
        assert plugin.points == ([HookPoint.POST_STOP_CONTAINER] if kills else [])
    if kills:
        pod.client.call("POST", f"/containers/{pod.main.id}/wait")
    assert pod.inspect()["State"]["Running"] is not kills


def test_names_reach_dockerd_as_ids(
    shim: DockerClient, docker_relay: Relay, plugin: HookPlugin, pod: DockerPod
) -> None:
    """What hook servers were asked about is what dockerd acts on."""
    with docker_relay.registered("plugin", plugin.socket):
        name = pod.docker_name("main", 0)
        assert shim.request("POST", f"/containers/{name}/update", document={"CpuShares": 300}).status == 200
        assert plugin.last(HookPoint.PRE_UPDATE_CONTAINER_RESOURCES).container_meta.id == pod.main.id
        assert shim.request("POST", f"/containers/{pod.main.id[:20]}/start").status == 204
    assert pod.has("cpu", "cpu.shares") == "300"
