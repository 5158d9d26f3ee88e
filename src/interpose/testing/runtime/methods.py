"""What one CRI method of a fake is: the class of its request and the function that answers it."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class UnaryMethod:
    """One request, one answer; neither step of the work waits. What has begun goes on without its caller."""

    request: type[Message]
    # Any: each method has its own request class, which the table pairs with the function.
    run: Callable[[Any], Message]
    begin: Callable[[Any], None] | None = None


@dataclass(frozen=True, slots=True)
class StreamMethod:
    """One request, any number of answers."""

    request: type[Message]
    run: Callable[[Any], AsyncGenerator[Message, None]]


Methods: TypeAlias = Mapping[str, UnaryMethod | StreamMethod]


async def in_batches(
    items: Sequence[Message], size: int, wrap: Callable[[Sequence[Any]], Message]
) -> AsyncGenerator[Message, None]:
    """A list as a stream of answers with at most `size` items each; an empty list is an empty stream."""
    for start in range(0, len(items), size):
        yield wrap(items[start : start + size])
