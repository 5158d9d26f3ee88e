"""The texts of /etc/hostname, /etc/hosts and /etc/resolv.conf of a sandbox. Pure."""

from typing import Any, Final

_HOSTS: Final = (
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n"
)


def resolv_conf(dns: Any, of_node: str) -> str:
    """What the configuration says, or the node's own where it says nothing."""
    lines = []
    if dns.searches:
        lines.append(f"search {' '.join(dns.searches)}")
    lines += [f"nameserver {server}" for server in dns.servers]
    if dns.options:
        lines.append(f"options {' '.join(dns.options)}")
    return "".join(f"{line}\n" for line in lines) or of_node


def hosts(of_node: str, *, shares_network: bool) -> str:
    """The node's own for a pod in its network; the usual names of the loopback for others."""
    return of_node if shares_network and of_node else _HOSTS


def line_problem(dns: Any) -> str | None:
    """Values that would be more than one line or word of the file; None if there are none."""
    for name in ("servers", "searches", "options"):
        for value in getattr(dns, name):
            if not value or any(one.isspace() for one in value):
                return f"{name}: {value!r} is not one word"
    return None
