"""Which backend a path goes to, and which subscribers see its calls.

One route per known CRI path of both API versions, made at start; every other path shares the route `other` of its
backend. Unknown services belong to the runtime.
"""

from collections.abc import Sequence
from typing import Any, Final

from interpose.cri.methods import METHODS, Concern, Method
from interpose.relay.stats import MethodStats

OTHER: Final = "other"
_IMAGE: Final = b"ImageService/"


class Route:
    """The handling of one path. `slow_path` is set if its calls have to leave the frame loop."""

    __slots__ = ("editors", "intercepted", "method", "readers", "refusal", "slow_path", "stats", "taps", "upstream")

    def __init__(self, upstream: Any, stats: MethodStats, method: Method | None, refusal: str = "") -> None:
        self.upstream = upstream
        self.stats = stats
        self.method = method
        self.taps: tuple[Any, ...] = ()
        self.readers: tuple[Any, ...] = ()  # taps with interest in messages
        self.editors: tuple[Any, ...] = ()
        self.intercepted = False
        self.refusal = refusal  # why these calls are refused; empty if they are not
        self.slow_path = bool(refusal)

    def subscribe(
        self,
        *,
        intercepted: bool,
        taps: Sequence[Any] = (),
        readers: Sequence[Any] = (),
        editors: Sequence[Any] = (),
    ) -> None:
        """Set the subscribers of these calls."""
        self.intercepted = intercepted
        self.taps = tuple(taps)
        self.readers = tuple(readers)
        self.editors = tuple(editors)
        self.slow_path = intercepted or bool(taps) or bool(editors) or bool(self.refusal)


class Routes:
    """All routes by path, looked up for every call. With `no_images` calls about images are refused, for that reason.

    `starts` is where StartContainer goes if not with the others of the runtime.
    """

    def __init__(self, runtime: Any, image: Any, no_images: str = "", *, starts: Any = None) -> None:
        self.known: dict[bytes, Route] = {}
        self._by_method: dict[str, list[Route]] = {}
        self._runtime_other = Route(runtime, MethodStats(OTHER, OTHER), None)
        self._image_other = Route(image, self._runtime_other.stats, None, no_images)
        for method in METHODS.values():
            for path in method.paths:
                service = path[1:].rpartition("/")[0]
                upstream, refusal = (image, no_images) if method.service == "ImageService" else (runtime, "")
                if method.concern is Concern.CONTAINER_START and starts is not None:
                    upstream = starts
                stats = MethodStats(service, method.name, endless=method.concern is Concern.EVENTS)
                route = self.known[path.encode()] = Route(upstream, stats, method, refusal)
                self._by_method.setdefault(method.name, []).append(route)

    def find(self, path: bytes) -> Route:
        """The route of a path that is not among the known ones."""
        return self._image_other if _IMAGE in path else self._runtime_other

    def find_by_method(self, name: str) -> list[Route]:
        """The routes of a CRI method, one for each API version."""
        return self._by_method.get(name, [])

    @property
    def fallback_routes(self) -> tuple[Route, Route]:
        """The routes of everything that is no known CRI method."""
        return self._runtime_other, self._image_other

    def stats(self) -> list[MethodStats]:
        """Counters of every method, for metrics."""
        return [self._runtime_other.stats, *(route.stats for route in self.known.values())]
