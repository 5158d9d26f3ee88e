"""`interpose dump show` and `follow`."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.cri.methods import METHODS, Method
from interpose.dump.decode.decode import to_tree
from interpose.dump.model.frames import Dropped, Frame, Header, Message, MessageSide, Packing, encode
from interpose.dump.recording.writer import RecordingWriter
from interpose.testing.recordings import (
    HEADER,
    Script,
    every_method_frames,
    filled,
    sample_recording,
    story_frames,
    write_recording,
)


def run(*arguments: object, stdin: bytes | None = None, command: str = "show") -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["dump", command, *map(str, arguments)], input=stdin)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The story as a file."""
    return sample_recording(tmp_path / "story.crirec")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Every method in both versions, written by the writer of recordings and shown as JSON."""
    path = tmp_path_factory.mktemp("all") / "all.crirec"
    writer = RecordingWriter(path, header_facts=dict(HEADER.facts))
    for frame in every_method_frames()[1:]:
        writer.write(frame)
    writer.close()
    result = run(path, "-o", "jsonl")
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_every_method_is_shown_as_it_was_recorded(everything: list[dict[str, object]], method: Method) -> None:
    """In both versions, with all fields of request and replies."""
    found = [one for one in everything if one["method"] == method.name]
    assert [one["path"] for one in found] == list(method.paths)
    replies = [to_tree(filled(method.response))] * (2 if method.server_streaming else 1)
    for one in found:
        messages = one["messages"]
        assert isinstance(messages, list)
        assert [message["body"] for message in messages] == [to_tree(filled(method.request)), *replies]


@pytest.mark.parametrize("form", ["list", "text", "detail", "yaml", "jsonl", "har", "html", "latency", "svg"])
def test_every_form_can_show_every_method(tmp_path: Path, form: str) -> None:
    """And says nothing else."""
    result = run(write_recording(tmp_path / "a.crirec", every_method_frames()), "-o", form)
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(name in result.stdout for name in METHODS)


def test_the_list_is_what_one_sees_first(sample: Path) -> None:
    """A line per call."""
    lines = run(sample).stdout.splitlines()
    assert len(lines) == 21
    assert lines[0].startswith("TIME (UTC)")


def test_a_call_is_opened_by_its_number(sample: Path) -> None:
    """With request, difference and reply."""
    text = run(sample, "--number", 7).stdout
    assert text.startswith("Call 7: ")
    assert "+       cpuset_cpus: 2-3" in text
    assert run(sample, "--number", "7", "-o", "list").stdout.count("\n") == 2
    assert run(sample, "--number", "7-9").stdout.count("Call ") == 3
    assert run(sample, "--number", "7", "web").stdout.count("Call ") == 1


def test_a_call_that_is_not_there_is_missed(sample: Path) -> None:
    """In words, on stderr."""
    result = run(sample, "--number", 99)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no call matches ~n 99\n")
    assert "is not a number" in run(sample, "--number", "x").stderr


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["~m Create & ~s error"], [13]),
        (["~m", "Create", "web"], [7]),
        (["method=Create pod=batch"], [13, 14]),
        (["--method", "Pull", "--method", "Exec"], [6, 11, 17]),
        (["--min-duration", "1s"], [6, 17]),
        (["--max-duration", "400us"], [1, 19]),
        (["--changed"], [7, 10]),
        (["--changed-by", "static"], [7]),
        (["--text", "cpuset_cpus: 2-3"], [7, 10]),
        (["~r stdout"], [11]),
        (["--status", "open"], [3, 20]),
        (["--since", "09:00:08"], [18, 19, 20]),
        (["--until", "2025-11-16T09:00:00.010Z"], [1, 2]),
        (["--namespace", "jobs", "--container", "worker", "~m Start"], [15]),
        (["~k originated"], [9]),
        (["--last", "2"], [3, 20]),
        (["--last", "2", "~m Exec"], [11, 17]),
    ],
)
def test_filters_choose_calls(sample: Path, arguments: list[str], numbers: list[int]) -> None:
    """As words behind the file, or as options."""
    result = run(sample, *arguments, "-o", "jsonl")
    assert [json.loads(line)["number"] for line in result.stdout.splitlines()] == numbers


def test_text_is_the_dump_format(sample: Path) -> None:
    """Messages in the order of the recording; with a filter on the end, call by call; with --last, the last ones."""
    whole = run(sample, "-o", "text").stdout
    assert "] (passthrough) REQUEST Version => version: 0.1.0\n" in whole
    assert "StopContainer => timeout: 30" in whole
    late = run(sample, "-o", "text", "~s NOT_FOUND").stdout
    assert "(passthrough) FAILED CreateContainer" in late
    assert "Version" not in late
    assert "StopContainer" in run(sample, "-o", "text", "--last", 1).stdout
    assert "StartContainer" in run(sample, "-o", "text", "--number", 8).stdout


def test_a_filter_that_finds_nothing_says_so(sample: Path, tmp_path: Path) -> None:
    """Or that there is nothing."""
    assert run(sample, "nobody").stderr == 'no call matches "nobody"\n'
    empty = write_recording(tmp_path / "empty.crirec", [HEADER])
    assert run(empty).output == "there are no calls in it\n"
    empty.write_bytes(b"")
    assert run(empty).output.startswith(f"damaged: {empty}: the file is empty")
    assert run(empty).output.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["~x"], "there is no ~x; possible are"),
        (["--status", "x"], "--status: 'x' is not a status"),
        (["-o", "xml"], "'xml' is not one of"),
        (["--last", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage_ends_with_2(sample: Path, arguments: list[str], reason: str) -> None:
    """And says what is possible."""
    result = run(sample, *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_mistake_in_a_filter_is_all_that_is_said(sample: Path) -> None:
    """Without how the command is used."""
    assert run(sample, "--status", "x").stderr.startswith("error: --status: ")
    assert "Usage" not in run(sample, "~x").stderr


@pytest.mark.parametrize("arguments", [["missing.crirec"], ["missing"], ["story", "--redact", "env:"]])
def test_what_cannot_be_used_ends_with_78(tmp_path: Path, sample: Path, arguments: list[str]) -> None:
    """A file that is not there, rules that are none."""
    result = run(*(sample if one == "story" else one for one in arguments))
    assert result.exit_code == 78
    assert result.stderr.startswith("error: ")


def test_a_stream_is_shown(sample: Path) -> None:
    """From standard input."""
    data = sample.read_bytes()
    assert run("-", "--number", 7, stdin=data).stdout == run(sample, "--number", 7).stdout
    result = run("-", stdin=b"nonsense")
    assert (result.exit_code, "standard input: is not a recording" in result.stderr) == (78, True)


def test_output_goes_to_a_file(sample: Path, tmp_path: Path) -> None:
    """And nothing to the terminal."""
    path = tmp_path / "calls.html"
    result = run(sample, "-o", "html", "--output", path)
    assert (result.exit_code, result.output) == (0, "")
    assert "CreateContainer" in path.read_text()


def test_a_page_has_a_limit(sample: Path) -> None:
    """What is left out is counted on it."""
    assert '"calls":20,"unshown":0' in run(sample, "-o", "html").stdout.replace(" ", "")
    assert '"calls":5,"unshown":15' in run(sample, "-o", "html", "--limit", 5).stdout.replace(" ", "")


def test_a_page_is_not_for_a_terminal(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be thousands of lines of markup."""
    monkeypatch.setattr("interpose.cli.dump.show._on_terminal", lambda: True)
    result = run(sample, "-o", "svg")
    assert (result.exit_code, "add --output FILE" in result.stderr) == (2, True)


def test_damage_is_reported_at_the_end(sample: Path) -> None:
    """The exit code is for those who ask for it; a page says it at its top."""
    sample.write_bytes(sample.read_bytes()[:-3])
    result = run(sample)
    assert result.exit_code == 0
    assert "damaged: " in result.stderr
    assert "CreateContainer" in result.stdout
    assert run(sample, "--strict").exit_code == 1
    assert "bytes at offset" in run(sample, "-o", "html").stdout


def test_much_damage_is_counted(tmp_path: Path) -> None:
    """Not all of it is named."""
    path = tmp_path / "a.crirec"
    path.write_bytes(b"".join(encode(frame) + b"garbage" for frame in story_frames()))
    lines = run(path).stderr.splitlines()
    assert len(lines) == 11
    assert lines[-1].startswith("damaged: ")
    assert lines[-1].endswith("more places")


def test_what_the_recording_missed_is_said(tmp_path: Path) -> None:
    """It was too slow."""
    path = write_recording(tmp_path / "a.crirec", [*story_frames(), Dropped(frames=7, size=1, time=0)])
    assert "7 frames never got into the recording" in run(path).stderr


def test_long_texts_that_were_not_searched_are_said(tmp_path: Path) -> None:
    """A needle may be behind what was searched."""
    note = b"x" * (2 << 20)
    script = Script()
    number = script.begin("Version", b"")
    script.frames[-1] = Message(
        number=number, at=0, side=MessageSide.REQUEST, packing=Packing.ABSENT, size=1, body=note
    )
    assert "longer than a MiB" in run(write_recording(tmp_path / "a.crirec", script.frames), "~t needle").stderr


def test_more_can_be_hidden_before_sharing(sample: Path) -> None:
    """From filters, too."""
    assert "hunter2" in run(sample, "-o", "yaml").stdout
    for form in ("yaml", "text", "html", "har"):
        assert "hunter2" not in run(sample, "-o", form, "--redact", "default").stdout
    assert "hunter2" not in run(sample, "--number", 6, "--redact", "default").stdout
    assert run(sample, "--redact", "default", "~t hunter2").stdout == ""


def test_a_page_says_whether_anything_is_hidden_on_it(tmp_path: Path) -> None:
    """A recording that hides nothing can be shown with less."""
    open_header = Header(facts={**HEADER.facts, "redaction": "none"})
    path = write_recording(tmp_path / "a.crirec", [open_header, *story_frames()[1:]])
    assert '"redaction":"none"' in run(path, "-o", "html").stdout.replace(": ", ":")
    assert '"redaction":"none"' not in run(path, "-o", "html", "--redact", "default").stdout.replace(": ", ":")


def test_a_file_stands_for_its_rotated_set(sample: Path) -> None:
    """Unless it is read alone; and several files are read one after the other."""
    older = sample.with_name("story.000001.crirec")
    sample_recording(older)
    assert len(run(sample, "-o", "jsonl", "--alone").stdout.splitlines()) == 20
    assert len(run(sample, "-o", "jsonl", "~s OK").stdout.splitlines()) == 30
    assert len(run(older, "-o", "jsonl", "~s OK").stdout.splitlines()) == 15
    assert len(run(older, sample, "-o", "jsonl", "~s OK").stdout.splitlines()) == 30


def test_yaml_and_har_are_what_they_say(sample: Path) -> None:
    """Other programs read them."""
    assert len(list(yaml.safe_load_all(run(sample, "-o", "yaml").stdout))) == 20
    assert len(json.loads(run(sample, "-o", "har").stdout)["log"]["entries"]) == 20


def test_a_reader_that_went_away_ends_it_quietly(tmp_path: Path) -> None:
    """As with `| head`."""
    path = write_recording(tmp_path / "a.crirec", every_method_frames())
    code = "from interpose.cli.main import main; main()"
    arguments = [sys.executable, "-c", code, "dump", "show", str(path), "-o", "yaml"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


# -- follow


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Frame]], None]:
    """Lets a recording that is followed grow by frames; then somebody presses Ctrl-C."""

    def grow(frames: list[Frame]) -> None:
        def following(
            path: str, *, beginning: bool, alone: bool, on_damage: Callable[[object], object]
        ) -> Iterator[Frame]:
            yield from story_frames() if beginning else [HEADER]
            yield from frames
            on_damage("a hole")
            raise KeyboardInterrupt

        monkeypatch.setattr("interpose.cli.dump.show.follow_file", following)

    return grow


def test_calls_are_shown_as_they_end(sample: Path, ending: Callable[[list[Frame]], None]) -> None:
    """Those that do not end are not; Ctrl-C is the way out."""
    ending(story_frames()[1:])
    result = run(sample, "~m Create", command="follow")
    assert result.exit_code == 0
    assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["7", "13", "14"]
    assert result.stderr == "damaged: a hole\n"


def test_what_is_in_the_file_can_be_shown_first(sample: Path, ending: Callable[[list[Frame]], None]) -> None:
    """From its beginning."""
    ending([])
    assert run(sample, command="follow").stdout.count("\n") == 1
    assert run(sample, "--from-start", command="follow").stdout.count("\n") == 19


def test_messages_are_shown_as_they_come(sample: Path, ending: Callable[[list[Frame]], None]) -> None:
    """In the text form: a stream need not end."""
    ending(story_frames()[1:])
    assert "REPLY GetContainerEvents #3" in run(sample, "~m Events", "-o", "text", command="follow").stdout


def test_a_stream_is_followed_to_its_end(sample: Path) -> None:
    """From standard input."""
    result = run("-", "-o", "jsonl", stdin=sample.read_bytes(), command="follow")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 18)


def test_one_recording_can_be_followed(sample: Path) -> None:
    """And it has to be there."""
    assert run(sample, sample, command="follow").exit_code == 2
    assert run("missing.crirec", command="follow").exit_code == 78
    assert run(sample, "-o", "har", command="follow").exit_code == 2


@pytest.mark.parametrize("command", ["show", "follow"])
def test_the_help_has_examples_and_filters(command: str) -> None:
    """For newcomers."""
    text = run("--help", command=command).stdout
    assert "Examples:" in text
    assert "~d >100ms" in text
