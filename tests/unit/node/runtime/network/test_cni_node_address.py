"""Our own address."""

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from interpose.node.runtime.network import cni
from interpose.node.runtime.network.cni import node_address


def test_it_is_an_address() -> None:
    """Whatever machine this is."""
    assert str(ip_address(node_address())) == node_address()


class Silent:
    """A machine without routes."""

    AF_INET, AF_INET6, SOCK_DGRAM = socket.AF_INET, socket.AF_INET6, socket.SOCK_DGRAM

    def __init__(self, found: list[str] | None) -> None:
        self._found = found

    def socket(self, *_: Any) -> socket.socket:
        raise OSError("unreachable")

    def gethostname(self) -> str:
        return "node"

    def getaddrinfo(self, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        if self._found is None:
            raise OSError("not known")
        return [(0, 0, 0, "", (address, 0)) for address in self._found]


@pytest.mark.parametrize(
    ("found", "expected"), [(None, "127.0.0.1"), (["127.0.1.1"], "127.0.0.1"), (["127.0.1.1", "10.0.0.7"], "10.0.0.7")]
)
def test_a_machine_without_routes(monkeypatch: pytest.MonkeyPatch, found: list[str] | None, expected: str) -> None:
    """By its name, else the loopback."""
    monkeypatch.setattr(cni, "socket", Silent(found))
    assert node_address() == expected
