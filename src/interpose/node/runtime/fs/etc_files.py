"""The texts of /etc/hostname, /etc/hosts and /etc/resolv.conf of a sandbox. Pure."""

from typing import Any, Final

_HOSTS: Final = (
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n"
)


def resolv_conf(dns: Any, node_text: str) -> str:
    """The resolv.conf of a DNS configuration, or the node's own if it is empty."""
    lines = []
    if dns.searches:
        lines.append(f"search {' '.join(dns.searches)}")
    lines += [f"nameserver {server}" for server in dns.servers]
    if dns.options:
        lines.append(f"options {' '.join(dns.options)}")
    return "".join(f"{line}\n" for line in lines) or node_text


def hosts(node_text: str, *, shares_network: bool) -> str:
    """The node's own for a pod in its network; the loopback names for other pods."""
    return node_text if shares_network and node_text else _HOSTS


def line_problem(dns: Any) -> str | None:
    """The first value that would be more than one word of the file; None if there is none."""
    for name in ("servers", "searches", "options"):
        for value in getattr(dns, name):
            if not value or any(char.isspace() for char in value):
                return f"{name}: {value!r} is not one word"
    return None
