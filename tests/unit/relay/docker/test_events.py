"""What dockerd tells by itself: which lines matter, and what they cause."""

import json
from collections.abc import Callable

import pytest

from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.cri.store.store import Store
from interpose.relay.docker.events import ACTIONS, DockerEvent, StoreRefresher, is_new_to_store, read_event

POD, APP = "a" * 64, "b" * 64


def line(action: str, object_id: str = APP, kind: str = "container", label: str = "io.kubernetes.sandbox.id") -> bytes:
    """As dockerd writes it."""
    actor = {"ID": object_id, "Attributes": {"name": "k8s_app", "exitCode": "0", label: "x"}}
    return json.dumps({"status": action, "id": object_id, "Type": kind, "Action": action, "Actor": actor}).encode()


def store(state: ContainerState = ContainerState.RUNNING) -> Store:
    """One pod with one container."""
    made = Store()
    made.put_pod(Pod(id=POD, name="web", uid="1", namespace="shop", ready=True))
    made.put_container(Container(id=APP, pod_id=POD, name="app", state=state))
    return made


# -- lines


@pytest.mark.parametrize("action", ACTIONS)
def test_lines_that_matter(action: str) -> None:
    """What comes, runs, ends and goes."""
    assert read_event(line(action)) == DockerEvent(action, APP)


def test_line_of_an_old_daemon() -> None:
    """It knows containers only, and does not say so."""
    assert read_event(b'{"status":"die","id":"x","from":"busybox"}') == DockerEvent("die", "x")


@pytest.mark.parametrize(
    "text",
    [
        line("exec_start: sh -c true"),
        line("health_status: healthy"),
        line("create", kind="network"),
        line("create", label="app"),
        b"{",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b"{}",
        b'{"Type":"container","Action":7,"Actor":{}}',
    ],
)
def test_lines_that_do_not_matter(text: bytes) -> None:
    """Others' business, and what nobody can read."""
    assert read_event(text) is None


def test_line_without_an_id() -> None:
    """It is about somebody."""
    assert read_event(b'{"Type":"container","Action":"die","Actor":{"ID":7}}') == DockerEvent("die", "")


# -- news


@pytest.mark.parametrize(
    ("action", "object_id", "news"),
    [
        ("create", APP, False),
        ("start", APP, False),
        ("die", APP, True),
        ("destroy", APP, True),
        ("create", POD, False),
        ("start", POD, False),
        ("die", POD, True),
        ("destroy", POD, True),
        ("create", "new", True),
        ("start", "new", True),
        ("die", "new", True),
        ("destroy", "new", False),
        ("die", "", True),
    ],
)
def test_news_of_what_runs(action: str, object_id: str, news: bool) -> None:
    """What the records say already is no news."""
    assert is_new_to_store(DockerEvent(action, object_id), store()) is news


def test_news_of_what_does_not_run() -> None:
    """A start is news then, another end is not."""
    ended = store(ContainerState.EXITED)
    assert is_new_to_store(DockerEvent("start", APP), ended)
    assert not is_new_to_store(DockerEvent("die", APP), ended)


# -- the nudge


class Later:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.cancelled = 0

    def __call__(self, seconds: float, act: Callable[[], None]) -> "Later":
        self.due.append(act)
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def pass_by(self) -> None:
        """Time passes."""
        due, self.due = self.due, []
        for act in due:
            act()


class Stage:
    """A nudge with what is around it."""

    def __init__(self) -> None:
        self.store = store()
        self.later = Later()
        self.resyncs = 0
        self.nudge = StoreRefresher(store=self.store, resync=self._resync, later=self.later)

    def _resync(self) -> None:
        self.resyncs += 1


def test_exits_of_a_moment_are_learned_in_one_go() -> None:
    """And the next moment is another one."""
    stage = Stage()
    for _ in range(3):
        stage.nudge(DockerEvent("die", APP))
    assert stage.resyncs == 0
    stage.later.pass_by()
    assert stage.resyncs == 1
    stage.nudge(DockerEvent("die", APP))
    stage.later.pass_by()
    assert (stage.resyncs, stage.nudge.news) == (2, 2)


def test_what_passes_here_is_known_in_time() -> None:
    """dockerd tells of the end before it answers the stop."""
    stage = Stage()
    stage.nudge(DockerEvent("die", APP))
    stage.store.put_container(Container(id=APP, pod_id=POD, name="app", state=ContainerState.EXITED))
    stage.later.pass_by()
    assert stage.resyncs == 0


def test_what_is_not_new_costs_nothing() -> None:
    """Not even a timer."""
    stage = Stage()
    stage.nudge(DockerEvent("start", APP))
    assert not stage.later.due


def test_a_flood_is_bounded() -> None:
    """Of too many, some stand for all."""
    stage = Stage()
    for number in range(5000):
        stage.nudge(DockerEvent("create", f"id{number}"))
    assert len(stage.nudge._waiting) <= 1025
    stage.later.pass_by()
    assert stage.resyncs == 1


def test_closed() -> None:
    """The timer goes; without one there is nothing to do."""
    stage = Stage()
    stage.nudge.close()
    stage.nudge(DockerEvent("die", APP))
    stage.nudge.close()
    assert stage.later.cancelled == 1
