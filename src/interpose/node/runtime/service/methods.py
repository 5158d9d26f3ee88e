"""A CRI method of the runtime: the function that answers it, and how it is run."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message

BATCH: Final = 1000  # items in one answer of a stream: far below what a message may have


@dataclass(frozen=True, slots=True)
class ChangeMethod:
    """A method that changes state: it goes on to its end even if the caller goes away."""

    run: Callable[[Any], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class MemoryMethod:
    """A method that changes nothing and is answered from memory."""

    run: Callable[[Any], Message]


@dataclass(frozen=True, slots=True)
class QueryMethod:
    """A method that changes no state of the runtime, but has to wait; it ends with the caller."""

    run: Callable[[Any], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class ServerStreamMethod:
    """A method with a stream of answers."""

    run: Callable[[Any], AsyncGenerator[Message, None]]


Methods: TypeAlias = Mapping[str, ChangeMethod | MemoryMethod | QueryMethod | ServerStreamMethod]


async def stream_in_batches(
    items: Sequence[Message], wrap: Callable[[Sequence[Any]], Message], size: int = BATCH
) -> AsyncGenerator[Message, None]:
    """A list as a stream of answers; an empty list is an empty stream."""
    for start in range(0, len(items), size):
        yield wrap(items[start : start + size])
