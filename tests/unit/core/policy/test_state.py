"""The account book: what containers have follows from pools and grants, and who has something else is told once."""

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.decision import Assignment, Grant
from interpose.core.policy.request import Key
from interpose.core.policy.state import Book

A, B, C = Key("pod", "a"), Key("pod", "b"), Key("pod", "c")
SHARED = Grant(pools=("shared",))


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def test_a_container_has_its_own_cpus_and_those_of_its_pools() -> None:
    """Joined; memory nodes and shares as the grant says."""
    book = Book({"shared": cpus("0-3"), "reserved": cpus("0")})
    book.put(A, Grant(exclusive=cpus("8"), pools=("shared", "reserved"), mems=cpus("1"), shares=512))
    assert book.assignment(A) == Assignment(cpus=cpus("0-3,8"), mems=cpus("1"), shares=512)


def test_a_container_that_is_not_pinned_has_no_cpu_set() -> None:
    """None, which means that nothing is written; not the empty set."""
    book = Book({"shared": cpus("0-3")})
    book.put(A, Grant(pinned=False, pools=("shared",)))
    assert book.assignment(A) == Assignment()


def test_who_holds_nothing_has_nothing() -> None:
    """Also of a pool there is not."""
    book = Book()
    assert book.assignment(A) == Assignment()
    assert book.pool("shared") == EMPTY
    assert book.members("shared") == ()
    book.put(A, SHARED)
    assert book.assignment(A).cpus == EMPTY


def test_when_a_pool_changes_its_members_are_told_in_order_of_their_coming() -> None:
    """And nobody else is."""
    book = Book({"shared": cpus("0-3")})
    book.put(C, SHARED)
    book.put(A, SHARED)
    book.put(B, Grant(exclusive=cpus("9")))
    assert book.changes() == (C, A, B)
    book.set_pool("shared", cpus("0-2"))
    assert book.changes() == (C, A)
    assert book.changes() == ()


def test_what_changes_and_changes_back_is_not_told() -> None:
    """Nor is a pool that gets the CPUs it has."""
    book = Book({"shared": cpus("0-3")})
    book.put(A, SHARED)
    book.changes()
    book.set_pool("shared", cpus("0-3"))
    book.set_pool("shared", cpus("0-2"))
    book.set_pool("shared", cpus("0-3"))
    assert book.changes() == ()


def test_a_new_grant_takes_the_place_of_the_old_one() -> None:
    """The container leaves pools it is no longer in, and keeps its place in the order."""
    book = Book({"shared": cpus("0-3"), "other": cpus("4")})
    book.put(A, SHARED)
    book.put(B, SHARED)
    book.put(A, Grant(pools=("other",)))
    assert book.members("shared") == (B,)
    assert book.members("other") == (A,)
    assert list(book.grants) == [A, B]
    assert book.changes() == (A, B)


def test_who_is_dropped_is_in_no_pool_and_is_not_told() -> None:
    """What it held is returned; dropping it again returns nothing."""
    book = Book({"shared": cpus("0-3")})
    book.put(A, SHARED)
    assert book.drop(A) == SHARED
    assert book.drop(A) is None
    assert book.members("shared") == ()
    assert book.changes() == ()
    assert dict(book.grants) == {}


def test_who_comes_again_is_told_again() -> None:
    """Also if it has the same as before: it is another container."""
    book = Book({"shared": cpus("0-3")})
    book.put(A, SHARED)
    book.changes()
    book.drop(A)
    book.put(A, SHARED)
    assert book.changes() == (A,)


def test_pools_are_shown_as_they_are_now() -> None:
    """A view, not a copy."""
    book = Book({"shared": cpus("0-3")})
    view = book.pools
    book.set_pool("new", cpus("5"))
    assert dict(view) == {"shared": cpus("0-3"), "new": cpus("5")}
