"""How long a container that keeps failing waits before its next start. Pure: the time is passed in, in seconds.

The first wait is short, each further one twice as long up to a bound; a container that ran for twice the bound begins
again. It is the time of day, since a container's end is told in it, and may be set: no wait is longer for it than it
would have been. Keys are whatever tells one container from another; a container whose image or resources were edited
is another.
"""

from dataclasses import dataclass
from typing import Final

from interpose.core.backoff import Backoff
from interpose.node.pods.spec import ContainerSpec, PodSpec

_FORGET: Final = 2  # times the bound


@dataclass(slots=True, kw_only=True)
class _Entry:
    failures: int = 1
    since: float
    why: str = ""
    ahead: tuple[float, float] = (0.0, 0.0)  # a time that had not come yet, and when it was first heard of

    def begun(self, now: float, since: float | None) -> float:
        """When the wait began. What is still to come is of a clock that was set back since: then when we heard of it,
        or the wait would last until that time comes again."""
        began = self.since if since is None else since
        if began <= now:
            return began
        if self.ahead[0] != began or self.ahead[1] > now:
            self.ahead = (began, now)
        return self.ahead[1]


class KeyedBackoff:
    """The waits of many. Before a try `delay` is asked, and if it says 0 `next` is said; its outcome is not asked."""

    def __init__(self, *, initial: float = 10.0, maximum: float = 300.0) -> None:
        self._backoff = Backoff(initial, maximum)
        self._maximum = maximum
        self._entries: dict[str, _Entry] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that wait, or have waited lately."""
        return tuple(self._entries)

    def wait(self, key: str) -> float:
        """The wait after the latest failure as a whole; 0 if there was none."""
        entry = self._entries.get(key)
        return 0.0 if entry is None else self._backoff.delay(entry.failures)

    def why(self, key: str) -> str:
        """What was said of the latest failure."""
        entry = self._entries.get(key)
        return "" if entry is None else entry.why

    def delay(self, key: str, now: float, *, since: float | None = None) -> float:
        """Seconds left until the next try, 0 for at once. The wait begins at `since`, when the last one ended; without
        it, when `next` was last said."""
        entry = self._entries.get(key)
        if entry is None or self._is_past(entry, now if since is None else since):
            return 0.0
        return max(entry.begun(now, since) + self._backoff.delay(entry.failures) - now, 0.0)

    def next(self, key: str, now: float, *, since: float | None = None, why: str = "") -> float:
        """Note a try after an end at `since`: the wait after the next end, which is returned. `why` it failed."""
        entry = self._entries.get(key)
        if entry is None or self._is_past(entry, now if since is None else since):
            entry = self._entries[key] = _Entry(since=now)
        else:
            entry.failures, entry.since = entry.failures + 1, now
        entry.why = why
        return self._backoff.delay(entry.failures)

    def forget(self, key: str) -> None:
        """Drop the key's back-off: its next failure begins with the shortest wait."""
        self._entries.pop(key, None)

    def collect(self, now: float) -> None:
        """Forget those that have been well for long."""
        for key, entry in list(self._entries.items()):
            entry.since = min(entry.since, now)
            if self._is_past(entry, now):
                del self._entries[key]

    def _is_past(self, entry: _Entry, at: float) -> bool:
        """Whether what happens at a time has nothing to do with the last try: it went well for so long."""
        return at - entry.since > _FORGET * self._maximum


def container_key(pod: PodSpec, container: ContainerSpec) -> str:
    """The key of a container's back-off."""
    sums = (
        ",".join(f"{name}={value}" for name, value in sorted(part.items()))
        for part in (container.resources.requests, container.resources.limits)
    )
    return "/".join((pod.uid, pod.namespace, pod.name, container.name, container.image, *sums))


def image_key(pod: PodSpec, image: str) -> str:
    """The key of the back-off of an image pull."""
    return f"{pod.uid}/{image}"
