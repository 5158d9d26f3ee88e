"""Answers of CNI plugins: results of all versions, and errors. Pure."""

import json
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Any

from interpose.node.runtime.network.types import INTERFACE, NetResult


def parse_result(text: str) -> dict[str, Any]:
    """Parse the answer of a plugin; no output is an empty answer. ValueError if it is not a JSON object."""
    if not text.strip():
        return {}
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("no JSON object")
    return document


def error_message(stdout: str, stderr: str) -> str:
    """The error of a plugin in its own words: from its error document, else its output."""
    try:
        document = parse_result(stdout)
    except ValueError:
        document = {}
    message, details = document.get("msg"), document.get("details")
    if message:
        return f"{message}: {details}" if details else str(message)
    return (stderr.strip() or stdout.strip() or "it said nothing")[-1000:]


def net_result(document: Mapping[str, Any]) -> NetResult:
    """The addresses of the pod, IPv4 first; ValueError if there are none or one is invalid."""
    found = list(dict.fromkeys(_addresses(document)))
    found.sort(key=lambda address: address.version)
    if not found:
        raise ValueError("no address in the result of the network plugins")
    first, *others = map(str, found)
    return NetResult(ip=first, additional=tuple(others), document=dict(document))


def _addresses(document: Mapping[str, Any]) -> Iterator[IPv4Address | IPv6Address]:
    entries = document.get("ips")
    if not isinstance(entries, list):  # before 0.3.0
        entries = [{"address": part.get("ip")} for key in ("ip4", "ip6") if isinstance(part := document.get(key), dict)]
    ours = _interfaces(document)
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError(f"{entry!r} is not an entry of ips")
        index = entry.get("interface")
        if index is None or not ours or index in ours:
            yield ip_interface(str(entry.get("address"))).ip


def _interfaces(document: Mapping[str, Any]) -> set[int]:
    """Indexes of the interfaces in the pod; empty if the answer does not have them."""
    entries = document.get("interfaces")
    if not isinstance(entries, list):
        return set()
    in_pod = {i: entry for i, entry in enumerate(entries) if isinstance(entry, dict) and entry.get("sandbox")}
    return {i for i, entry in in_pod.items() if entry.get("name") == INTERFACE} or set(in_pod)
