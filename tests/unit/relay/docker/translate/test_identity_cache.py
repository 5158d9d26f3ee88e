"""Whose containers are: what is kept, and for how long."""

import pytest

from interpose.relay.docker.translate.identity_cache import IdentityCache, is_full
from interpose.relay.docker.translate.labels import DockerIdentity

APP, POD = "a" * 64, "b" * 64


class Stage:
    """A memory, and whether removals are heard."""

    def __init__(self) -> None:
        self.event_session = 1
        self.known = IdentityCache(lambda: self.event_session)

    def learn(self, object_id: str) -> None:
        """dockerd says so at once."""
        self.known.add(DockerIdentity(id=object_id, sandbox=False), self.known.mark())

    def knows(self, ref: str) -> bool:
        """Whether dockerd need not be asked."""
        return self.known.get(ref) is not None


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_what_was_said_is_kept(stage: Stage) -> None:
    """By the whole id, and for nobody else."""
    stage.learn(APP)
    assert stage.known.get(APP) == DockerIdentity(id=APP, sandbox=False)
    assert not stage.knows(POD)


def test_what_is_removed_is_forgotten(stage: Stage) -> None:
    """Its id may be the name of another one from now on."""
    stage.learn(APP)
    stage.learn(POD)
    stage.known.remove(APP)
    assert not stage.knows(APP)
    assert stage.knows(POD)


def test_an_answer_that_something_overtook_is_not_kept(stage: Stage) -> None:
    """What was removed since dockerd was asked may be what it spoke of."""
    mark = stage.known.mark()
    stage.known.remove(POD)
    stage.known.add(DockerIdentity(id=APP, sandbox=False), mark)
    assert not stage.knows(APP)


def test_nothing_is_kept_while_removals_are_not_heard(stage: Stage) -> None:
    """Neither what is said then, nor what was said before."""
    stage.learn(POD)
    stage.event_session = 0
    stage.learn(APP)
    assert not stage.knows(APP)
    assert not stage.knows(POD)


def test_what_was_kept_before_a_gap_is_gone(stage: Stage) -> None:
    """Whatever was removed in between, nobody heard of it; whether it was asked for meanwhile or not."""
    stage.learn(POD)
    mark = stage.known.mark()
    stage.event_session = 2
    stage.known.add(DockerIdentity(id=APP, sandbox=False), mark)
    stage.learn("c" * 64)
    assert not stage.knows(APP)
    assert not stage.knows(POD)
    assert stage.knows("c" * 64)


def test_only_whole_ids_are_kept(stage: Stage) -> None:
    """A name means another one tomorrow."""
    stage.learn("k8s_app")
    assert not stage.knows("k8s_app")


def test_memory_is_bounded(stage: Stage) -> None:
    """What was longest unused goes first."""
    stage.learn(APP)
    for number in range(8191):
        stage.learn(f"{number:064x}")
    assert stage.knows(APP)
    stage.learn("d" * 64)
    assert stage.knows(APP)
    assert not stage.knows(f"{0:064x}")


@pytest.mark.parametrize(
    ("ref", "full"), [(APP, True), (APP[1:], False), ("A" * 64, False), ("g" * 64, False), ("", False)]
)
def test_whole_ids(ref: str, full: bool) -> None:
    """As dockerd makes them."""
    assert is_full(ref) is full
