"""Counters of network interfaces as /proc/<pid>/net/dev has them. Pure."""

from dataclasses import dataclass
from typing import Final

_FIELDS: Final = 11
_LOOPBACK: Final = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Of one interface, since it came up."""

    rx_bytes: int
    rx_errors: int
    tx_bytes: int
    tx_errors: int


def parse(text: str) -> dict[str, Counters]:
    """All interfaces but the loopback; lines that make no sense are passed over."""
    found = {}
    for line in text.splitlines():
        name, separator, rest = line.strip().rpartition(":")
        fields = rest.split()
        if not separator or name == _LOOPBACK or len(fields) < _FIELDS or not all(map(str.isdecimal, fields)):
            continue
        numbers = [int(field) for field in fields]
        found[name] = Counters(rx_bytes=numbers[0], rx_errors=numbers[2], tx_bytes=numbers[8], tx_errors=numbers[10])
    return found
