"""What the admin socket tells of policies."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cgroup import Parameter
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container
from interpose.core.policy.constraints import ExcludedCpus
from interpose.core.policy.decision import Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.request import Amounts, Key
from interpose.host.cgroup.tree import CgroupTree
from interpose.net.grpc.status import Code
from interpose.resmgr.admin_view import (
    cgroup_report,
    container_report,
    find_allocations,
    find_refused,
    owned_report,
    pod_report,
    policy_report,
    refusal_report,
    topology_report,
)
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.control.cgroup_check import CgroupCheck
from interpose.resmgr.control.pod_quotas import PodQuotas
from interpose.resmgr.counters import RefusedRequest
from interpose.resmgr.state.state import SavedEntry
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.policy.node import PolicyNode, running, static

FILE = {"path": "/x", "saved": 1}


def refuse(node: PolicyNode, pod: str, at: float) -> None:
    """A container of this pod was refused, for the second time."""
    request = replace(find_allocations(node.tracker, "db/app")[0].request, pod=pod)
    refusal = Refusal(kind=RefusalKind.EXHAUSTED, message="full")
    tried = Candidate(name="NUMA node 0", cpus=CpuSet.parse("1"), score="", chosen=False, reason="")
    decision = Decision(action=Action.ALLOCATE, key=request.key, refusal=refusal, reason="full", candidates=(tried,))
    node.interceptor.counters.refused.append(RefusedRequest(at, request, decision, refusal, 2))


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """A node with one container that has CPUs of its own, and one that shares."""
    async with running(("db", 2000, "guaranteed"), ("web", 100, "burstable")) as node:
        yield node


async def test_the_policy_and_who_has_what(node: PolicyNode) -> None:
    """One row for each."""
    report = policy_report(node.interceptor, problems=["file x: bad"], state_file=FILE)
    assert (report["policy"], report["origin"], report["ready"]) == ("static", "test", True)
    assert (report["available"], report["reserved"]) == ("", "0")
    assert (report["containers"], report["exclusive"], report["failing"]) == (2, 1, [])
    assert report["problems"] == ["file x: bad"]
    assert report["state_file"] == FILE
    assert report["topology"]["online"] == "0-15"
    assert report["pools"]["shared"] == "0-1,4-15"
    shared = next(row for row in report["pool_details"] if row["name"] == "shared")
    assert (shared["cpus"], shared["containers"]) == ("0-1,4-15", ["default/web/app"])
    rows = {(row["container"], row["exclusive"], row["cpus"], row["state"]) for row in report["assignments"]}
    assert rows == {("default/db/app", "2-3", "2-3", "in step"), ("default/web/app", "", "0-1,4-15", "in step")}


async def test_who_says_that_a_container_is_in_step(node: PolicyNode) -> None:
    """The runtime, until the kernel was asked."""
    rows = policy_report(node.interceptor, problems=[], state_file={})["assignments"]
    assert {row["confirmed_by"] for row in rows} == {"runtime"}
    kernel = FakeKernel(cpus="0-15")
    tree = CgroupTree(kernel, kernel.root, version=kernel.version)
    node.tracker.cgroups = CgroupCheck(lambda: tree, node.tracker.updaters, node.store, node.starts)
    node.tracker.pod_quotas = PodQuotas(lambda: tree, node.tracker.pods_without_quota)
    for container in node.store.containers.values():
        kernel.make(directory := f"{container.cgroup_parent.strip('/')}/{container.id}")
        tree.write(directory, Parameter.CPUSET_CPUS, container.resources.cpuset_cpus)
    await node.tracker.cgroups.check(tuple(node.tracker.allocations.by_key))
    rows = policy_report(node.interceptor, problems=[], state_file={})["assignments"]
    # The pod may still have a quota.
    assert {(row["state"], row.get("confirmed_by")) for row in rows} == {("writing", None), ("in step", "kernel")}
    await node.tracker.pod_quotas.settle(node.tracker.quota_directory(rows_key(node)), 30)
    rows = policy_report(node.interceptor, problems=[], state_file={})["assignments"]
    assert {row["confirmed_by"] for row in rows} == {"kernel"}
    node.tracker.pod_quotas.unreadable["kubepods/podx"] = "gone"
    node.tracker.pod_quotas.problems["kubepods/podx"] = "refused"
    assert policy_report(node.interceptor, problems=[], state_file={})["problems"] == [
        "pod in cgroup kubepods/podx: its CFS quota cannot be changed: refused",
        "note: CFS quotas of pods cannot be read, so some may still be in force; kubepods/podx: gone",
    ]


def rows_key(node: PolicyNode) -> Key:
    """The container with CPUs of its own."""
    return find_allocations(node.tracker, "db/app")[0].request.key


async def test_what_is_told_of_cgroups(node: PolicyNode) -> None:
    """Values that somebody else replaces, and files that cannot be read."""
    key = find_allocations(node.tracker, "web/app")[0].request.key
    for _ in range(3):
        node.tracker.updaters.mark_differing(key, "cpuset.cpus 0-15")
    node.tracker.cgroups.unreadable[key] = "gone"
    turns = "policy static and somebody else set its values in turn; cpuset.cpus 0-15 was found 3 times"
    assert policy_report(node.interceptor, problems=[], state_file={})["problems"] == [
        f"container default/web/app: {turns}",
        "note: cgroups cannot be read, so states are the runtime's word; default/web/app: gone",
    ]


async def test_reserved_as_an_amount(node: PolicyNode) -> None:
    """In thousandths; an exclusion as it was written; with nothing said it is empty."""
    exclusion = ExcludedCpus(CpuSet.parse("4-15"))
    for reserved, shown in ((1000, "1000m"), (exclusion, "exclude-cpuset:4-15"), (None, "")):
        node.tracker.configuration = replace(node.tracker.configuration, reserved=reserved)
        assert policy_report(node.interceptor, problems=[], state_file={})["reserved"] == shown


async def test_refusals_newest_first(node: PolicyNode) -> None:
    """With the time of day."""
    refuse(node, "a", 0.0)
    refuse(node, "c", 1.5)
    report = policy_report(node.interceptor, problems=[], state_file={})
    shown = {"times": 2, "why": "exhausted", "message": "full"}
    assert report["refused"] == [
        {"at": "1970-01-01T00:00:01.500+00:00", "container": "default/c/app", **shown},
        {"at": "1970-01-01T00:00:00.000+00:00", "container": "default/a/app", **shown},
    ]


async def test_refusals_are_found_and_told(node: PolicyNode) -> None:
    """By names from the right; with what was asked for and which choices there were."""
    refuse(node, "a", 0.0)
    refuse(node, "c", 1.5)
    assert find_refused(node.interceptor, "") == []
    assert len(find_refused(node.interceptor, "app")) == 2
    (one,) = find_refused(node.interceptor, "c/app")
    report = refusal_report(node.tracker, one)
    assert (report["container"], report["state"]) == ("default/c/app", "refused")
    assert report["refused"] == {"at": "1970-01-01T00:00:01.500+00:00", "times": 2}
    assert report["decision"]["refusal"]["message"] == "full"
    assert report["decision"]["request"]["cpu_milli"] == 2000
    assert report["decision"]["candidates"][0]["name"] == "NUMA node 0"


async def test_containers_of_a_pod(node: PolicyNode) -> None:
    """By name or by the start of the sandbox's id, those that were refused among them."""
    refuse(node, "db", 0.0)  # there by now, so it is not told twice
    refuse(node, "big", 0.0)
    report = pod_report(node.interceptor, "db")
    assert report is not None
    assert [(row["container"], row["cpus"]) for row in report["containers"]] == [("default/db/app", "2-3")]
    big = pod_report(node.interceptor, "default/big")
    assert big == {
        "pods": ["default/big"],
        "containers": [
            {"container": "default/big/app", "id": "", "qos": "Guaranteed", "cpu_milli": 2000, "state": "refused"}
        ],
    }
    (held,) = find_allocations(node.tracker, "db/app")
    sandbox = node.tracker.store.containers[held.id].pod_id
    assert pod_report(node.interceptor, sandbox[:8]) == report
    assert pod_report(node.interceptor, "nobody") is None
    assert pod_report(node.interceptor, "default") is None


async def test_what_stands_in_and_what_is_overridden_are_problems(node: PolicyNode) -> None:
    """The worst problem comes first in the report."""
    node.tracker.configuration = replace(node.tracker.configuration, fallback_reasons=("agent: bad",), notes=("key x",))
    report = policy_report(node.interceptor, problems=["one"], state_file={})
    assert report["problems"] == ["another configuration should be in force: agent: bad", "one", "note: key x"]


async def test_what_is_not_in_step_shows(node: PolicyNode) -> None:
    """Being created, in doubt, failing, without a place."""
    allocations = node.tracker.allocations
    db, web = (find_allocations(node.tracker, name)[0].request.key for name in ("db/app", "web/app"))
    request = allocations.by_key[db].request
    new, lost = Key("p", "new"), Key("p", "lost")
    for key in (new, lost):
        allocations.allocate(replace(request, key=key))
    node.tracker.mark_create_pending(lost)
    allocations.by_key[db].has_place = False
    node.runtime.fail("UpdateContainerResources", Code.INTERNAL, "no")
    await node.tracker.updaters.apply((web,), 1)
    report = policy_report(node.interceptor, problems=[], state_file={})
    states = {row["container"]: row["state"] for row in report["assignments"]}
    assert states == {
        "default/db/app": "without place",
        "default/web/app": "failing",
        "default/db/new": "being created",
        "default/db/lost": "in doubt",
    }
    assert [(row["container"], row["error"], row["attempts"]) for row in report["failing"]] == [
        ("default/web/app", "INTERNAL: no", 1)
    ]


async def test_containers_with_more_than_was_granted_are_problems(node: PolicyNode) -> None:
    """They were resized around us, or nobody saw the reply."""
    (held,) = find_allocations(node.tracker, "db/app")
    node.tracker.allocations.observe(replace(held.request, amounts=replace(held.request.amounts, milli=99000)))
    report = policy_report(node.interceptor, problems=[], state_file={})
    assert report["problems"] == [
        "container default/db/app has 99000m CPU at the runtime; the policy has room for 2000m"
    ]
    assert container_report(node.tracker, held)["state"] == "without room"


async def test_containers_without_a_place_are_problems(node: PolicyNode) -> None:
    """The machine changed under them."""
    await node.reconfigurer.apply(static("0-15"), forced=True)
    report = policy_report(node.interceptor, problems=["one"], state_file={})
    assert report["problems"] == ["one", "container default/db/app has no place under the policy"]
    (row,) = (row for row in report["assignments"] if row["container"] == "default/db/app")
    assert (row["exclusive"], row["pools"], row["cpus"]) == ("", [], "0-15")


async def test_finding_what_a_person_means(node: PolicyNode) -> None:
    """By the start of an id, or by names from the right."""
    (first,) = (allocation for allocation in node.tracker.allocations.by_key.values() if allocation.request.pod == "db")
    assert find_allocations(node.tracker, first.id[:10]) == [first]
    assert find_allocations(node.tracker, "default/db/app") == [first]
    assert find_allocations(node.tracker, "db/app") == [first]
    assert len(find_allocations(node.tracker, "app")) == 2
    assert find_allocations(node.tracker, "web") == []
    assert find_allocations(node.tracker, "") == []


async def test_everything_about_one_container(node: PolicyNode) -> None:
    """How it came, what it holds, what it was told."""
    (held,) = find_allocations(node.tracker, "db/app")
    report = container_report(node.tracker, held)
    assert (report["container"], report["state"]) == ("default/db/app", "in step")
    assert report["decision"] == report["history"][-1]
    assert report["decision"]["at"] == "2023-11-14T22:13:20.000+00:00"
    assert report["holds"]["exclusive"] == "2-3"
    assert report["wanted"]["cpus"] == report["written"]["cpus"] == "2-3"
    assert report["writer"] == {"state": "in step", "error": "", "attempts": 0}


async def test_memory_nodes_that_ran_short_are_in_the_report(node: PolicyNode) -> None:
    """With the time and the reason; nothing of a container that has what it was granted."""
    (held,) = find_allocations(node.tracker, "db/app")
    assert container_report(node.tracker, held)["memory"] is None
    node.tracker.allocations.widen_memory(held.request.key, CpuSet.parse("0-3"), "node 1 is short")
    assert container_report(node.tracker, held)["memory"] == {
        "at": "2023-11-14T22:13:20.000+00:00",
        "nodes": "0-3",
        "why": "node 1 is short",
    }
    assert (
        "note: 1 container uses memory of more nodes than the policy chose, as these ran short: default/db/app"
        in (policy_report(node.interceptor, problems=[], state_file={})["problems"])
    )
    (other,) = find_allocations(node.tracker, "web/app")
    node.tracker.allocations.widen_memory(other.request.key, CpuSet.parse("0-3"), "node 1 is short")
    (note,) = (
        text for text in policy_report(node.interceptor, problems=[], state_file={})["problems"] if "memory" in text
    )
    assert note.startswith("note: 2 containers use memory")


async def test_one_that_is_being_made_has_no_writer(node: PolicyNode) -> None:
    """And one whose booking went meanwhile has nothing at all."""
    allocations = node.tracker.allocations
    request = replace(next(iter(allocations.by_key.values())).request, key=Key("p", "new"))
    allocations.allocate(request)
    held = allocations.by_key[request.key]
    report = container_report(node.tracker, held)
    assert (report["state"], report["writer"], report["written"]) == ("being created", None, None)
    allocations.release(request.key)
    held.events.clear()
    report = container_report(node.tracker, held)
    assert (report["decision"], report["holds"], report["wanted"]) == (None, None, None)


async def test_the_machine(node: PolicyNode) -> None:
    """As a document that can be read again."""
    assert len(topology_report(node.interceptor)["cpus"]) == 16


def test_a_container_without_a_cgroup() -> None:
    """Not made yet, or nowhere to be found."""
    assert "error" in cgroup_report(None, _no_tree)
    container = Container(id="c1", cgroup_parent="/kubepods/podx")
    assert cgroup_report(container, _no_tree) == {"error": "no cgroups here"}


@pytest.mark.parametrize("version", [1, 2])
def test_what_stands_in_the_cgroup_of_a_container(version: int) -> None:
    """The kernel has the last word."""
    kernel = FakeKernel(version)
    container = Container(id="c1", cgroup_parent="/kubepods/podx")
    kernel.make("kubepods/podx")
    report = cgroup_report(container, lambda: CgroupTree(kernel, version=version))
    assert report == {"error": "no cgroup of this container is below kubepods/podx"}
    kernel.make("kubepods/podx/c1")
    tree = CgroupTree(kernel, version=version)
    tree.write("kubepods/podx/c1", Parameter.CPUSET_CPUS, "2-3")
    report = cgroup_report(container, lambda: tree)
    assert (report["path"], report["cpuset.cpus"]) == ("kubepods/podx/c1", "2-3")


def _no_tree() -> CgroupTree:
    raise OSError("no cgroups here")


async def test_what_the_policy_owns(node: PolicyNode) -> None:
    """CPU sets under any policy; memory nodes if containers are given them; nothing without a policy.

    Quotas of those that have none, and no others.
    """
    own = find_allocations(node.tracker, "db/app")[0]
    assert owned_report(node.interceptor) == {
        "version": 1,
        "policy": "static",
        "owns": ["cpuset_cpus"],
        "containers": {own.id: ["cpu_quota"]},
        "pods": {node.tracker.quota_directory(own.request.key): ["cpu_quota"]},
    }
    await node.reconfigurer.apply(static(pin_memory=True))
    assert owned_report(node.interceptor)["owns"] == ["cpuset_cpus", "cpuset_mems"]
    await node.reconfigurer.apply(Configuration(policy="none", origin="test"))
    assert owned_report(node.interceptor) == {"version": 1, "policy": "none", "owns": []}


async def test_what_something_stands_in_for_is_still_the_policys(node: PolicyNode) -> None:
    """Containers keep what they have until the right configuration is back."""
    node.tracker.saved_policy = "static"
    await node.reconfigurer.apply(Configuration(policy="none", origin="test", fallback_reasons=("agent: bad",)))
    key = next(iter(node.tracker.allocations.by_key))
    node.tracker.suspended = {key: Grant()}
    assert owned_report(node.interceptor) == {"version": 1, "policy": "static", "owns": ["cpuset_cpus"]}


async def test_what_is_remembered_is_owned_before_the_runtime_has_listed_its_containers() -> None:
    """A hook server that asks a relay which has just started would write what is the policy's otherwise."""
    node = PolicyNode()
    try:
        key = Key("pod", "app")
        grant = Grant(mems=CpuSet.parse("0"), shares=512)
        entry = SavedEntry(key=key, container_id="c", grant=grant, amounts=Amounts())
        assert owned_report(node.interceptor)["owns"] == ["cpuset_cpus"]
        node.restorer.load("static", [entry])
        assert owned_report(node.interceptor)["owns"] == ["cpuset_cpus", "cpuset_mems", "cpu_shares"]
        node.tracker.configuration = Configuration(policy="none", origin="test", fallback_reasons=("agent: bad",))
        assert owned_report(node.interceptor) == {"version": 1, "policy": "static", "owns": ["cpuset_cpus"]}
        node.tracker.configuration = Configuration(policy="none", origin="test")
        assert owned_report(node.interceptor)["owns"] == []
    finally:
        await node.close()
