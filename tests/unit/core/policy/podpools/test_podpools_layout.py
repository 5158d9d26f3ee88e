"""Which instances a pool has on a machine, and what cannot be."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.podpools.layout import place_pools
from interpose.core.policy.podpools.options import FillOrder, InstanceAmount, InstanceUnit, PodPool
from interpose.errors import ConfigError
from tests.support.policy.machines import machine


def amount(text: str) -> InstanceAmount:
    """As in a document."""
    number, _, unit = text.partition(" ")
    return InstanceAmount(number=int(number), unit=InstanceUnit(unit))


def pool(name: str, cpus: int | None = None, instances: str = "", max_pods: int = 0, order: str = "") -> PodPool:
    """A pool; what is empty is not said."""
    return PodPool(
        name=name,
        cpus=cpus,
        max_pods=max_pods,
        instances=amount(instances) if instances else None,
        fill_order=FillOrder(order) if order else FillOrder.BALANCED,
    )


def cpus_of(*pools: PodPool, on: str = "n4c16", free: str = "1-15", reserved: str = "0") -> dict[str, str]:
    """The CPUs of all instances."""
    placed = place_pools(machine(on), CpuSet.parse(free), CpuSet.parse(reserved), pools)
    return {instance.name: str(instance.cpus) for one in placed.values() for instance in one.instances}


def problems(*pools: PodPool, free: str = "1-15") -> list[str]:
    """What is wrong, without where."""
    with pytest.raises(ConfigError) as caught:
        cpus_of(*pools, free=free)
    start = "policy.podpools.Pools: "
    assert all(problem.startswith(start) for problem in caught.value.problems)
    return [problem.removeprefix(start) for problem in caught.value.problems]


def test_golden_pools_of_cri_resmgr() -> None:
    """Its sample: 14 CPUs, the last one reserved; 3 instances of one CPU, and 50 % of 13 in instances of two."""
    found = cpus_of(
        pool("singlecpu", 1, "3 CPUs", max_pods=2),
        pool("dualcpu", 2, "50 %", max_pods=3, order="Packed"),
        free="2-14",
        reserved="15",
    )
    assert found == {
        "reserved": "15",
        "default": "5,12-14",
        "singlecpu[0]": "2",
        "singlecpu[1]": "3",
        "singlecpu[2]": "4",
        "dualcpu[0]": "6-7",
        "dualcpu[1]": "8-9",
        "dualcpu[2]": "10-11",
    }


@pytest.mark.parametrize(
    ("cpus", "instances", "free", "count"),
    [
        # The table of cri-resmgr, as far as its numbers fit on a machine with 16 CPUs.
        (12, "", "1-15", 1),
        (2, "5", "1-15", 5),
        (2, "10 CPUs", "1-15", 5),
        (1, "1 CPUs", "1", 1),
        (2, "8 CPUs", "1-9", 4),
        (2, "90 %", "1-10", 4),
        (9, "90 %", "1-10", 1),
        (2, "100 %", "1-15", 7),
        (3, "8 CPUs", "1-15", 2),
    ],
)
def test_instances_are_counted_in_three_ways(cpus: int, instances: str, free: str, count: int) -> None:
    """By themselves, by their CPUs, by a part of the CPUs that are not reserved; what is over is rounded off."""
    found = cpus_of(pool("x", cpus, instances), free=free)
    assert [name for name in found if name.startswith("x")] == [f"x[{index}]" for index in range(count)]
    assert all(len(CpuSet.parse(found[name])) == cpus for name in found if name.startswith("x"))


def test_what_no_pool_has_is_for_pool_default() -> None:
    """Without pools everything; it has the reserved CPUs as long as nothing else is left."""
    assert cpus_of() == {"reserved": "0", "default": "1-15"}
    assert cpus_of(pool("all", 15))["default"] == "0"
    assert cpus_of(free="")["default"] == "0"


def test_pool_default_can_have_cpus_of_its_own() -> None:
    """In its place among the others; then it has what is left too."""
    found = cpus_of(pool("default", 4, "1"), pool("x", 4, "2"))
    assert found == {"reserved": "0", "default": "1-7", "x[0]": "8-11", "x[1]": "12-15"}
    assert cpus_of(pool("default", 1), pool("x", 14))["default"] == "1"


def test_the_reserved_pool_is_what_is_reserved() -> None:
    """To say so again is no mistake."""
    assert cpus_of(pool("reserved", 1, "1", max_pods=4))["reserved"] == "0"


@pytest.mark.parametrize(
    ("on", "free", "cpus", "instances", "expected"),
    [
        # Three CPUs of node 0 are free: they do for none, the first node with four is node 1.
        ("n4c16", "1-15", 4, "3", ["4-7", "8-11", "12-15"]),
        # No node has five, but each package; of its nodes the one with less is used up first.
        ("n4c16", "1-15", 5, "2", ["1-5", "8-12"]),
        # No package has nine; three nodes with 11 have least left over.
        ("n4c16", "1-15", 9, "1", ["1-5,8-11"]),
        # Whole cores first: CPUs 1 and 5 are one, with CPU 0 reserved the core of CPU 4 is in use.
        ("smt8", "1-7", 2, "3", ["1,5", "2,6", "3,7"]),
        # Faster CPUs are left for those that ask for them.
        ("hybrid", "1-15", 2, "2", ["8-9", "10-11"]),
    ],
)
def test_an_instance_is_in_one_place(on: str, free: str, cpus: int, instances: str, expected: list[str]) -> None:
    """In the first NUMA node with room, else in one package, else near each other."""
    found = cpus_of(pool("x", cpus, instances), on=on, free=free)
    assert [cpus for name, cpus in found.items() if name.startswith("x")] == expected


def test_one_pool_more_at_the_end_moves_no_other() -> None:
    """So pools can be added while pods run."""
    before = cpus_of(pool("a", 2, "2"), pool("b", 1))
    after = cpus_of(pool("a", 2, "2"), pool("b", 1), pool("c", 3))
    assert {name: after[name] for name in before if name != "default"} | {"default": before["default"]} == before


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ([pool("", 1)], ["'' is no name of a pool"]),
        ([pool("a\n", 1)], ["'a\\n' is no name of a pool"]),
        ([pool("a", 1), pool("a", 2)], ["pool 'a' is defined 2 times"]),
        ([pool("a")], ["pool 'a': CPU is missing: how many CPUs has an instance?"]),
        ([pool("a", 0)], ["pool 'a': CPU: 0 is no number of CPUs"]),
        (
            [pool("a", 1, "2", order="Packed")],
            ["pool 'a': FillOrder Packed without MaxPods: all pods would go to the first instance"],
        ),
        (
            [pool("a", 1, "2 CPUs", order="Packed")],
            ["pool 'a': FillOrder Packed without MaxPods: all pods would go to the first instance"],
        ),
        (
            [pool("default", 1, "2"), pool("reserved", instances="0")],
            [
                "pool 'default': there is one instance of this pool, Instances cannot change that",
                "pool 'reserved': there is one instance of this pool, Instances cannot change that",
            ],
        ),
        (
            [pool("default", 1, "50 %")],
            ["pool 'default': there is one instance of this pool, Instances cannot change that"],
        ),
        ([pool("reserved", 2)], ["pool 'reserved': CPU: 2 cannot be, the reserved CPUs are 0"]),
        (
            [pool("a", 4, "3 CPUs"), pool("b", 8, "50 %")],
            [
                "pool 'a': Instances: 3 CPUs with CPU: 4 make no instance, 15 CPUs are not reserved",
                "pool 'b': Instances: 50 % with CPU: 8 make no instance, 15 CPUs are not reserved",
            ],
        ),
        (
            [pool("a", 4, "2"), pool("b", 4, "2")],
            ["pool 'b': 8 CPUs are needed for 2 of it, 7 of the 15 that are not reserved are left"],
        ),
        (
            [pool("a", 1, "100 CPUs")],
            ["pool 'a': 100 CPUs are needed for 100 of it, 15 of the 15 that are not reserved are left"],
        ),
    ],
)
def test_what_cannot_be_is_told_all_at_once(pools: list[PodPool], expected: list[str]) -> None:
    """With the pool and the value."""
    assert problems(*pools) == expected


def test_packed_instances_are_fine_with_a_limit_or_alone() -> None:
    """Then each is reached."""
    assert cpus_of(pool("a", 1, "2", max_pods=1, order="Packed"))["a[1]"] == "2"
    assert cpus_of(pool("a", 1, "1 CPUs", order="Packed"))["a[0]"] == "1"
