"""nghttp2's client in front of the relay: an HTTP/2 implementation that is neither ours nor gRPC's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lab.load import h2load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--header-table-size=0"],  # then our first block has to begin with a table size update
        ["--encoder-header-table-size=0"],  # nothing indexed: every block is literals
        ["--window-bits=10", "--connection-window-bits=14"],  # windows smaller than a frame
        ["--max-frame-size=16384", "-c", "4"],
    ],
    ids=["plain", "no decoder table", "no encoder table", "narrow windows", "four connections"],
)
def test_every_call_succeeds(relay: Relay, scratch: Path, options: list[str]) -> None:
    """Whatever nghttp2 is told to announce."""
    if reason := h2load.missing():
        pytest.skip(f"no h2load: {reason}")
    timing = h2load.run(scratch, relay.socket, count=400, streams=8, options=options)
    assert len(timing.durations) == 400
