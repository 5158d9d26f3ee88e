"""What we wrote in containers, and what of it is somebody else's again."""

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.resmgr.control.managed_fields import ManagedFields

KEY = Key("pod", "app")
CPUS = CpuSet.parse("0-3")


def test_what_an_assignment_does_not_say_is_gone() -> None:
    """Only of what we wrote: the rest was never ours."""
    managed = ManagedFields()
    assert managed.abandoned(KEY, Assignment()) == []
    managed.add(KEY, Assignment(cpus=CPUS, shares=512))
    managed.add_names(KEY, ["mems"])
    assert sorted(managed.abandoned(KEY, Assignment(cpus=CPUS))) == ["mems", "shares"]


def test_what_is_let_go_is_nobodys_business_any_more() -> None:
    """Until it is written again; who is not known has nothing to let go."""
    managed = ManagedFields()
    managed.release(KEY, ["shares"])
    managed.add(KEY, Assignment(shares=512))
    managed.release(KEY, ["shares"])
    assert managed.abandoned(KEY, Assignment()) == []
    managed.add(KEY, Assignment(shares=512))
    assert managed.abandoned(KEY, Assignment()) == ["shares"]


def test_a_container_that_is_gone_is_forgotten() -> None:
    """One of the same name begins anew."""
    managed = ManagedFields()
    managed.add(KEY, Assignment(cpus=CPUS))
    managed.drop(KEY)
    managed.drop(KEY)
    assert managed.abandoned(KEY, Assignment()) == []
