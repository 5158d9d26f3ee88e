"""A hook server that is killed at any moment: what follows it finds its way, and no value is lost or taken twice.

First in this process, where every single step can be the last one; then real processes and kill -9.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interpose.cli.hookserver.parts import HookServerParts
from interpose.cri.api_version import RuntimeCalls
from interpose.testing.qospods import be_pod, ls_pod, lsr_pod
from tests.support.hooks.node import HookNode, hook_node, node_document
from tests.support.lab.hookserver import HookServer
from tests.support.lab.processes import Child, wait_for

FakeNodeStart = Callable[..., Path]
Make = Callable[..., HookServer]
Files = Mapping[str, str]
BEGIN: Mapping[str, Any] = {"ratio": 1.25}
CHANGE: Mapping[str, Any] = {"ratio": 2.0, "identity": True, "cfs_quota": True}
NO_LIMIT = str((1 << 63) - 4096)


class KilledError(BaseException):
    """The end of a process; nobody catches it."""


class Fuse:
    """Counts what a hook server does to the world, before and after each thing, and ends it at one of these moments.

    Whoever is dead does nothing more, whatever was under way.
    """

    def __init__(self) -> None:
        self.moments = 0
        self._last: int | None = None

    def light(self, moments: int | None) -> None:
        """From now on so many moments are left."""
        self.moments, self._last = 0, moments

    def tick(self) -> None:
        """A moment."""
        self.moments += 1
        if self._last is not None and self.moments > self._last:
            raise KilledError


class Burning:
    """A kernel as the hook server sees it."""

    def __init__(self, node: HookNode, fuse: Fuse) -> None:
        self._kernel = node.kernel
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def write(self, path: str, text: str) -> None:
        """Write, if there is still somebody who does."""
        self._fuse.tick()
        self._kernel.write(path, text)
        self._fuse.tick()


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def version(request: pytest.FixtureRequest) -> int:
    """Of the cgroups."""
    number: int = request.param
    return number


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> Fuse:
    """Of whatever hook server is started."""
    fuse = Fuse()
    call = RuntimeCalls.__call__

    async def burning(calls: RuntimeCalls, method: str, message: bytes) -> bytes:
        if method == "UpdateContainerResources":
            fuse.tick()
        answer = await call(calls, method, message)
        if method == "UpdateContainerResources":
            fuse.tick()
        return answer

    monkeypatch.setattr(RuntimeCalls, "__call__", burning)
    return fuse


@asynccontextmanager
async def small_node(
    scratch: Path, version: int, fuse: Fuse, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[HookNode]:
    """One pod of each kind, and a hook server that did nothing yet."""
    async with hook_node(scratch, version, bvt=True, cpu_normalization=True) as node:
        be_pod(node.node, "be", batch_cpu=800)
        ls_pod(node.node, "ls")
        lsr_pod(node.node, "lsr")
        init = HookServerParts.__init__

        def burning(parts: HookServerParts, *about: Any, files: Any, **more: Any) -> None:
            init(parts, *about, files=Burning(node, fuse), **more)

        monkeypatch.setattr(HookServerParts, "__init__", burning)
        await node.start()
        yield node


Act = Callable[[HookNode], Awaitable[object]]


async def begin(node: HookNode) -> None:
    """The first values."""
    await node.start()
    node.slo(**BEGIN)
    await node.round()


async def change(node: HookNode) -> None:
    """Other rules."""
    await node.start()
    node.slo(**CHANGE)
    await node.round()


async def off(node: HookNode) -> None:
    """Everything back."""
    await node.off()


ACTS: Mapping[str, Act] = {"begin": begin, "change": change, "off": off}
# What is under way when it ends, and what somebody wants after that.
STORIES = [("begin", "begin"), ("begin", "change"), ("begin", "off"), ("change", "change"), ("change", "begin")]
STORIES += [("change", "off"), ("off", "off"), ("off", "begin"), ("off", "change")]


# All moments are for long runs (make soak); each story begins with another one, so that together they see most.
THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))
STEP = 1 if THOROUGH else 9


@pytest.mark.parametrize(("cut", "then"), STORIES, ids=["-then-".join(story) for story in STORIES])
async def test_every_moment_can_be_the_last(
    scratch: Path, version: int, fuse: Fuse, monkeypatch: pytest.MonkeyPatch, cut: str, then: str
) -> None:
    """However far it came: the next one leads to the values of an undisturbed run, and switching off to the first."""
    async with small_node(scratch, version, fuse, monkeypatch) as node:
        initial = node.files()
        results = {"off": initial}
        for name in ("begin", "change"):
            await ACTS[name](node)
            results[name] = node.files()
        await off(node)
        before = {"begin": "off", "change": "begin", "off": "change"}[cut]
        moment, over = STORIES.index((cut, then)) % STEP, False
        while not over:
            await ACTS[before](node)
            fuse.light(moment)
            try:
                await ACTS[cut](node)
                over = True
            except KilledError:
                pass
            fuse.light(None)
            await ACTS[then](node)
            assert node.files() == results[then], f"killed after {moment} moments"
            await off(node)
            assert node.files() == initial, f"killed after {moment} moments"
            assert len(node.parts.journal) == 0
            moment += STEP
        assert moment > 10
        assert node.kernel.refused == []


async def test_killed_again_and_again(scratch: Path, version: int, fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never lives for long gets there in the end, and can still be undone."""
    async with small_node(scratch, version, fuse, monkeypatch) as node:
        initial = node.files()
        await change(node)
        wanted = node.files()
        await off(node)
        for act, result in ((change, wanted), (off, initial)):
            for _ in range(100):
                fuse.light(9)
                try:
                    await act(node)
                    break
                except KilledError:
                    continue
            fuse.light(None)
            assert node.files() == result


# -- real processes


def content(root: Path) -> Files:
    """Every file of a plain tree as a kernel would show it: no limit of memory, written as -1, reads as a number."""
    return {
        str(path.relative_to(root)): NO_LIMIT if path.name == "memory.limit_in_bytes" and text == "-1" else text
        for path in root.rglob("*")
        if path.is_file()
        for text in (path.read_text().strip(),)
    }


def mend(root: Path, before: Files) -> None:
    """A plain file is empty for a moment when it is written. A kernel's is not: it has the old value or the new one."""
    for name, text in before.items():
        if text and not (root / name).read_text():
            (root / name).write_text(text)


def lines(server: HookServer) -> int:
    """How much is in the journal."""
    journal = server.state / "hookserver.journal"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


DOCUMENTS = (node_document(**BEGIN), node_document(**CHANGE))


@pytest.mark.parametrize("first", range(3 if THOROUGH else 2))
def test_kill_9(fake_node: FakeNodeStart, hookserver: Make, first: int) -> None:
    """After so many lines of the journal, while values come, change and go."""
    cgroups = fake_node(pods=10)
    server = hookserver("--mode", "standalone", "--cpu-normalization", "--group-identity-fallback", "shares")
    initial = content(cgroups)
    server.tell(DOCUMENTS[1])
    assert server.single("--once").returncode == 0
    wanted = content(cgroups)
    for cut in range(first, 15, 3 if THOROUGH else 8):
        # Something is under way to begin with: what another document led to, or nothing at all.
        server.tell(DOCUMENTS[0])
        assert server.single("--once" if cut % 2 else "--restore").returncode == 0
        server.tell(DOCUMENTS[1])
        enough, before = lines(server) + 1 + 2 * cut, content(cgroups)
        server.start_unready()
        wait_for(partial(_moment, server, enough), what="the moment", every=0)
        server.kill()
        mend(cgroups, before)
        server.start()
        server.stop()
        assert content(cgroups) == wanted, f"killed with {enough} lines in the journal"
        assert server.single("--restore").returncode == 0
        assert content(cgroups) == initial, f"killed with {enough} lines in the journal"


def _moment(server: HookServer, enough: int) -> bool:
    """Whether there are so many lines, or no more to come."""
    return lines(server) >= enough or "Restored values changed by others" in server.child.log_tail(500)


def _written(server: HookServer, enough: int, child: Child) -> bool:
    return lines(server) >= enough or not child.running


def test_kill_9_while_values_go_back(fake_node: FakeNodeStart, hookserver: Make, spawn: Callable[..., Any]) -> None:
    """Restoring is cut off several times, and then it is not."""
    cgroups = fake_node(pods=10)
    server = hookserver()
    server.tell(DOCUMENTS[0])
    initial = content(cgroups)
    for cut in range(0, 5, 1 if THOROUGH else 3):
        assert server.single("--once").returncode == 0
        enough, before = lines(server) + 1 + 4 * cut, content(cgroups)
        child = spawn(*server.argv("--restore"))
        wait_for(partial(_written, server, enough, child), what="the moment", every=0)
        child.kill()
        mend(cgroups, before)
        assert server.single("--restore").returncode == 0
        assert content(cgroups) == initial, f"killed with {enough} lines in the journal"
