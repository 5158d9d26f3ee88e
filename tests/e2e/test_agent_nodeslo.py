"""Rules of the cluster for pods that run: NodeSLO and Node by kubectl, through agent and hook server to the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.lab.hookserver import RATIO as RATIO_ANNOTATION
from tests.support.lab.hookserver import HookServer
from tests.support.lab.processes import wait_for
from tests.support.lab.qos_pods import SCALED, be_pod, ls_pod

if TYPE_CHECKING:
    from tests.support.lab.cluster import LabCluster, PodAgent
    from tests.support.lab.cri import CriClient
    from tests.support.lab.qos_pods import Kubepods
    from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e

DEFINITION = Path(__file__).parents[2] / "deploy" / "crds" / "nodeslo.yaml"
OBJECT = """\
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeSLO
metadata: {name: n1}
spec:
  resourceUsedThresholdWithBE: {enable: true, cpuSuppressPolicy: cfsQuota}
"""
WITHOUT = {"spec": {"resourceUsedThresholdWithBE": {"enable": False}}}
WRONG = {"spec": {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 99}}}}}
RIGHT = {"spec": {"resourceQOSStrategy": None}}


def test_rules_of_the_cluster_reach_pods_that_run(
    scratch: Path,
    cluster: LabCluster,
    agent: PodAgent,
    hooked_relay: Relay,
    kubelet: CriClient,
    kubepods: Kubepods,
) -> None:
    """Of the NodeSLO and of an annotation of the Node. One that cannot be used changes nothing, and is told."""
    wait_for(agent.state.exists, what="the first state of the node")
    server = HookServer(
        scratch,
        hooked_relay.socket,
        kubepods=kubepods.name,
        registrations=hooked_relay.hooks_dir,
        options=("--mode", "proxy", "--cpu-normalization"),
    )
    server.nodeslo = agent.state
    kubectl = cluster.kubectl

    def patch(change: object) -> None:
        kubectl("patch", "nodeslo", "n1", "--type", "merge", "-p", json.dumps(change))

    with server, ls_pod(kubelet, kubepods) as web, be_pod(kubelet, kubepods) as batch:

        def wait_quotas(*expected: int) -> None:
            what = f"quotas to be {expected}"
            server.child.wait_until(lambda: (web.cpu[1], batch.cpu[1]) == expected, what=what)

        wait_quotas(100_000, 100_000)
        kubectl("annotate", "node", "n1", f"{RATIO_ANNOTATION}=1.2")
        wait_quotas(SCALED, SCALED)
        kubectl("apply", "-f", str(DEFINITION))
        kubectl("create", "-f", "-", stdin=OBJECT)
        wait_quotas(SCALED, -1)
        # Wrong in one place, right in another: nothing of it counts.
        before = agent.state.read_bytes()
        patch({"spec": {**WRONG["spec"], **WITHOUT["spec"]}})
        refused = cluster.wait_event("NodeSLORejected")
        assert refused["type"] == "Warning"
        assert "groupIdentity" in refused["message"]
        assert "99" in refused["message"]
        assert agent.state.read_bytes() == before
        assert batch.cpu[1] == -1
        assert "groupIdentity" in agent.status()["nodeslo"]["problems"][0]
        # What the Node says goes on meanwhile.
        kubectl("annotate", "--overwrite", "node", "n1", f"{RATIO_ANNOTATION}=1.5")
        wait_quotas(66_667, -1)
        patch(RIGHT)
        wait_quotas(66_667, 66_667)
        cluster.wait_event("NodeSLOApplied")
        # An agent that starts again, and one that is away, change nothing.
        agent.kill()
        agent.start()
        wait_for(lambda: agent.status()["nodeslo"]["state"] == "applied", what="the agent to be back")
        assert (web.cpu[1], batch.cpu[1]) == (66_667, 66_667)
        assert agent.state.stat().st_mode & 0o777 == 0o600
        assert len(cluster.events("NodeSLORejected")) == 1
