"""What an agent sends is a value: two that say the same are the same."""

from types import MappingProxyType

from interpose.resmgr.config.sent import Sent


def test_the_same_data_for_the_same_node_is_the_same() -> None:
    """Whatever kind of mapping it came in, and in whatever order."""
    one = Sent(node_name="n", data={"a": "1", "b": "2"})
    assert one == Sent(node_name="n", data=MappingProxyType({"b": "2", "a": "1"}))
    assert one != Sent(node_name="m", data=one.data)
    assert one != Sent(node_name="n", data={"a": "1"})
    assert Sent() == Sent(node_name="", data={})
