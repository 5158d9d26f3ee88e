"""Assignments written into CRI requests: what nobody decided about stays as it came."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.decision import Assignment, Grant
from interpose.resmgr.request_edits import Override, write_create, write_fallback, write_update

CPUS = CpuSet.parse("2-3")


def test_an_assignment_is_written_with_its_note() -> None:
    """Other values of the kubelet stay."""
    request = cri.CreateContainerRequest()
    request.config.linux.resources.cpu_quota = 5
    assignment = Assignment(cpus=CPUS, mems=CpuSet.parse("1"), shares=7)
    assert write_create(request, assignment, Grant(), "key", "note") == []
    resources = request.config.linux.resources
    assert (resources.cpuset_cpus, resources.cpuset_mems) == ("2-3", "1")
    assert (resources.cpu_shares, resources.cpu_quota) == (7, 5)
    assert request.config.annotations == {"key": "note"}


def test_an_assignment_that_says_nothing_makes_no_submessage() -> None:
    """A request without resources has none afterwards."""
    request = cri.CreateContainerRequest()
    assert write_create(request, Assignment(), Grant(pinned=False), "key", "note") == []
    assert not request.config.HasField("linux")
    update = cri.UpdateContainerResourcesRequest()
    assert write_update(update, Assignment()) == []
    assert not update.HasField("linux")


@pytest.mark.parametrize(
    ("asked", "overrides"),
    [
        ("", []),
        ("2,3", []),
        ("0-15", [Override("cpuset_cpus", "0-15", "2-3")]),
        ("nonsense", [Override("cpuset_cpus", "nonsense", "2-3")]),
    ],
)
def test_who_wanted_something_else_is_told(asked: str, overrides: list[Override]) -> None:
    """The same CPUs in other words are the same."""
    update = cri.UpdateContainerResourcesRequest()
    update.linux.cpuset_cpus = asked
    assert write_update(update, Assignment(cpus=CPUS)) == overrides
    assert update.linux.cpuset_cpus == "2-3"


def test_memory_nodes_alone() -> None:
    """The CPU set is somebody else's."""
    update = cri.UpdateContainerResourcesRequest()
    update.linux.cpuset_cpus = "0-1"
    assert write_update(update, Assignment(mems=CpuSet.parse("0"))) == []
    assert (update.linux.cpuset_cpus, update.linux.cpuset_mems) == ("0-1", "0")


def test_variables_are_set_or_added() -> None:
    """Of several with one name the last one counts, so that one is set."""
    request = cri.CreateContainerRequest()
    for key, value in (("A", b"1"), ("B", b"2"), ("A", b"3")):
        request.config.envs.add(key=key, value=value)
    write_create(request, Assignment(), Grant(envs={"A": "x", "C": "y"}), "key", "note")
    found = [(entry.key, entry.value) for entry in request.config.envs]
    assert found == [("A", b"1"), ("B", b"2"), ("A", b"x"), ("C", b"y")]


def test_another_command_takes_the_place_of_both() -> None:
    """Its arguments are in it."""
    request = cri.CreateContainerRequest()
    request.config.command.extend(("sh", "-c"))
    request.config.args.append("true")
    write_create(request, Assignment(), Grant(), "key", "note")
    assert (list(request.config.command), list(request.config.args)) == (["sh", "-c"], ["true"])
    write_create(request, Assignment(), Grant(command=("run", "it")), "key", "note")
    assert (list(request.config.command), list(request.config.args)) == (["run", "it"], [])


def test_the_fallback_is_written_alone() -> None:
    """And nothing if there is none."""
    request = cri.CreateContainerRequest()
    write_fallback(request, EMPTY)
    assert not request.config.HasField("linux")
    write_fallback(request, CPUS)
    assert request.config.linux.resources.cpuset_cpus == "2-3"
    assert not request.config.annotations


@pytest.mark.parametrize("quota", [-1, 50_000])
def test_a_quota_is_lifted_or_put_back(quota: int) -> None:
    """The period stays; that the kubelet asked for another one is no conflict."""
    update = cri.UpdateContainerResourcesRequest()
    update.linux.cpu_quota, update.linux.cpu_period = 200_000, 100_000
    assert write_update(update, Assignment(quota=quota)) == []
    assert (update.linux.cpu_quota, update.linux.cpu_period) == (quota, 100_000)
