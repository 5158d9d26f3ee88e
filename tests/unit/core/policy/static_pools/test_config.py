"""Pools as they are written down: CMK's tree, and what does not fit a machine."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static_pools.config import check_pools, online_pools, pools_of_tree
from interpose.core.policy.static_pools.options import Pool, PoolCpuList
from interpose.errors import ConfigError
from tests.support.policy.machines import machine

TREE: dict[str, str | None] = {
    "pools/shared": None,
    "pools/shared/exclusive": "0",
    "pools/shared/1": None,
    "pools/shared/1/12,13,14,15": None,
    "pools/exclusive": None,
    "pools/exclusive/exclusive": "1\n",
    "pools/exclusive/0": None,
    "pools/exclusive/1": None,
    "pools/exclusive/1/10-11": None,
    "pools/exclusive/1/8,9": None,
    "pools/exclusive/0/4": None,
}


def listed(text: str, socket: int = 0) -> PoolCpuList:
    return PoolCpuList(cpus=CpuSet.parse(text), text=text, socket=socket)


def pool(*texts: str, exclusive: bool = False) -> Pool:
    """A pool of these lists."""
    return Pool(exclusive=exclusive, lists=tuple(listed(text) for text in texts))


def test_a_tree_is_read() -> None:
    """Names of directories are the lists; those have no order, so it is that of their numbers."""
    assert pools_of_tree(TREE, "directory /x") == {
        "shared": Pool(exclusive=False, lists=(listed("12,13,14,15", 1),)),
        "exclusive": Pool(exclusive=True, lists=(listed("4", 0), listed("8,9", 1), listed("10-11", 1))),
    }


@pytest.mark.parametrize(
    "path", ["lock", "pools/note", "pools/shared/note", "pools/shared/1/12,13,14,15/tasks", "other/a/0/1"]
)
def test_files_of_others_do_not_matter(path: str) -> None:
    """CMK keeps some beside its own."""
    assert pools_of_tree({**TREE, path: "x"}, "directory /x") == pools_of_tree(TREE, "directory /x")


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        ("pools/shared/exclusive", "yes", "pools/shared/exclusive: expected 0 or 1, found 'yes'"),
        ("pools/new", None, "pools/new/exclusive: is missing"),
        ("pools/shared/one", None, "pools/shared/one: expected the number of a socket, found 'one'"),
        ("pools/shared/1/a-b", None, "pools/shared/1/a-b: expected CPUs such as 4-7 or 1,3, found 'a-b'"),
        ("pools/shared/1/1-3:1/2", None, None),
        ("pools/shared/1/9-8", None, "pools/shared/1/9-8: '9-8' is not a list of CPUs: '9-8' ends before it begins"),
    ],
)
def test_a_tree_with_a_mistake_is_refused(path: str, content: str | None, problem: str | None) -> None:
    """The path is named."""
    if problem is None:  # a deeper path: nobody's
        assert pools_of_tree({**TREE, path: content}, "directory /x")
        return
    with pytest.raises(ConfigError) as caught:
        pools_of_tree({**TREE, path: content}, "directory /x")
    assert caught.value.problems == [f"directory /x: {problem}"]


def test_all_mistakes_of_a_tree_are_told_at_once() -> None:
    """Nobody likes to find them one by one."""
    with pytest.raises(ConfigError) as caught:
        pools_of_tree({"pools/a": None, "pools/a/x": None, "pools/a/0/y": None}, "w")
    assert len(caught.value.problems) == 3


def test_pools_that_fit_have_no_problems() -> None:
    """Offline CPUs are none either."""
    pools = {"a": pool("0-3", "5"), "b": pool("8,9", "10", exclusive=True)}
    assert check_pools(pools, machine("n4c16")) == []
    assert check_pools(pools, machine("2p2n2c2t; offline 5"), CpuSet.parse("0-10"), CpuSet.parse("0")) == []


@pytest.mark.parametrize(
    ("pools", "problem"),
    [
        ({}, "static-pools: there are no pools"),
        ({"a": pool()}, "pool a: has no CPU lists"),
        ({"a": pool("")}, "pool a: list '': has no CPUs"),
        ({"a": pool("14-17")}, "pool a: list '14-17': CPUs 16-17 do not exist; this machine has 0-15"),
        ({"a": pool("0-3", "2-5")}, "pool a: list '2-5': CPUs 2-3 are in pool a: list '0-3' too"),
        ({"a": pool("4"), "b": pool("4,5", exclusive=True)}, "pool b: list '4,5': CPUs 4 are in pool a: list '4' too"),
        ({"a/b": pool("4")}, "pool 'a/b': the name must be of letters, digits, dots, dashes, underscores"),
    ],
)
def test_pools_that_do_not_fit_are_told(pools: dict[str, Pool], problem: str) -> None:
    """Pool, list and CPUs are named."""
    assert check_pools(pools, machine("n4c16")) == [problem]


def test_pools_stay_within_what_is_available() -> None:
    """And exclusive ones out of what is reserved."""
    pools = {"a": pool("0-3"), "b": pool("4-5", exclusive=True)}
    assert check_pools(pools, machine("n4c16"), CpuSet.parse("2-9")) == [
        "pool a: list '0-3': CPUs 0-1 are not among the available ones, 2-9"
    ]
    assert check_pools(pools, machine("n4c16"), None, CpuSet.parse("3-4")) == [
        "pool b: list '4-5': CPUs 4 are reserved, so no container can have them alone"
    ]
    assert check_pools(pools, machine("n4c16"), CpuSet.parse("0-20")) == [
        "available resources: CPUs 16-20 do not exist; this machine has 0-15"
    ]


def test_offline_cpus_are_left_out() -> None:
    """The list is told as it is now; one with nothing left is gone."""
    pools, notes = online_pools({"a": pool("4-5", "5-6,7", "5")}, machine("2p2n2c2t; offline 5"))
    assert pools == {"a": pool("4", "6-7")}
    assert notes == (
        "pool a: list '4-5': CPUs 5 are offline and left out",
        "pool a: list '5-6,7': CPUs 5 are offline and left out",
        "pool a: list '5': CPUs 5 are offline and left out",
    )


def test_a_list_of_another_socket_is_noted() -> None:
    """It may be meant so."""
    pools, notes = online_pools({"a": pool("6-9")}, machine("n4c16"))
    assert pools == {"a": pool("6-9")}
    assert notes == ("pool a: list '6-9': is said to be of socket 0, its CPUs are in package 0-1",)
