"""Standard input, output and error of a program, whatever they are.

Some supervisors and scripts start programs without them. The next descriptors that are opened would take their numbers:
an event loop would close them as its own and end the process, and whatever is printed would go into a socket. And the
reader of the output may leave early, as `head` does: then the program ends, too, without an error message.
"""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

EXIT_INTERRUPTED: Final = 130  # as shells report it
EXIT_UNREAD: Final = 141  # likewise, of a program that writes to a pipe that nobody reads


@contextmanager
def standard_streams() -> Iterator[None]:
    """Around a whole program: all three are there, what was printed is written at its end, and if its reader has
    left, or at Ctrl-C, the program ends with the exit code that shells know for it."""
    open_standard_streams()
    try:
        try:
            yield
        finally:
            _write_rest()
    except BrokenPipeError:
        if not is_output_closed():
            raise
        discard_output()
        raise SystemExit(EXIT_UNREAD) from None
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None


def _write_rest() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk
        discard_output()
        print(f"error: standard output: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None


def open_standard_streams() -> None:
    """Make sure that there are all three; one that was missing is /dev/null."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    # Python has none where there was no descriptor.
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def is_output_closed() -> bool:
    """Whether the reader of our output has left."""
    poll = select.poll()
    for fd in (1, 2):
        poll.register(fd, 0)
    return any(found & select.POLLERR for _fd, found in poll.poll(0))


def discard_output() -> bool:
    """Drop buffered output that cannot be written, which would fail at the exit; whether there was any."""
    lost = False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except OSError:
            lost = True
            os.dup2(nowhere, fd)
            with suppress(OSError):
                stream.flush()
    os.close(nowhere)
    return lost
