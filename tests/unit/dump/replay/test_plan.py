"""What is made again, and in which order."""

from typing import Any

from interpose._pb import cri_pb2 as cri
from interpose.dump.model.frames import Begin, Frame, Message, MessageSide, Packing
from interpose.dump.replay.id_map import Reference, ReferenceKind
from interpose.dump.replay.plan import ReplayPlan, ReplayProgress, make_plan
from interpose.dump.replay.runner import message_of
from interpose.dump.replay.selection import ReplayChoices, recorded_calls
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from interpose.testing.recordings import Script, story_frames
from tests.support.dump.recorded_node import calls_of

POD = pod_config("web")


def plan_of(frames: list[Frame], choices: ReplayChoices = ReplayChoices(), **more: object) -> ReplayPlan:  # noqa: B008 - frozen
    """The plan of some frames."""
    return make_plan(calls_of(frames), choices, message_of, **more)  # type: ignore[arg-type]


def run(script: Script, sandbox: str = "pod-1", **more: Any) -> int:
    """A pod comes."""
    return script.call("RunPodSandbox", run_request(POD), cri.RunPodSandboxResponse(pod_sandbox_id=sandbox), **more)


def create(script: Script, container: str = "con-1", sandbox: str = "pod-1", **more: Any) -> int:
    """A container comes."""
    request = create_request(sandbox, POD, container_config(POD))
    return script.call("CreateContainer", request, cri.CreateContainerResponse(container_id=container), **more)


def start(script: Script, container: str = "con-1", **more: Any) -> int:
    """A container starts."""
    return script.call("StartContainer", cri.StartContainerRequest(container_id=container), b"", **more)


def names(plan: ReplayPlan) -> list[str]:
    """The methods, in order."""
    return [step.name for step in plan.steps]


def test_the_story_is_planned() -> None:
    """What changes pods and containers, with whom it is about and what it makes; the rest is counted."""
    plan = plan_of(story_frames())
    assert names(plan) == [
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "RunPodSandbox",
        "CreateContainer",
        "CreateContainer",
        "StartContainer",
        "StopContainer",
    ]
    assert [step.code for step in plan.steps] == [0, 0, 0, 0, 5, 0, 0, None]
    assert plan.steps[1].subject == "shop/web-0:app"
    assert plan.steps[4].made is None
    assert plan.steps[5].made is not None
    assert plan.steps[7].end is None
    assert plan.skipped == ()
    assert plan.omitted["commands run in containers (--exec makes them)"] == 2


def test_calls_wait_for_those_that_had_ended() -> None:
    """Two pods that came side by side may do so again; what came after both waits for both."""
    script = Script()
    run(script, "pod-1", elapsed=50)
    run(script, "pod-2", elapsed=20)
    create(script, "con-1", "pod-2", gap=30)
    create(script, "con-2", "pod-1", gap=30)
    plan = plan_of(script.frames)
    assert plan.ends == (1, 2, 0, 3)
    assert [step.barrier for step in plan.steps] == [0, 0, 1, 3]
    progress = ReplayProgress(plan)
    first, second, third, last = plan.steps
    assert progress.may_start(first)
    assert progress.may_start(second)
    assert not progress.may_start(third)
    progress.finish(second)
    assert progress.may_start(third)
    progress.finish(third)
    assert not progress.may_start(last)
    progress.finish(first)
    assert progress.may_start(last)


def test_a_call_waits_for_what_made_its_subject() -> None:
    """Also if the end of that call was recorded late: its caller had the answer before."""
    script = Script()
    run(script, elapsed=100)
    create(script, gap=50)
    plan = plan_of(script.frames)
    assert plan.steps[1].barrier == 0
    assert plan.steps[1].needs == (0,)
    progress = ReplayProgress(plan)
    assert not progress.may_start(plan.steps[1])
    progress.finish(plan.steps[0])
    assert progress.may_start(plan.steps[1])


def test_what_was_made_before_the_recording_is_skipped() -> None:
    """With the id, and what to do about it."""
    script = Script()
    start(script, "old-container")
    plan = plan_of(script.frames)
    assert plan.steps == ()
    assert "container old-container was made before" in plan.skipped[0].reason
    assert "--unknown-ids" in plan.skipped[0].reason
    passed = plan_of(script.frames, ReplayChoices(pass_unknown=True))
    assert names(passed) == ["StartContainer"]
    assert passed.steps[0].needs == ()


def test_what_depends_on_a_call_that_is_left_out_is_left_out() -> None:
    """All the way down; the reason names the call."""
    script = Script()
    run(script)
    number = create(script)
    start(script)
    plan = plan_of(script.frames, wanted=lambda flow: flow.name != "RunPodSandbox")
    assert plan.steps == ()
    assert [one.name for one in plan.skipped] == ["CreateContainer", "StartContainer"]
    assert plan.skipped[1].reason == f"container con-1 is not made: CreateContainer #{number} is skipped"
    assert plan.skipped[0].reason == "pod pod-1 is not made: RunPodSandbox #1 is left out"
    assert plan.omitted == {"what the filter does not choose": 1}


def test_what_failed_made_nothing() -> None:
    """Whatever it answered; nor did a call whose answer cannot be read."""
    script = Script()
    run(script)
    request = create_request("pod-1", POD, container_config(POD))
    script.call("CreateContainer", request, cri.CreateContainerResponse(container_id="con-1"), code=2)
    script.call("CreateContainer", request, b"\xff\xff")
    assert [step.made for step in plan_of(script.frames).steps] == [Reference(ReferenceKind.POD, "pod-1"), None, None]


def test_requests_as_the_caller_sent_them_or_as_the_runtime_got_them() -> None:
    """The second with the calls of the relay itself."""
    script = Script()
    run(script)
    asked = create_request("pod-1", POD, container_config(POD))
    given = create_request("pod-1", POD, container_config(POD))
    given.config.linux.resources.cpuset_cpus = "1"
    created = cri.CreateContainerResponse(container_id="con-1")
    script.call("CreateContainer", asked, created, forwarded=given)
    update = cri.UpdateContainerResourcesRequest(container_id="con-1")
    script.call("UpdateContainerResources", update, b"", origin="policy")
    plan, sent = plan_of(script.frames), plan_of(script.frames, ReplayChoices(as_sent=True))
    assert plan.steps[1].request == asked.SerializeToString(deterministic=True)
    assert sent.steps[1].request == given.SerializeToString(deterministic=True)
    assert names(sent)[2:] == ["UpdateContainerResources"]
    assert names(plan)[2:] == []


def overtaken(*, forwarded_after: float) -> ReplayPlan:
    """As sent: before a container is made the relay takes CPUs from another one."""
    script = Script()
    run(script)
    create(script)
    request = create_request("pod-1", POD, container_config(POD, "other"))
    number = script.begin("CreateContainer", request)
    update = cri.UpdateContainerResourcesRequest(container_id="con-1")
    script.call("UpdateContainerResources", update, b"", origin="policy", gap=1, elapsed=2)
    script.message(number, MessageSide.FORWARDED, request, forwarded_after)
    script.message(number, MessageSide.REPLY, cri.CreateContainerResponse(container_id="con-2"), 6)
    script.end(number, 6)
    return plan_of(script.frames, ReplayChoices(as_sent=True))


def test_what_the_relay_did_before_it_sent_a_call_on_comes_first() -> None:
    """The runtime got the relay's own call first, and its end was waited for."""
    plan = overtaken(forwarded_after=4)
    assert names(plan)[2:] == ["UpdateContainerResources", "CreateContainer"]
    assert plan.steps[3].barrier == 3


def test_no_call_is_sent_after_its_own_end() -> None:
    """Also if a recording says so: what came behind the end is not its message."""
    plan = overtaken(forwarded_after=60)
    assert names(plan)[2:] == ["CreateContainer", "UpdateContainerResources"]
    assert [step.barrier for step in plan.steps[2:]] == [2, 2]


def test_a_clock_that_is_set_changes_nothing_but_pauses() -> None:
    """Back or forth by any time: what came first comes first, and nobody waits for years."""
    script = Script()
    run(script, elapsed=5)
    create(script, gap=10)
    start(script, gap=10)
    usual = plan_of(script.frames)
    for jump in (-60 * 10**9, 50 * 365 * 24 * 3600 * 10**9):
        frames = [
            one._replace(time=one.time + jump) if isinstance(one, Begin) and one.number > 1 else one
            for one in script.frames
        ]
        plan = make_plan(recorded_calls(frames), ReplayChoices(), message_of)
        assert names(plan) == names(usual)
        assert [step.needs for step in plan.steps] == [step.needs for step in usual.steps]
        assert [step.barrier for step in plan.steps] == [0, 1, 2]
        assert [step.begin for step in plan.steps] == [0, 0, 10_000_000]
        assert plan.skipped == ()


def test_what_is_made_only_later_is_told_as_that() -> None:
    """Frames were lost, or two recordings are in the wrong order."""
    script = Script()
    start(script)
    run(script)
    number = create(script)
    (skipped,) = plan_of(script.frames).skipped
    assert skipped.reason == f"container con-1 is not made: CreateContainer #{number} comes later in the recording"
    assert skipped.group == "the call that made what they are about comes later in the recording"


def test_a_request_that_cannot_be_sent_makes_nothing() -> None:
    """And what needs it is told why."""
    script = Script()
    script.call("RunPodSandbox", b"\xff\xff", cri.RunPodSandboxResponse(pod_sandbox_id="pod-1"))
    create(script)
    assert [one.reason for one in plan_of(script.frames).skipped][1] == (
        "pod pod-1 is not made: RunPodSandbox #1 is skipped"
    )


def test_a_call_that_never_ended_was_sent() -> None:
    """When it was forwarded."""
    script = Script()
    number = script.begin("RunPodSandbox", run_request(POD))
    script.message(number, MessageSide.FORWARDED, run_request(POD), 2)
    run(script, gap=1)
    plan = plan_of(script.frames, ReplayChoices(as_sent=True))
    assert [step.number for step in plan.steps] == [2, 1]


def test_a_request_that_was_not_kept_is_skipped() -> None:
    """So is one that cannot be read; the reason is in the recording."""
    script = Script()
    run(script)
    number = script.begin("StartContainer", b"")
    script.frames[-1] = Message(
        number=number, at=0, side=MessageSide.REQUEST, packing=Packing.ABSENT, size=9, body=b"larger than the limit"
    )
    script.end(number, 1)
    script.call("StopContainer", b"\xff\xff", b"")
    plan = plan_of(script.frames)
    assert names(plan) == ["RunPodSandbox"]
    assert plan.skipped[0].reason == "its request cannot be sent: larger than the limit"
    assert "not a StopContainerRequest" in plan.skipped[1].reason


def test_nothing_gives_an_empty_plan() -> None:
    """Not an error."""
    assert plan_of([]).steps == ()
