"""What holds for every plan: nothing overtakes, everything can be carried out, and no more at once than there was."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose._pb import cri_pb2 as cri
from interpose.dump.replay.adapt import TargetOptions, adapt, free_suffix
from interpose.dump.replay.answers import Answer, Answers
from interpose.dump.replay.plan import ReplayPlan, ReplayProgress, ReplayStep, make_plan
from interpose.dump.replay.runner import message_of
from interpose.dump.replay.selection import RecordedCall, ReplayChoices
from interpose.testing.pods import pod_config, run_request
from interpose.testing.recordings import Script
from tests.support.dump.recorded_node import calls_of

# Milliseconds between beginnings, how long a call took (None: it never ended), and about which pod it is.
calls = st.lists(
    st.tuples(st.integers(0, 50), st.none() | st.integers(0, 120), st.integers(0, 5), st.booleans()), max_size=30
)


def recorded(drawn: list[tuple[int, int | None, int, bool]]) -> list[RecordedCall]:
    """Pods come and are stopped, side by side."""
    script = Script()
    for gap, elapsed, pod, makes in drawn:
        request: Any
        reply: Any
        if makes:
            name, request = "RunPodSandbox", run_request(pod_config(f"pod-{pod}"))
            reply = cri.RunPodSandboxResponse(pod_sandbox_id=f"id-of-pod-{pod}")
        else:
            name, request = "StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=f"id-of-pod-{pod}")
            reply = b""
        if elapsed is None:
            script.begin(name, request, gap=gap)
        else:
            script.call(name, request, reply, gap=gap, elapsed=elapsed)
    return calls_of(script.frames)


def carried_out(plan: ReplayPlan, choose: Any) -> list[tuple[ReplayStep, frozenset[int]]]:
    """Steps in the order in which they start, as a caller starts them, each with those that were over then."""
    progress, over, started = ReplayProgress(plan), set[int](), []
    flying: list[ReplayStep] = []
    waiting = list(plan.steps)
    while waiting or flying:
        if waiting and progress.may_start(waiting[0]):
            step = waiting.pop(0)
            started.append((step, frozenset(over)))
            flying.append(step)
            continue
        assert flying, "nothing goes on any more"
        step = flying.pop(choose(len(flying)))
        over.add(step.index)
        progress.finish(step)
    return started


@given(calls, st.randoms(use_true_random=False))
def test_every_plan_comes_to_its_end_and_nothing_overtakes(drawn: Any, random: Any) -> None:
    """Whoever had ended before a call began has ended before it begins; whoever made its pod, too."""
    plan = make_plan(recorded(drawn), ReplayChoices(pass_unknown=True), message_of)
    started = carried_out(plan, random.randrange)
    assert [step.index for step, _over in started] == list(range(len(plan.steps)))
    for step, over in started:
        ended = {one.index for one in plan.steps if one.end is not None and one.end < step.begin}
        assert ended <= over
        assert set(step.needs) <= over


@given(calls)
def test_every_call_is_made_skipped_or_left_out(drawn: Any) -> None:
    """Once; and what is made knows its pod."""
    flows = recorded(drawn)
    plan = make_plan(flows, ReplayChoices(), message_of)
    assert len(plan.steps) + len(plan.skipped) + sum(plan.omitted.values()) == len(flows)
    known = set()
    for step in plan.steps:
        assert all(one in known for one in step.references)
        if step.made is not None:
            known.add(step.made)


@given(calls)
def test_every_recorded_request_has_an_answer(drawn: Any) -> None:
    """As many times as it was asked, in the order of the recording, and the last one ever after."""
    ended = [one for one in recorded(drawn) if one.ended is not None]
    answers = Answers(ended, message_of)
    flows = [one.flow for one in ended]
    asked: dict[bytes, list[int]] = {}
    for flow in sorted(flows, key=lambda one: one.time):
        asked.setdefault(flow.messages[0].data, []).append(flow.number)
    for request, numbers in asked.items():
        name = next(flow.name for flow in flows if flow.messages[0].data == request)
        given_ = [answers.find(name, request) for _ in range(len(numbers) + 2)]
        found = [one.number for one in given_ if isinstance(one, Answer)]
        assert found == [*numbers, numbers[-1], numbers[-1]]


@given(st.text(min_size=1), st.text(max_size=5), st.text(max_size=8))
def test_a_renamed_pod_differs_in_its_uid_only_by_the_suffix(uid: str, name: str, suffix: str) -> None:
    """Whatever characters there are."""
    request = run_request(pod_config(name, uid=uid))
    adapt(request, TargetOptions(exists=lambda _path: True, suffix=suffix))
    assert request.config.metadata.uid == uid + suffix
    assert request.config.labels["io.kubernetes.pod.uid"] == uid + suffix
    assert request.config.metadata.name == name


@given(st.sets(st.text(max_size=3)), st.sets(st.text(max_size=6)))
def test_a_free_suffix_is_free(wanted: set[str], taken: set[str]) -> None:
    """For all pods at once."""
    suffix = free_suffix(wanted, taken)
    assert not {one + suffix for one in wanted} & taken
