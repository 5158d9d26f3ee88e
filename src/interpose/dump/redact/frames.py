"""Secrets are taken out of frames as soon as they arrive, so that nobody behind this ever sees one.

Bytes in, bytes out. Whatever the bytes are, `Redactor` never fails: a message that it cannot look through is withheld,
which leaves its size and a summary without contents. A message that can hold no secret keeps its bytes; one that can
is written anew from what was understood of it, so that nothing stays in it that was not looked at. Frames that were
redacted before stay as they are.
"""

from typing import Final

from interpose.config.dump_redaction import Redaction as Redaction
from interpose.config.dump_redaction import parse_redaction as parse_redaction
from interpose.cri.methods import Method, method_of_path
from interpose.cri.parser import CriParser
from interpose.dump.decode.raw_protobuf import wire_summary
from interpose.dump.model.call import KEPT_CALLS, SESSION
from interpose.dump.model.frames import (
    MAX_PAYLOAD,
    Begin,
    DamagedFrameError,
    End,
    Frame,
    Header,
    Message,
    Metadata,
    Packing,
)
from interpose.dump.redact.patterns import REDACTED, Memo, hide_credentials, hides_metadata
from interpose.dump.redact.plan import Plan, Plans

WITHHELD: Final = "not decoded, withheld by redaction; use --dump-redact=none to keep it"
# Clients send the same metadata with all of their calls: that of so many, and of this size, is looked through once.
_MOST_KNOWN: Final = 256
_LONGEST_KNOWN: Final = 1024
LARGEST: Final = MAX_PAYLOAD - 1024  # marks may make a message longer than what fits into a frame
# A member of an enumeration takes longer to look up than all else that is done with it here.
_ABSENT: Final = Packing.ABSENT
_PLAIN: Final = Packing.PLAIN


class _Type:
    """A kind of message: its parser and its plan, made when the first one comes."""

    __slots__ = ("parser", "plan")

    def __init__(self, name: str, plans: Plans, *, secrets: bool) -> None:
        self.parser = CriParser(name)
        self.plan: Plan | None = plans.of(self.parser.parse(b"").DESCRIPTOR, secrets=secrets)


class Redactor:
    """Redacts the frames of one stream, in their order."""

    def __init__(self, redaction: Redaction, *, largest: int = LARGEST) -> None:
        self._redaction = redaction
        self._largest = largest
        self._plans = Plans(redaction)
        self._types: dict[str, _Type] = {}
        self._methods: dict[int, Method | None] = {}
        self._hides = Memo(hides_metadata)
        self._metadata: dict[Metadata, Metadata] = {}  # redacted, of calls that came before
        self._session: object = None

    def frame(self, frame: Frame) -> Frame:
        """The frame with its secrets replaced."""
        if self._redaction.nothing:
            return frame
        if isinstance(frame, Message):
            return self._message(frame)
        if isinstance(frame, Begin):
            return self._begin(frame)
        if isinstance(frame, End):
            self._methods.pop(frame.number, None)
            message = hide_credentials(frame.message) if frame.message else ""
            return frame if message == frame.message else frame._replace(message=message)
        if isinstance(frame, Header):
            if frame.facts.get(SESSION) != self._session:
                self._methods.clear()  # numbers of another process mean other calls
            self._session = frame.facts.get(SESSION)
        return frame

    def _begin(self, frame: Begin) -> Begin:
        self._methods.pop(frame.number, None)
        if len(self._methods) >= KEPT_CALLS:
            self._methods.pop(next(iter(self._methods)))
        self._methods[frame.number] = method_of_path(frame.path.encode(errors="surrogateescape"))
        metadata = self._metadata.get(frame.metadata)
        if metadata is None:
            metadata = self._hidden(frame.metadata)
        return frame if metadata == frame.metadata else frame._replace(metadata=metadata)

    def _hidden(self, metadata: Metadata) -> Metadata:
        hidden = tuple((key, REDACTED if self._hides[key] else hide_credentials(value)) for key, value in metadata)
        if sum(len(key) + len(value) for key, value in metadata) <= _LONGEST_KNOWN:
            if len(self._metadata) >= _MOST_KNOWN:
                self._metadata.clear()
            self._metadata[metadata] = hidden
        return hidden

    def _message(self, frame: Message) -> Message:
        if frame.packing is _ABSENT:
            return frame
        method = self._methods.get(frame.number)
        if method is None:
            return _withheld(frame)
        try:
            return self._redacted(frame, method)
        except Exception:  # what it was is of no use: it must not be shown
            return _withheld(frame)

    def _redacted(self, frame: Message, method: Method) -> Message:
        name = method.response if frame.side.is_reply else method.request
        kind = self._types.get(name)
        if kind is None:
            kind = self._types[name] = _Type(name, self._plans, secrets=method.secrets)
        if kind.plan is None:
            return frame
        original = frame.data
        message = kind.parser.parse(original)
        kind.plan(message)
        # Also if there was nothing to hide: a field that appears twice is read once, so the bytes may hold more.
        data = kind.parser.serialize(message)
        if data == original:
            return frame
        if len(data) > self._largest:
            return _withheld(frame)
        return frame._replace(packing=_PLAIN, size=len(data), body=data)


def _withheld(frame: Message) -> Message:
    try:
        summary = wire_summary(frame.data, contents=False)
    except DamagedFrameError:
        summary = f"{frame.size} bytes, damaged"
    return frame._replace(packing=_ABSENT, body=f"{WITHHELD}: {summary}".encode())
