"""The frames of a recording as what happened to pods and containers: between `dump`, which keeps calls, and `resmgr`,
which looks back at them. Neither knows the other.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from interpose.cri.store.requested import NOT_REQUESTED
from interpose.dump.model.call import Assembler, Flow
from interpose.dump.model.frames import DamagedFrame, Dropped, End, Frame, Message, Packing, Side
from interpose.resmgr.whatif.events import Answered, Asked, Happening, Told
from interpose.resmgr.whatif.replay import TELLING

_AMENDS: Final = tuple(part.decode() for part in NOT_REQUESTED)


class Reader:
    """Turns the frames of a recording into what happened, in the order in which it did."""

    def __init__(self) -> None:
        self._dropped = 0
        self._absent = 0

    def notes(self) -> list[str]:
        """What is missing, in words."""
        notes = []
        if self._dropped:
            notes.append(f"Frames that were lost while it was recorded, so that this is approximate: {self._dropped}")
        if self._absent:
            notes.append(f"Messages that matter and were not kept in the recording: {self._absent}")
        return notes

    def happenings(self, frames: Iterable[Frame]) -> Iterator[Happening]:
        """Everything that tells something about pods and containers."""
        assembler = Assembler()
        for frame in frames:
            event = assembler.feed(frame)
            if isinstance(frame, Dropped):
                self._dropped += frame.frames
            flow = event.flow
            if flow is None or flow.method is None or flow.name not in TELLING:
                continue
            if isinstance(frame, Message):
                yield from self._message(flow, frame)
            elif isinstance(frame, End):
                yield self._end(flow, frame)

    def _message(self, flow: Flow, message: Message) -> Iterator[Happening]:
        if message.side is Side.REQUEST:
            if (asked := self._asked(flow, message)) is not None:
                yield asked
        elif flow.method is not None and flow.method.server_streaming and message.side.is_reply:
            data = self._data(message)
            if data is not None:
                yield Told(number=flow.number, time_ns=flow.time + message.at, reply=data)

    def _asked(self, flow: Flow, message: Message) -> Asked | None:
        data = self._data(message)
        if data is None:
            return None
        return Asked(
            number=flow.number,
            time_ns=flow.time + message.at,
            method=flow.name,
            request=data,
            origin=flow.origin,
            amends=_AMENDS in flow.metadata,
        )

    def _end(self, flow: Flow, end: End) -> Answered:
        # What the runtime itself said counts; a caller may be shown something else.
        replies = flow.of(Side.RECEIVED) or flow.of(Side.REPLY)
        sent = flow.of(Side.FORWARDED)
        streaming = flow.method is not None and flow.method.server_streaming
        reply = self._data(replies[-1]) if replies and not streaming else None
        return Answered(
            number=flow.number,
            time_ns=flow.time + end.elapsed,
            reply=reply,
            code=end.code,
            message=end.message,
            forwarded=self._data(sent[-1]) if sent else None,
        )

    def _data(self, message: Message) -> bytes | None:
        """The bytes of a message; None if it was not kept, or cannot be unpacked."""
        try:
            if message.packing is not Packing.ABSENT:
                return message.data
        except DamagedFrame:
            pass
        self._absent += 1
        return None
