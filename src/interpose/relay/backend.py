"""What the rest of the process knows of a backend, whatever is spoken with it."""

from collections.abc import Callable
from typing import Protocol


class Backend(Protocol):
    """A runtime or image service behind the relay. `on_up` is told whenever it came (back)."""

    on_up: Callable[[], None] | None

    @property
    def path(self) -> str: ...

    @property
    def up(self) -> bool: ...

    @property
    def connections(self) -> int: ...

    @property
    def dials(self) -> int: ...

    @property
    def failures(self) -> int: ...

    @property
    def last_error(self) -> str: ...

    @property
    def state_age(self) -> float: ...

    def start(self) -> None: ...

    def tick(self) -> None: ...

    async def close(self) -> None: ...
