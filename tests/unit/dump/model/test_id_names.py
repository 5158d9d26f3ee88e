"""Which pods and containers are behind which ids."""

import json
from typing import Any

import pytest

from interpose.dump.model.call import Subject
from interpose.dump.model.id_names import MAX_CONTEXT_IDS, IdNames, KnownContainer, KnownPod

POD = KnownPod(namespace="shop", name="web-0", uid="u1")
CONTAINER = KnownContainer(name="app", image="busybox", pod_id="p1")


def known() -> IdNames:
    """One pod with one container."""
    known = IdNames()
    known.add_pod("p1", POD)
    known.add_container("c1", CONTAINER)
    return known


def test_the_id_of_a_pod_tells_its_names() -> None:
    """All of them."""
    assert known().complete(Subject(pod_id="p1")) == Subject(namespace="shop", pod="web-0", pod_uid="u1", pod_id="p1")


def test_the_id_of_a_container_tells_its_pod_too() -> None:
    """By way of the pod's id."""
    subject = known().complete(Subject(container_id="c1"))
    assert str(subject) == "shop/web-0:app"
    assert (subject.pod_id, subject.image) == ("p1", "busybox")


def test_names_that_a_container_knows_of_its_pod_will_do() -> None:
    """Its labels have them, and the pod itself may never have been seen."""
    known = IdNames()
    known.add_container("c1", KnownContainer(name="app", pod=POD))
    assert str(known.complete(Subject(container_id="c1"))) == "shop/web-0:app"


def test_what_a_call_says_itself_stays() -> None:
    """It knows better."""
    subject = known().complete(Subject(pod_id="p1", pod="other", container_id="c1", container="mine", image="i"))
    assert (subject.pod, subject.container, subject.image) == ("other", "mine", "i")


def test_an_id_nobody_knows_tells_nothing() -> None:
    """And stays what it is."""
    subject = Subject(pod_id="p9", container_id="c9")
    assert known().complete(subject) == subject


def test_the_beginning_of_an_id_will_do() -> None:
    """Tools that people use accept it, and so do runtimes."""
    known = IdNames()
    known.add_pod("a" * 64, POD)
    known.add_pod("ab" * 32, POD)
    assert known.complete(Subject(pod_id="aba")).pod_id == "ab" * 32


@pytest.mark.parametrize("beginning", ["a", "b", "a" * 65])
def test_the_beginning_of_two_ids_or_of_none_will_not(beginning: str) -> None:
    """A wrong name is worse than none."""
    known = IdNames()
    known.add_pod("a" * 64, POD)
    known.add_pod("ab" * 32, POD)
    assert not known.complete(Subject(pod_id=beginning)).pod


def test_what_has_no_id_or_no_name_is_not_kept() -> None:
    """It would only push out others."""
    known = IdNames()
    known.add_pod("", POD)
    known.add_pod("p1", KnownPod())
    known.add_container("", CONTAINER)
    known.add_container("c1", KnownContainer(pod_id="p1"))
    assert known.context() == {"pods": {}, "containers": {}}


def test_less_is_not_put_in_the_place_of_more() -> None:
    """Statistics know no image; a list knows no pod's names but in labels."""
    known = IdNames()
    known.add_container("c1", KnownContainer(name="app", image="busybox", pod_id="p1", pod=POD))
    known.add_container("c1", KnownContainer(name="app"))
    known.add_container("c1", KnownContainer(name="app", pod=POD))
    assert known.complete(Subject(container_id="c1")).image == "busybox"
    assert known.complete(Subject(container_id="c1")).pod_id == "p1"
    assert known.has_container("c1")


def test_what_is_known_in_full_need_not_be_learned_again() -> None:
    """The same lists come every second."""
    one = known()
    assert one.has_pod("p1")
    assert not one.has_pod("p2")
    assert not one.has_container("c1"), "the names of its pod are not there"
    assert not one.has_container("c2")


def test_ids_that_were_not_used_for_longest_are_forgotten() -> None:
    """Being asked for is being used."""
    known = IdNames(max_ids=2)
    known.add_pod("p1", POD)
    known.add_pod("p2", POD)
    known.complete(Subject(pod_id="p1"))
    known.add_pod("p3", POD)
    assert list(known.context()["pods"]) == ["p1", "p3"]


def test_what_is_known_travels_as_json() -> None:
    """And is the same on the other side."""
    other = IdNames()
    other.learn(json.loads(json.dumps(known().context())))
    assert other.context() == known().context()
    assert str(other.complete(Subject(container_id="c1"))) == "shop/web-0:app"


def test_only_the_newest_travel() -> None:
    """Every file of a recording begins with them."""
    known = IdNames()
    for number in range(MAX_CONTEXT_IDS + 5):
        known.add_pod(f"p{number}", POD)
    told = list(known.context()["pods"])
    assert (len(told), told[-1]) == (MAX_CONTEXT_IDS, f"p{MAX_CONTEXT_IDS + 4}")


@pytest.mark.parametrize(
    "facts",
    [{}, {"pods": 3, "containers": None}, {"pods": {"a": 1, "b": ["x"], "c": [1, 2, 3]}}, {"containers": {"a": ["x"]}}],
)
def test_what_cannot_be_used_is_passed_over(facts: dict[str, Any]) -> None:
    """A recording of another version is no reason to fail."""
    known = IdNames()
    known.learn(facts)
    assert known.context() == {"pods": {}, "containers": {}}
