"""CPUs that are not to be shared stay so, whatever becomes of the words and files that say which they are."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interpose.core.model.cgroup import Parameter
from interpose.hooks.server.node.cpu_share_pools import RESERVATION, SYSTEM_QOS
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS
from interpose.testing.qospods import ls_pod, lsr_pod
from tests.support.hooks.node import HookNode, hook_node

CPUS = Parameter.CPUSET_CPUS
GOOD = {RESERVATION: '{"reservedCPUs":"0-1"}'}
BAD = {RESERVATION: '{"reservedCPUs":"0-1,"}'}
PLUGIN = "CPUSetAllocator"


async def again(node: HookNode) -> None:
    """The next round, of the same process."""
    await node.round()


async def restarted(node: HookNode) -> None:
    """The first round of the next process, which remembers no rule."""
    await node.start()
    await node.round()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("later", [again, restarted])
async def test_a_reservation_that_cannot_be_read_frees_nothing(
    scratch: Path, version: int, later: Callable[[HookNode], Awaitable[None]]
) -> None:
    """Pods that run keep their CPUs; pods with CPUs of their own get them; when it can be read, all is as it says."""
    async with hook_node(scratch, version) as node:
        web = ls_pod(node.node, "web")
        node.slo(**GOOD)
        await node.round()
        assert node.of_container(web, CPUS) == "2-7"
        node.slo(**BAD)
        own = lsr_pod(node.node, "db", cpuset="6-7")
        await later(node)
        assert node.of_container(web, CPUS) == "2-7"
        assert node.of_sandbox(web, CPUS) == "2-7"
        assert node.of_container(own, CPUS) == "6-7"
        assert RESERVATION in node.parts.reconciler.rules.problems[PLUGIN]
        node.slo(**GOOD)
        await node.round()
        assert node.of_container(web, CPUS) == "2-5"
        assert PLUGIN not in node.parts.reconciler.rules.problems


@pytest.mark.parametrize("later", [again, restarted])
async def test_a_damaged_state_of_the_kubelet_frees_nothing(
    scratch: Path, later: Callable[[HookNode], Awaitable[None]]
) -> None:
    """The containers that the kubelet gave CPUs to are still there."""
    state = scratch / "kubelet" / "cpu_manager_state"
    state.parent.mkdir()
    entries = {"of-somebody": {"main": "4-7"}}
    whole = json.dumps({"policyName": "static", "defaultCpuSet": "0-3", "entries": entries, "checksum": 1})
    state.write_text(whole)
    async with hook_node(scratch) as node:
        web = ls_pod(node.node, "web")
        await node.round()
        assert node.of_container(web, CPUS) == "0-3"
        state.write_text(whole[:40])
        await later(node)
        assert node.of_container(web, CPUS) == "0-3"
        assert any("cpu_manager_state" in problem for problem in node.parts.gatherer.problems)
        state.write_text(whole.replace("4-7", "6-7"))
        await node.round()
        assert node.of_container(web, CPUS) == "0-5"
        assert list(node.parts.gatherer.problems) == []


async def test_bad_cpus_of_system_services_free_nothing(scratch: Path) -> None:
    """They are taken out of the pools by the same word that gives them to SYSTEM pods."""
    async with hook_node(scratch) as node:
        web = ls_pod(node.node, "web")
        node.slo(**{SYSTEM_QOS: '{"cpuset":"0-1"}'})
        await node.round()
        node.slo(**{SYSTEM_QOS: '{"cpuset":"zero"}'})
        await node.round()
        assert node.of_container(web, CPUS) == "2-7"


async def test_a_pod_that_writes_nonsense_stops_nobody_elses_pools(scratch: Path) -> None:
    """Its own containers are its own affair."""
    async with hook_node(scratch) as node:
        web = ls_pod(node.node, "web")
        nonsense = json.dumps({"cpuset": ",".join(["0-8191"] * 5)})
        odd = ls_pod(node.node, "odd", annotations={RESOURCE_STATUS: nonsense})
        done = await node.round()
        assert node.of_container(web, CPUS) == "0-7"
        assert {one.target.pod_uid for one in done.desired_state.problems} == {odd.config.metadata.uid}
        lsr_pod(node.node, "db", cpuset="6-7")
        await node.round()
        assert node.of_container(web, CPUS) == "0-5"
        assert PLUGIN not in node.parts.reconciler.rules.problems
