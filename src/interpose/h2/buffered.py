"""How many body bytes wait for readers, over all connections that share one account of them."""


class Buffered:
    """Streams count what enters and leaves their queues. Whoever owns the connections looks at `exceeded`."""

    __slots__ = ("limit", "size")

    def __init__(self, limit: float = float("inf")) -> None:
        self.size = 0
        self.limit = limit

    @property
    def exceeded(self) -> bool:
        """More waits than may."""
        return self.size > self.limit
