"""How many body bytes wait for readers, over all connections that share one account of them."""


class Buffered:
    """Streams count what enters and leaves their queues. The owner of the connections looks at `exceeded`."""

    __slots__ = ("limit", "size")

    def __init__(self, limit: float = float("inf")) -> None:
        self.size = 0
        self.limit = limit

    @property
    def exceeded(self) -> bool:
        """Whether more bytes wait than the limit allows."""
        return self.size > self.limit


class BufferedShare:
    """What one call has there beside the queues of its streams: a body that is collected before it goes on."""

    __slots__ = ("_account", "size")

    def __init__(self, account: Buffered) -> None:
        self._account = account
        self.size = 0

    def add(self, count: int) -> None:
        """Count further bytes of the call."""
        self.size += count
        self._account.size += count

    def release(self) -> None:
        """Stop counting the bytes of the call. May be called twice."""
        self._account.size -= self.size
        self.size = 0
