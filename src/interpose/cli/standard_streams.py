"""Standard input, output and error, for programs that were started without them, as some supervisors and scripts do.

The next descriptors that are opened would take their numbers: an event loop would close them as its own and end the
process, and whatever is printed would go into a socket.
"""

import os
import sys


def open_standard_streams() -> None:
    """Make sure that there are all three; nobody reads what is written to one that was missing."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    # Python has none where there was no descriptor.
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
