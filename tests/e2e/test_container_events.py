"""GetContainerEvents of real containerds through the relay: what an evented kubelet goes by, from 1.7 on."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import set_shares
from tests.support.lab.containerd import Containerd
from tests.support.lab.cri import CriClient, EventListener
from tests.support.lab.installations import INSTALLATIONS, candidates
from tests.support.lab.pods import LabPod
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import Relay, hook_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.hook_plugin import HookPlugin

pytestmark = pytest.mark.e2e

LIFE: Final = [
    cri.CONTAINER_CREATED_EVENT,
    cri.CONTAINER_STARTED_EVENT,
    cri.CONTAINER_STOPPED_EVENT,
    cri.CONTAINER_DELETED_EVENT,
]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A containerd that tells events, and a relay in front of it that asks hook servers."""

    daemon: Containerd
    relay: Relay


@pytest.fixture(scope="module", params=candidates())
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Each version that is there and has events."""
    installation = INSTALLATIONS[request.param]
    if reason := installation.missing():
        pytest.skip(f"no {request.param}: {reason}")
    if installation.version() < (1, 7):
        pytest.skip(f"{request.param}: containerd has no GetContainerEvents before 1.7")
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with Containerd(folder / "c", installation) as daemon:
        daemon.add_images()
        with Relay(folder, daemon.socket, hook_options(folder)) as relay:
            yield Node(daemon=daemon, relay=relay)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def kubelet(node: Node) -> Iterator[CriClient]:
    """A client through the relay."""
    with CriClient(node.relay.socket) as connected:
        yield connected


def subscribed(listeners: list[EventListener], kubelet: CriClient) -> None:
    """Pods come and go until each has heard something: nothing else says that its stream has begun."""

    def heard() -> bool:
        with LabPod(kubelet, "begin"):
            return all(listener.events for listener in listeners)

    wait_for(heard, what="the events to begin")


def test_a_life_is_told_in_order(kubelet: CriClient) -> None:
    """Created, started, stopped, deleted: of the container and of its pod."""
    with EventListener(kubelet) as listener:
        subscribed([listener], kubelet)
        with LabPod(kubelet, "told") as pod:
            ids = (pod.container_id, pod.sandbox_id)
        wait_for(lambda: all(len(listener.of(one)) >= len(LIFE) for one in ids), what="the last event")
        assert [listener.kinds(one) for one in ids] == [LIFE, LIFE]
        assert listener.of(ids[0])[1].pod_sandbox_status.metadata.name == "told"


def test_events_show_what_was_asked_for(node: Node, kubelet: CriClient, plugin: HookPlugin) -> None:
    """Not what a hook server made of it: an evented kubelet would update the container for ever."""
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(128)
    with (
        CriClient(node.daemon.socket) as direct,
        node.relay.registered("plugin", plugin.socket),
        EventListener(kubelet) as listener,
    ):
        subscribed([listener], kubelet)
        with LabPod(kubelet, "changed") as pod:
            wait_for(lambda: len(listener.of(pod.container_id)) >= 2, what="its start to be told")
            (told,) = listener.of(pod.container_id)[1].containers_statuses
            assert told.resources.linux.cpu_shares == 512
            mine = cri.ContainerStatusRequest(container_id=pod.container_id)
            assert direct.call("ContainerStatus", mine).status.resources.linux.cpu_shares == 128


def test_every_client_hears_everything(node: Node, kubelet: CriClient) -> None:
    """A kubelet and somebody else listen. containerd 1.7 itself gives each event to one of them only."""
    if node.daemon.installation.version() < (2,):
        pytest.skip("containerd 1.7 gives each event to one subscriber")
    with CriClient(node.relay.socket) as other, EventListener(kubelet) as first, EventListener(other) as second:
        subscribed([first, second], kubelet)
        with LabPod(kubelet, "told") as pod:
            container = pod.container_id
        for listener in (first, second):
            wait_for(lambda one=listener: len(one.of(container)) >= len(LIFE), what="the last event")  # type: ignore[misc]
            assert listener.kinds(container) == LIFE


def test_a_restart_of_containerd_ends_the_stream(node: Node, kubelet: CriClient) -> None:
    """As it does without the relay; the client subscribes anew and hears what happens then."""
    with EventListener(kubelet) as listener:
        subscribed([listener], kubelet)
        node.daemon.restart()
        wait_for(lambda: listener.code, what="the stream to end")
        assert listener.code == "UNAVAILABLE"
    with EventListener(kubelet) as again:
        subscribed([again], kubelet)
