"""The number of files that this process may have open.

A proxy has two sockets for each client. The soft limit that processes are born with is for programs that use select(),
and the hard one is for those that know better: we do.
"""

import resource
from typing import Final

# Log, hooks, admin clients, dumps, cgroups, connections of our own.
_RESERVE: Final = 256


def descriptors_needed(connections: int) -> int:
    """Descriptors of a relay with so many clients: theirs, one to the backend for each, and a reserve."""
    return 2 * connections + _RESERVE


def raise_file_limit(wanted: int) -> int:
    """Raise the soft limit to `wanted`, as far as the hard limit lets us, and never lower it; the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft >= most:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft  # something that guards this process does not let it
    return most
