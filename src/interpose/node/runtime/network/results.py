"""What CNI plugins answer: results of all versions, and errors. Pure."""

import json
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Any

from interpose.node.runtime.network.types import INTERFACE, NetResult


def parse_result(text: str) -> dict[str, Any]:
    """The document of a plugin; nothing at all is an empty one. ValueError if it is not a JSON object."""
    if not text.strip():
        return {}
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("no JSON object")
    return document


def error_words(stdout: str, stderr: str) -> str:
    """Why a plugin failed, in its own words: of its error document, else what it printed."""
    try:
        document = parse_result(stdout)
    except ValueError:
        document = {}
    message, details = document.get("msg"), document.get("details")
    if message:
        return f"{message}: {details}" if details else str(message)
    return (stderr.strip() or stdout.strip() or "it said nothing")[-1000:]


def net_result(document: Mapping[str, Any]) -> NetResult:
    """The addresses of the pod, IPv4 first; ValueError if there are none or one makes no sense."""
    found = list(dict.fromkeys(_addresses(document)))
    found.sort(key=lambda one: one.version)
    if not found:
        raise ValueError("no address in the result of the network plugins")
    first, *others = (str(one) for one in found)
    return NetResult(ip=first, additional=tuple(others), document=dict(document))


def _addresses(document: Mapping[str, Any]) -> Iterator[IPv4Address | IPv6Address]:
    entries = document.get("ips")
    if not isinstance(entries, list):  # before 0.3.0
        entries = [{"address": one.get("ip")} for key in ("ip4", "ip6") if isinstance(one := document.get(key), dict)]
    ours = _interfaces(document)
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError(f"{entry!r} is not an entry of ips")
        index = entry.get("interface")
        if index is None or not ours or index in ours:
            yield ip_interface(str(entry.get("address"))).ip


def _interfaces(document: Mapping[str, Any]) -> set[int]:
    """Numbers of the interfaces that are the pod's own; empty if the plugin does not say."""
    entries = document.get("interfaces")
    if not isinstance(entries, list):
        return set()
    inside = [(number, one) for number, one in enumerate(entries) if isinstance(one, dict) and one.get("sandbox")]
    return {number for number, one in inside if one.get("name") == INTERFACE} or {number for number, _ in inside}
