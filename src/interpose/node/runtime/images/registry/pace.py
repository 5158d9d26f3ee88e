"""Whether a transfer is fast enough to be waited for. Pure."""


class Pace:
    """At least `least` bytes in each `seconds` of waiting. What is done with the bytes meanwhile does not count."""

    def __init__(self, least: int, seconds: float) -> None:
        self._least = least
        self._seconds = seconds
        self._came = 0
        self._waited = 0.0

    def keeps_up(self, size: int, waited: float) -> bool:
        """So many bytes came after so many seconds; whether that is enough."""
        self._came += size
        self._waited += waited
        if self._waited < self._seconds:
            return True
        enough = self._came >= self._least
        self._came, self._waited = 0, 0.0
        return enough
