"""Work on paths that users choose, some of which hang."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.fs.user_paths import OnPath, UserPaths
from interpose.testing.eventually import WAIT_LIMIT, eventually


class Hung:
    """A file server that does not answer, until it does."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.looks: list[str] = []

    def look(self, at: OnPath) -> str:
        at("/nfs/data")
        self.looks.append("/nfs/data")
        self.back.wait(WAIT_LIMIT)
        at("/nfs/more")
        self.looks.append("/nfs/more")
        return "found"


@pytest.fixture
def hung() -> Iterator[Hung]:
    """It comes back at the end."""
    made = Hung()
    yield made
    made.back.set()


async def test_what_comes_of_it() -> None:
    """A value, or an error as it was raised."""

    def fail(_at: OnPath) -> str:
        raise ValueError("no good")

    paths = UserPaths()
    assert await paths.run("pod", "/a", lambda _at: "value") == "value"
    with pytest.raises(ValueError, match="no good"):
        await paths.run("pod", "/a", fail)


async def test_a_path_that_hangs_is_named(hung: Hung) -> None:
    """The one that was looked at; once it is back the rest is not looked at any more, for nobody waits."""
    paths = UserPaths(timeout=0.05)
    with pytest.raises(RpcError, match=r"'/nfs/data' did not answer within 0\.05 s") as caught:
        await paths.run("pod", "/first", hung.look)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    hung.back.set()
    assert await UserPaths(timeout=20).run("pod", "/a", lambda _at: 1) == 1
    await eventually(lambda: not _threads(), "the thread to end")
    assert hung.looks == ["/nfs/data"]


async def test_other_pods_do_not_wait(hung: Hung) -> None:
    """A pod has a few threads. When they hang it has to wait, and is told why; another one does not."""
    paths = UserPaths(timeout=0.3, per_pod=2)
    late = [asyncio.ensure_future(paths.run("bad", f"/nfs/{number}", hung.look)) for number in range(3)]
    assert await paths.run("good", "/a", lambda _at: 1) == 1
    said = [str(one) for one in await asyncio.gather(*late, return_exceptions=True)]
    assert [("did not answer within" in one, "was not looked at" in one) for one in said] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    hung.back.set()
    await eventually(lambda: not _threads(), "the threads to end")
    assert await paths.run("bad", "/a", lambda _at: 2) == 2


async def test_there_is_a_bound_for_all(hung: Hung) -> None:
    """And who waits for a place gets it."""
    paths = UserPaths(timeout=20, total=1)
    first = asyncio.ensure_future(paths.run("one", "/nfs", hung.look))
    await eventually(lambda: hung.looks, "the first to look")
    second = asyncio.ensure_future(paths.run("two", "/a", lambda _at: 2))
    await asyncio.sleep(0)
    assert not second.done()
    hung.back.set()
    assert (await first, await second) == ("found", 2)


async def test_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is an error of the machine, and takes no place."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    paths = UserPaths(per_pod=1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="can't start new thread"):
            await paths.run("pod", "/a", lambda _at: 1)
    assert await paths.run("pod", "/a", lambda _at: 1) == 1


def _threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "path of a pod"]
