"""Counters of interfaces."""

from interpose.node.runtime.cgroups.usage import InterfaceCounters, parse_net_dev

TEXT = """Inter-|   Receive                                                |  Transmit
 face |bytes  packets errs drop fifo frame compressed multicast|bytes  packets errs drop fifo colls carrier compressed
  lo:  100  1  0  0  0  0  0  0  100  1  0  0  0  0  0  0
  eth0:  500  5  1  3  0  0  0  0  700  7  2  4  0  0  0  0
a:b:     1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2
short: 1 2 3
"""


def test_all_but_the_loopback() -> None:
    """Heads and odd lines are passed over; a name may have a colon."""
    assert parse_net_dev(TEXT) == {
        "eth0": InterfaceCounters(
            rx_bytes=500,
            rx_packets=5,
            rx_errors=1,
            rx_dropped=3,
            tx_bytes=700,
            tx_packets=7,
            tx_errors=2,
            tx_dropped=4,
        ),
        "a:b": InterfaceCounters(
            rx_bytes=1,
            rx_packets=1,
            rx_errors=1,
            rx_dropped=1,
            tx_bytes=2,
            tx_packets=2,
            tx_errors=2,
            tx_dropped=2,
        ),
    }
