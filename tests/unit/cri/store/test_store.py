"""The store: records by id, what is older than they are, and what comes too late."""

from dataclasses import replace

from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import LinuxResources
from interpose.cri.store.store import Store

POD = Pod(id="p1", name="web", uid="u1", namespace="default")
CONTAINER = Container(id="c1", pod_id="p1", name="app")
PINNED = replace(CONTAINER, resources=LinuxResources(cpuset_cpus="1"))


def filled() -> Store:
    """A pod with a container."""
    store = Store()
    store.put_pod(POD)
    store.put_container(CONTAINER)
    return store


def test_unique_start_of_an_id_is_enough() -> None:
    """Two that start alike need more; nothing at all names nobody."""
    store = Store()
    for pod_id in ("abc1", "abc2", "abc"):
        store.put_pod(Pod(id=pod_id))
    found = [store.pod(ref) for ref in ("abc1", "abc", "ab", "", "abcd")]
    assert [one.id if one else None for one in found] == ["abc1", "abc", None, None, None]


def test_containers_of_a_pod_come_in_order() -> None:
    """As they became known; a replaced record keeps its place."""
    store = filled()
    store.put_container(Container(id="c0", pod_id="p1"))
    store.put_container(replace(CONTAINER, state=ContainerState.RUNNING))
    assert [one.id for one in store.containers_of("p1")] == ["c1", "c0"]
    assert store.containers_of("nobody") == ()


def test_container_may_turn_out_to_be_in_another_pod() -> None:
    """Its old pod no longer has it."""
    store = filled()
    store.put_container(replace(CONTAINER, pod_id="p2"))
    assert (store.containers_of("p1"), len(store.containers_of("p2"))) == ((), 1)


def test_pod_goes_with_its_containers() -> None:
    """Named by the start of its id."""
    store = filled()
    store.remove_pod("p")
    assert (len(store.pods), len(store.containers), store.containers_of("p1")) == (0, 0, ())


def test_containers_with_the_same_variables_share_them() -> None:
    """Their records are equal to what was put; a replaced record keeps its variables."""
    store = filled()
    host, home = ("HOST", b"10.0.0.1"), ("HOME", b"/")
    store.put_container(replace(CONTAINER, envs=(host, home)))
    of_other = (str(b"HOME", "utf-8"), bytes(bytearray(b"/")))
    store.put_container(Container(id="c2", pod_id="p1", envs=(of_other,)))
    first, second = store.containers["c1"].envs, store.containers["c2"].envs
    assert (first, second) == ((host, home), (home,))
    assert second[0] is first[1] is not of_other
    store.put_container(replace(store.containers["c2"], state=ContainerState.RUNNING))
    assert store.containers["c2"].envs is second


def test_container_may_have_the_id_of_its_pod() -> None:
    """A runtime that gives out one id for both loses these records, and no other."""
    store = filled()
    store.put_pod(Pod(id="same"))
    store.put_container(Container(id="same", pod_id="same"))
    store.remove_pod("same")
    assert (list(store.pods), list(store.containers)) == (["p1"], ["c1"])


def test_container_with_the_id_of_a_pod_is_no_longer_listed() -> None:
    """The pod stays; what becomes of it is learned from the next list."""
    store = filled()
    store.put_pod(Pod(id="same"))
    store.put_container(Container(id="same", pod_id="p1"))
    assert store.forget_missing(store.mark(), containers={"c1"}) == 1
    assert store.forget_missing(store.mark(), pods={"p1"}) == 1
    assert (list(store.pods), list(store.containers)) == (["p1"], ["c1"])


def test_removing_what_is_not_there_is_fine() -> None:
    """Everybody may have heard of it before us."""
    store = filled()
    store.remove_container("x")
    store.remove_pod("x")
    assert (len(store.pods), len(store.containers)) == (1, 1)


def test_list_removes_what_it_does_not_show() -> None:
    """If the record is older than the question."""
    store = filled()
    mark = store.mark()
    store.put_container(Container(id="c2", pod_id="p1"))
    assert store.forget_missing(mark, containers=()) == 1
    assert list(store.containers) == ["c2"]


def test_pod_with_a_younger_container_is_no_older_than_it() -> None:
    """The container was created in it after the question: the pod existed then."""
    store = filled()
    mark = store.mark()
    store.put_container(Container(id="c2", pod_id="p1"))
    assert store.forget_missing(mark, pods=()) == 0
    assert store.forget_missing(store.mark(), pods=()) == 3


def test_changed_record_is_younger_than_the_question() -> None:
    """An answer about its old state is no news."""
    store = filled()
    mark = store.mark()
    assert store.unchanged_since("c1", mark)
    store.put_container(replace(CONTAINER, state=ContainerState.RUNNING))
    assert (store.unchanged_since("c1", mark), store.unchanged_since("nobody", mark)) == (False, False)


def test_answer_about_what_went_meanwhile_is_stale() -> None:
    """Also if it was known by a part of its id only, or not at all; other objects do not matter."""
    store = filled()
    with store.query("p1") as known, store.query("p1xyz") as longer, store.query("q") as other:
        store.remove_pod("p1")
    assert (known.stale, longer.stale, other.stale) == (True, True, False)


def test_question_is_forgotten_when_answered() -> None:
    """Nothing is remembered about objects that are gone."""
    store = filled()
    with store.query("p1") as question:
        pass
    store.remove_pod("p1")
    assert not question.stale


def test_divergence_is_told_at_its_ends() -> None:
    """For the first container and for the last; not in between."""
    store, told = filled(), list[bool]()
    store.on_diverging = lambda: told.append(bool(store.diverging))
    store.put_container(PINNED)
    store.put_container(replace(PINNED, id="c2"))
    store.remove_container("c1")
    assert (told, set(store.diverging)) == ([True], {"c2"})
    store.put_container(replace(CONTAINER, id="c2"))
    assert (told, set(store.diverging)) == ([True, False], set())


def test_record_settles_what_is_pending_under_its_name() -> None:
    """The runtime gives a name to one object only."""
    store = Store()
    store.pending.add(replace(POD, id=""))
    store.pending.add(replace(CONTAINER, id=""), pod_uid="u1")
    store.put_pod(POD)
    assert len(store.pending) == 1
    store.put_container(CONTAINER)
    assert len(store.pending) == 0


def test_pod_takes_its_pending_containers_along() -> None:
    """Nothing can be created in it any more."""
    store = filled()
    store.pending.add(replace(CONTAINER, id="", name="two"), pod_uid="u1")
    store.pending.add(replace(CONTAINER, id="", pod_id="p2", name="two"), pod_uid="u2")
    store.remove_pod("p1")
    assert [one.key[0] for one in store.pending] == ["u2"]
