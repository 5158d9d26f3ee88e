"""Calls of the live view as a file, in the form its name asks for. What is written was redacted when it came.

A file that exists is never touched; one that could not be finished is taken away again.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from interpose.dump.decode.api import MessageDecoder
from interpose.dump.model.call import Flow, Subject
from interpose.dump.model.frames import Begin, End, Frame, Message
from interpose.dump.output.formats import OUTPUTS, OutputContext
from interpose.dump.recording.writer import RecordingWriter
from interpose.dump.replay.selection import MonotonicClock

RECORDING: Final = ".crirec"
_ONE_FILE: Final = 1 << 62  # bytes: what is saved is not rotated


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """The calls to write into a file, and what is known about them."""

    flows: Sequence[Flow]
    facts: Mapping[str, Any]  # of the header
    title: str
    decoder: MessageDecoder
    context: Mapping[str, Any] = field(default_factory=dict)  # of a recording: what is known about pods


def snapshot(flow: Flow) -> Flow:
    """A call as it is now: what comes later does not change this one."""
    return replace(flow, messages=list(flow.messages))


def frames_of(flow: Flow, number: int) -> Iterator[Frame]:
    """The frames that make up a call, under this number."""
    yield Begin(
        number=number,
        time=flow.time,
        path=flow.path,
        origin=flow.origin,
        pid=flow.pid,
        uid=flow.uid,
        flags=flow.flags,
        metadata=flow.metadata,
    )
    yield from (message._replace(number=number) for message in flow.messages)
    if flow.end is not None:
        yield flow.end._replace(number=number)


def _since(frame: Frame) -> int:
    """Nanoseconds since its call began."""
    return frame.elapsed if isinstance(frame, End) else frame.at if isinstance(frame, Message) else 0


def name_problem(name: str, allowed: Iterable[str] = ()) -> str:
    """What is wrong with the name of a file, before anything is written; empty if nothing is."""
    forms = list(allowed) or list(FORMS)
    if not name.strip():
        return "type the name of a file"
    path = file_path(name)
    if path.suffix not in forms:
        return f"the name must end in {' or '.join(forms)}: {path.suffix or path.name!r} does not say in which form"
    if path.exists():
        return f"{path} exists, choose another name"
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    return ""


def file_path(name: str) -> Path:
    """The file that somebody means."""
    return Path(name.strip()).expanduser()


def save(path: Path, saved: SaveRequest) -> None:
    """Write a file. OSError if that is not possible."""
    FORMS[path.suffix](path, saved)


def _recording(path: Path, saved: SaveRequest) -> None:
    if path.exists():
        raise FileExistsError(f"{path} exists")
    writer = RecordingWriter(
        path, header_facts=dict(saved.facts), max_bytes=_ONE_FILE, files=1, context=lambda: saved.context
    )
    # Numbers are those of the relay, which may have been started anew meanwhile: then they are not unique.
    unique = len({flow.number for flow in saved.flows}) == len(saved.flows)
    clock = MonotonicClock()
    timed: list[tuple[int, Frame, Subject]] = []
    for place, flow in enumerate(saved.flows, start=1):
        begun = clock.elapsed(flow.time)
        frames = frames_of(flow, flow.number if unique else place)
        timed += [(begun + _since(frame), frame, flow.subject) for frame in frames]
    # As they came: the places of frames in a recording say what was over when something else began.
    for _time, frame, subject in sorted(timed, key=lambda entry: entry[0]):
        writer.write(frame, subject)
    writer.close()
    if writer.error is not None:
        path.unlink(missing_ok=True)
        raise writer.error


def _text(form: str) -> Callable[[Path, SaveRequest], None]:
    def write(path: Path, saved: SaveRequest) -> None:
        pieces = OUTPUTS[form](saved.flows, OutputContext(decoder=saved.decoder, title=saved.title, facts=saved.facts))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.writelines(pieces)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    return write


FORMS: Final[Mapping[str, Callable[[Path, SaveRequest], None]]] = MappingProxyType(
    {RECORDING: _recording} | {f".{form}": _text(form) for form in ("html", "jsonl", "yaml", "har")}
)
