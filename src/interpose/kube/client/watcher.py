"""One object of the cluster as it is now: looked up, watched, and looked up again whenever that is needed.

It is looked up by a list, whose version the watch goes on from. Who may not list may still get the object by its name:
then the watch begins without a version, with what is there (that of the object may be too old to go on from).
What is known is never lost by a failure: an API server that is away or forbids says nothing about the object. Only an
answer does: a list without it, a 404 that names it, a DELETED, or a kind that the server does not have.
Invariant: two requests are never closer than the back-off allows, whatever the server does.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from interpose.core.backoff import Backoff
from interpose.kube.client.api import Api, ApiError, Object, Resource, WatchChange, WatchEvent
from interpose.log import RateLimited
from interpose.net.http.errors import UnreachableError

_log = logging.getLogger(__name__)
# After one failure most servers answer again at once; 30 s is what a cluster of thousands of nodes can bear for long.
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
# A watch that lasted so long was a good one, even if nothing happened.
_LASTING: Final = 5.0
# What an operator has to change first: how often we look whether it was done, at last.
_LONGEST_SLOW_PAUSE: Final = 60.0
# It is believed only after so many such answers in a row: a server that has just begun may not know its roles and
# definitions yet. With the waits between them these are some seconds.
_CONFIRMATIONS: Final = 6
# Seconds in which a watch without a version tells of an object that is there.
_CONFIRMED: Final = 5.0
_TEMPORARY: Final = (401, 408, 429)


class ObjectWatcher:
    """Follows one object; `run` does it until cancelled. `changed` is called after known, object or problem changed.

    known: whether the cluster has ever told. object: what it told last; None and known: it does not exist.
    current: whether that is so now, as far as anybody can know; False from a failure up to the next answer.
    problem: what keeps us from knowing more, for people. forbidden: it may neither be listed nor gotten (403).
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
        self.current = False
        self.problem = ""
        self.forbidden = False
        self.lists = 0  # gets in their place too
        self.watches = 0
        self.failures = 0
        self._api = api
        self._changed = changed
        self._sleep = sleep
        self._clock = clock
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random=chance)
        self._slow_backoff = Backoff(_FIRST_PAUSE, _LONGEST_SLOW_PAUSE, random=chance)
        self._limited = RateLimited(_log, clock=clock)
        self._by_name = False  # we may not list, or may not any more: get instead
        self._refusals = 0  # in a row
        self._refused = ""  # what the first 403 said
        self._version = ""  # to go on from; empty: look first
        self._unwatched = ""  # why the object can be listed but not watched
        self._expired = False  # a watch ended with 410, and none lasted since

    async def run(self) -> None:
        """Watch the object until cancelled."""
        while True:
            if (delay := await self._step()) > 0:
                await self._sleep(delay)

    async def _step(self) -> float:
        """Look if that is needed, watch until it ends; how long to wait before the next step."""
        looked = False
        try:
            if not self._version:
                self.lists += 1
                await (self._get() if self._by_name else self._list())
                self._refusals, self._refused = 0, ""
            looked = True
            return await self._watch()
        except (ApiError, UnreachableError) as error:
            return self._failed(error, watching=looked)
        except Exception as error:
            _log.exception("Watch of an object failed", extra={"kv": self._fields()})
            return self._failed(UnreachableError(f"{type(error).__name__}: {error}"), watching=looked)

    async def _list(self) -> None:
        found = await self._api.list(self.resource, namespace=self.namespace, name=self.name)
        self._version = found.version
        own = next((item for item in found.items if self._is_mine(item)), None)
        self._set_state(known=True, object=own, problem=self._unwatched)

    async def _get(self) -> None:
        found: Object | None
        try:
            found = await self._api.get(self.resource, self.name, namespace=self.namespace)
        except ApiError as error:
            if error.code != 404 or error.name != self.name:
                raise
            found = None
        if found is not None and not self._is_mine(found):
            raise UnreachableError(f"{self._label()}: the server answered with another object")
        self._set_state(known=True, object=found, problem=self._unwatched)

    async def _watch(self) -> float:
        """Until the watch ends; the wait after it. An error is raised if the watch was of no use."""
        self.watches += 1
        # From the beginning, if it has no version; then the object as we have it is no news.
        begun, first = self._clock(), self._version or _version(self.object)
        events = self._api.watch(self.resource, version=self._version, namespace=self.namespace, name=self.name)
        try:
            async with asyncio.timeout(None if self._version or self.object is None else _CONFIRMED) as confirmed:
                async for event in events:
                    if event.change is not WatchChange.BOOKMARK:
                        confirmed.reschedule(None)
                    self._on_event(event)
        except TimeoutError:
            # It went between our look and the watch, which tells nothing of it then.
            self._version = ""
            return self._backoff.next()
        except (ApiError, UnreachableError) as error:
            # Servers restart and connections break every day. It is a problem only if it does not work at once.
            if not self._record_watch(begun, first) or isinstance(error, ApiError):
                raise
            self.failures += 1
            return self._backoff.next()
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        self._on_watch_works()
        self._record_watch(begun, first)
        # Even with news in it, a watch that ends at once is not begun again at once.
        return 0.0 if self._clock() - begun >= _LASTING else self._backoff.next()

    def _record_watch(self, begun: float, first: str) -> bool:
        """Whether a watch told something new or lasted; then the next failure is a first one."""
        lasted = self._clock() - begun >= _LASTING
        good = lasted or self._version not in ("", first)
        if good:
            self._backoff.reset()
            self._slow_backoff.reset()
        if lasted:
            self._expired = False
        return good

    def _on_event(self, event: WatchEvent) -> None:
        self._on_watch_works()
        from_start = not self._version
        self._version = _version(event.object) or self._version
        if event.change is WatchChange.BOOKMARK or not self._is_mine(event.object):
            return
        if from_start and _is_older(event.object, self.object):
            self._version = ""  # a server that is behind the one that we asked: what we have comes next
            return
        gone = event.change is WatchChange.DELETED
        self._set_state(known=True, object=None if gone else event.object, problem="")

    def _on_watch_works(self) -> None:
        if self._unwatched:
            self._unwatched = ""
            self._set_state(known=self.known, object=self.object, problem="")

    def _failed(self, error: ApiError | UnreachableError, *, watching: bool) -> float:
        """What a failure means, and how long to wait."""
        self.failures += 1
        self._version = ""
        if not isinstance(error, ApiError):
            return self._set_problem(str(error), self._backoff.next())
        if error.expired:
            if watching and not self._expired:
                self._expired = True
                return 0.0  # everyday: there was much to tell while we were away
            return self._set_problem(str(error), self._backoff.next(error.retry_after))
        if error.code in _TEMPORARY or error.code >= 500:
            return self._set_problem(str(error), self._backoff.next(error.retry_after))
        delay = self._slow_backoff.next(error.retry_after)
        if watching:
            # It is looked at now and then instead, which is better than nothing.
            self._unwatched = f"{self._label()} cannot be watched: {error}"
            return self._set_problem(self._unwatched, delay, current=True)
        self._refusals += 1
        if error.code == 403:
            # Roles may grant one without the other. One request at a time, since many nodes do this for long.
            self._by_name = not self._by_name
            self._refused = self._refused or str(error)
            return self._set_problem(self._refused, delay, forbidden=self._refusals >= _CONFIRMATIONS)
        # The kind does not exist, so no object of it does: a CRD that nobody has installed.
        gone = error.code == 404 and self._refusals >= _CONFIRMATIONS
        return self._set_problem(f"{self.resource.kind}: {error}", delay, gone=gone)

    def _set_problem(
        self, problem: str, delay: float, *, gone: bool = False, forbidden: bool = False, current: bool = False
    ) -> float:
        doubted = 0 < self._refusals < _CONFIRMATIONS
        self._limited.log(
            logging.INFO if doubted else logging.WARNING,
            "Failed to watch object",
            key=f"{problem} {doubted}",
            **self._fields(),
            err=problem,
            retry=round(delay, 1),
        )
        if gone:
            self._set_state(known=True, object=None, problem=problem)
        else:
            self._set_state(known=self.known, object=self.object, problem=problem, forbidden=forbidden, current=current)
        return delay

    def _set_state(
        self,
        *,
        known: bool,
        object: Object | None,  # noqa: A002
        problem: str,
        forbidden: bool = False,
        current: bool = True,
    ) -> None:
        """Take over a new state, and tell if it is another one."""
        marks = (known, problem, forbidden, current)
        same = marks == (self.known, self.problem, self.forbidden, self.current) and _is_same(object, self.object)
        self.object = object
        self.known, self.problem, self.forbidden, self.current = marks
        if same:
            return
        try:
            self._changed()
        except Exception:
            _log.exception("Callback for a changed object failed", extra={"kv": self._fields()})

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


def _version(found: Object | None) -> str:
    return str(_metadata(found).get("resourceVersion") or "") if found is not None else ""


def _is_older(first: Object, second: Object | None) -> bool:
    """Whether the numbers say so; nothing else is concluded from versions."""
    found, known = _version(first), _version(second)
    return found.isdecimal() and known.isdecimal() and int(found) < int(known)


def _is_same(first: Object | None, second: Object | None) -> bool:
    """Whether two states of an object are the same: its versions tell, if it has any."""
    if first is None or second is None:
        return first is second
    marks = [
        (metadata.get("uid"), metadata.get("resourceVersion")) for metadata in (_metadata(first), _metadata(second))
    ]
    return marks[0] == marks[1] if marks[0][1] else first == second
