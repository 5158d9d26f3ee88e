"""The tap on lists: which replies count, and when they are read."""

from typing import Any, cast

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import Pod
from interpose.cri.methods import METHODS, Method
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.relay.api import CLIENT, Direction, Interest, Sighting
from interpose.relay.exit_watcher import ExitWatcher
from interpose.testing.eventually import eventually

PODS, CONTAINERS = METHODS["ListPodSandbox"], METHODS["ListContainers"]
EVENTS = METHODS["GetContainerEvents"]


def sighting(number: int, method: Method, origin: str = CLIENT) -> Sighting:
    """A call."""
    return Sighting(number, method.paths[0].encode(), method, origin=origin)


def wanted(exits: ExitWatcher) -> set[str]:
    """What it wants to see."""
    return {name for name in METHODS if exits.interest(name) is Interest.MESSAGES}


class Seen:
    """Notes what the synchronizer would be told."""

    def __init__(self) -> None:
        self.store = Store()
        self.lists: list[tuple[str, list[str], int]] = []
        self.learned: list[str] = []
        self.runs = 0

    def apply_pod_list(self, pods: Any, mark: int) -> None:
        """A list."""
        self.lists.append(("pods", [one.id for one in pods], mark))

    def apply_container_list(self, containers: Any, mark: int) -> None:
        """A list."""
        self.lists.append(("containers", [one.id for one in containers], mark))

    def look_up_soon(self, *, pods: Any = (), containers: Any = ()) -> None:
        """Look up."""
        self.learned += [*pods, *containers]

    def resync_soon(self) -> None:
        """Ask."""
        self.runs += 1


class Tapped:
    """The tap with a clock."""

    def __init__(self) -> None:
        self.sync = Seen()
        self.now = 0.0
        self.told = 0
        self.exits = ExitWatcher(cast(Synchronizer, self.sync), lambda: self.now, self._tell)

    def _tell(self) -> None:
        self.told += 1

    def call(self, number: int, *ids: str, origin: str = CLIENT, request: bytes = b"") -> None:
        """A whole ListContainers."""
        self.exits.on_message(sighting(number, CONTAINERS, origin), Direction.REQUEST, request)
        self.reply(number, *ids, origin=origin)

    def reply(self, number: int, *ids: str, origin: str = CLIENT) -> None:
        """The second half."""
        message = cri.ListContainersResponse(containers=[cri.Container(id=one) for one in ids]).SerializeToString()
        self.exits.on_message(sighting(number, CONTAINERS, origin), Direction.REPLY, message)
        self.exits.on_end(sighting(number, CONTAINERS), 0, "", ())


def test_newest_reply_is_read_at_the_tick() -> None:
    """However many came."""
    it = Tapped()
    it.call(1, "a")
    it.call(2, "b")
    assert it.sync.lists == []
    it.exits.tick()
    it.exits.tick()
    assert (it.sync.lists, it.sync.learned) == ([("containers", ["b"], 0)], ["b"])


def test_mark_is_that_of_the_request() -> None:
    """What changed while the runtime was listing is newer."""
    it = Tapped()
    it.exits.on_message(sighting(1, CONTAINERS, CLIENT), Direction.REQUEST, b"")
    it.sync.store.put_pod(Pod(id="p"))
    it.reply(1, "a")
    it.exits.tick()
    assert it.sync.lists == [("containers", ["a"], 0)]


def test_filtered_and_own_lists_do_not_count() -> None:
    """The first says nothing about the rest, the second is read by whoever asked."""
    it = Tapped()
    filtered = cri.ListContainersRequest(filter=cri.ContainerFilter(id="x")).SerializeToString()
    it.call(1, "a", request=filtered)
    it.call(2, "b", origin="store")
    it.exits.tick()
    assert it.sync.lists == []


def test_pods_are_learned_too() -> None:
    """From their own list."""
    it = Tapped()
    message = cri.ListPodSandboxResponse(items=[cri.PodSandbox(id="p")]).SerializeToString()
    it.exits.on_message(sighting(1, PODS, CLIENT), Direction.REQUEST, b"")
    it.exits.on_message(sighting(1, PODS, CLIENT), Direction.REPLY, message)
    it.exits.tick()
    assert (it.sync.lists, it.sync.learned) == ([("pods", ["p"], 0)], ["p"])


def test_calls_are_forgotten() -> None:
    """Also those without a reply."""
    it = Tapped()
    it.exits.on_message(sighting(1, CONTAINERS, CLIENT), Direction.REQUEST, b"")
    it.exits.on_end(sighting(1, CONTAINERS), 14, "", ())
    it.reply(1, "late")
    it.exits.tick()
    assert (it.exits._marks, it.sync.lists) == ({}, [])


def test_unreadable_reply_is_skipped() -> None:
    """The next one counts."""
    it = Tapped()
    it.exits.on_message(sighting(1, CONTAINERS, CLIENT), Direction.REQUEST, b"")
    it.exits.on_message(sighting(1, CONTAINERS, CLIENT), Direction.REPLY, b"\xff")
    it.exits.tick()
    it.call(2, "a")
    it.exits.tick()
    assert it.sync.lists == [("containers", ["a"], 0)]


def test_poll_after_five_seconds_without_lists() -> None:
    """And again after five more."""
    it = Tapped()
    runs = []
    for second in range(1, 12):
        it.now = float(second)
        it.exits.tick()
        runs.append(it.sync.runs)
    assert runs == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2]


def test_events_are_followed_by_one_list() -> None:
    """At the next tick, however many passed; nothing is read before, and nobody's subscription alone counts."""
    it = Tapped()
    it.exits.on_message(sighting(1, EVENTS), Direction.REQUEST, b"")
    it.exits.tick()
    assert it.sync.runs == 0
    it.exits.on_message(sighting(1, EVENTS), Direction.REPLY, b"\x0a\x01a")
    it.exits.on_message(sighting(1, EVENTS), Direction.REPLY, b"\x0a\x01b")
    assert it.sync.runs == 0
    it.exits.tick()
    it.exits.tick()
    assert it.sync.runs == 1


def test_events_need_no_list_where_a_client_lists() -> None:
    """The next of its lists tells what they were about; once it lists no more, we do."""
    it = Tapped()
    it.exits.on_message(sighting(1, EVENTS), Direction.REPLY, b"")
    it.call(2, "a")
    it.exits.tick()
    it.call(3, "a")
    it.exits.tick()
    assert it.sync.runs == 0
    it.exits.tick()
    assert it.sync.runs == 1


def test_one_reply_between_ticks_is_enough() -> None:
    """The method is let go until the next tick, so that lists pass at full speed; the other one is still looked at."""
    it = Tapped()
    it.call(1, "a")
    assert (wanted(it.exits), it.told) == ({"ListPodSandbox", "GetContainerEvents"}, 1)
    it.exits.tick()
    assert (wanted(it.exits), it.told) == ({"ListPodSandbox", "ListContainers", "GetContainerEvents"}, 2)
    it.exits.tick()
    assert it.told == 2


async def test_long_list_is_read_in_parts() -> None:
    """With turns for others in between; one that comes meanwhile is read later."""
    it = Tapped()
    ids = [f"{number:064}" for number in range(2000)]
    it.call(1, *ids)
    it.exits.tick()
    assert it.sync.lists == []
    it.call(2, "b")
    it.exits.tick()
    await eventually(lambda: len(it.exits.tasks) == 0, "the list to be read")
    assert it.sync.lists == [("containers", ids, 0)]
    assert it.sync.learned == ids
    it.exits.tick()
    assert it.sync.lists[1:] == [("containers", ["b"], 0)]


async def test_long_list_that_ends_in_garbage_is_dropped() -> None:
    """Half a list says nothing about what is not in it."""
    it = Tapped()
    message = cri.ListContainersResponse(containers=[cri.Container(id=f"{number:064}") for number in range(2000)])
    it.exits.on_message(sighting(1, CONTAINERS), Direction.REQUEST, b"")
    it.exits.on_message(sighting(1, CONTAINERS), Direction.REPLY, message.SerializeToString() + b"\xff")
    it.exits.tick()
    await eventually(lambda: len(it.exits.tasks) == 0, "the list to be read")
    assert it.sync.lists == []
