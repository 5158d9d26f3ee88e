"""What fake processes do, by their command line: a few programs that tests of streams need."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from tests.support.docker.fake.containers import STDERR, STDOUT

Output = tuple[int, bytes]
Read = Callable[[], Awaitable[bytes]]
FLOOD: Final = 65536

_CODES: Final = {"true": 0, "false": 1}


def program(argv: list[str]) -> str:
    """Its name without a path."""
    return argv[0].rpartition("/")[2] if argv else ""


def ends_at_once(argv: list[str]) -> bool:
    """It does not wait for anything."""
    return program(argv) in ("echo", *_CODES)


def exit_code(argv: list[str]) -> int:
    """With which it ends when it is done."""
    return _CODES.get(program(argv), 0)


async def output(argv: list[str], read: Read) -> AsyncIterator[Output]:
    """`echo words`, `cat`, `errcat` (to the other stream), `yes N` (that many bytes); others say nothing."""
    name = program(argv)
    if name == "echo":
        yield STDOUT, " ".join(argv[1:]).encode() + b"\n"
    elif name in ("cat", "errcat"):
        while data := await read():
            yield (STDOUT if name == "cat" else STDERR), data
    elif name == "yes":
        left = int(argv[1])
        while left > 0:
            size = min(left, FLOOD)
            left -= size
            yield STDOUT, b"y" * size
