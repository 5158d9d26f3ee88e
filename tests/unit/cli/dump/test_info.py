"""`interpose dump info` says what is in a recording."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.dump.model.frames import Begin, Dropped, End, Frame, Header, encode
from interpose.dump.recording.files import rotated_set
from interpose.dump.recording.writer import RecordingWriter
from interpose.testing.recordings import sample_recording, story_frames, write_recording


def run(*arguments: object) -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["dump", "info", *map(str, arguments)])


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A story."""
    return sample_recording(tmp_path / "sample.crirec")


def test_a_recording_is_summed_up(sample: Path) -> None:
    """Where it comes from, its file, its calls."""
    result = run(sample)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert "host       node-1" in lines
    assert f"{sample}  11.7 KiB  2025-11-16T09:00:00Z  no" in lines
    assert "20 calls, 3 failed, 2 changed, 2 unfinished" in lines
    assert "2025-11-16T09:00:00.005Z to 2025-11-16T09:00:08.420Z (8.416 s)" in lines
    assert "CreateContainer           3      OK 2, NOT_FOUND 1" in lines
    assert "GetContainerEvents        1      unfinished 1" in lines
    assert "DAMAGED" not in result.output


def test_the_same_for_programs(sample: Path) -> None:
    """With every number."""
    document = json.loads(run(sample, "-o", "json").output)
    assert document["header"]["session"] == "sample"
    assert (document["calls"], document["failed"], document["unfinished"]) == (20, 3, 2)
    assert document["methods"]["ExecSync"] == {"OK": 1, "DEADLINE_EXCEEDED": 1}
    assert document["files"][0]["size"] == sample.stat().st_size
    assert (document["damage"], document["dropped"]) == ([], {"frames": 0, "bytes": 0})


def test_damage_comes_first_and_is_no_failure(sample: Path) -> None:
    """With file and offset."""
    data = bytearray(sample.read_bytes())
    data[1000] ^= 0xFF
    sample.write_bytes(data[:-5])
    result = run(sample)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "DAMAGED in 2 places; everything else can be read:"
    assert lines[1].startswith(f"  {sample}: ")
    assert "at offset" in lines[1]
    assert "a frame is cut off" in lines[2]
    document = json.loads(run(sample, "-o", "json").output)
    assert document["damaged_places"] == 2
    assert [one["file"] for one in document["damage"]] == [str(sample)] * 2


def test_much_damage_is_cut_short(tmp_path: Path) -> None:
    """The rest is in JSON."""
    path = tmp_path / "bad.crirec"
    path.write_bytes(b"".join(encode(one) + b"???" for one in [*story_frames(), *story_frames()]))
    result = run(path)
    assert result.exit_code == 0
    assert "more: -o json lists them" in result.output


def test_what_was_dropped_is_said(tmp_path: Path) -> None:
    """By the recording itself."""
    path = write_recording(tmp_path / "x", [Header(facts={}), Dropped(frames=7, size=2048, time=1)])
    result = run(path)
    assert "DROPPED 7 frames (2 KiB)" in result.output
    assert "No calls." in result.output
    assert result.exit_code == 0


def test_a_rotated_recording_is_one(tmp_path: Path) -> None:
    """Unless one file is meant; then calls may lack their beginning."""
    path = tmp_path / "calls.crirec"
    writer = RecordingWriter(path, header_facts={"session": "a"}, max_bytes=1500)
    frames: list[Frame] = [Begin(number=number, time=number, path=f"/{'x' * 200}/Version") for number in range(1, 8)]
    for frame in [*frames, End(number=7, elapsed=10**18, code=0)]:
        writer.write(frame)
    writer.close()
    assert len(rotated_set(path)) > 1
    document = json.loads(run(path, "-o", "json").output)
    assert [one["path"] for one in document["files"]] == list(map(str, rotated_set(path)))
    assert (document["calls"], document["beginning_missing"]) == (7, 0)
    assert all(one["index"] for one in document["files"])
    alone = run(path, "--alone")
    assert "without their beginning" in alone.output


def test_any_time_can_be_shown(tmp_path: Path) -> None:
    """Whoever wrote it."""
    first = Begin(number=1, time=-(1 << 63), path="/a/B")
    last = Begin(number=2, time=(1 << 63) - 1, path="/a/B")
    end = End(number=2, elapsed=(1 << 64) - 1, code=0)
    path = write_recording(tmp_path / "x", [Header(facts={}), first, last, end])
    document = json.loads(run(path, "-o", "json").output)
    assert (document["first"][:4], document["last"][:4]) == ("1677", "2846")


def test_what_others_wrote_does_not_move_the_cursor(tmp_path: Path) -> None:
    """A recording comes from anywhere."""
    evil = "\x1b[2J"
    header = Header(facts={evil: evil, "created": evil})
    path = write_recording(tmp_path / "x", [header, Begin(number=1, time=1, path=f"/a/{evil}")])
    assert evil not in run(path).output


@pytest.mark.parametrize("content", [b"text", encode(Header(facts={"version": 7}))])
def test_what_is_no_recording_cannot_be_used(tmp_path: Path, content: bytes) -> None:
    """The same as for other commands."""
    path = tmp_path / "x"
    path.write_bytes(content)
    result = run(path)
    assert result.exit_code == 78
    assert result.output.startswith(f"error: {path}: ")


def test_an_empty_file_is_one_sentence(tmp_path: Path) -> None:
    """And a failure."""
    path = tmp_path / "x"
    path.touch()
    result = run(path)
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith(f"{path}: the file is empty")


def test_a_file_that_is_missing_between_others_is_damage(tmp_path: Path) -> None:
    """The number of its part tells."""
    for name, part in (("a.000001", 1), ("a.000002", 3), ("a", 6)):
        write_recording(tmp_path / f"{name}.crirec", [Header(facts={"session": "s", "part": part})])
    lines = run(tmp_path / "a.crirec").output.splitlines()
    assert lines[:3] == [
        "DAMAGED in 2 places; everything else can be read:",
        f"  {tmp_path}/a.000002.crirec: this is part 3 of a recording and the file before it part 1: 2 is missing",
        f"  {tmp_path}/a.crirec: this is part 6 of a recording and the file before it part 3: 4 to 5 are missing",
    ]
    assert "DAMAGED" not in run("--alone", tmp_path / "a.crirec").output


def test_a_file_that_is_not_there_cannot_be_used(tmp_path: Path) -> None:
    """It is named."""
    result = run(tmp_path / "no")
    assert (result.exit_code, result.output) == (78, f"error: {tmp_path / 'no'}: there is no such file\n")


def test_without_a_file_it_is_wrong_usage() -> None:
    """As everywhere."""
    assert run().exit_code == 2
