"""The few programs of fake containers."""

from tests.support.docker.fake import processes
from tests.support.docker.fake.containers import STDERR, STDOUT


async def said(*argv: str, stdin: tuple[bytes, ...] = ()) -> list[tuple[int, bytes]]:
    """What a program prints."""
    pieces = iter((*stdin, b""))

    async def read() -> bytes:
        return next(pieces)

    return [piece async for piece in processes.output(list(argv), read)]


async def test_programs() -> None:
    """By their names, with a path or without."""
    assert await said("/bin/echo", "a", "b") == [(STDOUT, b"a b\n")]
    assert await said("cat", stdin=(b"x", b"y")) == [(STDOUT, b"x"), (STDOUT, b"y")]
    assert await said("errcat", stdin=(b"x",)) == [(STDERR, b"x")]
    assert b"".join(data for _, data in await said("yes", "100000")) == b"y" * 100_000
    assert await said("sleep", "1") == []


def test_how_they_end() -> None:
    """At once, or when they are told."""
    assert processes.ends_at_once(["/bin/true"])
    assert not processes.ends_at_once(["cat"])
    assert (processes.exit_code(["false"]), processes.exit_code(["cat"]), processes.program([])) == (1, 0, "")
