"""resources.sh in containers of a real containerd on CPUs 0 and 1, read as their first process sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod, PolicyRelay
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

PLACE: Final = "/.interpose-resources"
_FLAGS: Final = ("--policy", "static", "--reserved-resources", "cpu=cpuset:0", "--resources-mount", PLACE)


@pytest.fixture
def relay(containerd: Containerd, scratch: Path) -> Iterator[PolicyRelay]:
    """A relay that a test starts and kills."""
    with PolicyRelay(scratch, containerd.socket, *_FLAGS) as running:
        yield running


@pytest.fixture
def pods(containerd: Containerd, relay: PolicyRelay, kubepods: Kubepods) -> Iterator[dict[str, PolicyPod]]:
    """A pod that shares and then one with a CPU of its own, both running."""
    with CriClient(containerd.socket) as runtime, CriClient(relay.socket) as client:
        made = {
            "web": PolicyPod(runtime, kubepods, "web", 100, BURSTABLE),
            "own": PolicyPod(runtime, kubepods, "own", 1000),
        }
        try:
            for pod in made.values():
                pod.client = client
                pod.run()
                pod.create()
                pod.start()
                pod.client = runtime  # which is there whatever becomes of the relay
            yield made
        finally:
            for pod in made.values():
                pod.client = runtime
                pod.remove()


def given(pod: PolicyPod) -> dict[str, str]:
    """What the file says that the first process of a container sees."""
    text = Path(f"/proc/{pod.pid}/root{PLACE}/resources.sh").read_text()
    return {key: value.strip('"') for key, value in (line.split("=") for line in text.splitlines())}


def wait_given(pod: PolicyPod, key: str, value: str) -> None:
    """Wait until the file says so."""
    wait_for(lambda: given(pod).get(key) == value, what=f"{key} of {pod.name} to be {value}")


def test_containers_see_what_they_were_given(pods: dict[str, PolicyPod]) -> None:
    """One that was there before sees what it has left; none can write to the directory."""
    assert given(pods["own"])["EXCLUSIVE_CPUS"] == pods["own"].cpus == "1"
    assert "SHARED_CPUS" not in given(pods["own"])
    wait_given(pods["web"], "SHARED_CPUS", "0")
    nodes = Path("/sys/devices/system/node/has_memory").read_text().strip()
    assert given(pods["web"])["ALL_MEMS"] == given(pods["web"])["DRAM_MEMS"] == nodes
    mounts = Path(f"/proc/{pods['web'].pid}/mounts").read_text().splitlines()
    (options,) = (line.split()[3] for line in mounts if line.split()[1] == PLACE)
    assert "ro" in options.split(",")


def test_files_survive_a_relay_that_is_killed(relay: PolicyRelay, pods: dict[str, PolicyPod]) -> None:
    """The next one goes on with them, and removes those of containers that ended meanwhile."""
    folder = relay.state_file.parent / "containers"
    assert len(list(folder.iterdir())) == 2
    relay.kill()
    assert given(pods["own"])["EXCLUSIVE_CPUS"] == "1"
    pods["own"].exit(pods["own"].client)
    relay.start()
    wait_given(pods["web"], "SHARED_CPUS", "0-1")
    wait_for(lambda: len(list(folder.iterdir())) == 1, what="the other file to go")
