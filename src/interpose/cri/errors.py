"""Messages of CRI that cannot be read."""


class UnreadableMessageError(Exception):
    """The message cannot be parsed: an unknown encoding, or bytes that are no such message."""


class OpaqueMessageError(UnreadableMessageError):
    """It cannot be parsed here, and the runtime may understand it all the same: who has to decide about it refuses."""
