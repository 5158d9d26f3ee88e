"""What a process costs, read from /proc when somebody scrapes.

A value that cannot be read is None, never an error.
"""

import os
from pathlib import Path

_PROC = Path("/proc")


def rss_bytes(pid: int | str = "self", *, proc: Path = _PROC) -> int | None:
    """Resident memory in bytes."""
    try:
        return int((proc / str(pid) / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def cpu_seconds(pid: int | str = "self", *, proc: Path = _PROC) -> float | None:
    """User and system time used so far, in seconds."""
    try:
        # The command name in parentheses may hold anything, blanks and parentheses too: count from its end.
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def open_fds(pid: int | str = "self", *, proc: Path = _PROC) -> int | None:
    """Number of open descriptors."""
    try:
        count = sum(1 for _ in (proc / str(pid) / "fd").iterdir())
    except OSError:
        return None
    # Listing our own directory opens one more.
    return count - 1 if str(pid) in ("self", str(os.getpid())) else count
