"""What pods ask for, from kubectl to the policy: the webhook writes it down, the relay uses it. CPUs 0 and 1.

Manifests and certificates are those of a deployment; pods are run on a real containerd as a kubelet runs them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from interpose.cli.common.admin_client import ask
from tests.support.lab.cri import CriClient
from tests.support.lab.pods import MEBIBYTE
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod
from tests.support.lab.processes import wait_for
from tests.support.lab.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.support.lab.cluster import LabCluster
    from tests.support.lab.policy_pods import PolicyRelay
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

ANNOTATION = "intel.com/resources"
CORES = "cmk.intel.com/exclusive-cores"
POOLS = """\
pools:
  exclusive: {exclusive: true, cpuLists: [{Cpuset: "1", Socket: 0}]}
  shared: {exclusive: false, cpuLists: [{Cpuset: "0", Socket: 0}]}
"""
SAME = {"cpu": "100m", "memory": "50Mi"}
ASKED = {"requests": {**SAME, CORES: "1"}, "limits": {"memory": "70Mi", CORES: "1"}}


@pytest.fixture
def webhook(scratch: Path, cluster: LabCluster) -> Iterator[Webhook]:
    """Registered and running."""
    with Webhook(scratch, cluster) as running:
        yield running


def create(cluster: LabCluster, name: str, *, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """A pod that wants an exclusive core, by kubectl; the annotations it has then."""
    container = {"name": "main", "image": "lab", "resources": ASKED}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": {"team": "blue"}},
        "spec": {"containers": [container], "nodeName": "n1"},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    made = cluster.kubectl.json("get", "pod", name)
    found: dict[str, str] = made["metadata"]["annotations"]
    return found


def as_kubelet(
    client: CriClient, kubepods: Kubepods, name: str, annotations: Mapping[str, str], *, pool: str = ""
) -> PolicyPod:
    """The pod as a kubelet runs it: nothing but the annotations tells of extended resources and memory requests."""
    pod = PolicyPod(client, kubepods, name, 100, BURSTABLE)
    if pool:
        pod.container_config.envs.add(key="STP_POOL", value=pool.encode())
    pod.container_config.linux.resources.memory_limit_in_bytes = 70 * MEBIBYTE
    pod.sandbox_config.annotations.update(annotations)
    return pod


def request(relay: PolicyRelay, name: str) -> Any:
    """What the policy believes a container asks for."""
    return ask(str(relay.admin), "GET", f"/v1/policy/containers/lab/{name}/main")["decision"]["request"]


def test_the_policy_has_what_only_the_webhook_knows(
    cluster: LabCluster, webhook: Webhook, node_relay: PolicyRelay, kubepods: Kubepods
) -> None:
    """An exclusive core and a memory request; a pod that wants no webhook has neither."""
    cluster.create({"policy": "Active: static-pools\n", "policy.static-pools": POOLS})
    cluster.wait_event("ConfigApplied")
    annotations = create(cluster, "fwd")
    assert annotations["team"] == "blue"
    assert json.loads(annotations[ANNOTATION])["containers"] == {"main": ASKED}
    passed_over = create(cluster, "plain", labels={"interpose/webhook": "ignore"})
    assert passed_over == {"team": "blue"}
    with (
        CriClient(node_relay.socket) as client,
        as_kubelet(client, kubepods, "plain", passed_over) as plain,
    ):
        with (
            pytest.raises(grpc.RpcError, match=f"must request {CORES}"),
            as_kubelet(client, kubepods, "refused", passed_over, pool="exclusive"),
        ):
            pass
        with as_kubelet(client, kubepods, "fwd", annotations, pool="exclusive") as fwd:
            assert_known(node_relay, fwd, plain)
    counted = 'interpose_webhook_requests_total{dry_run="false",operation="CREATE",result="patched"} 1.0'
    assert counted in webhook.metrics().splitlines()


def assert_known(relay: PolicyRelay, fwd: PolicyPod, plain: PolicyPod) -> None:
    """The one has what its annotation says, of the other it is guessed."""
    assert (fwd.cpus, fwd.born, plain.cpus, plain.born) == ("1", "1", "0", "0")
    assert relay.exclusive() == {"fwd": "1"}
    assert "CMK_CPUS_ASSIGNED=1" in fwd.exec("env").stdout.decode().splitlines()
    known, guessed = request(relay, "fwd"), request(relay, "plain")
    assert (known["source"], known["memory"], known["extended"]) == ("annotation", 50 * MEBIBYTE, {CORES: 1})
    assert guessed["source"] == "estimate"
    assert guessed["memory"] != 50 * MEBIBYTE


def test_pods_come_whatever_becomes_of_the_webhook(cluster: LabCluster, webhook: Webhook) -> None:
    """With a new certificate it goes on. Without it pods have no annotation, and that is all."""
    assert ANNOTATION in create(cluster, "first")
    assert "stays" in webhook.make_certificate()
    assert "a new certificate" in webhook.make_certificate("--force")
    loaded = 'interpose_webhook_certificate_reloads_total{result="loaded"} 1.0'
    wait_for(lambda: loaded in webhook.metrics(), what="the new certificate to be in use")
    assert ANNOTATION in create(cluster, "second")
    assert webhook.child.stop() == 0
    assert create(cluster, "third") == {"team": "blue"}
    webhook.start()
    assert ANNOTATION in create(cluster, "fourth")
    # Nobody may say something else about a pod afterwards.
    cluster.kubectl("annotate", "--overwrite", "pod", "fourth", f"{ANNOTATION}={{}}")
    kept = cluster.kubectl.json("get", "pod", "fourth")["metadata"]["annotations"][ANNOTATION]
    assert json.loads(kept)["containers"] == {"main": ASKED}
