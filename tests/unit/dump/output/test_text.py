"""The text dump, line by line.

What is in `golden` is what a file gets, with the level in front. After a change that was meant, write it anew:

    GOLDEN=write .venv/bin/pytest tests/unit/dump/output/test_text.py

and read the difference before it is committed.
"""

import os
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.config.dump_rules import parse_rules
from interpose.dump.decode.api import DecodedMessage
from interpose.dump.decode.decode import Decoder
from interpose.dump.model.call import Assembler, CallEvent, CallEventKind, Flow, Subject
from interpose.dump.model.frames import Begin, Dropped, End, Flags, Frame, Message, MessageSide, Packing
from interpose.dump.output.text import STAMP_WIDTH, DumpLine, TextDump
from interpose.testing.recordings import START, Script

GOLDEN = Path(__file__).parent / "golden"
STOP = cri.StopContainerRequest(container_id="1f3d", timeout=30)
CREATE = cri.CreateContainerRequest(
    pod_sandbox_id="p1",
    config=cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="app"),
        image=cri.ImageSpec(image="registry.k8s.io/pause:3.10"),
        command=["/bin/sh", "-c", "sleep 1\nexit 0\n"],
        envs=[cri.KeyValue(key="PORT", value=b"8080")],
        annotations={"example.com/json": '{"a": 1}'},
        linux=cri.LinuxContainerConfig(resources=cri.LinuxContainerResources(cpu_shares=1024, cpuset_cpus="0-3")),
    ),
)
STATUS = cri.ContainerStatusResponse(
    status=cri.ContainerStatus(id="1f3d", state=cri.CONTAINER_RUNNING, metadata=cri.ContainerMetadata(name="app"))
)


def changed_create() -> cri.CreateContainerRequest:
    """The request as a policy changed it."""
    request = cri.CreateContainerRequest()
    request.CopyFrom(CREATE)
    request.config.linux.resources.cpuset_cpus = "2-3"
    request.config.linux.resources.cpuset_mems = "0"
    return request


def changed_status() -> cri.ContainerStatusResponse:
    """The reply as the runtime gave it."""
    reply = cri.ContainerStatusResponse()
    reply.CopyFrom(STATUS)
    reply.status.resources.linux.cpuset_cpus = "2-3"
    return reply


def event(number: int) -> cri.ContainerEventResponse:
    """A message of the stream of events."""
    return cri.ContainerEventResponse(container_id=f"c{number}", container_event_type=cri.CONTAINER_STARTED_EVENT)


def full(script: Script) -> None:
    """Requests and replies on one line, on several, and empty ones."""
    script.call("StopContainer", STOP, cri.StopContainerResponse(), elapsed=12.345)
    script.call("CreateContainer", CREATE, cri.CreateContainerResponse(container_id="1f3d"))
    script.call("Version", cri.VersionRequest(), cri.VersionResponse(version="0.1.0", runtime_name="containerd"))
    script.call("Status", cri.StatusRequest(), cri.StatusResponse(), version="runtime.v1alpha2")


def failed(script: Script) -> None:
    """Errors with a text, with several lines of it, and without any."""
    script.call("StopContainer", STOP, code=5, message='container "1f3d": not found', elapsed=1234.567891)
    script.call("StopContainer", STOP, code=2, message="one\ntwo\x1b[2J")
    script.call("StopContainer", STOP, code=77)
    script.call("CreateContainer", CREATE, forwarded=changed_create(), code=13, message="no", by=["policy static"])
    script.call("ContainerStatus", cri.ContainerStatusRequest(), received=STATUS, code=9, message="refused")


def short(script: Script) -> None:
    """Only names, when calls are over."""
    script.call("Attach", cri.AttachRequest(container_id="1f3d"), cri.AttachResponse(url="http://x"))
    script.call("Attach", cri.AttachRequest(container_id="1f3d"), code=14, message="gone")
    script.call("Attach", cri.AttachRequest(), cri.AttachResponse(), origin="resmgr")


def count(script: Script) -> None:
    """Reported by the first call after a period."""
    for gap in (0, 400, 600, 1, 400, 700, 5000):
        script.call("ImageFsInfo", cri.ImageFsInfoRequest(), cri.ImageFsInfoResponse(), gap=gap)
    script.call("ImageFsInfo", cri.ImageFsInfoRequest(), code=14, gap=10)


def changed(script: Script) -> None:
    """Requests and replies that are not what they were."""
    reply = cri.CreateContainerResponse(container_id="1f3d")
    by = ["hook koordlet", "policy static"]
    script.call("CreateContainer", CREATE, reply, forwarded=changed_create(), by=by)
    request = cri.ContainerStatusRequest(container_id="1f3d")
    script.call("ContainerStatus", request, STATUS, received=changed_status(), by=["resources as asked for"])
    script.call("StopContainer", STOP, cri.StopContainerResponse(), forwarded=b"\x10\x1e\x0a\x041f3d")


def originated(script: Script) -> None:
    """Calls of our own."""
    request = cri.UpdateContainerResourcesRequest(
        container_id="1f3d", linux=cri.LinuxContainerResources(cpuset_cpus="0-1")
    )
    script.call("UpdateContainerResources", request, cri.UpdateContainerResourcesResponse(), origin="resmgr")


def stream(script: Script) -> None:
    """Messages with their numbers, as they come; calls that end well, badly, and at once."""
    number = script.begin("GetContainerEvents", cri.GetEventsRequest())
    script.message(number, MessageSide.REPLY, event(1), at=10)
    script.message(number, MessageSide.RECEIVED, event(2), at=2000)
    script.message(number, MessageSide.REPLY, event(3), at=2000)
    script.message(number, MessageSide.REPLY, event(4), at=3000)
    script.call("StopContainer", STOP, cri.StopContainerResponse())
    script.end(number, 4000, by=["hook koordlet"])
    script.call("GetContainerEvents", cri.GetEventsRequest(), event(1), code=1, message="context canceled")
    script.call("GetContainerEvents", cri.GetEventsRequest())


def unknown(script: Script) -> None:
    """Methods that have no row: with one reply, as a stream; and bytes that are no message."""
    script.call("Teleport", b"\x0a\x041f3d", b"\x08\x01")
    script.call("Teleports", b"\x0a\x041f3d", b"\x08\x01", b"\x08\x02", b"\x08\x03")
    script.call("StopContainer", b"\xff\xff", b"\x0a")
    number = script.begin("Te\nle\x1bport", b"")
    script.end(number, 1)


def lost(script: Script) -> None:
    """What nobody saw."""
    number = script.begin("StopContainer", STOP)
    script.frames.append(Dropped(frames=12, size=4000, time=script.now))
    script.end(number, 2)
    script.frames.append(Dropped(frames=1, size=40, time=script.now))
    number = script.begin("StopContainer", STOP)
    script.frames.append(
        Message(
            number=number, at=1, side=MessageSide.REPLY, packing=Packing.ABSENT, size=90_000_000, body=b"over the limit"
        )
    )
    script.end(number, 2)


STORIES: tuple[Callable[[Script], None], ...] = (full, failed, short, count, changed, originated, stream, unknown, lost)
RULES = "reset,full:.*,short:Attach,count:ImageFsInfo,off:ListImages"


def dumped(frames: Sequence[Frame], rules: str = RULES, **options: bool) -> list[DumpLine]:
    """The lines of these frames."""
    text = TextDump(parse_rules((rules,)), Decoder(), count_period=1.0, zone=UTC, **options)
    return [line for one in Assembler().feed_all(frames) for line in text.lines(one)]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_reads_as_it_should(story: Callable[[Script], None]) -> None:
    """Every line of it."""
    script = Script()
    story(script)
    found = "".join(f"{line.level:<8}{line.in_file}\n" for line in dumped(script.frames))
    path = GOLDEN / f"{story.__name__}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text()


def test_every_golden_file_has_its_story() -> None:
    """None is left over."""
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {story.__name__ for story in STORIES}


def test_a_log_gets_neither_times_nor_sizes() -> None:
    """It has times of its own."""
    script = Script()
    script.call("StopContainer", STOP, cri.StopContainerResponse())
    assert [line.text for line in dumped(script.frames)] == [
        "(passthrough) REQUEST StopContainer",
        "    StopContainer => container_id: 1f3d",
        "    StopContainer => timeout: 30",
        "(passthrough) REPLY StopContainer <= {}",
    ]
    assert dumped(script.frames)[-1].more == " (3 bytes as yaml)"


def test_all_stamps_have_the_same_width() -> None:
    """So that columns line up; an absurd latency may be wider."""
    script = Script()
    for story in STORIES:
        story(script)
    assert {len(line.stamp) for line in dumped(script.frames)} == {STAMP_WIDTH}


def test_what_is_off_leaves_no_line() -> None:
    """Whatever happens to it; nor do rules that are turned off."""
    script = Script()
    script.call("ListImages", cri.ListImagesRequest(), cri.ListImagesResponse())
    script.call("ListImages", cri.ListImagesRequest(), code=2)
    assert dumped(script.frames) == []
    assert dumped(script.frames, rules="full:.*,off") == []


def test_calls_that_began_before_we_looked_are_passed_over() -> None:
    """There is nothing to say about them."""
    script = Script()
    script.call("StopContainer", STOP, cri.StopContainerResponse())
    assert dumped([frame for frame in script.frames if not isinstance(frame, Begin)]) == []


def test_lines_can_name_the_container() -> None:
    """In front, if it is known."""
    script = Script()
    script.call("StopContainer", STOP, cri.StopContainerResponse())
    who = Subject(namespace="shop", pod="web-0", container="app")
    text = TextDump(parse_rules(("full:.*",)), Decoder(), qualify=True, zone=UTC)
    assembler = Assembler(lambda flow, message: who if message.side is MessageSide.REQUEST else Subject())
    lines = [line for frame in script.frames for line in text.lines(assembler.feed(frame))]
    assert [line.in_file.partition("] ")[2] for line in lines] == [
        "<shop/web-0:app> (passthrough) REQUEST StopContainer",
        "<shop/web-0:app>     StopContainer => container_id: 1f3d",
        "<shop/web-0:app>     StopContainer => timeout: 30",
        "(passthrough) REPLY StopContainer <= {} (3 bytes as yaml)",
    ]


def test_times_are_local_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of the log beside them."""
    import time

    monkeypatch.setenv("TZ", "UTC-3")
    time.tzset()
    script = Script()
    script.call("Version", cri.VersionRequest(), gap=0)
    try:
        text = TextDump(parse_rules(("full:Version",)), Decoder())
        stamps = [line.stamp for one in Assembler().feed_all(script.frames) for line in text.lines(one)]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert stamps[0] == "2025-Nov-16 12:00:00.000"


class Silent:
    """A decoder that knows nothing and does not say why."""

    def message(self, flow: Flow, message: Message) -> DecodedMessage:
        """Nothing."""
        return DecodedMessage(tree=None)


def test_a_message_that_gives_nothing_still_has_a_line() -> None:
    """That it was there can be seen."""
    script = Script()
    script.call("Version", cri.VersionRequest())
    text = TextDump(parse_rules(("full:Version",)), Silent())
    lines = [line.text for one in Assembler().feed_all(script.frames) for line in text.lines(one)]
    assert lines[0] == "(passthrough) REQUEST Version => # not decoded"


def test_a_request_that_was_not_seen_can_have_been_changed() -> None:
    """All of what was sent is new then."""
    frames: list[Frame] = [
        Begin(number=1, time=START, path="/runtime.v1.RuntimeService/StopContainer", flags=Flags.INTERCEPTED),
        Message(number=1, at=0, side=MessageSide.FORWARDED, size=6, body=b"\x0a\x041f3d"),
    ]
    assert [line.text for line in dumped(frames)] == [
        "(relayed) REQUEST StopContainer",
        "    StopContainer ~> + container_id: 1f3d",
    ]


def test_a_stream_of_which_little_is_kept_keeps_its_numbers() -> None:
    """Also if it is not known to be one."""
    script = Script(header=None)
    script.call("Teleports", b"", *(bytes([8, number]) for number in range(1, 6)))
    for kept in (1, 2, 3):
        text = TextDump(parse_rules(("full:.*",)), Decoder(), zone=UTC)
        events = Assembler(kept_messages=kept)
        lines = [line.text for frame in script.frames for line in text.lines(events.feed(frame))]
        assert lines[-1] == "(passthrough) CLOSED Teleports after 5 messages"
        assert [line.split("#")[1].split()[0] for line in lines[1:-1]][-4:] == ["2", "3", "4", "5"]


def test_what_was_left_out_of_a_stream_is_said() -> None:
    """And the numbers behind it are right. Calls that are not dumped in full have no such line."""
    script = Script(header=None)
    number = script.begin("GetContainerEvents", b"")
    flow = Assembler().feed_all(script.frames)[-1].flow
    assert flow is not None
    reply = Message(number=number, at=5, side=MessageSide.REPLY, size=0, body=b"")
    flow.messages.append(reply)
    dropped = Dropped(frames=7, size=70, time=0)
    for rules, wanted in (("full:.*", 2), ("short:.*", 0)):
        text = TextDump(parse_rules((rules,)), Decoder(), zone=UTC)
        events = [CallEvent(CallEventKind.DROPPED, flow, dropped), CallEvent(CallEventKind.MESSAGE, flow, reply)]
        lines = [line.text for event in events for line in text.lines(event)]
        assert len(lines) == wanted
    assert not lines
    text = TextDump(parse_rules(("full:.*",)), Decoder(), zone=UTC)
    (line,) = text.lines(CallEvent(CallEventKind.DROPPED, flow, dropped))
    assert line.text == "(passthrough) REPLY GetContainerEvents <= # 7 messages left out, too many to keep"
    (line,) = text.lines(CallEvent(CallEventKind.MESSAGE, flow, reply))
    assert line.text.startswith("(passthrough) REPLY GetContainerEvents #8 ")


def test_an_origin_cannot_move_the_cursor() -> None:
    """A recording comes from anywhere."""
    script = Script(header=None)
    script.call("Version", b"", b"", origin="x\x1b[2J\n")
    assert all(line.text.isprintable() for line in dumped(script.frames, "full:.*"))


def test_what_is_held_does_not_grow_with_made_up_methods_and_lost_ends() -> None:
    """A caller may do what it likes for as long as it likes."""
    text = TextDump(parse_rules(("reset,full:Endless,count:.*",)), Decoder())
    assembler = Assembler()
    for number in range(12_000):
        name = "Endless" if number % 2 else f"Made{number}"
        begin = Begin(number=number, time=START, path=f"/x.Y/{name}")
        reply = Message(number=number, at=1, side=MessageSide.REPLY, size=0, body=b"")
        for one in assembler.feed_all([begin, reply]):
            text.lines(one)
    for number in range(12_000, 23_000):
        begin = Begin(number=number, time=START, path="/x.Y/Endless")
        reply = Message(number=number, at=1, side=MessageSide.REPLY, size=0, body=b"")
        for one in assembler.feed_all([begin, reply]):
            text.lines(one)
    assert len(text._counters) == 1000
    assert len(text._replies) == 10_000


def test_numbers_of_another_process_are_other_calls() -> None:
    """What was counted of the old ones is forgotten."""
    script = Script(header=None)
    number = script.begin("GetContainerEvents", cri.GetEventsRequest())
    script.message(number, MessageSide.REPLY, event(1))
    first = list(script.frames)
    script.frames += [*first, End(number=number, elapsed=1, code=0)]
    lines = dumped(script.frames)
    assert lines[-1].text == "(passthrough) CLOSED GetContainerEvents after 1 message"


def docker(path: str, code: int = 0, message: str = "", *, number: int = 1) -> list[Frame]:
    """A call of Docker's API that passed: only that it came and how it ended is known."""
    return [
        Begin(number=number, time=START, path=f"/docker/{path}"),
        End(number=number, elapsed=1_200_000, code=code, message=message),
    ]


def test_calls_of_docker_have_one_line() -> None:
    """In full as well: no message of them is seen. Those that failed have their status."""
    frames = [*docker("POST /v1.41/images/create"), *docker("DELETE /v1.41/images/x", 5, "HTTP 404")]
    for rules in ("full:.*", "short:.*"):
        lines = dumped(frames, rules)
        assert [(line.level, line.text) for line in lines] == [
            ("info", "(passthrough) REQUEST POST /images/create"),
            ("warning", "(passthrough) FAILED DELETE /images/x <= HTTP 404"),
        ]


def test_calls_of_docker_that_read_are_not_dumped_by_default() -> None:
    """Like the lists and statuses of CRI; who wants them says so."""
    frames = [*docker("GET /v1.41/containers/json"), *docker("HEAD /_ping"), *docker("POST /v1.41/exec/x/start")]
    assert [line.text for line in dumped(frames, "on")] == ["(passthrough) REQUEST POST /exec/x/start"]
    assert len(dumped(frames, "short:^GET /.*")) == 2


def test_calls_of_docker_are_counted_by_sort() -> None:
    """Not each container by itself."""
    frames: list[Frame] = [
        Begin(number=number, time=START + number * 10**9, path=f"/docker/GET /v1.41/containers/c{number}/json")
        for number in (1, 2)
    ]
    text = TextDump(parse_rules(("count:.*",)), Decoder(), count_period=0.5, zone=UTC)
    lines = [line.text for one in Assembler().feed_all(frames) for line in text.lines(one)]
    assert len(lines) == 1
    assert lines[0].startswith("(passthrough) REQUEST: GET /containers/{id}/json #2, 2 total")


def test_rules_hold_for_any_number_of_names() -> None:
    """Whoever calls may make up names: what is remembered of them is bounded."""
    text = TextDump(parse_rules(["reset,short:^Get.*"]), Decoder(), zone=UTC)
    assembler = Assembler()
    for number in range(2500):
        for name in ("Get", "Put"):
            frames: list[Frame] = [
                Begin(number=number, time=START, path=f"/a/{name}{number}"),
                End(number=number, elapsed=0, code=0),
            ]
            lines = [line.text for event in assembler.feed_all(frames) for line in text.lines(event)]
            assert lines == ([f"(passthrough) REQUEST Get{number}"] if name == "Get" else [])
