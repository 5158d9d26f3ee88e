"""What one CRI method of the runtime is: the function that answers it, and how it is carried out."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message

BATCH: Final = 1000  # items in one answer of a stream: far below what a message may have


@dataclass(frozen=True, slots=True)
class ChangeMethod:
    """Changes something: goes on to its end even if the caller goes away."""

    run: Callable[[Any], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class MemoryMethod:
    """Changes nothing, answered from memory."""

    run: Callable[[Any], Message]


@dataclass(frozen=True, slots=True)
class QueryMethod:
    """Changes nothing of ours, but has to wait; ends with the caller."""

    run: Callable[[Any], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class ServerStreamMethod:
    """Any number of answers."""

    run: Callable[[Any], AsyncGenerator[Message, None]]


Methods: TypeAlias = Mapping[str, ChangeMethod | MemoryMethod | QueryMethod | ServerStreamMethod]


async def stream_in_batches(
    items: Sequence[Message], wrap: Callable[[Sequence[Any]], Message], size: int = BATCH
) -> AsyncGenerator[Message, None]:
    """A list as a stream of answers; an empty list is an empty stream."""
    for start in range(0, len(items), size):
        yield wrap(items[start : start + size])
