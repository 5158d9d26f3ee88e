"""The tables of stream states: every combination has an answer, and only the right ones go on."""

from interpose.net.h2.headers import HeaderShape
from interpose.net.h2.states import BODY, DATA_EVENT, DONE, EVENTS, HEAD, RECEIVING

ALLOWED = {
    (HEAD, HeaderShape.INTERIM * 2): HEAD,
    (HEAD, HeaderShape.RESPONSE * 2): BODY,
    (HEAD, HeaderShape.RESPONSE * 2 + 1): DONE,
    (BODY, HeaderShape.TRAILERS * 2 + 1): DONE,
    (BODY, DATA_EVENT): BODY,
    (BODY, DATA_EVENT + 1): DONE,
}


def test_every_event_in_every_state() -> None:
    """What is not allowed is PROTOCOL_ERROR while the side is open, and STREAM_CLOSED once it is done."""
    for state in (HEAD, BODY, DONE):
        for event in range(EVENTS):
            expected = ALLOWED.get((state, event), -5 if state == DONE else -1)
            assert RECEIVING[state][event] == expected


def test_events_fit() -> None:
    """Each shape has two events, and DATA comes behind them."""
    assert len({shape * 2 for shape in HeaderShape} | {DATA_EVENT}) == len(HeaderShape) + 1
    assert DATA_EVENT + 2 == EVENTS
