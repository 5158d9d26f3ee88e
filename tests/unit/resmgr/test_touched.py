"""What we wrote in containers, and what of it is somebody else's again."""

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.resmgr.touched import Touched

KEY = Key("pod", "app")
CPUS = CpuSet.parse("0-3")


def test_what_an_assignment_does_not_say_is_gone() -> None:
    """Only of what we wrote: the rest was never ours."""
    touched = Touched()
    assert touched.gone(KEY, Assignment()) == []
    touched.add(KEY, Assignment(cpus=CPUS, shares=512))
    touched.note(KEY, ["mems"])
    assert sorted(touched.gone(KEY, Assignment(cpus=CPUS))) == ["mems", "shares"]


def test_what_is_let_go_is_nobodys_business_any_more() -> None:
    """Until it is written again; who is not known has nothing to let go."""
    touched = Touched()
    touched.let_go(KEY, ["shares"])
    touched.add(KEY, Assignment(shares=512))
    touched.let_go(KEY, ["shares"])
    assert touched.gone(KEY, Assignment()) == []
    touched.add(KEY, Assignment(shares=512))
    assert touched.gone(KEY, Assignment()) == ["shares"]


def test_a_container_that_is_gone_is_forgotten() -> None:
    """One of the same name begins anew."""
    touched = Touched()
    touched.add(KEY, Assignment(cpus=CPUS))
    touched.drop(KEY)
    touched.drop(KEY)
    assert touched.gone(KEY, Assignment()) == []
