"""Which lists of a pool: near each other, kept if held, the same each time."""

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.static_pools.options import PoolCpuList
from interpose.core.policy.static_pools.placement import Load, choose_own, choose_shared, own_candidates
from tests.support.policy.machines import machine

MACHINE = machine("2p2n4c1t")  # packages 0-7 and 8-15; nodes of four CPUs


def lists(text: str) -> tuple[PoolCpuList, ...]:
    """One list for each word."""
    return tuple(PoolCpuList(cpus=CpuSet.parse(word), text=word, socket=0) for word in text.split())


def own(free: str, count: int, had: str = "", cpus: str = "", taken: str = "") -> str | None:
    """The lists that are chosen, as one text."""
    chosen = choose_own(MACHINE, lists(free), CpuSet.parse(taken), count, lists(had), CpuSet.parse(cpus))
    return None if chosen is None else " ".join(cpu_list.text for cpu_list in chosen.lists)


def test_lists_are_taken_from_one_node() -> None:
    """From the one with least left over; the first of several such."""
    assert own("0 1 2 4 5 8 9", 2) == "4 5"
    assert own("0 1 2 4 8 9 10", 3) == "0 1 2"
    assert own("0 1 2 4 5", 1) == "4"


def test_lists_are_taken_from_one_package_if_no_node_has_enough() -> None:
    """Most of them in one node of it."""
    assert own("0 4 5 8 9 10 12", 4) == "8 9 10 12"
    assert own("0 1 4 8 9 12 13", 3) == "0 1 4"
    assert own("0 1 2 4 5 6 7", 5) == "0 4 5 6 7"


def test_lists_are_taken_from_few_packages_otherwise() -> None:
    """A whole one first, what is missing from one node of the other."""
    assert own("0 4 5 8 9 10 12", 5) == "0 8 9 10 12"
    assert own("0 4 5 8 9 10 12", 6) == "4 5 8 9 10 12"


def test_too_few_free_lists_are_none() -> None:
    """Taken ones do not count."""
    assert own("0 1", 2, taken="1") is None
    assert own("0 1", 1, taken="0") == "1"


def test_lists_that_it_has_are_kept() -> None:
    """Exactly; of too many the first."""
    assert own("0 1 2 4 5", 2, had="0 4") == "0 4"
    assert own("0 1 2 4 5", 1, had="2 4") == "2"


def test_more_lists_are_near_those_it_has() -> None:
    """In the same node, then in the same package."""
    assert own("0 4 8 9", 2, had="8") == "8 9"
    assert own("0 1 8 12", 2, had="8") == "8 12"
    assert own("0 1 8", 2, had="8") == "0 8"


def test_lists_with_cpus_it_has_come_next() -> None:
    """So a container moves as little as it can when the lists were changed."""
    assert own("0-1 2-3 4-5 6-7", 1, cpus="5") == "4-5"
    assert own("0-1 2-3 4-5 6-7", 2, had="6-7", cpus="1,6-7") == "0-1 6-7"
    assert own("0-1 2-3 4-5 6-7", 1, had="6-7", cpus="1,6-7") == "6-7"


def test_a_choice_is_explained() -> None:
    """All lists with their state, those chosen first."""
    chosen = choose_own(MACHINE, lists("0 1 2"), CpuSet.parse("0"), 1, (), EMPTY)
    assert chosen is not None
    assert chosen.reason == "free, where least is left over"
    assert [(candidate.name, candidate.score, candidate.chosen) for candidate in chosen.candidates] == [
        ("list 1", "free", True),
        ("list 2", "free", False),
        ("list 0", "taken", False),
    ]
    assert [candidate.score for candidate in own_candidates(lists("0 1"), CpuSet.parse("0"))] == ["free", "taken"]


def test_a_shared_list_is_the_one_with_least_to_do() -> None:
    """Thousandths of a CPU, then containers, then the order of the lists."""
    one, two, three = lists("0 1 2")
    assert choose_shared({one: Load(500, 1), two: Load(200, 3), three: Load(300, 1)}, ()).lists == (two,)
    assert choose_shared({one: Load(0, 2), two: Load(0, 1), three: Load(0, 1)}, ()).lists == (two,)
    assert choose_shared({one: Load(0, 0)}, ()).reason == "the only one"


def test_a_shared_list_is_kept() -> None:
    """Whatever others use of it."""
    one, two = lists("0 1")
    chosen = choose_shared({one: Load(500, 1), two: Load(0, 0)}, (one,))
    assert chosen.lists == (one,)
    assert [(item.name, item.score, item.chosen, item.reason) for item in chosen.candidates] == [
        ("list 1", "0m of 0 containers", False, ""),
        ("list 0", "500m of 1 containers", True, "it has it already"),
    ]
