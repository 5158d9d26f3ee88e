"""Other policies and other configurations while containers run, in front of a real containerd on CPUs 0 and 1.

At a restart with other flags, by a policy document that is edited, and by an agent. Values are those of the kernel.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from interpose._pb.resmgr_config_pb2 import SetConfigReply, SetConfigRequest
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.cri import CriClient
from tests.support.lab.images import FOREVER
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod, PolicyRelay
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

RESERVED = ("--reserved-resources", "cpu=1")
POOLS = """\
pools:
  exclusive:
    exclusive: true
    cpuLists: [{Cpuset: "1", Socket: 0}]
  shared:
    exclusive: false
    cpuLists: [{Cpuset: "0", Socket: 0}]
"""
DOCUMENT = """\
policy:
  Active: static
  ReservedResources: {{CPU: "cpuset:{reserved}"}}
  static: {{RelaxedIsolation: {relaxed}}}
"""


@contextmanager
def agent(socket: Path, node: str = "n1") -> Iterator[Agent]:
    """An agent of the node, connected to the config socket."""
    with grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")]) as channel:
        yield Agent(channel, node)


class Agent:
    """What an agent does."""

    def __init__(self, channel: grpc.Channel, node: str) -> None:
        self._node = node
        self._call = channel.unary_unary("/v1.Config/SetConfig")

    def send(self, data: Mapping[str, str]) -> str:
        """SetConfig; the reasons against it, empty if it is in force."""
        request = SetConfigRequest(node_name=self._node, config=data).SerializeToString()
        return SetConfigReply.FromString(self._call(request, timeout=WAIT_LIMIT)).error


def test_policies_follow_each_other_without_draining(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """Each takes over what runs; without one, everybody is free of what the last one wrote."""

    def under(policy: str) -> PolicyRelay:
        return PolicyRelay(scratch, containerd.socket, "--policy", policy, *RESERVED)

    with CriClient(containerd.socket) as runtime:
        web, db = PolicyPod(runtime, kubepods, "web", 100, BURSTABLE), PolicyPod(runtime, kubepods, "db")
        try:
            with under("static") as relay, CriClient(relay.socket) as client:
                for pod in (web, db):
                    pod.client = client
                    pod.run()
                    pod.create()
                    pod.start()
                    pod.client = runtime
                assert (web.cpus, db.cpus) == ("0", "1")
            with under("static-plus") as relay:
                assert relay.exclusive() == {"db": "1"}
                # Nothing is left to share but what is reserved.
                web.wait_cpus("0")
                assert (db.cpus, db.shares, web.shares) == ("1", 1024, 102)
            with under("none") as relay:
                for pod in (web, db):
                    pod.wait_cpus("0-1")
                assert relay.policy()["assignments"][0]["exclusive"] == ""
                assert (db.shares, web.shares) == (1024, 102)
            with under("static") as relay:
                db.wait_cpus("1")
                web.wait_cpus("0")
                assert relay.exclusive() == {"db": "1"}
            assert (db.born, db.runs_on, web.runs_on) == ("1", "1", "0")
        finally:
            for pod in (web, db):
                pod.client = runtime
                pod.remove()


def test_pools_set_up_by_hand(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """Pods written for CMK run as they are: their call of `cmk` is taken out, and variables say what they got."""
    file = scratch / "pools.yaml"
    file.write_text(POOLS)
    script = f"cmk isolate --pool=exclusive echo $CMK_CPUS_ASSIGNED > /assigned; exec {' '.join(FOREVER)}"
    with (
        PolicyRelay(
            scratch, containerd.socket, "--policy", "static-pools", "--static-pools-conf-file", str(file)
        ) as relay,
        CriClient(relay.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
    ):
        assert (web.cpus, web.born) == ("0", "0")
        assert "CMK_CPUS_ASSIGNED=0" in web.exec("env").stdout.decode().splitlines()
        fwd = PolicyPod(client, kubepods, "fwd", command=("/bin/sh", "-c", script))
        fwd.exclusive_cores(1, 1000)
        infra = PolicyPod(client, kubepods, "plain", 100, BURSTABLE, command=())
        infra.container_config.args.extend(("/opt/bin/cmk", "isolate", "--pool=shared", "--", *FOREVER))
        with fwd, infra:
            assert (fwd.cpus, fwd.runs_on, infra.cpus) == ("1", "1", "0")
            assert fwd.exec("cat", "/assigned").stdout == b"1\n"
            told = fwd.exec("env").stdout.decode().splitlines()
            assert {"CMK_CPUS_ASSIGNED=1", "CMK_CPUS_SHARED=0"} <= set(told)
            assert relay.exclusive() == {"fwd": "1"}
            second = PolicyPod(client, kubepods, "second", command=("/bin/sh", "-c", script))
            second.exclusive_cores(1, 1000)
            with pytest.raises(grpc.RpcError) as refused, second:
                pass
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            lost = PolicyPod(client, kubepods, "lost", 100, BURSTABLE)
            lost.container_config.envs.add(key="STP_POOL", value=b"nowhere")
            with pytest.raises(grpc.RpcError) as refused, lost:
                pass
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "nowhere" in refused.value.details()


def test_an_edited_document_takes_effect(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """As a whole: containers move to what it says. One that cannot be used changes nothing, and says why."""
    file = scratch / "policy.yaml"
    file.write_text(DOCUMENT.format(reserved=0, relaxed="false"))
    with (
        PolicyRelay(scratch, containerd.socket, "--policy-config", str(file)) as relay,
        CriClient(relay.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
        PolicyPod(client, kubepods, "db") as db,
    ):
        assert (web.cpus, db.cpus, db.born) == ("0", "1", "1")
        assert relay.policy()["reserved"] == "0"
        # The other CPU is reserved now: the container that has it alone changes places with those that share.
        file.write_text(DOCUMENT.format(reserved=1, relaxed="true"))
        web.wait_cpus("1")
        db.wait_cpus("0")
        assert relay.exclusive() == {"db": "0"}
        assert relay.policy()["reserved"] == "1"
        # Nothing would be left for the one that has a CPU alone; and half a document.
        for text, problem in (
            (DOCUMENT.format(reserved="0-1", relaxed="true"), "lab/db/main"),
            ("policy: [", "line 2"),
        ):
            file.write_text(text)
            found = wait_for(lambda: relay.policy()["problems"], what="the problem to be told")
            assert any(problem in one for one in found), found
            assert (web.cpus, db.cpus, relay.policy()["reserved"]) == ("1", "0", "1")
            file.write_text(DOCUMENT.format(reserved=1, relaxed="false"))
            wait_for(lambda: not relay.policy()["problems"], what="the problem to be gone")
        # At a restart as well.
        relay.kill()
        relay.start()
        assert (web.cpus, db.cpus) == ("1", "0")


def test_an_agent_sends_the_configuration(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """In force when the call returns, refused with every reason, for this node before all nodes, and not forgotten."""
    config = scratch / "config.sock"
    static = {"policy": "Active: static\nReservedResources: {CPU: 'cpuset:0'}"}
    with (
        PolicyRelay(scratch, containerd.socket, "--config-socket", str(config)) as relay,
        CriClient(relay.socket) as client,
        agent(config) as node,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
        PolicyPod(client, kubepods, "db") as db,
    ):
        assert relay.policy()["policy"] == "none"
        assert (web.cpus, db.cpus) == ("0-1", "0-1")
        assert node.send(static) == ""
        assert relay.policy()["policy"] == "static"
        assert (web.cpus, db.cpus) == ("0", "1")
        wrong = node.send({"policy": "Active: statik", "policy.static": "Relaxed: true"})
        assert "statik" in wrong
        assert "Relaxed" in wrong
        wrong = node.send({"policy": "Active: static\nReservedResources: {CPU: 'cpuset:0-1'}"})
        assert "lab/db/main" in wrong
        assert (web.cpus, db.cpus, relay.policy()["policy"]) == ("0", "1", "static")
        own = {**static, "policy.static": "RelaxedIsolation: false", "policy.static.n1": "PinMemory: true"}
        assert node.send({**own, "policy.static.n2": "this: is: another: node's"}) == ""
        assert db.cgroup_file("cpuset", "cpuset.mems").read_text() == "0\n"
        metrics = relay.metrics().splitlines()
        assert 'interpose_policy_configurations_total{outcome="accepted"} 2.0' in metrics
        assert 'interpose_policy_configurations_total{outcome="rejected"} 2.0' in metrics
        wait_for(lambda: not relay.policy()["state_file"]["dirty"], what="the state file to be written")
        relay.kill()
        relay.start()
        assert relay.policy()["origin"] == "agent of node n1"
        assert (web.cpus, db.cpus) == ("0", "1")
        # The agent takes it all back.
        assert node.send({}) == ""
        assert relay.policy()["policy"] == "none"
        assert (web.cpus, db.cpus) == ("0-1", "0-1")
