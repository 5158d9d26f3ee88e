"""The recorded answer to a request."""

from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.model.frames import Begin, Message, MessageSide, Packing
from interpose.dump.replay.answers import Answer, Answers, Match, MissingAnswer, method_counts
from interpose.dump.replay.runner import message_of
from interpose.dump.replay.selection import recorded_calls
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from interpose.testing.recordings import Script, every_method_frames, filled
from tests.support.dump.recorded_node import calls_of

LONG = "c" * 64


def answers(script: Script, match: Match = Match.BEST) -> Answers:
    """Of what was recorded."""
    return Answers(calls_of(script.frames), message_of, match)


def ask(found: Answers, name: str, request: Any) -> bytes:
    """The bytes of the answer."""
    answer = found.find(name, request if isinstance(request, bytes) else request.SerializeToString())
    assert isinstance(answer, Answer), answer
    return answer.replies[-1].body if answer.replies else b""


def miss(found: Answers, name: str, request: Any) -> MissingAnswer:
    """There is none."""
    answer = found.find(name, request if isinstance(request, bytes) else request.SerializeToString())
    assert isinstance(answer, MissingAnswer)
    return answer


def status(container: str) -> cri.ContainerStatusRequest:
    """A question about a container."""
    return cri.ContainerStatusRequest(container_id=container)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_answered_as_recorded(name: str) -> None:
    """The same request gets the same answer."""
    found = Answers(calls_of(every_method_frames()), message_of)
    wanted = filled(METHODS[name].response)
    assert type(wanted).FromString(ask(found, name, filled(METHODS[name].request))) == wanted


def test_the_same_request_walks_through_its_answers() -> None:
    """And then gets the last one again."""
    script = Script()
    for body in (b"1", b"2", b"3"):
        script.call("Version", b"", body)
    found = answers(script)
    assert [ask(found, "Version", b"") for _ in range(5)] == [b"1", b"2", b"3", b"3", b"3"]


def test_another_run_of_the_same_pod_gets_its_answer() -> None:
    """Not that of the pod that came first."""
    script = Script()
    for name in ("web", "db"):
        reply = cri.RunPodSandboxResponse(pod_sandbox_id=f"id-of-{name}")
        script.call("RunPodSandbox", run_request(pod_config(name, uid="then")), reply)
    found = answers(script)
    body = ask(found, "RunPodSandbox", run_request(pod_config("db", uid="now", attempt=1)))
    assert cri.RunPodSandboxResponse.FromString(body).pod_sandbox_id == "id-of-db"


def test_another_configuration_of_the_same_container_gets_its_answer() -> None:
    """By name; an order that fits less well is not taken."""
    script = Script()
    pod = pod_config("web")
    for name in ("app", "side"):
        reply = cri.CreateContainerResponse(container_id=f"id-of-{name}")
        script.call("CreateContainer", create_request("p", pod, container_config(pod, name)), reply)
    found = answers(script)
    changed = create_request("q", pod, container_config(pod, "side", image="newer"))
    assert cri.CreateContainerResponse.FromString(ask(found, "CreateContainer", changed)).container_id == "id-of-side"
    unheard = create_request("q", pod, container_config(pod, "unheard"))
    assert cri.CreateContainerResponse.FromString(ask(found, "CreateContainer", unheard)).container_id == "id-of-app"


def test_an_answer_that_was_given_is_not_given_by_order() -> None:
    """By whichever key it was found, as long as there are others."""
    script = Script()
    for name in ("web", "db"):
        script.call("RunPodSandbox", run_request(pod_config(name)), name.encode())
    found = answers(script)
    assert ask(found, "RunPodSandbox", run_request(pod_config("web"))) == b"web"
    assert ask(found, "RunPodSandbox", run_request(pod_config("unheard"))) == b"db"


def test_nobody_is_told_about_another_container() -> None:
    """The text says what is missing; --match order does not care."""
    script = Script()
    script.call("ContainerStatus", status(LONG), b"its state")
    missing = miss(answers(script), "ContainerStatus", status("unheard"))
    assert not missing.unknown
    assert missing.text == ("the only ContainerStatus in the recording does not fit this request for container unheard")
    assert ask(answers(script, Match.ORDER), "ContainerStatus", status("unheard")) == b"its state"


def test_people_may_abbreviate_ids() -> None:
    """As with a runtime."""
    script = Script()
    script.call("ContainerStatus", status(LONG), b"its state")
    assert ask(answers(script), "ContainerStatus", status("cccccc")) == b"its state"


def test_another_question_about_the_same_container() -> None:
    """Is answered with what is known about it."""
    script = Script()
    script.call("ContainerStatus", status(LONG), b"its state")
    verbose = cri.ContainerStatusRequest(container_id=LONG, verbose=True)
    assert ask(answers(script), "ContainerStatus", verbose) == b"its state"
    assert not miss(answers(script, Match.EXACT), "ContainerStatus", verbose).unknown


def test_a_method_nobody_called_is_unknown() -> None:
    """Not a question of the request."""
    missing = miss(answers(Script()), "Version", b"")
    assert missing.unknown
    assert missing.text == "the recording has no Version"


def test_lists_are_narrowed_to_what_is_asked() -> None:
    """From a list of everything, if the question was never asked; from a list about the same pod before that."""
    script = Script()
    every = [
        cri.Container(id="a", pod_sandbox_id="pod-1", state=cri.CONTAINER_CREATED),
        cri.Container(id="b", pod_sandbox_id="pod-1", state=cri.CONTAINER_RUNNING),
    ]
    script.call(
        "ListContainers",
        cri.ListContainersRequest(filter=cri.ContainerFilter(id="z")),
        cri.ListContainersResponse(),
    )
    script.call("ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse(containers=every))
    found = answers(script)
    running = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
    reply = cri.ListContainersResponse.FromString(
        ask(found, "ListContainers", cri.ListContainersRequest(filter=running))
    )
    assert [one.id for one in reply.containers] == ["b"]


def test_other_lists_are_given_as_they_are() -> None:
    """Statistics of more than was asked for are no harm; nor is a list that cannot be read."""
    script = Script()
    script.call("ListContainerStats", cri.ListContainerStatsRequest(), b"all")
    script.call("ListContainers", cri.ListContainersRequest(), b"\xff\xff")
    found = answers(script)
    wanted = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(id="x"))
    assert ask(found, "ListContainerStats", wanted) == b"all"
    assert ask(found, "ListContainers", cri.ListContainersRequest(filter=cri.ContainerFilter(id="x"))) == b"\xff\xff"


def test_the_runtime_answers_what_it_got() -> None:
    """Requests are known in both forms; the answer is the one before anybody changed it."""
    script = Script()
    script.call("ContainerStatus", status("asked"), b"shown", forwarded=status("sent"), received=b"real")
    for container in ("asked", "sent"):
        assert ask(answers(script), "ContainerStatus", status(container)) == b"real"


def test_errors_are_answers() -> None:
    """With their code and text."""
    script = Script()
    script.call("StartContainer", b"", code=5, message="no such container", elapsed=3)
    answer = answers(script).find("StartContainer", b"")
    assert isinstance(answer, Answer)
    assert (answer.code, answer.message, answer.elapsed, answer.replies) == (5, "no such container", 3_000_000, ())


def test_calls_without_an_answer_are_no_answers() -> None:
    """In flight at the end, not kept, or unheard of; a stream that goes on has what it has."""
    script = Script()
    script.begin("StartContainer", b"")
    number = script.begin("Status", b"")
    script.frames.append(
        Message(number=number, at=0, side=MessageSide.REPLY, packing=Packing.ABSENT, size=9, body=b"too large")
    )
    script.end(number, 1)
    script.call("Version", b"")
    script.call("MakeCoffee", b"", b"coffee")
    script.begin("StreamContainers", b"")
    events = script.begin("GetContainerEvents", b"")
    script.message(events, MessageSide.REPLY, b"first", 1)
    found = answers(script)
    assert found.methods == {"GetContainerEvents": 1}
    assert found.unreadable == 2
    answer = found.find("GetContainerEvents", b"")
    assert isinstance(answer, Answer)
    assert answer.open
    assert [reply.body for reply in answer.replies] == [b"first"]


def test_requests_that_cannot_be_read_are_compared_by_bytes() -> None:
    """Nothing else is known about them."""
    script = Script()
    script.call("StartContainer", b"\xff\xff", b"yes")
    script.call("StartContainer", cri.StartContainerRequest(container_id="c"), b"other")
    found = answers(script)
    assert ask(found, "StartContainer", b"\xff\xff") == b"yes"
    assert miss(found, "StartContainer", b"\xff\xff\xff").text == (
        "none of the 2 calls of StartContainer in the recording fits this request"
    )


def test_what_cannot_be_read_is_not_narrowed() -> None:
    """Neither the question nor the list."""
    script = Script()
    script.call("ListContainers", b"", cri.ListContainersResponse())
    assert ask(answers(script), "ListContainers", b"\xff\xff") == b""


def test_what_is_served_is_told_by_frequency() -> None:
    """Then by name."""
    assert method_counts({"B": 1, "A": 1, "C": 7}) == ["C 7", "A 1", "B 1"]


def sandbox(found: Answers, name: str) -> str:
    """The id that a pod gets."""
    body = ask(found, "RunPodSandbox", run_request(pod_config(name)))
    return cri.RunPodSandboxResponse.FromString(body).pod_sandbox_id


@pytest.mark.parametrize("match", [Match.BEST, Match.ORDER])
def test_no_two_pods_get_the_same_id(match: Match) -> None:
    """Whoever asks first gets it, also again; whoever finds none left is told so."""
    script = Script()
    for name in ("web", "db"):
        reply = cri.RunPodSandboxResponse(pod_sandbox_id=f"id-of-{name}")
        script.call("RunPodSandbox", run_request(pod_config(name)), reply)
    found = answers(script, match)
    assert sandbox(found, "other") == "id-of-web"
    assert sandbox(found, "web") == "id-of-db"
    assert (sandbox(found, "other"), sandbox(found, "web")) == ("id-of-web", "id-of-db")
    missing = miss(found, "RunPodSandbox", run_request(pod_config("db")))
    assert missing.used_up
    assert missing.text == (
        "all 2 calls of RunPodSandbox in the recording were answered to others; none is left for pod default/db"
    )


def test_the_only_pod_of_a_recording_is_given_once() -> None:
    """A request that cannot be read is nobody's but its own."""
    script = Script()
    script.call("RunPodSandbox", b"", cri.RunPodSandboxResponse(pod_sandbox_id="id"))
    found = answers(script)
    assert [ask(found, "RunPodSandbox", b"\xff\xff") for _ in range(2)] == [
        ask(found, "RunPodSandbox", b"\xff\xff")
    ] * 2
    assert miss(found, "RunPodSandbox", b"\xff").text == (
        "the only RunPodSandbox in the recording was answered to somebody else"
    )


def test_a_failure_may_be_given_to_everybody() -> None:
    """It made nothing."""
    script = Script()
    script.call("RunPodSandbox", run_request(pod_config("web")), code=8, message="full")
    found = answers(script)
    for name in ("a", "b"):
        answer = found.find("RunPodSandbox", run_request(pod_config(name)).SerializeToString())
        assert isinstance(answer, Answer)
        assert answer.message == "full"


def test_answers_are_in_the_order_of_the_recording() -> None:
    """Not in that of a clock that was set back."""
    script = Script()
    for body in (b"1", b"2"):
        script.call("Version", b"", body)
    frames = [
        one._replace(time=one.time - 10**12) if isinstance(one, Begin) and one.number > 1 else one
        for one in script.frames
    ]
    found = Answers(recorded_calls(frames), message_of)
    assert [ask(found, "Version", b"") for _ in range(2)] == [b"1", b"2"]
