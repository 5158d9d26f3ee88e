"""Recordings as what happened."""

from interpose._pb import cri_pb2 as cri
from interpose.cli.dump.replay_policy_run import RecordedEventReader
from interpose.dump.model.frames import Begin, Dropped, Message, MessageSide, Packing
from interpose.resmgr.whatif.events import MessageEvent, ReplyEvent, RequestEvent
from interpose.testing.pods import pod_config, run_request
from interpose.testing.recordings import START, Script

MS = 1_000_000
STOP = cri.StopContainerRequest(container_id="c")


def test_a_call_is_asked_when_its_request_comes_and_answered_at_its_end() -> None:
    """Calls may overlap."""
    script = Script()
    first = script.begin("StopContainer", STOP)
    second = script.begin("RunPodSandbox", run_request(pod_config("a")), origin="policy")
    script.message(second, MessageSide.FORWARDED, b"\x01")
    script.message(second, MessageSide.REPLY, b"\x02")
    script.end(second, 3.0, 5, "gone")
    script.end(first, 20.0)
    found = list(RecordedEventReader().events(script.frames))
    assert [type(one) for one in found] == [RequestEvent, RequestEvent, ReplyEvent, ReplyEvent]
    assert found[0] == RequestEvent(
        number=first, time_ns=START + 5 * MS, method="StopContainer", request=STOP.SerializeToString()
    )
    assert found[2] == ReplyEvent(
        number=second, time_ns=START + 13 * MS, reply=b"\x02", code=5, message="gone", forwarded=b"\x01"
    )
    assert found[3] == ReplyEvent(number=first, time_ns=START + 25 * MS, reply=None)


def test_what_the_runtime_said_counts() -> None:
    """Not what the caller was shown."""
    script = Script()
    script.call("ListContainers", cri.ListContainersRequest(), b"shown", received=b"said")
    _, answered = RecordedEventReader().events(script.frames)
    assert isinstance(answered, ReplyEvent)
    assert answered.reply == b"said"


def test_streams_tell_as_they_go() -> None:
    """Each message by itself; their end tells nothing."""
    script = Script()
    number = script.begin("GetContainerEvents", cri.GetEventsRequest())
    script.message(number, MessageSide.REPLY, b"one", 7.0)
    script.message(number, MessageSide.REPLY, b"two", 8.0)
    script.end(number, 9.0)
    found = list(RecordedEventReader().events(script.frames))
    assert found[1] == MessageEvent(number=number, time_ns=START + 12 * MS, reply=b"one")
    assert [type(one) for one in found] == [RequestEvent, MessageEvent, MessageEvent, ReplyEvent]


def test_other_methods_tell_nothing() -> None:
    """Neither do methods that nobody knows."""
    script = Script()
    script.call("Version", cri.VersionRequest(), cri.VersionResponse())
    script.call("MakeCoffee", b"", b"")
    assert list(RecordedEventReader().events(script.frames)) == []


def test_an_update_that_puts_values_right_is_marked() -> None:
    """By the metadata that hook servers send."""
    script = Script(header=None)
    frames = [
        Begin(
            number=1,
            time=START,
            path="/runtime.v1.RuntimeService/UpdateContainerResources",
            metadata=(("interpose-requested", "no"),),
        )
    ]
    script.message(1, MessageSide.REQUEST, cri.UpdateContainerResourcesRequest())
    (asked,) = RecordedEventReader().events([*frames, *script.frames])
    assert isinstance(asked, RequestEvent)
    assert asked.amends


def test_what_is_missing_is_counted_and_said() -> None:
    """Messages that were not kept or cannot be unpacked, and frames that were lost."""
    script = Script()
    number = script.begin("StopContainer", STOP)
    script.frames[-1] = Message(
        number=number, at=0, side=MessageSide.REQUEST, packing=Packing.ABSENT, size=99, body=b"too large"
    )
    events = script.begin("GetContainerEvents", cri.GetEventsRequest())
    script.frames.append(
        Message(number=events, at=0, side=MessageSide.REPLY, packing=Packing.ZLIB, size=3, body=b"no such thing")
    )
    script.frames.append(Dropped(frames=7, size=1, time=START))
    reader = RecordedEventReader()
    assert [type(one) for one in reader.events(script.frames)] == [RequestEvent]
    lost, absent = reader.notes()
    assert lost.endswith(": 7")
    assert absent.endswith(": 2")
    assert RecordedEventReader().notes() == []
