"""Updates of the policy that meet StartContainer on a real containerd: what a container was promised, its cgroup has.

containerd answers an UpdateContainerResources that arrives while the container is being started, and changes only its
own spec. Four Burstable containers and a Guaranteed one are created and started at the same time on two CPUs, so that
updates about CPUs meet starts in every round. What counts is the kernel's file, read when the calls have ended.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from tests.support.lab.cri import CriClient
from tests.support.lab.images import FOREVER
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod, PolicyRelay
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

# Many rounds are for long runs (make soak); INTERPOSE_ROUNDS says how many.
THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))
ROUNDS = int(os.environ.get("INTERPOSE_ROUNDS", "1000" if THOROUGH else "8"))
KILLS = int(os.environ.get("INTERPOSE_KILLS", "40" if THOROUGH else "4"))
SHARING = 4


@pytest.fixture
def relay(containerd: Containerd) -> Iterator[PolicyRelay]:
    """With the policy static, which reserves CPU 0."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with PolicyRelay(folder, containerd.socket, "--policy", "static", "--reserved-resources", "cpu=1") as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


class Race:
    """Five pods whose containers come at the same time, again and again."""

    def __init__(self, client: CriClient, kubepods: Kubepods, seed: int) -> None:
        self.client = client
        self.pods = [PolicyPod(client, kubepods, f"web{n}", 100, BURSTABLE, FOREVER) for n in range(SHARING)]
        self.pods.append(PolicyPod(client, kubepods, "db", command=FOREVER))
        self._chance = random.Random(seed)
        self._pool = ThreadPoolExecutor(len(self.pods))

    def __enter__(self) -> Race:
        list(self._pool.map(PolicyPod.run, self.pods))
        return self

    def __exit__(self, *_: object) -> None:
        list(self._pool.map(PolicyPod.remove, self.pods))
        self._pool.shutdown()

    def come(self) -> dict[str, str]:
        """All containers are created and started; the CPUs of each by the kernel, when all calls have ended."""
        gate = threading.Barrier(len(self.pods))
        # The Guaranteed one comes at any moment of the others' lives: its create updates them.
        pauses = [self._chance.random() * 0.05 for _ in range(SHARING)] + [self._chance.random() * 0.3]

        def begin(pod: PolicyPod, pause: float) -> None:
            gate.wait()
            time.sleep(pause)
            pod.create()
            pod.start()

        list(self._pool.map(begin, self.pods, pauses))
        return self.kernel()

    def come_and_fail(self, trouble: Callable[[], None]) -> None:
        """The same, with trouble in the middle of it: calls may fail."""

        def begin(pod: PolicyPod) -> None:
            with contextlib.suppress(grpc.RpcError):
                time.sleep(self._chance.random() * 0.1)
                pod.create()
                pod.start()

        done = [self._pool.submit(begin, pod) for pod in self.pods]
        time.sleep(self._chance.random() * 0.4)
        trouble()
        for one in done:
            one.result()

    def kernel(self) -> dict[str, str]:
        """The CPUs of each container by the kernel."""
        return {pod.name: pod.cpus for pod in self.pods}

    def running(self, runtime: CriClient) -> dict[str, PolicyPod]:
        """The pods of the containers that run, by container: also of those whose creates nobody was told of."""
        pods = {pod.sandbox_id: pod for pod in self.pods}
        state = cri.ContainerStateValue(state=cri.CONTAINER_RUNNING)
        listed = runtime.call("ListContainers", cri.ListContainersRequest(filter=cri.ContainerFilter(state=state)))
        return {one.id: pods[one.pod_sandbox_id] for one in listed.containers if one.pod_sandbox_id in pods}

    def clear(self, containerd: Containerd) -> None:
        """Every container goes, whoever knows of it; the runtime may still be at work on a start."""
        ours = {pod.sandbox_id for pod in self.pods}

        def gone() -> bool:
            left = [one.id for one in self.client.call("ListContainers").containers if one.pod_sandbox_id in ours]
            for one in left:
                self.client.outcome("StopContainer", cri.StopContainerRequest(container_id=one, timeout=0))
                outcome = self.client.outcome("RemoveContainer", cri.RemoveContainerRequest(container_id=one))
                if outcome.code == "FAILED_PRECONDITION":
                    containerd.delete_task(one)
            return not left

        wait_for(gone, what="containers to be removed", every=0.1)
        for pod in self.pods:
            pod.container_config.metadata.attempt += 1

    def go(self) -> None:
        """All containers end; the next ones are others."""

        def end(pod: PolicyPod) -> None:
            pod.stop()
            self.client.call("RemoveContainer", cri.RemoveContainerRequest(container_id=pod.container_id))
            pod.container_config.metadata.attempt += 1

        list(self._pool.map(end, self.pods))


WANTED = {**{f"web{n}": "0" for n in range(SHARING)}, "db": "1"}


@pytest.mark.timeout(900 + ROUNDS * 20)  # against hanging only
def test_an_update_that_meets_a_start_is_not_lost(relay: PolicyRelay, kubepods: Kubepods) -> None:
    """Nobody shares a CPU with its owner when the calls that made them have ended, in any round."""
    wrong = []
    with CriClient(relay.socket) as client, Race(client, kubepods, seed=ROUNDS) as race:
        for number in range(ROUNDS):
            found = race.come()
            if found != WANTED:
                wrong.append((number, found))
            race.go()
    assert wrong == []


@pytest.mark.timeout(900 + KILLS * 60)
def test_a_relay_killed_among_starts_finds_what_was_lost(
    relay: PolicyRelay, kubepods: Kubepods, runtime: CriClient, containerd: Containerd
) -> None:
    """Starts go on without it, and updates of that moment are lost: the next one puts every cgroup right."""
    with CriClient(relay.socket) as client, Race(client, kubepods, seed=KILLS) as race:

        def differing() -> list[str]:
            client.call("ListContainers")  # as a kubelet does all the time
            wanted = {row["id"]: row["cpus"] for row in relay.policy()["assignments"]}
            has = {one: pod.cpus_of(one) for one, pod in race.running(runtime).items()}
            return [f"{one} has {cpus}, not {wanted.get(one)}" for one, cpus in has.items() if cpus != wanted.get(one)]

        def restart() -> None:
            relay.kill()
            relay.start()
            wait_for(lambda: client.outcome("Version").code == "OK", what="the client to connect again", every=0.05)

        for _ in range(KILLS):
            race.come_and_fail(restart)
            wait_for(lambda: not differing(), what="cgroups to be right", every=0.2)
            race.clear(containerd)
