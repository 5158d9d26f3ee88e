"""Texts of the kernel's files, one by one."""

import pytest

from interpose.core.topology.parse import CPUS, NODES, SysfsFiles


def test_folders_and_links_are_found_by_their_paths() -> None:
    """Also where a folder has nothing else of use; what is not about a CPU or node does not count."""
    files = SysfsFiles(
        {
            f"{CPUS}/cpu3/node1": "",
            f"{CPUS}/cpu4/topology/die_id": "0",
            f"{CPUS}/cpufreq/policy0/x": "1",
            f"{NODES}/node10/cpulist": "",
            f"{CPUS}/cpu4/cache/index2/level": "2",
        }
    )
    assert (str(files.cpu_folders), str(files.node_folders)) == ("3-4", "10")
    assert files.links == {3: 1}
    assert files.caches == {4: [f"{CPUS}/cpu4/cache/index2"]}


def test_of_several_links_the_lowest_counts() -> None:
    """Kernels that make up nodes list a CPU in many of them."""
    assert SysfsFiles({f"{CPUS}/cpu0/node2": "", f"{CPUS}/cpu0/node10": ""}).links == {0: 2}


@pytest.mark.parametrize(("text", "expected"), [("7\n", 7), ("-1\n", 5), ("", 5)])
def test_a_number_that_the_kernel_does_not_know_is_missing(text: str, expected: int) -> None:
    """It says -1 or nothing."""
    assert SysfsFiles({"a": text}).number("a", missing=5) == expected


def test_a_number_that_is_none_is_refused_with_path_and_text() -> None:
    """So that somebody can look at the file."""
    with pytest.raises(ValueError, match=r"^file a/b: expected a number, found 'two'$"):
        SysfsFiles({"a/b": "two"}).number("a/b")


@pytest.mark.parametrize(("text", "expected"), [("2400000\n", 2400000), ("-5", 0), ("fast", 0), ("", 0)])
def test_a_hint_is_never_refused(text: str, expected: int) -> None:
    """Nothing depends on it."""
    assert SysfsFiles({"a": text}).hint("a") == expected


@pytest.mark.parametrize(("text", "expected"), [("0-3,8\n", "0-3,8"), ("\n", ""), ("(null)\n", "")])
def test_a_list_may_be_empty_in_two_ways(text: str, expected: str) -> None:
    """Some kernels write what their C library makes of no text."""
    assert str(SysfsFiles({"a": text}).cpus("a")) == expected


def test_a_list_that_is_none_is_refused_with_path_and_text() -> None:
    """So that somebody can look at the file."""
    with pytest.raises(ValueError, match=r"^file a/b: '0-x' is not a list of CPUs"):
        SysfsFiles({"a/b": "0-x"}).cpus("a/b")
