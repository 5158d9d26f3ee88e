"""Our own address: what the routes of this machine say, without sending anything."""

import socket
from typing import Final

# Documentation addresses: nobody is there, but a default route leads to them.
_ASKED: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_PORT: Final = 9


def node_address() -> str:
    """The address this machine uses towards others; the loopback if it knows no others."""
    for family, far in _ASKED:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, _PORT))
                address: str = probe.getsockname()[0]
        except OSError:
            continue
        if address not in ("0.0.0.0", "::"):  # noqa: S104 - not bound to, asked about
            return address
    return _of_name()


def _of_name() -> str:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_DGRAM)
    except OSError:
        return "127.0.0.1"
    addresses = [str(entry[4][0]) for entry in found]
    return next((one for one in addresses if not one.startswith("127.") and one != "::1"), "127.0.0.1")
