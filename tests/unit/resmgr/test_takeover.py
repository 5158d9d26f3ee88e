"""What containers that run already hold, and what was asked of them: what counts when sources disagree."""

import json
from typing import Any

import pytest

from interpose.model.cpuset import CpuSet
from interpose.model.pod import Container, ContainerState, Pod
from interpose.model.resources import LinuxResources
from interpose.policy.decision import Assignment, Grant
from interpose.policy.request import Amounts, Key, Request, Source
from interpose.resmgr.grants import ANNOTATION, grant_note
from interpose.resmgr.statefile import Entry
from interpose.resmgr.takeover import actual, as_asked, coming, concerns_us, held_by, key_of, written_by_us
from interpose.store.requested import ANNOTATION as REQUESTED

KEY = Key("pod", "main", 0)
AMOUNTS = Amounts(milli=1000, limit_milli=1000, memory=None, memory_limit=None, source=Source.ESTIMATE)
POD = Pod(id="pod", name="db", uid="u", namespace="n", cgroup_parent="/kubepods/podu")
OWN = Grant(exclusive=CpuSet.of((1,)))
SHARED = Grant(pools=("shared",))


def container(has: str = "", asked: str | None = None, **more: Any) -> Container:
    """One that has a CPU set; by default its caller asked for it."""
    resources = LinuxResources(cpuset_cpus=has, cpu_shares=1024)
    requested = LinuxResources(cpuset_cpus=has if asked is None else asked, cpu_shares=1024)
    state = more.pop("state", ContainerState.RUNNING)
    return Container(id="c", pod_id="pod", name="main", resources=resources, requested=requested, state=state, **more)


def entry(grant: Grant, container_id: str = "c", policy: str = "static") -> tuple[str, Entry]:
    """What a state file says."""
    return policy, Entry(key=KEY, container_id=container_id, grant=grant, amounts=AMOUNTS)


def noted(grant: Grant, policy: str = "static") -> dict[str, str]:
    """The annotation of a container that was created with a grant."""
    request = Request(key=KEY, namespace="n", pod="db", amounts=AMOUNTS)
    return {ANNOTATION: grant_note(policy, request, grant)}


@pytest.mark.parametrize(
    ("state", "ready", "concerns"),
    [
        (ContainerState.RUNNING, True, True),
        (ContainerState.RUNNING, False, True),
        (ContainerState.CREATED, True, True),
        (ContainerState.CREATED, False, False),
        (ContainerState.EXITED, True, False),
    ],
)
def test_who_has_cpus_to_speak_of(state: ContainerState, ready: bool, concerns: bool) -> None:
    """Who runs, and who may still be started."""
    pod = Pod(id="pod", name="db", uid="u", namespace="n", ready=ready)
    assert concerns_us(container(state=state), pod) is concerns
    assert not concerns_us(container(state=state), None)


def test_what_it_has_is_read_as_far_as_it_can_be() -> None:
    """No set and one that makes no sense are none."""
    assert actual(LinuxResources(cpuset_cpus="0-1", cpu_shares=2)) == Assignment(cpus=CpuSet.of((0, 1)), shares=2)
    assert actual(LinuxResources(cpuset_cpus="x")) == Assignment()


def test_the_state_file_comes_before_the_annotation() -> None:
    """It knows what happened since; of another container it says nothing."""
    one = container("1", annotations=noted(OWN))
    assert held_by(one, entry(SHARED), "static") == (SHARED, AMOUNTS)
    assert held_by(one, entry(SHARED, "other"), "static") == (OWN, AMOUNTS)


def test_the_runtime_comes_before_both() -> None:
    """Who does not have the CPUs it is said to hold keeps those it has, for the amounts that are known."""
    assert held_by(container("0"), entry(OWN), "static") == (Grant(exclusive=CpuSet.of((0,))), AMOUNTS)
    assert held_by(container("0"), None, "static") == (Grant(exclusive=CpuSet.of((0,))), None)
    assert held_by(container(), None, "static") == (None, None)
    assert held_by(container(), entry(OWN), "static") == (OWN, AMOUNTS)


def test_of_another_policy_only_cpus_count() -> None:
    """Its pools mean nothing here."""
    assert held_by(container("0"), entry(SHARED), "static-plus") == (Grant(), AMOUNTS)


def test_owners_are_taken_over_first() -> None:
    """Then the others, as they were remembered."""
    other = Container(id="d", pod_id="pod", name="side", state=ContainerState.RUNNING)
    found = coming([(other, POD), (container("1"), POD)], {KEY: entry(OWN)}, "static", 0)
    assert [one.id for one in found] == ["c", "d"]
    assert found[0].held == OWN
    assert found[0].request.amounts == AMOUNTS
    assert key_of(other) == Key("pod", "side", 0)


# -- who wrote what is there


def test_what_differs_and_a_grant_speaks_of_is_ours() -> None:
    """Nothing else: shares that no policy wrote are somebody else's business."""
    one = container("1", "", annotations=noted(OWN))
    assert written_by_us(one, None) == {"cpus"}
    assert written_by_us(container("1", ""), None) == frozenset()
    assert written_by_us(container("1", annotations=noted(OWN)), None) == frozenset()


def test_what_a_policy_wrote_since_is_no_wish_of_the_caller() -> None:
    """The runtime does not tell them apart, the note of the creation does; without one nothing was asked for."""
    for annotations, asked in (
        ({}, ""),
        ({REQUESTED: json.dumps({"cpuset_cpus": ""})}, ""),
        ({REQUESTED: json.dumps({"cpuset_cpus": "0-1"})}, "0-1"),
    ):
        found = as_asked(container("0", annotations=annotations), entry(SHARED))
        assert found.requested == LinuxResources(cpuset_cpus=asked, cpu_shares=1024)
        assert found.resources.cpuset_cpus == "0"
        assert written_by_us(found, entry(SHARED)) == {"cpus"}


def test_what_is_known_to_differ_stays() -> None:
    """As does a set of which no policy speaks, and shares, for which everybody asks."""
    for one, known in (
        (container("0", "0-1"), entry(SHARED)),
        (container("0"), None),
        (container("0"), entry(Grant(pinned=False))),
        (container(), entry(Grant(shares=1024))),
    ):
        assert as_asked(one, known) is one
