"""Counters of network interfaces as /proc/<pid>/net/dev has them. Pure."""

from dataclasses import dataclass
from typing import Final

_FIELDS: Final = 12
_LOOPBACK: Final = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Of one interface, since it came up."""

    rx_bytes: int
    rx_packets: int
    rx_errors: int
    rx_dropped: int
    tx_bytes: int
    tx_packets: int
    tx_errors: int
    tx_dropped: int


def parse(text: str) -> dict[str, Counters]:
    """All interfaces but the loopback; lines that make no sense are passed over."""
    found = {}
    for line in text.splitlines():
        name, separator, rest = line.strip().rpartition(":")
        fields = rest.split()
        if not separator or name == _LOOPBACK or len(fields) < _FIELDS or not all(map(str.isdecimal, fields)):
            continue
        rx, tx = [int(field) for field in fields[:4]], [int(field) for field in fields[8:12]]
        found[name] = Counters(
            rx_bytes=rx[0],
            rx_packets=rx[1],
            rx_errors=rx[2],
            rx_dropped=rx[3],
            tx_bytes=tx[0],
            tx_packets=tx[1],
            tx_errors=tx[2],
            tx_dropped=tx[3],
        )
    return found
