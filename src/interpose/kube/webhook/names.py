"""Names that a certificate can be for: DNS names and addresses, each in one form, so that they compare. Pure."""

import ipaddress
import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX: Final = 253
_ANY: Final = "*"


def certificate_name(text: str) -> str:
    """The one form of a name. ValueError if a client could never ask for it."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return _dns_name(text)
    if getattr(address, "scope_id", None):
        raise ValueError(f"{text!r} has a zone, which certificates know nothing of")
    return str(address)


def _dns_name(text: str) -> str:
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if labels[0] == _ANY and len(labels) > 1:
        labels = labels[1:]  # any name at the first place, and nowhere else
    # A name that ends in a number would be taken for an address.
    if len(name) > _MAX or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdecimal():
        raise ValueError(f"{text!r} is not a DNS name and no address")
    return name
