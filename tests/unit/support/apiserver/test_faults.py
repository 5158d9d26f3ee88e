"""Faults that act on single requests; those of sockets are in tests/integration."""

from collections.abc import Iterable

import pytest

from tests.support.apiserver.faults import Faults
from tests.support.apiserver.paths import Logged, find_target
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.store import Store
from tests.support.apiserver.watches import End, Watch

_GET = Logged(method="GET", path="/api/v1/nodes")
_PATCH = Logged(method="PATCH", path="/api/v1/nodes/n")


class _Server:
    """Remembers what was done to it."""

    def __init__(self, watches: Iterable[Watch] = ()) -> None:
        self.watches = list(watches)
        self.done: list[str] = []

    def break_connections(self) -> None:
        self.done.append("break")

    def forget_history(self) -> None:
        self.done.append("forget")

    def replace_token(self, old: str, new: str) -> None:
        self.done.append(f"{old}->{new}")

    def replace_certificate(self, *, new_ca: bool) -> None:
        self.done.append(f"certificate {new_ca}")

    async def stop(self) -> None:
        self.done.append("stop")

    async def start(self) -> None:
        self.done.append("start")


async def test_answers_are_used_up() -> None:
    """So many, of those requests that are meant."""
    faults = Faults(_Server())
    faults.answer(429, times=2, retry_after=7, when=lambda logged: logged.method == "PATCH")
    await faults.before(_GET)
    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            await faults.before(_PATCH)
        assert (caught.value.code, caught.value.reason, caught.value.retry_after) == (429, "TooManyRequests", 7)
    await faults.before(_PATCH)


async def test_clearing_ends_everything() -> None:
    """Those who were held go on."""
    faults = Faults(_Server())
    stall = faults.stall()
    faults.answer(500)
    faults.drop()
    faults.truncate()
    faults.delay(1000.0)
    faults.clear()
    assert stall.released
    await faults.before(_GET)
    assert not faults.drops(_GET)
    assert not faults.truncates(_GET)


def test_drops_and_truncations_are_used_up() -> None:
    """One request each, unless more are said."""
    faults = Faults(_Server())
    faults.drop(when=lambda logged: logged.method == "PATCH")
    faults.truncate(times=2)
    assert [faults.drops(_GET), faults.drops(_PATCH), faults.drops(_PATCH)] == [False, True, False]
    assert [faults.truncates(_GET) for _ in range(3)] == [True, True, False]


async def test_what_the_server_is_told() -> None:
    """The order matters: history is lost while nobody listens."""
    server = _Server()
    faults = Faults(server)
    await faults.restart(lose_history=True)
    await faults.restart()
    faults.drop_connections()
    faults.rotate_token("a", "b")
    faults.swap_certificate(new_ca=True)
    assert server.done == ["stop", "forget", "start", "stop", "start", "break", "a->b", "certificate True"]


def test_what_watches_are_told(store: Store) -> None:
    """Each fault in its way."""
    target = find_target("GET", "/api/v1/nodes", {"watch": "1"})
    watch = Watch(store, target, {"allowWatchBookmarks": "true"})
    faults = Faults(_Server([watch]))
    faults.bookmark()
    faults.garble_watches(b"x\n")
    faults.cut_watches()
    faults.cut_watches(mid_line=True)
    faults.end_watches()
    lines = [watch.lines.get_nowait() for _ in range(watch.lines.qsize())]
    assert lines[1:] == [b"x\n", End.CUT, End.MID_LINE, End.CLEAN]
    assert b"BOOKMARK" in lines[0]  # type: ignore[operator]
