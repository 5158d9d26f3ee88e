"""What a policy would have decided: containers come, change and go, long ago."""

import json
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.registry import make
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.net.grpc.status import Code
from interpose.resmgr.whatif.compare import ComparisonResult
from interpose.resmgr.whatif.events import ReplyEvent, RequestEvent
from interpose.resmgr.whatif.replay import PolicyReplay, replay_calls
from interpose.resmgr.whatif.timeline import TimelineOutcome, TimelineStepKind
from interpose.testing.pods import container_config, linux_resources, pod_config
from tests.support.policy.machines import machine
from tests.support.policy.manager_caller import resize
from tests.support.policy.recalled_node import Story, create_of

UPDATE = "UpdateContainerResources"


def policy(name: str = "static", **options: Any) -> Policy:
    """Packages 0-7 and 8-15, cores of two neighbours; CPU 0 is reserved."""
    setup = Setup(topology=machine("n4c16"), reserved=CpuSet.parse("0"))
    return make(name, setup, options.get("options"))


def back(story: Story, name: str = "static") -> TimelineOutcome:
    """What the policy would have decided."""
    return replay_calls(policy(name), story.happenings)


def told(outcome: TimelineOutcome) -> list[tuple[str, str, str]]:
    """Steps in short: what, who, and the CPUs after it."""
    return [
        (step.kind.value, step.request.pod, "refused" if step.refused else str(step.after.cpus or "-"))
        for step in outcome.steps
    ]


def fail(*_: object) -> Any:
    """A mistake in a policy."""
    raise RuntimeError("bug")


def status(container_id: str, pod_id: str = "", *, cpus: str = "", **more: Any) -> cri.ContainerStatusResponse:
    """The status of a container, verbose if its pod is told."""
    reply = cri.ContainerStatusResponse()
    reply.status.id = container_id
    reply.status.metadata.name = more.get("name", "app")
    reply.status.state = more.get("state", cri.CONTAINER_RUNNING)
    config = container_config(pod_config("old", "prod"), "app")
    reply.status.labels.update(config.labels)
    resources = linux_resources(cpu_request=2000, cpu_limit=2000, memory_limit=1 << 20, oom_score_adj=-997)
    resources.cpuset_cpus = cpus
    reply.status.resources.linux.CopyFrom(resources)
    if pod_id:
        spec = {"linux": {"cgroupsPath": f"/kubepods/podold/{container_id}"}}
        reply.info["info"] = json.dumps({"sandboxID": pod_id, "runtimeSpec": spec})
    return reply


def listed(*containers: tuple[str, str, int]) -> cri.ListContainersResponse:
    """A list of (id, pod, state)."""
    reply = cri.ListContainersResponse()
    for container_id, pod_id, state in containers:
        one = reply.containers.add(id=container_id, pod_sandbox_id=pod_id, state=state)
        one.metadata.name = "app"
    return reply


# -- containers come and go


def test_a_day_of_a_node() -> None:
    """Whoever comes takes CPUs from those that share, and gives them back."""
    story = Story()
    story.run("web", 100, "burstable", cpus="0-15")
    database = story.run("db", 4000, cpus="4-7")
    story.call("StopContainer", cri.StopContainerRequest(container_id=database))
    outcome = back(story)
    assert told(outcome) == [("create", "web", "0-15"), ("create", "db", "4-7"), ("release", "db", "-")]
    step = outcome.steps[1]
    assert step.title == "default/db/app"
    assert step.reason.startswith("4 CPUs of its own")
    assert [(move.title, str(move.before.cpus), str(move.after.cpus), move.running) for move in step.moved] == [
        ("default/web/app", "0-15", "0-3,8-15", True)
    ]
    assert str(step.pools["shared"]) == "0-3,8-15"
    assert outcome.summary.results == {ComparisonResult.SAME: 2}
    assert (outcome.summary.moves, outcome.summary.moves_then) == (2, 0)


@pytest.mark.parametrize("name", ["none", "static", "static-plus"])
def test_every_policy_can_look_back(name: str) -> None:
    """None of them refuses what there is room for."""
    story = Story()
    story.run("web", 100, "burstable")
    story.run("db", 2000)
    outcome = back(story, name)
    assert (outcome.summary.placed, outcome.summary.refused) == (2, 0)
    owned = 0 if name == "none" else 2
    assert outcome.summary.exclusive_peak == owned


def test_pools_are_given_by_what_a_container_asks_for() -> None:
    """The policy static-pools can be replayed as well."""
    lists = (PoolCpuList(cpus=CpuSet.parse("2-3"), text="2,3", socket=0),)
    options = PoolsOptions(pools={"shared": Pool(exclusive=False, lists=lists)})
    story = Story()
    story.run("web", 100, "burstable")
    outcome = replay_calls(policy("static-pools", options=options), story.happenings)
    assert told(outcome) == [("create", "web", "2-3")]


def test_a_create_is_decided_when_it_comes() -> None:
    """Not when it is over: the second of two is through first."""
    story = Story()
    pods = [story.pod(name) for name in ("a", "b")]
    calls = [story.ask("CreateContainer", create_of(pod, 2000)) for pod in pods]
    for number, pod in reversed(list(zip(calls, pods, strict=True))):
        story.answer(number, cri.CreateContainerResponse(container_id=pod[0]))
    assert told(back(story)) == [("create", "a", "2-3"), ("create", "b", "4-5")]


def test_a_create_that_fails_is_taken_back() -> None:
    """And counts for nothing."""
    story = Story()
    story.call("CreateContainer", create_of(story.pod("a"), 2000), code=Code.INTERNAL, message="no space")
    outcome = back(story)
    assert told(outcome) == [("create", "a", "2-3"), ("undo", "a", "-")]
    assert (outcome.summary.placed, outcome.summary.refused) == (0, 0)


@pytest.mark.parametrize("name", ["static", "static-plus", "topology-aware"])
def test_a_create_that_fails_as_its_name_is_in_use_leaves_its_owner_alone(name: str) -> None:
    """The live container of that name keeps its CPUs, and only what was reserved for the other one is taken back."""
    story = Story()
    pod = story.pod("a")
    story.call("StartContainer", cri.StartContainerRequest(container_id=story.create(pod, 2000)))
    story.call("CreateContainer", create_of(pod, 4000), code=Code.INTERNAL, message="name is in use")
    outcome = back(story, name)
    first, second, taken_back = outcome.steps
    assert [step.kind.value for step in outcome.steps] == ["create", "create", "undo"]
    assert first.request.key == taken_back.request.key._replace(duplicate=0)
    assert second.request.key == taken_back.request.key == first.request.key.next
    assert first.after.cpus is not None
    assert second.after.cpus is not None
    assert (len(first.after.cpus), len(second.after.cpus)) == (2, 4)
    assert not first.after.cpus & second.after.cpus


def test_a_runtime_that_allows_a_name_twice_has_two_owners() -> None:
    """Each has CPUs of its own, and gives back no others."""
    story = Story()
    pod = story.pod("a")
    story.create(pod, 2000)
    story.call("CreateContainer", create_of(pod, 4000), cri.CreateContainerResponse(container_id="other"))
    story.call("RemoveContainer", cri.RemoveContainerRequest(container_id="a-app"))
    story.run("b", 2000)
    # Nothing is free but what the first one gave back, and CPUs next to the second one's.
    assert told(back(story)) == [
        ("create", "a", "2-3"),
        ("create", "a", "4-7"),
        ("release", "a", "-"),
        ("create", "b", "2-3"),
    ]


def test_a_create_that_is_late_does_not_take_the_place_of_one_that_is_through() -> None:
    """Two creates of one name are in flight: the one that fails has nothing to take back."""
    story = Story()
    pod = story.pod("a")
    early, late = (story.ask("CreateContainer", create_of(pod, 2000)) for _ in "ab")
    story.answer(late, cri.CreateContainerResponse(container_id="late"))
    story.answer(early, code=Code.INTERNAL, message="name is in use")
    assert told(back(story)) == [("create", "a", "2-3")]


def test_two_creates_of_one_name_that_are_both_through_have_two_owners() -> None:
    """The second one is taken over as it is found."""
    story = Story()
    pod = story.pod("a")
    for number, ref in [(story.ask("CreateContainer", create_of(pod, 2000)), ref) for ref in ("one", "two")]:
        story.answer(number, cri.CreateContainerResponse(container_id=ref))
    assert told(back(story)) == [("create", "a", "2-3"), ("take over", "a", "4-5")]


def test_a_list_settles_creates_in_doubt_of_a_name_that_is_in_use() -> None:
    """What it shows of the owner says nothing about the other one."""
    story = Story()
    pod = story.pod("a")
    owner = story.create(pod, 2000)
    story.call("CreateContainer", create_of(pod, 4000), code=Code.DEADLINE_EXCEEDED)
    shown = [(owner, "a", cri.CONTAINER_RUNNING)]
    story.call("ListContainers", cri.ListContainersRequest(), listed(*shown))
    assert told(back(story))[1:] == [("create", "a", "4-7"), ("undo", "a", "-")]


def test_a_list_shows_the_second_container_of_a_name() -> None:
    """Its create was in doubt: it has what was reserved for it, until it is gone."""
    story = Story()
    pod = story.pod("a")
    owner = story.create(pod, 2000)
    story.call("CreateContainer", create_of(pod, 4000), code=Code.DEADLINE_EXCEEDED)
    shown = [(ref, "a", cri.CONTAINER_RUNNING) for ref in (owner, "other")]
    story.call("ListContainers", cri.ListContainersRequest(), listed(*shown))
    story.call("RemoveContainer", cri.RemoveContainerRequest(container_id="other"))
    assert told(back(story)) == [("create", "a", "2-3"), ("create", "a", "4-7"), ("release", "a", "-")]


def test_a_refusal_now_is_told_once() -> None:
    """The container ran then: nothing that happens to it later concerns the books."""
    story = Story()
    pod = story.pod("big")
    for _ in range(2):
        story.call("CreateContainer", create_of(pod, 16000), code=Code.INTERNAL)
    container = story.create(pod, 16000, cpus="0-15")
    story.call("StartContainer", cri.StartContainerRequest(container_id=container))
    story.call(UPDATE, resize(container, 15))
    story.call("StopContainer", cri.StopContainerRequest(container_id=container))
    story.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container))
    outcome = back(story)
    assert told(outcome) == [("create", "big", "refused")]
    assert outcome.steps[0].reason == "CPUs of its own: 16 wanted, 15 free"
    assert outcome.summary.refused == 1
    assert outcome.summary.results == {ComparisonResult.REFUSED_NOW: 1}


def test_what_was_refused_then_may_be_placed_now() -> None:
    """It holds what it gets until its pod goes, however often the kubelet tried."""
    story = Story()
    pod = story.pod("db")
    for _ in range(3):
        story.call("CreateContainer", create_of(pod, 2000), code=Code.RESOURCE_EXHAUSTED, message="policy x: full")
    story.run("next", 2000)
    story.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="db"))
    outcome = back(story)
    assert told(outcome) == [("create", "db", "2-3"), ("create", "next", "4-5"), ("release", "db", "-")]
    assert outcome.summary.results == {ComparisonResult.REFUSED_THEN: 1, ComparisonResult.NOTHING: 1}
    assert outcome.summary.placed == 2


@pytest.mark.parametrize("there", [True, False])
def test_a_create_in_doubt_is_settled_by_a_list(there: bool) -> None:
    """It was made, or it was not."""
    story = Story()
    story.call("CreateContainer", create_of(story.pod("a"), 2000), code=Code.DEADLINE_EXCEEDED)
    reply = listed(("c1", "a", cri.CONTAINER_RUNNING)) if there else listed()
    story.call("ListContainers", cri.ListContainersRequest(), reply)
    outcome = back(story)
    assert told(outcome)[1:] == ([] if there else [("undo", "a", "-")])
    story.call("StopContainer", cri.StopContainerRequest(container_id="c1"))
    assert told(back(story))[1:] == [("release" if there else "undo", "a", "-")]


def test_a_list_that_was_asked_for_before_settles_nothing() -> None:
    """Its answer may be older than the container. Neither does one with a filter."""
    story = Story()
    pod = story.pod("a")
    early = story.ask("ListContainers", cri.ListContainersRequest())
    story.call("CreateContainer", create_of(pod, 2000), code=Code.UNAVAILABLE)
    story.answer(early, listed())
    request = cri.ListContainersRequest(filter=cri.ContainerFilter(id="other"))
    story.call("ListContainers", request, listed())
    assert told(back(story)) == [("create", "a", "2-3")]


def test_a_create_whose_reply_was_not_kept_is_in_doubt() -> None:
    """The next list tells its id."""
    story = Story()
    story.call("CreateContainer", create_of(story.pod("a"), 2000), b"\xff")
    number = story.ask("CreateContainer", create_of(story.pod("b"), 2000))
    story.happenings.append(ReplyEvent(number=number, time_ns=story.now, reply=None))
    running = cri.CONTAINER_RUNNING
    story.call("ListContainers", cri.ListContainersRequest(), listed(("c1", "a", running), ("c2", "b", running)))
    story.call("StopContainer", cri.StopContainerRequest(container_id="c2"))
    outcome = back(story)
    assert told(outcome) == [("create", "a", "2-3"), ("create", "b", "4-5"), ("release", "b", "-")]
    assert outcome.summary.unreadable == 1


def test_a_pod_that_goes_while_its_container_is_made_takes_it_along() -> None:
    """The answer comes to nobody."""
    story = Story()
    number = story.ask("CreateContainer", create_of(story.pod("a"), 2000))
    story.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id="a"))
    story.answer(number, cri.CreateContainerResponse(container_id="c"))
    assert told(back(story)) == [("create", "a", "2-3"), ("release", "a", "-")]


def test_a_create_that_fails_when_its_pod_has_gone_has_nothing_to_take_back() -> None:
    """Its booking went with the pod."""
    story = Story()
    number = story.ask("CreateContainer", create_of(story.pod("a"), 2000))
    story.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="a"))
    story.answer(number, code=Code.INTERNAL)
    assert told(back(story)) == [("create", "a", "2-3"), ("release", "a", "-")]


def test_a_create_that_is_refused_now_is_in_nobodys_doubt() -> None:
    """Whatever became of it then."""
    story = Story()
    story.call("CreateContainer", create_of(story.pod("big"), 20000), code=Code.CANCELLED)
    story.call("ListContainers", cri.ListContainersRequest(), listed())
    assert told(back(story)) == [("create", "big", "refused")]


def test_calls_of_our_own_ask_for_nothing() -> None:
    """Requests of other origins than the client are not decided."""
    story = Story()
    story.call("CreateContainer", create_of(story.pod("a"), 2000), asked={"origin": "store"})
    assert told(back(story)) == []


# -- resizes


def test_a_resize_of_the_kubelet_is_decided_one_of_others_is_not() -> None:
    """Those of the policy itself, and of a hook server that puts its own values right, say what was given."""
    story = Story()
    container = story.run("db", 2000, cpus="2-3")
    story.call(UPDATE, resize(container, 4), asked={"origin": "policy"})
    story.call(UPDATE, resize(container, 6), asked={"amends": True})
    story.call(UPDATE, resize(container, 2))
    assert told(back(story))[1:] == []
    story.call(UPDATE, resize(container, 4))
    outcome = back(story)
    assert told(outcome)[1:] == [("resize", "db", "1-4")]
    assert (outcome.summary.resized, outcome.summary.moves) == (1, 1)


def test_a_resize_that_fails_is_taken_back() -> None:
    """One with an unknown outcome is not."""
    story = Story()
    container = story.run("db", 2000)
    story.call(UPDATE, resize(container, 4), code=Code.INTERNAL)
    assert [cpus for _, _, cpus in told(back(story))] == ["2-3", "1-4", "2-3"]
    story.call(UPDATE, resize(container, 4), code=Code.DEADLINE_EXCEEDED)
    assert [cpus for _, _, cpus in told(back(story))][3:] == ["1-4"]


def test_a_resize_that_fails_late_does_not_undo_a_newer_one() -> None:
    """What is booked is not its own any more."""
    story = Story()
    container = story.run("db", 2000)
    late = story.ask(UPDATE, resize(container, 4))
    story.call(UPDATE, resize(container, 6))
    story.answer(late, code=Code.INTERNAL)
    assert [len(step.after.cpus or ()) for step in back(story).steps] == [2, 4, 6]


def test_a_resize_that_is_refused_is_told_once() -> None:
    """The container keeps what it has."""
    story = Story()
    container = story.run("db", 2000)
    for _ in range(2):
        story.call(UPDATE, resize(container, 20), code=Code.RESOURCE_EXHAUSTED, message="policy static: full")
    outcome = back(story)
    assert told(outcome)[1:] == [("resize", "db", "refused")]
    assert outcome.summary.resizes_refused == 1


def test_what_was_written_is_compared_over_time() -> None:
    """Half of the time it has what it should have: the policy then was slow."""
    story = Story()
    container = story.run("web", 100, "burstable", cpus="0-15")
    story.run("db", 4000, cpus="4-7")
    story.wait(100)  # clock: of the story
    update = cri.UpdateContainerResourcesRequest(container_id=container)
    update.linux.cpuset_cpus = "0-3,8-15"
    story.call(UPDATE, update, asked={"origin": "policy"})
    story.call(UPDATE, cri.UpdateContainerResourcesRequest(container_id="nobody"))
    story.wait(99)  # clock: of the story
    story.call("Version", cri.VersionRequest())
    outcome = back(story)
    assert outcome.summary.agreement is not None
    assert 0.7 < outcome.summary.agreement < 0.8
    assert outcome.summary.moves_then == 1


# -- exits


@pytest.mark.parametrize("way", ["list", "status", "event", "stream", "removed", "missing", "pod"])
def test_a_container_that_ended_frees_its_cpus(way: str) -> None:
    """Whoever tells of it."""
    story = Story()
    container = story.run("db", 2000)
    ended = listed((container, "db", cri.CONTAINER_EXITED))
    if way == "list":
        story.call("ListContainers", cri.ListContainersRequest(filter=cri.ContainerFilter(id=container)), ended)
    elif way == "stream":
        number = story.ask("StreamContainers", cri.StreamContainersRequest())
        story.tell(number, ended)
        story.happenings.append(ReplyEvent(number=number, time_ns=story.now, reply=None))
    elif way == "status":
        reply = status(container, state=cri.CONTAINER_EXITED)
        story.call("ContainerStatus", cri.ContainerStatusRequest(container_id=container), reply)
    elif way == "event":
        number = story.ask("GetContainerEvents", cri.GetEventsRequest())
        event = cri.ContainerEventResponse(container_id=container, container_event_type=cri.CONTAINER_STOPPED_EVENT)
        story.tell(number, event)
    elif way == "removed":
        story.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container))
    elif way == "missing":
        story.call("ListContainers", cri.ListContainersRequest(), listed())
    else:
        story.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="db"), code=Code.NOT_FOUND)
    assert told(back(story))[1:] == [("release", "db", "-")]


def test_a_stop_after_a_start_without_an_outcome_frees_the_cpus() -> None:
    """The container may have run, so the stop has ended it: no list is needed to see that."""
    story = Story()
    container = story.create(story.pod("a"), 2000)
    story.call("StartContainer", cri.StartContainerRequest(container_id=container), code=Code.DEADLINE_EXCEEDED)
    story.call("StopContainer", cri.StopContainerRequest(container_id=container))
    assert told(back(story)) == [("create", "a", "2-3"), ("release", "a", "-")]


def test_an_answer_does_not_undo_what_happened_since_the_question() -> None:
    """The container of an old list runs by now."""
    story = Story()
    container = story.create(story.pod("db"), 2000)
    number = story.ask("ListContainers", cri.ListContainersRequest())
    story.call("StartContainer", cri.StartContainerRequest(container_id=container))
    story.answer(number, listed((container, "db", cri.CONTAINER_EXITED)))
    assert told(back(story)) == [("create", "db", "2-3")]


# -- a recording that begins in the middle


def test_a_container_from_before_is_taken_over() -> None:
    """It keeps the CPUs it has, as if the policy were new on the node; what is only guessed is counted."""
    story = Story()
    story.call("ListContainers", cri.ListContainersRequest(), listed(("c1", "p1", cri.CONTAINER_RUNNING)))
    assert back(story).summary.strangers == 1
    request = cri.ContainerStatusRequest(container_id="c1", verbose=True)
    story.call("ContainerStatus", request, status("c1", "p1", cpus="10-11"))
    story.run("db", 2000)
    outcome = back(story)
    assert told(outcome) == [("take over", "old", "10-11"), ("create", "db", "8-9")]
    assert outcome.steps[0].title == "prod/old/app"
    summary = outcome.summary
    assert (summary.taken_over, summary.strangers, summary.guessed, summary.without_place) == (1, 0, 2, 0)


def test_one_that_has_no_place_gets_what_is_left_and_is_placed_when_there_is_room() -> None:
    """Two from before cannot have the same CPUs alone."""
    story = Story()
    story.run("big", 15000)
    story.call("ContainerStatus", cri.ContainerStatusRequest(), status("c1", "p1", cpus="10-11"))
    outcome = back(story)
    assert told(outcome)[1:] == [("take over", "old", "refused")]
    assert outcome.summary.without_place == 1
    story.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="big"))
    outcome = back(story)
    assert outcome.summary.without_place == 0
    assert [move.title for move in outcome.steps[-1].moved] == ["prod/old/app"]


def test_a_pod_from_before_is_as_the_create_repeats_it() -> None:
    """Kubelets send all of it again."""
    story = Story()
    story.create(("old", pod_config("old", qos="guaranteed")), 2000)
    outcome = back(story)
    assert told(outcome) == [("create", "old", "2-3")]
    assert outcome.summary.guessed == 1


def test_a_create_whose_end_is_missing_is_found_by_a_status() -> None:
    """The recording has a gap."""
    story = Story()
    story.ask("CreateContainer", create_of(story.pod("p1"), 2000))
    story.call("ContainerStatus", cri.ContainerStatusRequest(), status("c1", "p1"))
    story.call("StopContainer", cri.StopContainerRequest(container_id="c1"))
    assert told(back(story)) == [("create", "p1", "2-3"), ("release", "p1", "-")]


# -- what is wrong


def test_garbage_is_passed_over_and_counted() -> None:
    """Whichever message it is."""
    story = Story()
    pod = story.pod("db")
    story.call("CreateContainer", b"\xff\xff", cri.CreateContainerResponse(container_id="x"))
    story.call("StopPodSandbox", b"\xff", b"")
    story.call("ListContainers", b"", b"\xff")
    story.create(pod, 2000)
    story.happenings.append(ReplyEvent(number=999, time_ns=story.now))
    outcome = back(story)
    assert told(outcome) == [("create", "db", "2-3")]
    assert outcome.summary.unreadable == 3


def test_calls_that_never_end_are_let_go_of() -> None:
    """A recording with gaps does not fill the memory."""
    hindsight = PolicyReplay(policy())
    for number in range(10_010):
        hindsight.feed(RequestEvent(number=number, time_ns=0, method="Version"))
    assert len(hindsight._calls) == 10_000


def test_time_does_not_run_backwards() -> None:
    """Clocks are set now and then."""
    hindsight = PolicyReplay(policy())
    for time in (5, 3, 9):
        hindsight.feed(RequestEvent(number=time, time_ns=time, method="Version"))
    summary = hindsight.outcome().summary
    assert (summary.began_ns, summary.ended_ns) == (5, 9)


@pytest.mark.parametrize("method", ["allocate", "resize"])
def test_a_policy_that_fails_has_not_decided(method: str) -> None:
    """It is told with the reason, and everything goes on."""
    broken = policy()
    story = Story()
    container = story.run("db", 2000)
    story.call(UPDATE, resize(container, 4))
    story.call("ContainerStatus", cri.ContainerStatusRequest(), status("c1", "p1"))
    setattr(broken, method, fail)
    outcome = replay_calls(broken, story.happenings)
    failed = [step for step in outcome.steps if step.refused]
    assert {step.reason for step in failed} == {"the policy failed: RuntimeError: bug"}
    assert outcome.summary.failures == len(failed)
    assert TimelineStepKind.TAKE_OVER in {step.kind for step in outcome.steps}


def test_a_policy_that_cannot_release_keeps_it() -> None:
    """As on a node."""
    story = Story()
    container = story.run("db", 2000)
    story.call("StopContainer", cri.StopContainerRequest(container_id=container))
    broken = policy()
    setattr(broken, "release", fail)  # noqa: B010 - not a method of its own
    outcome = replay_calls(broken, story.happenings)
    assert told(outcome) == [("create", "db", "2-3")]
    assert outcome.summary.failures == 1
