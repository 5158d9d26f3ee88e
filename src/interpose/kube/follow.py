"""One object of the cluster as it is now: listed, watched, and listed again whenever that is needed.

What is known is never lost by a failure: an API server that is away or forbids says nothing about the object. Only an
answer does: a list without it, a DELETED, or a list of a kind that the server does not know.
Invariant: two requests are never closer than the back-off allows, whatever the server does.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from interpose.instrumentation.logging import RateLimited
from interpose.kube.api import Api, ApiError, Change, Object, Resource, UnreachableError, WatchEvent
from interpose.kube.backoff import Backoff

_log = logging.getLogger(__name__)
# A watch that lasted so long was a good one, even if nothing happened.
_LASTING: Final = 5.0
# What an operator has to change first, and how often we look whether it was done: this and up to as much again.
_PATIENCE: Final = 30.0
_TEMPORARY: Final = (401, 408, 429)


class Follower:
    """Follows one object; `run` does it until cancelled. `changed` is called after known, object or problem changed.

    known: whether the cluster has ever told. object: what it told last; None and known: it does not exist.
    problem: what keeps us from knowing more, for people. forbidden: it may not be listed (403).
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        *,
        name: str,
        namespace: str = "",
        changed: Callable[[], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.name = name
        self.namespace = namespace
        self.known = False
        self.object: Object | None = None
        self.problem = ""
        self.forbidden = False
        self.lists = 0
        self.watches = 0
        self.restarts = 0  # watches after the first
        self.events = 0  # bookmarks too
        self.failures = 0
        self._api = api
        self._changed = changed
        self._sleep = sleep
        self._clock = clock
        self._chance = chance
        self._backoff = Backoff(chance)
        self._limited = RateLimited(_log, clock=clock)
        self._version = ""  # to go on from; empty: list first
        self._unwatched = ""  # why the object can be listed but not watched
        self._expired = False  # a watch ended with 410, and none lasted since

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            if (delay := await self._step()) > 0:
                await self._sleep(delay)

    async def _step(self) -> float:
        """List if that is needed, watch until it ends; how long to wait before the next step."""
        listed = False
        try:
            if not self._version:
                await self._list()
            listed = True
            return await self._watch()
        except (ApiError, UnreachableError) as error:
            return self._failed(error, watching=listed)
        except Exception as error:
            _log.exception("Following an object failed", extra={"kv": self._fields()})
            return self._failed(UnreachableError(f"{type(error).__name__}: {error}"), watching=listed)

    async def _list(self) -> None:
        self.lists += 1
        found = await self._api.list(self.resource, namespace=self.namespace, name=self.name)
        self._version = found.version
        mine = next((item for item in found.items if self._is_mine(item)), None)
        self._settle(known=True, object=mine, problem=self._unwatched)

    async def _watch(self) -> float:
        """Until the watch ends; the wait after it. An error is raised if the watch was of no use."""
        self.restarts += self.watches > 0
        self.watches += 1
        begun, first = self._clock(), self._version
        events = self._api.watch(self.resource, version=first, namespace=self.namespace, name=self.name)
        try:
            async for event in events:
                self._take(event)
        except (ApiError, UnreachableError) as error:
            # Servers restart and connections break every day. It is a problem only if it does not work at once.
            if not self._was_good(begun, first) or isinstance(error, ApiError):
                raise
            self.failures += 1
            return self._backoff.next()
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        self._worked()
        self._was_good(begun, first)
        # Even with news in it, a watch that ends at once is not begun again at once.
        return 0.0 if self._clock() - begun >= _LASTING else self._backoff.next()

    def _was_good(self, begun: float, first: str) -> bool:
        """Whether a watch told something new or lasted; then the next failure is a first one."""
        lasted = self._clock() - begun >= _LASTING
        good = lasted or self._version != first
        if good:
            self._backoff.reset()
        if lasted:
            self._expired = False
        return good

    def _take(self, event: WatchEvent) -> None:
        self.events += 1
        self._worked()
        self._version = str(_metadata(event.object).get("resourceVersion") or self._version)
        if event.change is Change.BOOKMARK or not self._is_mine(event.object):
            return
        gone = event.change is Change.DELETED
        self._settle(known=True, object=None if gone else event.object, problem="")

    def _worked(self) -> None:
        if self._unwatched:
            self._unwatched = ""
            self._settle(known=self.known, object=self.object, problem="")

    def _failed(self, error: ApiError | UnreachableError, *, watching: bool) -> float:
        """What a failure means, and how long to wait."""
        self.failures += 1
        self._version = ""
        if not isinstance(error, ApiError):
            return self._hindered(str(error), self._backoff.next())
        if error.expired:
            if watching and not self._expired:
                self._expired = True
                return 0.0  # everyday: there was much to tell while we were away
            return self._hindered(str(error), self._backoff.next(error.retry_after))
        if error.code in _TEMPORARY or error.code >= 500:
            return self._hindered(str(error), self._backoff.next(error.retry_after))
        delay = max(_PATIENCE * (1 + self._chance()), self._backoff.next(error.retry_after))
        if watching:
            # It is looked at now and then instead, which is better than nothing.
            self._unwatched = f"{self._label()} cannot be watched: {error}"
        elif error.code == 404 and self.resource.group:
            # The kind does not exist, so no object of it does: a CRD that nobody has installed. Kinds of the core
            # always exist: whoever does not know them is no API server.
            return self._hindered(f"{self.resource.kind}: {error}", delay, gone=True)
        return self._hindered(self._unwatched or str(error), delay, forbidden=error.code == 403 and not watching)

    def _hindered(self, problem: str, delay: float, *, gone: bool = False, forbidden: bool = False) -> float:
        self._limited.log(
            logging.WARNING,
            "Object could not be followed",
            key=problem,
            **self._fields(),
            err=problem,
            retry=round(delay, 1),
        )
        if gone:
            self._settle(known=True, object=None, problem=problem)
        else:
            self._settle(known=self.known, object=self.object, problem=problem, forbidden=forbidden)
        return delay

    def _settle(self, *, known: bool, object: Object | None, problem: str, forbidden: bool = False) -> None:  # noqa: A002
        """Take over a new state, and tell if it is another one."""
        same = (
            known == self.known
            and problem == self.problem
            and forbidden == self.forbidden
            and _same(object, self.object)
        )
        self.known, self.object, self.problem, self.forbidden = known, object, problem, forbidden
        if same:
            return
        try:
            self._changed()
        except Exception:
            _log.exception("Somebody who was told of a change failed", extra={"kv": self._fields()})

    def _is_mine(self, found: Object) -> bool:
        """Servers have ignored field selectors before."""
        metadata = _metadata(found)
        return metadata.get("name") == self.name and (metadata.get("namespace") or self.namespace) == self.namespace

    def _label(self) -> str:
        return (
            f"{self.resource.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.resource.kind} {self.name}"
        )

    def _fields(self) -> dict[str, Any]:
        return {"object": self._label()}


def _metadata(found: Object) -> dict[str, Any]:
    metadata = found.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _same(one: Object | None, other: Object | None) -> bool:
    """Whether two states of an object are the same: its versions tell, if it has any."""
    if one is None or other is None:
        return one is other
    marks = [(metadata.get("uid"), metadata.get("resourceVersion")) for metadata in (_metadata(one), _metadata(other))]
    return marks[0] == marks[1] if marks[0][1] else one == other
