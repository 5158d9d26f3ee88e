"""What `show` writes, of recordings that nobody would write by accident, and by index, order and number."""

import json
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from interpose._pb import cri_pb2 as cri
from interpose.cli.main import cli
from interpose.dump.filter.order import BeginOrder
from interpose.dump.model.call import SESSION
from interpose.dump.model.frames import (
    Begin,
    Context,
    Dropped,
    End,
    Flags,
    Frame,
    Header,
    Message,
    MessageSide,
    Packing,
)
from interpose.dump.recording.writer import RecordingWriter
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from interpose.testing.recordings import HEADER, START, Script, story_frames, write_recording

EVIL = (
    "\x1b[31mRED\x1b]0;title\x07\x9b31m</script><img src=x onerror=alert(1)>\u202eevil\u2028x\u2029\r\n"
    "---\nfoo: bar ' \" ` ${x} {{y}} %s"
)
HOUR = 3600 * 10**9


def run(*arguments: object) -> Result:
    """`interpose dump show`."""
    return CliRunner().invoke(cli, ["dump", "show", *map(str, arguments)])


def hostile() -> list[Frame]:
    """Everything that a program could choke on or a terminal obey, in every place that has a text or a number."""
    script = Script(header=Header(facts={**HEADER.facts, "host": EVIL, EVIL: EVIL}))
    pod = pod_config("web", "ns")
    pod.metadata.name = pod.metadata.namespace = pod.labels["a"] = pod.annotations[EVIL] = EVIL
    script.call("RunPodSandbox", run_request(pod), cri.RunPodSandboxResponse(pod_sandbox_id=EVIL))
    config = container_config(pod, "x", image=EVIL)
    config.metadata.name = EVIL
    asked, given = create_request(EVIL, pod, config), create_request(EVIL, pod, config)
    given.config.annotations[EVIL] = "</script>"
    made = cri.CreateContainerResponse(container_id=EVIL)
    by = (EVIL, "x\udc9b31m")
    script.call("CreateContainer", asked, made, forwarded=given, by=by, code=5, message=EVIL + "\udc9b\udcff")
    output = cri.ExecSyncResponse(stdout=EVIL.encode() + b"\xff\x1b[2J", stderr=b"\x1b[2J\n")
    script.call("ExecSync", cri.ExecSyncRequest(container_id=EVIL, cmd=[EVIL]), output)
    script.call(EVIL, b"\x0a\x05\x1b[2Jx", b"\x0a\x7f", version="x\udc9b" + EVIL, code=99, message=EVIL)
    script.call("Version", b"\xff\xff\xff", b"\x0a\x03abc\xd2\x01\x04\x1b[1m", code=200)
    script.call("Version", b"", b"", origin=EVIL + "\udcff")
    largest = (1 << 64) - 1
    path = "/runtime.v1.RuntimeService/Version"
    odd = Begin(number=70, time=-5, path=EVIL, origin=EVIL, pid=0, uid=7, flags=Flags(0xF3), metadata=((EVIL, EVIL),))
    return [
        *script.frames,
        odd,
        End(number=70, elapsed=0, code=0),
        Begin(number=71, time=(1 << 63) - 1, path=path),
        End(number=71, elapsed=largest, code=255),
        Begin(number=largest, time=-(1 << 63), path=path),
        End(number=largest, elapsed=0, code=0),
        Begin(number=72, time=START, path=""),
        Message(
            number=72, at=largest, side=MessageSide.REPLY, packing=Packing.ABSENT, size=4_000_000, body=EVIL.encode()
        ),
        Message(number=72, at=0, side=MessageSide.REPLY, packing=Packing.ZLIB, size=4_000_000, body=b"x\x9c"),
        Message(number=72, at=0, side=MessageSide.FORWARDED, size=5, body=b""),
        Context(facts={"pods": {"a": [1]}, "containers": 5, "calls": {"x": 1}}),
        Dropped(frames=1 << 60, size=1 << 60, time=-9),
        End(number=72, elapsed=1, code=0),
    ]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a file."""
    return write_recording(tmp_path_factory.mktemp("evil") / "evil.crirec", hostile())


@pytest.mark.parametrize("form", ["list", "text", "detail", "yaml", "jsonl", "har", "html", "latency", "svg"])
@pytest.mark.parametrize("more", [(), ("--last", "20"), ("--sort", "begin")], ids=["all", "last", "sorted"])
def test_no_form_can_be_made_to_do_something_else(evil: Path, form: str, more: tuple[str, ...]) -> None:
    """Nothing fails, and what a terminal or a reader would obey is not in it."""
    result = run(evil, "-o", form, *more)
    assert result.exit_code == 0, result.output
    lines = result.stdout.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    assert all(line.isprintable() for line in result.stderr.split("\n"))
    assert "foo: bar" not in lines  # a line of its own would be another key
    assert "</script><img" not in result.stdout or form not in ("html", "svg")


def test_what_programs_read_is_what_was_there(evil: Path) -> None:
    """Escaped, not changed."""
    documents = [json.loads(line) for line in run(evil, "-o", "jsonl").stdout.splitlines()]
    assert documents[0]["pod"] == EVIL
    assert [one["pod"] for one in yaml.safe_load_all(run(evil, "-o", "yaml").stdout)] == [
        one["pod"] for one in documents
    ]
    assert len(json.loads(run(evil, "-o", "har").stdout)["log"]["entries"]) == len(documents)
    assert ET.fromstring(run(evil, "-o", "svg").stdout).tag.endswith("svg")


# -- by index, order and number


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """The story twice, by two relay processes, with indexes."""
    path = tmp_path / "two.crirec"
    for session, hours in (("a", 0), ("b", 1)):
        writer = RecordingWriter(path, header_facts={**HEADER.facts, SESSION: session})
        for frame in story_frames()[1:]:
            writer.write(frame._replace(time=frame.time + hours * HOUR) if isinstance(frame, Begin) else frame)
        writer.close()
    return path


def numbers(result: Result) -> list[int]:
    """Which calls were shown."""
    return [json.loads(line)["number"] for line in result.stdout.splitlines()]


@pytest.mark.parametrize("more", [(), ("--strict",)], ids=["index", "read"])
@pytest.mark.parametrize(("wanted", "shown"), [("8", [8, 8]), ("8-8", [8, 8]), ("8,9", [8, 9, 8, 9])])
def test_numbers_are_those_of_each_relay_process(
    sessions: Path, more: tuple[str, ...], wanted: str, shown: list[int]
) -> None:
    """However they are written; that there are several is said."""
    result = run(sessions, "-o", "jsonl", "--number", wanted, *more)
    assert numbers(result) == shown
    assert result.stderr.startswith("2 relay processes wrote it, and each counts from 1")
    assert run(sessions, "-o", "jsonl").stderr == ""


@pytest.mark.parametrize("more", [(), ("--strict",)], ids=["index", "read"])
def test_the_last_calls_are_the_same_by_index(sessions: Path, more: tuple[str, ...]) -> None:
    """Those that never ended come last; a filter is asked before."""
    assert numbers(run(sessions, "-o", "jsonl", "--last", 3, *more)) == [19, 3, 20]
    assert numbers(run(sessions, "-o", "jsonl", "--last", 1, "~m Exec", *more)) == [17]
    assert numbers(run(sessions, "-o", "jsonl", "--last", 1, "--number", "4-8", *more)) == [8]
    assert numbers(run(sessions, "-o", "jsonl", "--last", 1, "--number", "4-8", "~m Image", *more)) == [6]


def test_calls_can_come_as_they_began(sessions: Path) -> None:
    """In every form."""
    assert numbers(run(sessions, "--alone", "--sort", "begin", "-o", "jsonl")) == list(range(1, 21))
    text = run(sessions, "--alone", "--sort", "begin", "-o", "text").stdout
    assert text.index("GetContainerEvents") < text.index("RunPodSandbox")


def test_calls_that_come_too_late_are_counted(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has an end."""
    monkeypatch.setattr("interpose.cli.dump.show_calls.BeginOrder", partial(BeginOrder, held=1))
    assert "calls took so long that they stand behind some" in run(sessions, "--alone", "--sort", "begin").stderr


def test_a_call_that_made_something_is_found_by_its_id(tmp_path: Path) -> None:
    """Also in the text form, where messages come one by one: the answer tells the id."""
    path = write_recording(tmp_path / "a.crirec", story_frames())
    sandbox = "7031703170"  # the beginning of the id of the pod
    for form in ("list", "text"):
        assert "RunPodSandbox" in run(path, "-o", form, "--pod", sandbox).stdout
        assert "REQUEST RunPodSandbox" not in run(path, "-o", form, f"!~p {sandbox} & ~p web").stdout


def test_a_file_that_is_missing_ends_calls(tmp_path: Path) -> None:
    """Those that do not go on in the file behind it."""
    path = tmp_path / "gap.crirec"
    begin = Begin(number=1, time=START, path="/runtime.v1.RuntimeService/Version")
    first: list[Frame] = [Header(facts={SESSION: "s", "part": 1}), begin, begin._replace(number=2)]
    third: list[Frame] = [Header(facts={SESSION: "s", "part": 3}), begin._replace(number=2, flags=Flags.CONTINUED)]
    write_recording(tmp_path / "gap.000001.crirec", first)
    write_recording(path, [*third, End(number=2, elapsed=1, code=0)])
    result = run(path, "--strict", "-o", "jsonl")
    calls = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(one["number"], one["status"], one["lost"]) for one in calls] == [(1, "", True), (2, "OK", False)]
    assert (result.exit_code, "part 1: 2 is missing" in result.stderr) == (1, True)


def test_no_file_of_a_rotated_set_is_written_to(sessions: Path) -> None:
    """Also if nobody named it."""
    older = sessions.with_name("two.000001.crirec")
    before = older.read_bytes()
    result = run(sessions, "--output", older)
    assert (result.exit_code, "is the recording that is read" in result.stderr) == (2, True)
    assert older.read_bytes() == before


def test_a_long_stream_says_what_it_left_out(tmp_path: Path) -> None:
    """If all of it comes at once; its size is that of all its messages."""
    script = Script()
    number = script.begin("GetContainerEvents", b"")
    for _ in range(1200):
        script.message(number, MessageSide.REPLY, b"\x0a\x01x")
    path = write_recording(tmp_path / "a.crirec", script.frames)
    text = run(path, "-o", "text", "--last", 1).stdout
    assert "REPLY GetContainerEvents <= # 201 messages left out, too many to keep\n" in text
    assert "REPLY GetContainerEvents #202 <=" in text
    assert "REPLY GetContainerEvents #1200 <=" in text
    listed = run(path).stdout
    assert "3.5KiB  1200 replies" in listed
    assert "left out" not in run(path, "-o", "text").stdout
