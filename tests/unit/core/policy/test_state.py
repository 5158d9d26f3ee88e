"""The account book: what containers have follows from pools and grants, and who has something else is told once."""

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.decision import Assignment, Grant
from interpose.core.policy.request import Key
from interpose.core.policy.state import PolicyState

A, B, C = Key("pod", "a"), Key("pod", "b"), Key("pod", "c")
SHARED = Grant(pools=("shared",))


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def test_a_container_has_its_own_cpus_and_those_of_its_pools() -> None:
    """Joined; memory nodes and shares as the grant says."""
    state = PolicyState({"shared": cpus("0-3"), "reserved": cpus("0")})
    state.put(A, Grant(exclusive=cpus("8"), pools=("shared", "reserved"), mems=cpus("1"), shares=512))
    assert state.assignment(A) == Assignment(cpus=cpus("0-3,8"), mems=cpus("1"), shares=512)


def test_a_container_that_is_not_pinned_has_no_cpu_set() -> None:
    """None, which means that nothing is written; not the empty set."""
    state = PolicyState({"shared": cpus("0-3")})
    state.put(A, Grant(pinned=False, pools=("shared",)))
    assert state.assignment(A) == Assignment()


def test_who_holds_nothing_has_nothing() -> None:
    """Also of a pool there is not."""
    state = PolicyState()
    assert state.assignment(A) == Assignment()
    assert state.pool("shared") == EMPTY
    assert state.members("shared") == ()
    state.put(A, SHARED)
    assert state.assignment(A).cpus == EMPTY


def test_when_a_pool_changes_its_members_are_told_in_order_of_their_coming() -> None:
    """And nobody else is."""
    state = PolicyState({"shared": cpus("0-3")})
    state.put(C, SHARED)
    state.put(A, SHARED)
    state.put(B, Grant(exclusive=cpus("9")))
    assert state.changes() == (C, A, B)
    state.set_pool("shared", cpus("0-2"))
    assert state.changes() == (C, A)
    assert state.changes() == ()


def test_what_changes_and_changes_back_is_not_told() -> None:
    """Nor is a pool that gets the CPUs it has."""
    state = PolicyState({"shared": cpus("0-3")})
    state.put(A, SHARED)
    state.changes()
    state.set_pool("shared", cpus("0-3"))
    state.set_pool("shared", cpus("0-2"))
    state.set_pool("shared", cpus("0-3"))
    assert state.changes() == ()


def test_a_new_grant_takes_the_place_of_the_old_one() -> None:
    """The container leaves pools it is no longer in, and keeps its place in the order."""
    state = PolicyState({"shared": cpus("0-3"), "other": cpus("4")})
    state.put(A, SHARED)
    state.put(B, SHARED)
    state.put(A, Grant(pools=("other",)))
    assert state.members("shared") == (B,)
    assert state.members("other") == (A,)
    assert list(state.grants) == [A, B]
    assert state.changes() == (A, B)


def test_who_is_dropped_is_in_no_pool_and_is_not_told() -> None:
    """What it held is returned; dropping it again returns nothing."""
    state = PolicyState({"shared": cpus("0-3")})
    state.put(A, SHARED)
    assert state.drop(A) == SHARED
    assert state.drop(A) is None
    assert state.members("shared") == ()
    assert state.changes() == ()
    assert dict(state.grants) == {}


def test_who_comes_again_is_told_again() -> None:
    """Also if it has the same as before: it is another container."""
    state = PolicyState({"shared": cpus("0-3")})
    state.put(A, SHARED)
    state.changes()
    state.drop(A)
    state.put(A, SHARED)
    assert state.changes() == (A,)


def test_pools_are_shown_as_they_are_now() -> None:
    """A view, not a copy."""
    state = PolicyState({"shared": cpus("0-3")})
    view = state.pools
    state.set_pool("new", cpus("5"))
    assert dict(view) == {"shared": cpus("0-3"), "new": cpus("5")}


def test_a_pool_that_is_removed_has_nobody_and_nothing() -> None:
    """It is not shown any more; removing one that there is not changes nothing."""
    state = PolicyState({"shared": cpus("0-3"), "own": cpus("4")})
    state.put(A, Grant(pools=("own",)))
    state.drop(A)
    state.remove_pool("own")
    state.remove_pool("nothing")
    assert dict(state.pools) == {"shared": cpus("0-3")}
    assert (state.pool("own"), state.members("own")) == (EMPTY, ())


def test_a_new_grant_with_the_same_pools_keeps_its_place_in_them() -> None:
    """It has not left the pool; one that was in another one has come later."""
    state = PolicyState({"shared": cpus("0-3"), "own": cpus("4")})
    for key in (A, B):
        state.put(key, SHARED)
    state.put(A, Grant(pools=("shared",), milli=100))
    assert state.members("shared") == (A, B)
    state.put(A, Grant(pools=("own",)))
    state.put(A, SHARED)
    assert state.members("shared") == (B, A)
