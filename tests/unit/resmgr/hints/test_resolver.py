"""Hints within a budget: paths that do not answer are left behind."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Key, Request
from interpose.core.topology.hints import TopologyHint
from interpose.resmgr.hints.devices import DeviceHint
from interpose.resmgr.hints.resolver import MAX_BLOCKED, HintResolver, HintResult
from interpose.resmgr.hints.rules import HintPath
from interpose.testing.eventually import eventually
from tests.support.policy.machines import machine

REQUEST = Request(key=Key("pod-1", "app"))
TOPOLOGY = machine("n4c16")


def config(*paths: str) -> cri.ContainerConfig:
    return cri.ContainerConfig(mounts=[cri.Mount(host_path=path, container_path=path) for path in paths])


def hint(path: str) -> TopologyHint:
    return TopologyHint(provider=f"/sys/devices{path}", cpus=CpuSet.parse("0-3"))


class Disks:
    """What paths are near to: each has a disk of its own, `/hung...` does not answer before it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.asked: list[str] = []
        self.hung = self.noticed = 0

    def find(self, path: HintPath) -> tuple[DeviceHint, ...]:
        """The hint of a path."""
        self.asked.append(path.path)
        if path.path.startswith("/hung"):
            self.hung += 1
            self.free.wait()
        if path.path == "/gone":
            raise FileNotFoundError(path.path)
        if path.path == "/bug":
            raise KeyError("oh")
        return (DeviceHint(f"/sys/devices{path.path}/disk", hint(path.path)),)

    async def until_hung(self, ended: asyncio.Future[None]) -> None:
        """The limit of a lookup: it is over when a path hangs that did not hang before."""
        await eventually(lambda: ended.done() or self.hung > self.noticed, "the lookup to end, or to hang")
        if not ended.done():
            self.noticed = self.hung
            raise TimeoutError


async def patient(ended: asyncio.Future[None]) -> None:
    """A limit that is never reached."""
    await ended


@pytest.fixture
def disks() -> Iterator[Disks]:
    disks = Disks()
    yield disks
    disks.free.set()


async def resolve(resolver: HintResolver, *paths: str, request: Request = REQUEST) -> HintResult:
    return await resolver.resolve(request, config(*paths), TOPOLOGY)


async def test_hints_are_those_of_all_paths(disks: Disks) -> None:
    """In their order; one that is not there is near to nothing, and a defect is told."""
    found = await resolve(HintResolver(disks.find, limit=patient), "/a", "/gone", "/bug", "/b")
    assert found == HintResult((hint("/a"), hint("/b")), ("/bug cannot be looked up: KeyError('oh')",))


async def test_the_budget_is_short(disks: Disks) -> None:
    """A create does not wait for a server that is gone."""
    found = await resolve(HintResolver(disks.find), "/hung")
    assert found == HintResult((), ("/hung does not answer, so nothing is known of what it is near to",))


async def test_without_paths_there_is_no_thread(disks: Disks) -> None:
    """Most containers have none that counts."""
    assert await resolve(HintResolver(disks.find), "/etc/hosts") == HintResult()
    assert disks.asked == []


async def test_denied_devices_are_left_out(disks: Disks) -> None:
    """Rules are about devices too, and these are known only now."""
    key = "deny.topologyhints.resource-policy.nri.io"
    rules = {key: "{type: prefix, paths: [/sys/devices/a/disk]}"}
    request = Request(key=Key("pod-1", "app"), pod_annotations=rules)
    assert (await resolve(HintResolver(disks.find, limit=patient), "/a", "/b", request=request)).hints == (hint("/b"),)


async def test_an_annotation_that_cannot_be_read_leaves_no_hints(disks: Disks) -> None:
    """It was meant to leave some out, and nobody knows which."""
    request = Request(key=Key("pod-1", "app"), pod_annotations={"topologyhints.resource-policy.nri.io": "perhaps"})
    found = await resolve(HintResolver(disks.find), "/a", request=request)
    assert found.hints == ()
    assert found.problems[0].startswith("annotation topologyhints.resource-policy.nri.io: 'perhaps' has")


async def test_a_path_that_does_not_answer_is_left_behind(disks: Disks) -> None:
    """What was found before counts; the path is not tried again as long as it hangs, others are."""
    resolver = HintResolver(disks.find, limit=disks.until_hung)
    found = await resolve(resolver, "/a", "/hung", "/b")
    assert found == HintResult((hint("/a"),), ("/hung does not answer, so nothing is known of what it is near to",))
    again = await resolve(resolver, "/hung", "/c")
    assert again.hints == (hint("/c"),)
    assert disks.asked.count("/hung") == 1


async def test_one_that_answers_late_is_tried_again(disks: Disks) -> None:
    """Its thread has come to its end, without the paths behind it."""
    resolver = HintResolver(disks.find, limit=disks.until_hung)
    await resolve(resolver, "/hung", "/b")
    disks.free.set()
    await eventually(lambda: not resolver._blocked, "the thread to end")
    assert "/b" not in disks.asked
    assert (await resolve(resolver, "/hung")).hints == (hint("/hung"),)


async def test_blocked_threads_are_few(disks: Disks) -> None:
    """Beyond that nothing is looked up at all."""
    resolver = HintResolver(disks.find, limit=disks.until_hung)
    for number in range(MAX_BLOCKED):
        await resolve(resolver, f"/hung{number}")
    found = await resolve(resolver, "/a")
    assert found == HintResult(
        (), ("nothing is looked up as long as these do not answer: /hung0, /hung1, /hung2, /hung3",)
    )
    assert "/a" not in disks.asked


async def test_without_another_thread_there_are_no_hints(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A create goes on all the same."""

    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    found = await resolve(HintResolver(disks.find), "/a")
    assert found == HintResult((), ("topology hints cannot be looked up: can't start new thread",))


async def test_a_caller_that_goes_away_leaves_the_thread(disks: Disks) -> None:
    """The client has cancelled its create."""
    resolver = HintResolver(disks.find, limit=patient)
    task = asyncio.ensure_future(resolve(resolver, "/hung"))
    await eventually(lambda: disks.asked == ["/hung"], "the path to be asked")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [lookup.path for lookup in resolver._blocked] == ["/hung"]
