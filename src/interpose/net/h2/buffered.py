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


class BufferedShare:
    """What one call has there beside the queues of its streams: a body that is collected before it goes on."""

    __slots__ = ("_account", "size")

    def __init__(self, account: Buffered) -> None:
        self._account = account
        self.size = 0

    def add(self, count: int) -> None:
        """So many bytes more."""
        self.size += count
        self._account.size += count

    def release(self) -> None:
        """None of them is there any longer. May be said twice."""
        self._account.size -= self.size
        self.size = 0
