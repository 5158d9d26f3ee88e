"""What decoding a message gives, and the one thing that showing calls needs of a decoder. Pure."""

from dataclasses import dataclass
from typing import Any, Protocol

from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedMessage:
    """A message as a tree of plain values. None: it could not be decoded, and the note says why."""

    tree: Any | None
    note: str = ""


class MessageDecoder(Protocol):
    """Makes a tree of a message; never fails."""

    def message(self, flow: Flow, message: Message) -> DecodedMessage:
        """The message of a call."""
