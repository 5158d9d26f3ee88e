"""Pools of a policy as a tree, and as owners of CPUs."""

from typing import Any

from interpose.cli.render.pool_tree import owners_of_pools, pools_text

TREE: dict[str, Any] = {
    "policy": "topology-aware",
    "pool_details": [
        {"name": "reserved", "cpus": "0", "granted_milli": 100, "free_milli": 900,
         "containers": ["kube-system/dns/main"]},
        {"name": "root", "parent": "", "cpus": "1,4-5", "own": "2-3", "mems": "0-1",
         "granted_milli": 1500, "free_milli": 0, "containers": ["shop/web/main"]},
        {"name": "NUMA node #0", "parent": "root", "cpus": "1", "own": "2-3", "mems": "0",
         "containers": ["shop/db/main"]},
        {"name": "NUMA node #1", "parent": "root", "cpus": "4-5", "mems": "1", "free_milli": 2000, "containers": []},
    ],
    "assignments": [
        {"container": "kube-system/dns/main", "cpu_milli": 100, "cpus": "0", "mems": "0-1"},
        {"container": "shop/db/main", "cpu_milli": 2500, "exclusive": "2-3", "cpus": "1-3", "mems": "0"},
        {"container": "shop/web/main", "cpu_milli": 1000, "exclusive": "", "cpus": "1,4-5", "mems": "0-1"},
        {"container": "shop/left/main", "cpu_milli": 300, "cpus": None, "mems": None},
    ],
}  # fmt: skip
BALLOONS: dict[str, Any] = {
    "policy": "balloons",
    "pool_details": [
        {"name": "team[0]", "cpus": "2-3", "idle": "1", "mems": "0", "granted_milli": 1500, "free_milli": 500},
        {"name": "idle", "cpus": "1,4-7"},
    ],
}


def test_a_tree_of_pools_with_their_containers() -> None:
    """Each below its parent; a container has granted what it asks for besides its own CPUs."""
    assert pools_text(TREE, 80).splitlines() == [
        "Policy topology-aware: 4 pools, 4 containers",
        "",
        "POOL                         CPUS   OWN  MEMS  GRANTED  FREE",
        "├─ reserved                  0      -    -     100m     900m",
        "│    * kube-system/dns/main  0      -    0-1   100m",
        "├─ root                      1,4-5  2-3  0-1   1500m    0",
        "│  │ * shop/web/main         1,4-5  -    0-1   1",
        "│  ├─ NUMA node #0           1      2-3  0     -        -",
        "│  │    * shop/db/main       1      2-3  0     500m",
        "│  └─ NUMA node #1           4-5    -    1     -        2",
        "└─ in no pool                -      -    -     -        -",
        "     * shop/left/main        -      -    -     300m",
    ]


def test_names_give_way_to_numbers() -> None:
    """A title is cut in the middle, the lines of the tree are not."""
    lines = pools_text(TREE, 60).splitlines()
    assert "│    * kube-s…m/dns/main  0      -    0-1   100m" in lines
    assert "│  │    * shop/db/main    1      2-3  0     500m" in lines


def test_balloons_have_idle_cpus() -> None:
    """There is no column that no pool needs."""
    assert pools_text(BALLOONS).splitlines() == [
        "Policy balloons: 2 pools, 0 containers",
        "",
        "POOL        CPUS   IDLE  MEMS  GRANTED  FREE",
        "├─ team[0]  2-3    1     0     1500m    500m",
        "└─ idle     1,4-7  -     -     -        -",
    ]


def test_own_cpus_have_a_column_if_only_a_container_tells_of_them() -> None:
    """Policies that report no pools know of containers with own CPUs all the same."""
    answer = {
        "policy": "static",
        "pool_details": [{"name": "shared", "cpus": "0-1"}],
        "assignments": [{"container": "a/b/c", "exclusive": "2", "cpus": "2", "cpu_milli": 1000}],
    }
    assert pools_text(answer).splitlines()[2:] == [
        "POOL           CPUS  OWN  MEMS  GRANTED  FREE",
        "├─ shared      0-1   -    -     -        -",
        "└─ in no pool  -     -    -     -        -",
        "     * a/b/c   -     2    -     -",
    ]


def test_relays_of_another_version_may_say_anything() -> None:
    """Parents that are not there, pools inside of themselves, and what is no set of CPUs."""
    assert pools_text({}) == "Policy - has no pools."
    pools = [
        {"name": "a", "parent": "b", "cpus": "many", "containers": "x"},
        {"name": "b", "parent": "b", "cpus": 5, "containers": [1]},
        {"parent": ["a"]},
    ]
    assert pools_text({"pool_details": pools}).splitlines()[2:] == [
        "POOL      CPUS  MEMS  GRANTED  FREE",
        "├─ a      many  -     -        -",
        "├─ b      5     -     -        -",
        "│    * 1  -     -     -",
        "└─ -      -     -     -        -",
    ]
    assert owners_of_pools({"pool_details": pools}).owners == ()


def test_a_cpu_is_of_the_innermost_pool() -> None:
    """CPUs that containers have alone and isolated ones are of their pools; one without further CPUs has no letter."""
    isolated = {"name": "NUMA node #2", "parent": "root", "isolated": "6"}
    owners = owners_of_pools({"pool_details": [*TREE["pool_details"], isolated]})
    assert [(one.letter, one.title, str(one.cpus)) for one in owners.owners] == [
        ("A", "reserved", "0"),
        ("B", "NUMA node #0", "1-3"),
        ("C", "NUMA node #1", "4-5"),
        ("D", "NUMA node #2", "6"),
    ]
    assert (owners.sharing, len(owners.shared)) == (0, 0)
