"""Following one object through everything an API server does."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from interpose.kube.client.api import (
    CONFIG_MAPS,
    NODE_SLOS,
    ApiError,
    Listed,
    Object,
    PatchKind,
    Resource,
    WatchChange,
    WatchEvent,
)
from interpose.kube.client.watcher import ObjectWatcher
from interpose.net.http.errors import UnreachableError

AWAY = UnreachableError("https://a: connection refused")
EXPIRED = ApiError(410, "Expired", "too old")
NO = ApiError(403, "Forbidden", "you may not")
NO_GET = ApiError(403, "Forbidden", "you may not get it either")


def missing(name: str) -> ApiError:
    """What a server answers when there is no object of this name."""
    return ApiError(404, "NotFound", "it is not there", name=name)


def cm(version: str, name: str = "cm", **more: Any) -> Object:
    """A ConfigMap at a version."""
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": version, "uid": "u", **more}}


def added(found: Object) -> WatchEvent:
    """It came."""
    return WatchEvent(WatchChange.ADDED, found)


def modified(found: Object) -> WatchEvent:
    """It changed."""
    return WatchEvent(WatchChange.MODIFIED, found)


def deleted(found: Object) -> WatchEvent:
    """It went."""
    return WatchEvent(WatchChange.DELETED, found)


def bookmark(version: str) -> WatchEvent:
    """Nothing happened up to here."""
    return WatchEvent(WatchChange.BOOKMARK, {"metadata": {"resourceVersion": version}})


class Scripted:
    """An API server that does one thing after the other: `steps` are lists (Listed), objects that are gotten, watches
    (lists of events, numbers of seconds that pass, errors, or None: nothing more happens), or errors. The follower's
    waits are noted; then the next thing happens."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.asked: list[str] = []
        self.waits: list[float] = []
        self.now = 0.0

    def _next(self) -> Any:
        if not self.steps:
            raise asyncio.CancelledError
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def list(self, resource: Resource, *, namespace: str = "", name: str = "") -> Listed:
        """The next step, which has to be a list."""
        self.asked.append("list")
        step = self._next()
        assert isinstance(step, Listed), f"listed, but {step} was expected"
        return step

    async def watch(
        self, resource: Resource, *, version: str, namespace: str = "", name: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """The next step, which has to be a watch."""
        self.asked.append(f"watch {version}")
        step = self._next()
        assert not isinstance(step, Listed), "watched, but a list was expected"
        for each in step:
            if isinstance(each, Exception):
                raise each
            if isinstance(each, float):
                self.now += each
            elif each is None:
                await asyncio.Event().wait()
            else:
                yield each

    async def sleep(self, seconds: float) -> None:
        """Waiting takes no time here."""
        self.waits.append(round(seconds, 3))
        self.now += seconds

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        """The next step, which has to be an object."""
        self.asked.append("get")
        step = self._next()
        assert isinstance(step, dict), f"gotten, but {step} was expected"
        return step

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """Nobody asks."""
        raise AssertionError

    async def replace(self, resource: Resource, name: str, body: Object, *, namespace: str = "") -> Object:
        """Nobody asks."""
        raise AssertionError

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Nobody asks."""
        raise AssertionError


class Told:
    """What the follower had each time when it told of a change."""

    def __init__(self) -> None:
        self.states: list[tuple[bool, str | None, str]] = []
        self.follower: ObjectWatcher | None = None

    def changed(self) -> None:
        """Note the state: known, version of the object, problem."""
        assert self.follower is not None
        found = self.follower.object
        version = found["metadata"]["resourceVersion"] if found is not None else None
        self.states.append((self.follower.known, version, self.follower.problem))


async def follow(
    *steps: Any, resource: Resource = CONFIG_MAPS, changed: Callable[[], None] | None = None
) -> tuple[ObjectWatcher, Scripted, list[tuple[bool, str | None, str]]]:
    """Let a follower live through a story to its end."""
    api, told = Scripted(*steps), Told()
    follower = ObjectWatcher(
        api,
        resource,
        name="cm",
        namespace="ns" if resource.namespaced else "",
        changed=changed or told.changed,
        sleep=api.sleep,
        clock=lambda: api.now,
        chance=lambda: 1.0,
    )
    told.follower = follower
    with suppress(asyncio.CancelledError):
        await follower.run()
    return follower, api, told.states


def listed(*items: Object, version: str = "10") -> Listed:
    """A list at a version."""
    return Listed(items, version)


async def test_list_then_watch() -> None:
    """The list is told at once; the watch goes on from its version."""
    follower, api, told = await follow(listed(cm("5")))
    assert api.asked == ["list", "watch 10"]
    assert told == [(True, "5", "")]
    assert follower.object == cm("5")


async def test_object_that_does_not_exist() -> None:
    """That is known after the list, and told."""
    follower, _api, told = await follow(listed())
    assert told == [(True, None, "")]
    assert (follower.known, follower.object) == (True, None)


async def test_life_of_an_object() -> None:
    """Created, changed, deleted, created again."""
    events = [added(cm("11")), modified(cm("12")), deleted(cm("13")), added(cm("14")), 300.0]
    _follower, api, told = await follow(listed(), events)
    assert [version for _known, version, _problem in told] == [None, "11", "12", None, "14"]
    assert api.asked == ["list", "watch 10", "watch 14"]


async def test_end_of_a_watch_is_everyday() -> None:
    """It goes on from the last version, bookmarks included, at once and without a word."""
    follower, api, told = await follow(listed(cm("5")), [bookmark("20"), 400.0], [400.0, bookmark("30")], [])
    assert api.asked == ["list", "watch 10", "watch 20", "watch 30", "watch 30"]
    assert api.waits == [0.2]
    assert told == [(True, "5", "")]
    assert (follower.lists, follower.watches) == (1, 4)
    assert follower.failures == 0


async def test_what_is_known_already_is_not_told() -> None:
    """The same version again is nothing new, from a list nor from a watch."""
    _follower, _api, told = await follow(
        listed(cm("5")), [added(cm("5")), 9.0, EXPIRED], listed(cm("5"), version="40"), [modified(cm("5"))]
    )
    assert told == [(True, "5", "")]


async def test_another_object_of_the_same_name() -> None:
    """Deleted and created while we did not look: versions may repeat in another cluster, uids do not."""
    _follower, _api, told = await follow(listed(cm("5")), [modified(cm("5", uid="other"))])
    assert len(told) == 2


async def test_objects_without_versions() -> None:
    """Then their content tells."""
    one = {"metadata": {"name": "cm"}, "data": {"a": "1"}}
    two = {"metadata": {"name": "cm"}, "data": {"a": "2"}}
    told = []
    await follow(listed(one), [modified(one), modified(two)], changed=lambda: told.append(1))
    assert len(told) == 2


async def test_others_are_passed_over() -> None:
    """A server that ignores the selection does not confuse us."""
    others = [added(cm("11", name="other")), added(cm("12", namespace="elsewhere")), deleted(cm("13", name="other"))]
    follower, api, told = await follow(listed(cm("4", name="other"), cm("5")), [*others, 9.0])
    assert told == [(True, "5", "")]
    assert follower.object == cm("5")
    assert api.asked[-1] == "watch 13"


async def test_objects_without_metadata_are_passed_over() -> None:
    """Whatever it is, it is not ours."""
    _follower, api, told = await follow(listed(cm("5")), [added({"metadata": None}), added({}), 9.0])
    assert told == [(True, "5", "")]
    assert api.asked[-1] == "watch 10"


async def test_expired_version() -> None:
    """Everything is listed again at once, without a word; what went meanwhile is seen."""
    _follower, api, told = await follow(listed(cm("5")), [9.0, EXPIRED], listed(version="50"), [9.0, EXPIRED], listed())
    assert api.asked == ["list", "watch 10", "list", "watch 50", "list", "watch 10"]
    assert api.waits == []
    assert told == [(True, "5", ""), (True, None, "")]


async def test_version_that_is_always_expired() -> None:
    """The second time in a row we are patient, and say so."""
    follower, api, told = await follow(
        listed(cm("5")), [EXPIRED], listed(cm("5")), [EXPIRED], listed(cm("5")), [EXPIRED]
    )
    assert api.waits == [0.2, 0.4]
    assert told[-1] == (True, "5", "too old (410 Expired)")
    assert follower.failures == 3


async def test_list_that_is_expired() -> None:
    """Pages that got too old are no reason for haste."""
    _follower, api, _told = await follow(EXPIRED, EXPIRED)
    assert api.waits == [0.2, 0.4]


async def test_server_that_is_away_at_first() -> None:
    """Nothing is known; tries are further and further apart; the first answer clears the problem."""
    follower, api, told = await follow(*[AWAY] * 10, listed(cm("5")))
    assert api.waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert told == [(False, None, str(AWAY)), (True, "5", "")]
    assert follower.failures == 10


async def test_server_that_goes_away() -> None:
    """A watch that breaks is everyday; if it does not work at once, that is a problem. What was known stays."""
    _follower, api, told = await follow(
        listed(cm("5")), [bookmark("20"), AWAY], [AWAY], AWAY, listed(cm("5"), version="30"), [30.0, AWAY], []
    )
    assert api.asked == ["list", "watch 10", "watch 20", "list", "list", "watch 30", "watch 30", "watch 30"]
    assert told == [(True, "5", ""), (True, "5", str(AWAY)), (True, "5", "")]
    assert api.waits == [0.2, 0.4, 0.8, 0.2, 0.4]


async def test_watches_that_end_at_once() -> None:
    """A server that ends every watch at once is asked less and less often; with news in it, not at once either."""
    _follower, api, told = await follow(listed(cm("5")), [], [], [], [modified(cm("11"))], [])
    assert api.waits == [0.2, 0.4, 0.8, 0.2, 0.4]
    assert [problem for _known, _version, problem in told] == ["", ""]


async def test_server_that_asks_for_patience() -> None:
    """Retry-After counts."""
    busy = ApiError(429, "TooManyRequests", "busy", retry_after=10.0)
    _follower, api, _told = await follow(busy, ApiError(503, "", "starting", retry_after=5.0), listed(), [busy])
    assert api.waits == [11.0, 5.5, 11.0]


async def test_token_that_is_refused() -> None:
    """401 is tried again soon: tokens rotate."""
    follower, api, told = await follow(ApiError(401, "Unauthorized", "no"), ApiError(500, "", "oops"))
    assert api.waits == [0.2, 0.4]
    assert not follower.forbidden
    assert told == [(False, None, "no (401 Unauthorized)"), (False, None, "oops (500)")]


async def test_object_that_is_forbidden() -> None:
    """It is unknown, which is not the same as missing. That is believed when it was said some times: a server that has
    just begun does not know its roles yet. Then we look now and then, by one verb after the other."""
    follower, api, told = await follow(*[NO] * 5)
    assert told == [(False, None, "you may not (403 Forbidden)")]
    assert not follower.forbidden
    follower, api, told = await follow(*[NO] * 3, NO_GET, *[NO] * 8)
    assert api.asked[:5] == ["list", "get", "list", "get", "list"]
    assert api.waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0, 60.0]
    assert told == [(False, None, "you may not (403 Forbidden)")] * 2
    assert follower.forbidden


async def test_right_that_comes_late() -> None:
    """The first refusals were those of a server that had just begun: nobody is told that it is forbidden."""
    follower, _api, told = await follow(*[NO] * 4, listed(cm("5")))
    assert told == [(False, None, "you may not (403 Forbidden)"), (True, "5", "")]
    assert follower.known


async def test_object_that_becomes_forbidden() -> None:
    """What was known stays, until it may be seen again."""
    follower, _api, told = await follow(listed(cm("5")), [9.0, EXPIRED], *[NO] * 6)
    assert told[-1] == (True, "5", "you may not (403 Forbidden)")
    assert follower.forbidden
    assert not follower.current
    follower, _api, told = await follow(*[NO] * 6, listed(cm("6")))
    assert told[-1] == (True, "6", "")
    assert not follower.forbidden
    assert follower.current


async def test_object_that_may_be_gotten_but_not_listed() -> None:
    """As with the role of CRI Resource Manager's agent: the watch begins with what is there, and then it goes on."""
    events = [added(cm("5")), 9.0, modified(cm("12")), deleted(cm("13")), 300.0]
    _follower, api, told = await follow(NO, cm("5"), events, [EXPIRED], missing("cm"))
    assert api.asked == ["list", "get", "watch ", "watch 13", "get", "watch "]
    assert [(known, version) for known, version, _problem in told] == [
        (False, None),
        (True, "5"),
        (True, "12"),
        (True, None),
    ]
    assert api.waits == [0.2]
    assert told[-1][2] == ""


async def test_object_that_cannot_be_gotten_because_it_is_not_there() -> None:
    """A 404 that names it says so; the watch tells when it comes."""
    follower, _api, told = await follow(NO, missing("cm"), [9.0, added(cm("7"))])
    assert told == [(False, None, "you may not (403 Forbidden)"), (True, None, ""), (True, "7", "")]
    assert follower.current


async def test_404_about_something_else() -> None:
    """It says nothing about our object, until it was said some times that there is no such kind."""
    follower, _api, told = await follow(NO, missing("other"), *[missing("")] * 3)
    assert told[-1] == (False, None, "ConfigMap: it is not there (404 NotFound)")
    assert not follower.known


async def test_object_of_another_name_is_not_taken() -> None:
    """Whoever answers with it is confused."""
    _follower, _api, told = await follow(NO, cm("5", name="other"))
    assert told[-1] == (False, None, "ConfigMap ns/cm: the server answered with another object")


async def test_get_is_given_up_when_it_is_forbidden() -> None:
    """Roles change: then the list is tried again."""
    _follower, api, _told = await follow(NO, cm("5"), [9.0, EXPIRED], NO_GET, listed(cm("6")))
    assert api.asked == ["list", "get", "watch ", "get", "list", "watch 10"]


async def test_object_that_went_before_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch without a version would have told of it: it is looked for again. A bookmark does not tell of it."""
    monkeypatch.setattr("interpose.kube.client.watcher._CONFIRMED", 0.01)
    _follower, api, told = await follow(NO, cm("5"), [None], cm("5"), [bookmark("9"), None], missing("cm"))
    assert api.asked == ["list", "get", "watch ", "get", "watch ", "get", "watch "]
    assert told[1:] == [(True, "5", ""), (True, None, "")]


async def test_object_that_is_there_is_watched_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was told of, nothing more has to happen."""
    monkeypatch.setattr("interpose.kube.client.watcher._CONFIRMED", 0.01)
    api = Scripted(NO, cm("5"), [added(cm("5")), None])
    follower = ObjectWatcher(api, CONFIG_MAPS, name="cm", namespace="ns", changed=lambda: None, sleep=api.sleep)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await follower.run()
    assert api.asked == ["list", "get", "watch "]


async def test_watch_of_a_server_that_is_behind() -> None:
    """What is older than what we have got is no news."""
    events = [added(cm("4")), modified(cm("8")), modified(cm("9")), modified(cm("11"))]
    _follower, _api, told = await follow(NO, cm("9"), events)
    assert [version for _known, version, _problem in told] == [None, "9", "11"]


async def test_watches_without_a_version_that_end_at_once() -> None:
    """That they tell of the object is nothing new: they are begun less and less often."""
    _follower, api, _told = await follow(NO, cm("5"), *[[added(cm("5"))]] * 2, [EXPIRED], cm("5"), [added(cm("5"))])
    assert api.waits == [0.2, 0.2, 0.4, 0.8]
    assert api.asked == ["list", "get", "watch ", "watch 5", "watch 5", "get", "watch ", "watch 5"]


async def test_object_that_may_not_be_watched() -> None:
    """It is looked at now and then, which is told once; events show that it works again."""
    no = ApiError(403, "Forbidden", "no watching")
    problem = "ConfigMap ns/cm cannot be watched: no watching (403 Forbidden)"
    steps = [listed(cm("5")), [no], listed(cm("6")), [no], *[listed(cm("6")), [no]] * 8, listed(cm("6"))]
    follower, api, told = await follow(*steps, [bookmark("20")])
    assert api.waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 0.2]
    assert told == [(True, "5", ""), (True, "5", problem), (True, "6", problem), (True, "6", "")]
    assert not follower.forbidden
    follower, _api, _told = await follow(listed(cm("5")), [no])
    assert follower.current


async def test_what_is_known_may_be_old() -> None:
    """`current` says whether it is confirmed; a change of it is told."""
    states: list[tuple[bool, bool]] = []
    api = Scripted(AWAY, listed(cm("5")), [bookmark("11"), AWAY], [AWAY], listed(cm("5")))
    follower = ObjectWatcher(
        api,
        CONFIG_MAPS,
        name="cm",
        namespace="ns",
        changed=lambda: states.append((follower.known, follower.current)),
        sleep=api.sleep,
    )
    with suppress(asyncio.CancelledError):
        await follower.run()
    assert states == [(False, False), (True, True), (True, False), (True, True)]


async def test_kind_that_does_not_exist() -> None:
    """Without the CRD there is no object; that is known when it was said some times, and the reason told."""
    none = ApiError(404, "", "404 page not found")
    problem = "NodeSLO: 404 page not found (404)"
    mine = listed(cm("5", namespace=""))
    follower, api, told = await follow(*[none] * 6, mine, [9.0, EXPIRED], *[none] * 6, resource=NODE_SLOS)
    assert api.waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4] * 2
    assert told == [
        (False, None, problem),
        (True, None, problem),
        (True, "5", ""),
        (True, "5", problem),
        (True, None, problem),
    ]
    assert not follower.forbidden
    assert follower.current


async def test_kind_that_is_not_there_for_a_moment() -> None:
    """A server that has just begun has not read its definitions yet: what was known stays."""
    none = ApiError(404, "", "404 page not found")
    mine = listed(cm("5", namespace=""))
    _follower, api, told = await follow(mine, [9.0, EXPIRED], *[none] * 3, mine, resource=NODE_SLOS)
    assert {version for _known, version, _problem in told} == {"5"}
    assert api.waits == [0.2, 0.4, 0.8]


async def test_callback_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and following goes on."""
    calls = []

    def changed() -> None:
        calls.append(1)
        raise RuntimeError("bug")

    await follow(listed(cm("5")), [modified(cm("6"))], changed=changed)
    assert len(calls) == 2
    assert "Callback for a changed object failed" in caplog.text


async def test_mistake_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever happens, following goes on; a follower that has died shows an old state for ever."""
    follower, api, _told = await follow(KeyError("bug"), listed(cm("5")))
    assert follower.object == cm("5")
    assert api.waits == [0.2]
    assert "Watch of an object failed" in caplog.text


async def test_problems_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A server that is away for long does not fill the log."""
    with caplog.at_level(logging.WARNING):
        await follow(*[AWAY] * 5)
    assert [record.getMessage() for record in caplog.records] == ["Failed to watch object"]


async def test_refusals_are_warned_of_when_they_are_believed(caplog: pytest.LogCaptureFixture) -> None:
    """With a role without `list`, say, the first one is the way it always begins."""
    with caplog.at_level(logging.INFO):
        await follow(*[NO] * 5)
        assert [record.levelname for record in caplog.records] == ["INFO"]
        caplog.clear()
        await follow(*[NO] * 8)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


class Endless(Scripted):
    """Watches of it do not end; those that were closed are noted."""

    closed: list[str]

    async def watch(
        self, resource: Resource, *, version: str, namespace: str = "", name: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """The event of the next step, and then nothing."""
        try:
            yield self._next()
            await asyncio.Event().wait()
        finally:
            self.closed.append(version)


async def test_cancelling_closes_the_watch() -> None:
    """The connection does not wait for the garbage collector."""
    api = Endless(listed(cm("5")), bookmark("11"))
    api.closed = []
    follower = ObjectWatcher(api, CONFIG_MAPS, name="cm", namespace="ns", changed=lambda: None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await follower.run()
    assert api.closed == ["10"]


async def test_mistake_closes_the_watch() -> None:
    """What cannot be taken ends the watch, not only our reading of it."""
    broken: Any = WatchEvent(WatchChange.ADDED, None)  # type: ignore[arg-type]
    api = Endless(listed(cm("5")), broken)
    api.closed = []
    follower = ObjectWatcher(api, CONFIG_MAPS, name="cm", namespace="ns", changed=lambda: None)
    assert await follower._step() > 0
    assert api.closed == ["10"]
