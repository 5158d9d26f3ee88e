"""What happened, as values."""

from interpose.relay.api import CLIENT
from interpose.resmgr.whatif.events import ReplyEvent, RequestEvent


def test_a_call_is_the_kubelets_unless_somebody_says_otherwise() -> None:
    """And asks for what it says."""
    asked = RequestEvent(number=1, time_ns=2, method="StopContainer")
    assert (asked.origin, asked.amends) == (CLIENT, False)


def test_an_answer_is_ok_and_its_request_went_as_it_came() -> None:
    """A reply that was not kept is not an empty one."""
    answered = ReplyEvent(number=1, time_ns=2)
    assert (answered.code, answered.reply, answered.forwarded) == (0, b"", None)
    assert answered != ReplyEvent(number=1, time_ns=2, reply=None)
