"""Where the pools of static-pools come from: the configuration, a file, CMK's directories."""

import os
from pathlib import Path

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.errors import ConfigError
from interpose.host.file_trust import Trust
from interpose.resmgr.config import pool_files
from interpose.resmgr.config.pool_files import load_pools, pools_are_missing, watched_paths

POOLS = {"shared": Pool(exclusive=False, lists=(PoolCpuList(cpus=CpuSet.parse("0-3"), text="0-3", socket=0),))}
FILE = """
pools:
  exclusive:
    exclusive: true
    cpuLists: [{Cpuset: "8,9", Socket: 1}]
"""
SAMPLE = Path(__file__).parents[4] / "samples" / "static-pools.yaml"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """CMK's directories, with the files it keeps there."""
    root = tmp_path / "cmk"
    for path in ("shared/0/0-3", "exclusive/1/8,9", "exclusive/1/10"):
        (root / "pools" / path).mkdir(parents=True)
        (root / "pools" / path / "tasks").write_text("123")
    (root / "pools" / "shared" / "exclusive").write_text("0")
    (root / "pools" / "exclusive" / "exclusive").write_text("1")
    (root / "pools" / "shared" / "note").write_text("of somebody else")
    (root / "lock").write_text("")
    return root


def problems(options: PoolsOptions) -> list[str]:
    """What is said about options that cannot be used."""
    with pytest.raises(ConfigError) as caught:
        load_pools(options)
    return caught.value.problems


def test_pools_of_the_configuration_come_first(tree: Path) -> None:
    """Nothing else is read or watched."""
    options = PoolsOptions(pools=POOLS, conf_file="/nonexistent", conf_dir=str(tree))
    assert load_pools(options) is options
    assert watched_paths(options) == ()


def test_a_file_comes_next(tmp_path: Path, tree: Path) -> None:
    """Whatever its name; the other options stay."""
    file = tmp_path / "pools.conf"
    file.write_text(FILE)
    options = PoolsOptions(conf_file=str(file), conf_dir=str(tree), label_node=True)
    loaded = load_pools(options)
    assert loaded.pools == {
        "exclusive": Pool(exclusive=True, lists=(PoolCpuList(cpus=CpuSet.parse("8-9"), text="8,9", socket=1),))
    }
    assert loaded.label_node
    assert watched_paths(options) == (str(file),)


def test_a_directory_comes_last(tree: Path) -> None:
    """Its tree is the pools."""
    options = PoolsOptions(conf_dir=str(tree))
    loaded = load_pools(options)
    assert loaded.pools["shared"] == POOLS["shared"]
    assert [cpu_list.text for cpu_list in loaded.pools["exclusive"].lists] == ["8,9", "10"]
    assert watched_paths(options) == (str(tree),)


def test_the_sample_is_read() -> None:
    """As it is in the repository."""
    loaded = load_pools(PoolsOptions(conf_file=str(SAMPLE)))
    assert {name: pool.exclusive for name, pool in loaded.pools.items()} == {
        "exclusive": True,
        "shared": False,
        "infra": False,
    }


def test_a_file_that_is_not_there_is_named() -> None:
    """It was asked for, so the directory is not looked at."""
    assert problems(PoolsOptions(conf_file="/nonexistent/x.yaml")) == [
        "file /nonexistent/x.yaml: cannot be read: No such file or directory"
    ]


def test_a_file_with_mistakes_is_named(tmp_path: Path) -> None:
    """With line and key."""
    file = tmp_path / "pools.yaml"
    file.write_text(FILE.replace("true", "maybe"))
    (problem,) = problems(PoolsOptions(conf_file=str(file)))
    assert problem.startswith(f"file {file} line 4: pools.exclusive.exclusive: expected true or false")


def test_a_directory_that_is_not_there_is_named() -> None:
    """With what can be given instead."""
    (problem,) = problems(PoolsOptions(conf_dir="/nonexistent"))
    assert problem.startswith("directory /nonexistent: its pools cannot be read: /nonexistent: No such file")
    assert "ConfFilePath" in problem


def test_a_directory_with_mistakes_is_named(tree: Path) -> None:
    """Each of them with its path."""
    (tree / "pools" / "shared" / "exclusive").write_text("perhaps")
    (tree / "pools" / "shared" / "0" / "x").mkdir()
    assert problems(PoolsOptions(conf_dir=str(tree))) == [
        f"directory {tree}: pools/shared/0/x: expected CPUs such as 4-7 or 1,3, found 'x'",
        f"directory {tree}: pools/shared/exclusive: expected 0 or 1, found 'perhaps'",
    ]


def test_a_flag_that_is_a_large_file_is_not_read(tree: Path) -> None:
    """It is no flag."""
    (tree / "pools" / "shared" / "exclusive").write_text("1" * 1000)
    (problem,) = problems(PoolsOptions(conf_dir=str(tree)))
    assert "pools/shared/exclusive: is larger than" in problem


def test_a_tree_with_very_many_entries_is_not_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody gave the wrong directory."""
    monkeypatch.setattr(pool_files, "MAX_ENTRIES", 5)
    assert problems(PoolsOptions(conf_dir=str(tree))) == [
        f"directory {tree}: has more than 5 entries, no tree of pools has so many"
    ]


def test_pools_are_missing_if_nobody_says_where_they_are(tmp_path: Path) -> None:
    """And they are not where CMK has them."""
    usual = str(tmp_path)
    assert pools_are_missing(PoolsOptions(conf_dir=usual), usual)
    assert not pools_are_missing(PoolsOptions(conf_dir="/elsewhere"), usual)
    assert not pools_are_missing(PoolsOptions(conf_dir=usual, conf_file="/x.yaml"), usual)
    (tmp_path / "pools").mkdir()
    assert not pools_are_missing(PoolsOptions(conf_dir=usual), usual)


# -- whose pools they are


def test_a_file_others_can_write_is_not_read(tmp_path: Path) -> None:
    """They would decide who gets which CPUs."""
    file = tmp_path / "pools.yaml"
    file.write_text(FILE)
    file.chmod(0o646)
    options = PoolsOptions(conf_file=str(file))
    assert problems(options) == [f"file {file}: has mode 0646, everybody may write to it (chmod o-w)"]
    file.chmod(0o644)
    assert load_pools(options).pools
    with pytest.raises(ConfigError, match="must belong to uid 12345"):
        load_pools(options, Trust(uids={12345}))


@pytest.mark.parametrize("path", ["", "pools", "pools/shared", "pools/exclusive/1", "pools/shared/exclusive"])
def test_a_tree_others_can_write_to_is_not_read(tree: Path, path: str) -> None:
    """Not the directory itself, nor anything below that says something; it is named."""
    place = tree / path
    mode = place.stat().st_mode & 0o777
    place.chmod(mode | 0o002)
    named = f"{path}: " if path else ""
    said = f"has mode {mode | 0o002:04o}, everybody may write to it (chmod o-w)"
    assert problems(PoolsOptions(conf_dir=str(tree))) == [f"directory {tree}: {named}{said}"]


def test_all_places_others_can_write_to_are_told(tree: Path) -> None:
    """But nothing below one of them; and what somebody else keeps in lists is no matter."""
    for path in ("pools/shared", "pools/shared/0", "pools/exclusive/1", "pools/exclusive/1/10/tasks"):
        (tree / path).chmod(0o777)
    assert sorted(problems(PoolsOptions(conf_dir=str(tree)))) == [
        f"directory {tree}: {path}: has mode 0777, everybody may write to it (chmod o-w)"
        for path in ("pools/exclusive/1", "pools/shared")
    ]


def test_a_flag_that_is_no_file_is_not_opened(tree: Path) -> None:
    """A pipe would never answer."""
    flag = tree / "pools" / "shared" / "exclusive"
    flag.unlink()
    os.mkfifo(flag)
    (problem,) = problems(PoolsOptions(conf_dir=str(tree)))
    assert problem.startswith(f"directory {tree}: pools/shared/exclusive: is ")
