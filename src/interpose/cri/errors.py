"""Messages of CRI that cannot be read."""


class Unreadable(Exception):  # noqa: N818 - a fact about the message, which passes on as it came
    """The message cannot be parsed: an encoding nobody knows, or bytes that are no such message."""


class Opaque(Unreadable):
    """It cannot be parsed here, and the runtime may understand it all the same: who has to decide about it refuses."""
