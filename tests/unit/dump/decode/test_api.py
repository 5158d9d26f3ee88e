"""What decoding gives."""

from interpose.dump.decode.api import DecodedMessage


def test_a_message_without_remarks_has_an_empty_note() -> None:
    """The note is there for what went wrong only."""
    assert DecodedMessage(tree={}).note == ""
