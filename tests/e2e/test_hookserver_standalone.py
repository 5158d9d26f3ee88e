"""The real hook server beside a real containerd on cgroup v1: standalone mode.

Nobody asks it: pods are created straight on the runtime, and it puts values right afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lab.hookserver import HookServer, node_state
from tests.support.lab.qos_pods import BE, BE_ASKED, LS, LS_ASKED, RATIO, SCALED, Kubepods, be_pod, ls_pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.cri import CriClient

pytestmark = pytest.mark.e2e

# So far apart that only what happens can have led to a round, or close enough to see one soon.
EVENTS_ONLY = ("--reconcile-interval", "60s")
OFTEN = ("--reconcile-interval", "500ms")


def standalone(scratch: Path, containerd: Containerd, kubepods: Kubepods, *options: str) -> HookServer:
    """A hook server that watches the runtime, on a node with fast CPUs."""
    options = ("--mode", "standalone", "--cpu-normalization", *options)
    server = HookServer(scratch, containerd.socket, kubepods=kubepods.name, options=options)
    server.tell(node_state(ratio=RATIO))
    return server


@pytest.mark.parametrize("made", [True, False], ids=["cgroup made before", "cgroup made by the runtime"])
def test_new_pods_are_put_right_at_once(
    scratch: Path, containerd: Containerd, runtime: CriClient, kubepods: Kubepods, made: bool
) -> None:
    """Their cgroups tell that they are there. Switched off, everything is as it was."""
    with (
        standalone(scratch, containerd, kubepods, *EVENTS_ONLY) as server,
        be_pod(runtime, kubepods, made=made) as batch,
        ls_pod(runtime, kubepods, made=made) as web,
    ):
        server.soon("values of new pods", lambda: (batch.values, batch.pod_values, web.values) == (BE, BE, LS))
        assert web.pod_values[:2] == ((512, 100_000) if made else (1024, -1))
        # Through the runtime: it knows what it runs, and a later update does not undo it.
        assert batch.info()["runtimeSpec"]["linux"]["resources"]["cpu"]["quota"] == SCALED
        assert web.status().resources.linux.cpu_quota == SCALED
        server.stop()
        server.start("--no-cpu-normalization", "--no-batch-resource", "--no-cpuset")
        assert web.values == LS_ASKED
        assert batch.values == BE_ASKED
        assert batch.pod_values == (BE_ASKED if made else (1024, -1, -1))
        assert server.status()["journal_entries"] == 0


def test_pods_from_before_it_started_are_put_right(
    scratch: Path, containerd: Containerd, runtime: CriClient, kubepods: Kubepods
) -> None:
    """In the first round."""
    with (
        be_pod(runtime, kubepods) as batch,
        ls_pod(runtime, kubepods) as web,
        standalone(scratch, containerd, kubepods, *EVENTS_ONLY),
    ):
        assert (batch.values, batch.pod_values, web.values) == (BE, BE, LS)


def test_running_pods_follow_the_document(
    scratch: Path, containerd: Containerd, runtime: CriClient, kubepods: Kubepods
) -> None:
    """The ratio, the policy for best-effort pods, and nothing of it."""
    together = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}
    with (
        standalone(scratch, containerd, kubepods, *EVENTS_ONLY) as server,
        be_pod(runtime, kubepods) as batch,
        ls_pod(runtime, kubepods) as web,
    ):

        def quotas(*expected: int) -> bool:
            return (web.cpu[1], batch.cpu[1], batch.pod_has("cpu.cfs_quota_us")) == expected

        server.soon("values of new pods", lambda: quotas(SCALED, SCALED, SCALED))
        server.tell(node_state(together, ratio=1.5))
        server.soon("cfsQuota on", lambda: quotas(66_667, -1, -1))
        server.tell(node_state(ratio=1.5))
        server.soon("cfsQuota off", lambda: quotas(66_667, 66_667, 66_667))
        server.tell(node_state())
        server.soon("all off", lambda: quotas(100_000, 100_000, 100_000))


def test_what_others_change_is_put_right(
    scratch: Path, containerd: Containerd, runtime: CriClient, kubepods: Kubepods
) -> None:
    """Somebody writes to control files: the runtime is told the right values again."""
    with (
        standalone(scratch, containerd, kubepods, *OFTEN) as server,
        be_pod(runtime, kubepods) as batch,
        ls_pod(runtime, kubepods) as web,
    ):
        server.soon("values of new pods", lambda: (batch.values, batch.pod_values, web.values) == (BE, BE, LS))
        batch.write("cpu.shares", 99)
        web.write("cpu.cfs_quota_us", 70_000)
        server.soon("containers repaired", lambda: (batch.values, web.values) == (BE, LS))
        batch.write_pod("cpu.cfs_quota_us", -1)
        server.soon("pod repaired", lambda: batch.pod_values == BE)
        assert web.info()["runtimeSpec"]["linux"]["resources"]["cpu"]["quota"] == SCALED


def test_an_update_of_somebody_else_is_what_is_asked_for(
    scratch: Path, containerd: Containerd, runtime: CriClient, kubepods: Kubepods
) -> None:
    """A new quota is scaled in its turn, and is what comes back in the end; one without a quota changes nothing."""
    with (
        standalone(scratch, containerd, kubepods, *OFTEN) as server,
        ls_pod(runtime, kubepods) as web,
    ):
        server.soon("values of new pods", lambda: web.values == LS)
        web.update(cpu_quota=60_000, cpu_period=100_000)
        server.soon("new quota", lambda: web.cpu == (512, 50_000))
        for shares in (600, 700, 800):
            web.update(cpu_shares=shares)
            assert web.cpu == (shares, 50_000)
        server.tell(node_state(ratio=1.5))
        server.soon("another ratio", lambda: web.cpu == (800, 40_000))
        server.tell(node_state())
        server.soon("all off", lambda: web.cpu == (800, 60_000))
