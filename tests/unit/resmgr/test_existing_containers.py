"""What containers that run already hold, and what was asked of them: what counts when sources disagree."""

import json
from dataclasses import replace
from typing import Any

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import DOCKER, Container, ContainerState, Pod
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.decision import NO_QUOTA, Assignment, Grant
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.cri.store.requested import ANNOTATION as REQUESTED
from interpose.resmgr.existing_containers import (
    container_key,
    find_candidates,
    is_live,
    limit_extra_memory,
    policy_written_fields,
    recover_grant,
    restore_requested,
    to_assignment,
)
from interpose.resmgr.state.grant_annotation import ANNOTATION, grant_note
from interpose.resmgr.state.state import SavedEntry

KEY = Key("pod", "main", 0)
AMOUNTS = Amounts(milli=1000, limit_milli=1000, memory=None, memory_limit=None, source=RequestSource.ESTIMATE)
POD = Pod(id="pod", name="db", uid="u", namespace="n", cgroup_parent="/kubepods/podu")
OWN = Grant(exclusive=CpuSet.of((1,)))
SHARED = Grant(pools=("shared",))


def container(has: str = "", asked: str | None = None, **more: Any) -> Container:
    """One that has a CPU set; by default its caller asked for it."""
    resources = LinuxResources(cpuset_cpus=has, cpu_shares=1024)
    requested = LinuxResources(cpuset_cpus=has if asked is None else asked, cpu_shares=1024)
    state = more.pop("state", ContainerState.RUNNING)
    return Container(id="c", pod_id="pod", name="main", resources=resources, requested=requested, state=state, **more)


def entry(grant: Grant, container_id: str = "c", policy: str = "static") -> tuple[str, SavedEntry]:
    """What a state file says."""
    return policy, SavedEntry(key=KEY, container_id=container_id, grant=grant, amounts=AMOUNTS)


def noted(grant: Grant, policy: str = "static") -> dict[str, str]:
    """The annotation of a container that was created with a grant."""
    request = Request(key=KEY, namespace="n", pod="db", amounts=AMOUNTS)
    return {ANNOTATION: grant_note(policy, request, grant)}


def test_memory_nodes_beyond_the_grant_are_remembered() -> None:
    """Of this very container; also of one that was resized since, whose earlier amounts are tried first."""
    pod = replace(POD, ready=True)
    wide = replace(entry(OWN)[1], extra_mems=CpuSet.parse("0-1"))
    other = replace(entry(OWN, "another")[1], extra_mems=CpuSet.parse("0-1"))
    for saved, expected in ((wide, "0-1"), (other, ""), (entry(OWN)[1], "")):
        (found,) = find_candidates([(container("1"), pod)], {KEY: ("static", saved)}, "static", 1 << 40)
        assert str(found.extra_mems) == expected
    grown = container("1", annotations={})
    grown = replace(grown, resources=LinuxResources(cpuset_cpus="1", cpu_shares=4096))
    (found,) = find_candidates([(replace(grown, requested=grown.resources), pod)], {KEY: ("static", wide)}, "static", 1)
    assert found.granted is not None
    assert str(found.granted.extra_mems) == "0-1"
    limited = limit_extra_memory(found, CpuSet.parse("1-3"))
    assert limited.granted is not None
    assert (str(limited.extra_mems), str(limited.granted.extra_mems)) == ("1", "1")


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
    """Who runs, and who may still be started: in Docker also without a sandbox."""
    pod = Pod(id="pod", name="db", uid="u", namespace="n", ready=ready)
    assert is_live(container(state=state), pod) is concerns
    docker = replace(pod, runtime_handler=DOCKER)
    assert is_live(container(state=state), docker) is (state is not ContainerState.EXITED)
    assert not is_live(container(state=state), None)


def test_what_it_has_is_read_as_far_as_it_can_be() -> None:
    """No set and one that makes no sense are none; no quota is none, unless nothing at all is known."""
    assert to_assignment(LinuxResources(cpuset_cpus="0-1", cpu_shares=2, cpu_quota=5)) == Assignment(
        cpus=CpuSet.of((0, 1)), shares=2, quota=5
    )
    assert to_assignment(LinuxResources(cpuset_cpus="x")) == Assignment(quota=NO_QUOTA)
    assert to_assignment(LinuxResources()) == Assignment()


def test_the_state_file_comes_before_the_annotation() -> None:
    """It knows what happened since; of another container it says nothing."""
    one = container("1", annotations=noted(OWN))
    assert recover_grant(one, entry(SHARED), "static") == (SHARED, AMOUNTS)
    assert recover_grant(one, entry(SHARED, "other"), "static") == (OWN, AMOUNTS)


def test_the_runtime_comes_before_both() -> None:
    """Who does not have the CPUs it is said to hold keeps those it has, for the amounts that are known."""
    assert recover_grant(container("0"), entry(OWN), "static") == (Grant(exclusive=CpuSet.of((0,))), AMOUNTS)
    assert recover_grant(container("0"), None, "static") == (Grant(exclusive=CpuSet.of((0,))), None)
    assert recover_grant(container(), None, "static") == (None, None)
    assert recover_grant(container(), entry(OWN), "static") == (OWN, AMOUNTS)


def test_of_another_policy_only_cpus_count() -> None:
    """Its pools mean nothing here."""
    assert recover_grant(container("0"), entry(SHARED), "static-plus") == (Grant(), AMOUNTS)


def test_owners_are_taken_over_first() -> None:
    """Then the others, as they were remembered."""
    other = Container(id="d", pod_id="pod", name="side", state=ContainerState.RUNNING)
    found = find_candidates([(other, POD), (container("1"), POD)], {KEY: entry(OWN)}, "static", 0)
    assert [candidate.id for candidate in found] == ["c", "d"]
    assert found[0].held == OWN
    assert found[0].request.amounts == AMOUNTS
    assert container_key(other) == Key("pod", "side", 0)


def test_twins_are_told_apart() -> None:
    """Each by what was remembered of it, and nobody by what was of another one."""
    twins = [(replace(container("1"), id=one), POD) for one in ("e", "d", "c")]
    second = ("static", replace(entry(SHARED, "d")[1], key=KEY.next))
    found = find_candidates(twins, {KEY: entry(OWN), KEY.next: second}, "static", 0)
    assert {candidate.id: candidate.request.key.duplicate for candidate in found} == {"c": 0, "d": 1, "e": 2}
    assert {candidate.id: candidate.held for candidate in found} == {"c": OWN, "d": SHARED, "e": OWN}
    assert {
        candidate.id: candidate.request.key.duplicate for candidate in find_candidates(twins[:2], {}, "static", 0)
    } == {
        "e": 0,
        "d": 1,
    }


# -- resized since somebody noted what it holds

G2 = Amounts(milli=2000, limit_milli=2000)
PAIR = Grant(exclusive=CpuSet.parse("2-3"))


def changed(
    has: str,
    shares: int,
    quota: int = 0,
    *,
    grant: Grant = PAIR,
    amounts: Amounts = G2,
    policy: str = "static",
    asked: LinuxResources | None = None,
    annotations: dict[str, str] | None = None,
) -> Container:
    """A container with an annotation of its creation, and what the runtime says now."""
    now = LinuxResources(cpuset_cpus=has, cpu_shares=shares, cpu_quota=quota, cpu_period=100_000)
    note = grant_note(policy, Request(key=KEY, amounts=amounts), grant)
    return Container(
        id="c",
        pod_id="pod",
        name="main",
        state=ContainerState.RUNNING,
        resources=now,
        requested=now if asked is None else asked,
        annotations={ANNOTATION: note, **(annotations or {})},
    )


def taken(container: Container, entry: tuple[str, SavedEntry] | None = None, policy: str = "static") -> tuple[str, int]:
    """The CPUs and the amount with which a container is taken over."""
    (found,) = find_candidates([(container, POD)], {} if entry is None else {KEY: entry}, policy, 0)
    assert found.held is not None
    return str(found.held.exclusive), found.request.milli


def test_what_a_note_says_counts_as_long_as_it_is_in_force() -> None:
    """Shares and quota are those of then; where there are none, nobody contradicts."""
    assert taken(changed("2-3", 2048, 200_000)) == ("2-3", 2000)
    assert taken(changed("2-3", 2048, -1)) == ("2-3", 2000)
    assert taken(changed("2-3", 0)) == ("2-3", 2000)
    assert taken(changed("", 2048)) == ("2-3", 2000)


def test_one_resized_since_its_note_keeps_what_it_has_now() -> None:
    """More CPUs, or the pool that others share; not what it had at its creation."""
    assert taken(changed("1-4", 4096, 400_000)) == ("1-4", 4000)
    assert taken(changed("0-15", 1536, 150_000)) == ("0-15", 1500)
    assert taken(changed("", 1536, 150_000)) == ("2-3", 1500)  # nobody knows better, and the policy decides
    assert recover_grant(changed("1-4", 4096), None, "static-plus") == (Grant(exclusive=CpuSet.parse("1-4")), None)


def test_a_state_file_that_is_in_force_comes_before_a_note() -> None:
    """It knows of the resize; one that does not is as old as the note."""
    new = SavedEntry(key=KEY, container_id="c", grant=Grant(exclusive=CpuSet.parse("1-4")), amounts=Amounts(milli=4000))
    assert taken(changed("1-4", 4096, 400_000), ("static", new)) == ("1-4", 4000)
    assert taken(changed("0-15", 1536, 150_000), ("static", new)) == ("0-15", 1500)


def test_shares_a_policy_wrote_are_compared_with_what_it_wrote() -> None:
    """They say nothing of what was asked for; the limit of a Guaranteed container does."""
    plus = replace(PAIR, pools=("shared",), shares=512, milli=500)
    half = Amounts(milli=2500, limit_milli=2500)
    assert taken(changed("1-15", 512, 250_000, grant=plus, amounts=half), policy="static-plus") == ("2-3", 2500)
    assert taken(changed("1-15", 512, 350_000, grant=plus, amounts=half, policy="static-plus")) == ("1-15", 3500)
    assert taken(changed("2-4", 3072, grant=plus, amounts=half)) == ("2-4", 3000)


def test_shares_somebody_else_wrote_contradict_nobody() -> None:
    """A hook server changes them, so that they are not the kubelet's; as long as the note of it counts, that does."""
    hooked = {REQUESTED: json.dumps({"cpu_shares": 2048})}
    assert taken(changed("2-3", 512, annotations=hooked)) == ("2-3", 2000)
    asked = LinuxResources(cpu_shares=4096)
    assert taken(changed("2-5", 512, asked=asked, annotations=hooked)) == ("2-5", 4000)


def test_one_that_is_not_bound_has_what_was_noted() -> None:
    """Its CPU set is not what it holds, resized or not."""
    loose = replace(PAIR, pinned=False, details={"asked": "x"})
    for shares in (2048, 4096):
        one = changed("0-15", shares, grant=loose, policy="static-pools")
        assert recover_grant(one, None, "static-pools")[0] == loose


def test_what_policies_wrote_down_is_recalled() -> None:
    """Of all grants, the newest first; extended resources stay those of the note, as nobody can resize them."""
    amounts = replace(G2, extended={"x/cores": 2})
    one = changed("2-3", 1024, grant=replace(PAIR, details={"asked": "a", "came": "1"}), amounts=amounts)
    new = SavedEntry(key=KEY, container_id="c", grant=Grant(details={"came": "2"}), amounts=AMOUNTS)
    (found,) = find_candidates([(one, POD)], {KEY: ("static-plus", new)}, "static", 0)
    assert found.request.recalled == {"asked": "a", "came": "2"}
    (found,) = find_candidates([(one, POD)], {}, "static", 0)
    assert (found.request.milli, found.request.amounts.extended) == (1000, {"x/cores": 2})
    said = json.dumps({"containers": {"main": {"requests": {"x/cores": "3"}}}})
    (found,) = find_candidates([(one, replace(POD, annotations={"intel.com/resources": said}))], {}, "static", 0)
    assert found.request.amounts.extended == {"x/cores": 3}


# -- who wrote what is there


def test_what_differs_and_a_grant_speaks_of_is_ours() -> None:
    """Nothing else: shares that no policy wrote are somebody else's business."""
    one = container("1", "", annotations=noted(OWN))
    assert policy_written_fields(one, None) == {"cpus"}
    assert policy_written_fields(container("1", ""), None) == frozenset()
    assert policy_written_fields(container("1", annotations=noted(OWN)), None) == frozenset()


def test_what_a_policy_wrote_since_is_no_wish_of_the_caller() -> None:
    """The runtime does not tell them apart, the note of the creation does; without one nothing was asked for."""
    for annotations, asked in (
        ({}, ""),
        ({REQUESTED: json.dumps({"cpuset_cpus": ""})}, ""),
        ({REQUESTED: json.dumps({"cpuset_cpus": "0-1"})}, "0-1"),
    ):
        found = restore_requested(container("0", annotations=annotations), entry(SHARED))
        assert found.requested == LinuxResources(cpuset_cpus=asked, cpu_shares=1024)
        assert found.resources.cpuset_cpus == "0"
        assert policy_written_fields(found, entry(SHARED)) == {"cpus"}


def test_what_is_known_to_differ_stays() -> None:
    """As does a set of which no policy speaks, and shares, for which everybody asks."""
    for one, known in (
        (container("0", "0-1"), entry(SHARED)),
        (container("0"), None),
        (container("0"), entry(Grant(pinned=False))),
        (container(), entry(Grant(shares=1024))),
    ):
        assert restore_requested(one, known) is one


def test_shares_of_a_policy_stand_for_those_that_were_asked_for_last() -> None:
    """A resize is in no note of the creation, but in the state file; other shares than the policy's are no news."""
    resized = container(annotations={REQUESTED: json.dumps({"cpu_shares": 512})})
    resized = replace(resized, requested=LinuxResources(cpu_shares=512))
    found = restore_requested(replace(resized, resources=LinuxResources(cpu_shares=64)), entry(Grant(shares=64)))
    assert found.requested.cpu_shares == 1024
    for known in (entry(Grant(shares=65)), entry(Grant(shares=64), "other")):
        assert (
            restore_requested(replace(resized, resources=LinuxResources(cpu_shares=64)), known).requested.cpu_shares
            == 512
        )


LIFTED = replace(OWN, quota=NO_QUOTA)
TWO = replace(AMOUNTS, milli=2000, limit_milli=2000)


def lifted(shares: int = 1024, parent: str = "/kubepods/podu", **more: Any) -> Container:
    """One whose quota is lifted, created for one CPU and with so many shares now."""
    has = LinuxResources(cpuset_cpus="1", cpu_shares=shares, cpu_period=100_000, cpu_quota=-1)
    asked = replace(has, cpuset_cpus="", cpu_quota=more.pop("quota", 100_000))
    return replace(container(cgroup_parent=parent, **more), resources=has, requested=asked)


def test_a_quota_that_was_lifted_is_still_what_was_asked_for() -> None:
    """As noted at its creation; what it was resized to is in the state file, or in the shares if it is Guaranteed."""
    note = noted(LIFTED)
    assert restore_requested(lifted(annotations=note), None).requested.cpu_quota == 100_000
    saved = ("static", replace(entry(LIFTED)[1], amounts=TWO))
    assert restore_requested(lifted(2048, annotations=note), saved).requested.cpu_quota == 200_000
    assert restore_requested(lifted(2048, annotations=note), None).requested.cpu_quota == 200_000
    burstable = lifted(2048, "/kubepods/burstable/podu", annotations=note)
    assert restore_requested(burstable, None).requested.cpu_quota == 100_000
    assert restore_requested(burstable, saved).requested.cpu_quota == 200_000


def test_a_quota_that_nobody_lifted_is_none() -> None:
    """Its caller asked for none, as kubelets may be told to; or it is there again."""
    plain = lifted(quota=-1, annotations=noted(OWN))
    assert restore_requested(plain, entry(OWN)).requested.cpu_quota == -1
    back = replace(container(), resources=LinuxResources(cpu_quota=50_000), requested=LinuxResources(cpu_quota=50_000))
    assert restore_requested(back, entry(LIFTED)) is back
    unknown = ("static", replace(entry(LIFTED)[1], amounts=replace(TWO, limit_milli=None)))
    assert restore_requested(lifted(quota=-1), unknown).requested.cpu_quota == -1


def test_amounts_of_one_without_a_quota_are_those_it_was_resized_to() -> None:
    """Not those of the note, and there is a quota for the policy to lift; also if an older relay did not say so."""
    for saved in ({}, {KEY: ("static", replace(entry(LIFTED)[1], amounts=TWO))}):
        (found,) = find_candidates([(lifted(2048, annotations=noted(LIFTED)), POD)], saved, "static", 0)
        amounts = found.request.amounts
        assert (amounts.milli, amounts.limit_milli, amounts.quota) == (2000, 2000, True)
        assert found.held is not None
        assert found.held.quota == NO_QUOTA


def test_containers_that_have_more_than_their_pod_ask_for_nothing_themselves() -> None:
    """After a restart as before: what was noted of one of them is what it asks for itself."""
    whole = LinuxResources(cpu_shares=4096, cpu_quota=400_000, cpu_period=100_000)
    pod = replace(POD, resources=whole)
    pairs = [
        (replace(container(), id=name, name=name, resources=whole, requested=whole), pod) for name in ("main", "other")
    ]
    found = find_candidates(pairs, {}, "static-plus", 0)
    assert [candidate.request.milli for candidate in found] == [0, 0]
    assert all(candidate.request.pod_amounts is not None for candidate in found)
    amounts = replace(AMOUNTS, milli=0, limit_milli=4000)
    saved = {
        KEY: ("static-plus", SavedEntry(key=KEY, container_id="main", grant=replace(SHARED, shares=2), amounts=amounts))
    }
    assert {candidate.request.milli for candidate in find_candidates(pairs, saved, "static-plus", 0)} == {0}
