"""Values of a network."""

from interpose.node.runtime.network.types import NetResult


def test_a_result_without_more() -> None:
    """One address and no document."""
    assert (NetResult(ip="10.0.0.1").additional, dict(NetResult(ip="10.0.0.1").document)) == ((), {})
