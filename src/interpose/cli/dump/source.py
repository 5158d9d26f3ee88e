"""Where the frames come from that a command shows: files, or a stream on standard input that is shown as it comes."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, Protocol

from interpose.cli.dump.filter_options import STDIN
from interpose.dump.model.frame_reader import Damage, FrameStream
from interpose.dump.model.frames import VERSION, Frame, Header
from interpose.dump.recording.reader import Recording, open_recording
from interpose.errors import ConfigError

_PIECE: Final = 1 << 16


class DumpSource(Protocol):
    """Frames, and what was found wrong with them when they were read."""

    def frames(self) -> Iterator[Frame]:
        """From the first to the last."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Of the recording; known before frames are read."""

    @property
    def damage(self) -> Sequence[Damage]:
        """The first damaged places; later ones are only counted."""

    @property
    def damaged(self) -> int:
        """The number of damaged places."""


class FileSource:
    """Frames of the files of a recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def frames(self) -> Iterator[Frame]:
        """Again from the beginning each time."""
        return self.recording.frames()

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.recording.header.facts

    @property
    def damage(self) -> Sequence[Damage]:
        return self.recording.damage

    @property
    def damaged(self) -> int:
        return self.recording.damaged


class StreamSource:
    """Frames of a stream that can be read once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._read = getattr(stream, "read1", stream.read)  # what is there, without waiting for more
        self._parser = FrameStream()
        self._first: list[Frame] = []
        self._ended = False
        while not self._first and not self._ended:
            self._first = self._next()
        first = self._first[0] if self._first else None
        if not isinstance(first, Header) and not any(isinstance(frame, Header) for frame in self._first):
            raise ConfigError("standard input: is not a recording: it does not begin with a header")
        self.facts: Mapping[str, Any] = next(frame.facts for frame in self._first if isinstance(frame, Header))
        version = self.facts.get("version", VERSION)
        if isinstance(version, int) and version > VERSION:
            raise ConfigError(f"standard input: is of version {version}, this program knows {VERSION}: use a newer one")

    def frames(self) -> Iterator[Frame]:
        yield from self._first
        self._first = []
        while not self._ended:
            yield from self._next()

    @property
    def damage(self) -> Sequence[Damage]:
        return self._parser.damage

    @property
    def damaged(self) -> int:
        return self._parser.damaged

    def _next(self) -> list[Frame]:
        piece = self._read(_PIECE)
        if piece:
            return self._parser.feed(piece)
        self._ended = True
        return self._parser.finish()


def open_source(files: Sequence[str], *, alone: bool) -> FileSource | StreamSource:
    """The frames of files, with the older files of rotated recordings unless `alone`; or of standard input."""
    if list(files) == [STDIN]:
        return StreamSource(sys.stdin.buffer)
    return FileSource(open_recording(files, alone=alone))
