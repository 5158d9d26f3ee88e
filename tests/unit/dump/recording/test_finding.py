"""Calls that are found by the indexes of a recording."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from operator import eq
from pathlib import Path

import pytest

from interpose.dump.decode.decode import Decoder
from interpose.dump.filter.language import MATCH_ALL
from interpose.dump.filter.select import CallSelector
from interpose.dump.model.call import NO_SUBJECT, SESSION, Assembler, Flow
from interpose.dump.model.frames import Begin, Frame
from interpose.dump.model.subject import Subjects
from interpose.dump.output.json import flow_document
from interpose.dump.recording import reader as module
from interpose.dump.recording.reader import Recording, find_calls, open_recording
from interpose.dump.recording.writer import RecordingWriter
from interpose.testing.recordings import HEADER, START, sample_recording, story_frames

HOUR = 3600 * 10**9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """FILE."""
    return tmp_path / "calls.crirec"


def write(path: Path, frames: list[Frame], session: str = "sample", max_bytes: int = 0) -> Path:
    """A recording as a relay writes it: with an index, and whom calls are about."""
    subjects = Subjects()
    assembler = Assembler(subjects.identify)
    facts = {**HEADER.facts, SESSION: session}
    writer = RecordingWriter(path, header_facts=facts, context=subjects.context, max_bytes=max_bytes, files=50)
    for frame in frames[1:]:
        flow = assembler.feed(frame).flow
        writer.write(frame, NO_SUBJECT if flow is None else flow.subject)
    writer.close()
    return path


def documents(recording: Recording) -> list[dict[str, object]]:
    """Every call, by reading everything."""
    viewing = CallSelector(MATCH_ALL, lambda _flow, _sides: "")
    return shown(viewing.flows(recording.frames()))


def shown(flows: Iterator[Flow] | None) -> list[dict[str, object]]:
    """What was found."""
    assert flows is not None
    return [flow_document(flow, Decoder()) for flow in flows]


@pytest.mark.parametrize("max_bytes", [0, 4000])
def test_the_index_and_reading_give_the_same(path: Path, max_bytes: int) -> None:
    """For each call alone, and for all of them, in one file or in several."""
    with open_recording([write(path, story_frames(), max_bytes=max_bytes)]) as recording:
        expected = documents(recording)
        assert len(expected) == 20
        assert (len(recording.files) > 1) == bool(max_bytes)
        for one in expected:
            assert shown(find_calls(recording, partial(eq, one["number"]))) == [one]
        assert shown(find_calls(recording, lambda _: True)) == expected
        assert shown(find_calls(recording, lambda _: True, 3)) == expected[-3:]


def test_all_relay_processes_are_meant(path: Path) -> None:
    """What did not end comes behind the others of its process."""
    write(path, story_frames(), session="a")
    later = [one._replace(time=one.time + HOUR) if isinstance(one, Begin) else one for one in story_frames()]
    write(path, later, session="b")
    with open_recording([path]) as recording:
        flows = list(find_calls(recording, lambda number: number in (3, 8)) or [])
    assert [(flow.number, flow.time - START > HOUR) for flow in flows] == [(8, False), (3, False), (8, True), (3, True)]


def test_without_an_index_it_is_better_to_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is if there are many calls."""
    with Recording(sample_recording(path)) as recording:
        assert find_calls(recording, lambda _: True, 1) is None
    with Recording(write(path, story_frames())) as recording:
        monkeypatch.setattr(module, "MAX_INDEXED_READS", 5)
        assert find_calls(recording, lambda _: True) is None
        assert find_calls(recording, lambda _: True, 6) is None
        assert find_calls(recording, lambda _: True, 5) is not None


def test_an_index_that_leads_nowhere_is_not_used(path: Path) -> None:
    """Everything has to be read then."""
    with Recording(write(path, story_frames())) as recording:
        entries = recording.entries()
        entries[:] = [replace(one, ranges=(one.ranges[0]._replace(begin=0, end=20),)) for one in entries]
        assert find_calls(recording, lambda number: number == 8) is None


def test_one_file_with_an_index_is_enough(path: Path) -> None:
    """The newest has none while it grows, and is read; whom its calls are about is known from its own."""
    write(path, story_frames(), session="a")
    older = path.rename(path.with_name("calls.000001.crirec"))
    with open_recording([sample_recording(path)]) as recording:
        assert [file.path for file in recording.files] == [older, path]
        flows = list(find_calls(recording, lambda number: number == 8) or [])
        assert [str(flow.subject) for flow in flows] == ["shop/web-0:app"] * 2
