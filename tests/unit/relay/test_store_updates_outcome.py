"""What replies tell about what the runtime did."""

import pytest

from interpose.net.grpc.exchange import RawReply
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Reply
from interpose.relay.store_updates import has_unknown_outcome


@pytest.mark.parametrize("code", Code)
def test_some_statuses_leave_it_open(code: Code) -> None:
    """Whoever sent them may not know it either."""
    open_ones = (Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)
    assert has_unknown_outcome(Reply(code=code)) == (code in open_ones)


@pytest.mark.parametrize("failed", [False, True])
def test_an_exchange_that_broke_off_leaves_it_open(failed: bool) -> None:
    """Whatever status is made of that."""
    raw = RawReply(None, b"", None, RpcError(Code.INTERNAL, "connection lost") if failed else None)
    assert has_unknown_outcome(Reply(code=Code.INTERNAL, raw=raw)) == failed
