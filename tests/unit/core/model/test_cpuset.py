"""Lists of CPUs as the kernel writes them, and sets made of them."""

import dataclasses
import subprocess
import sys

import pytest

from interpose.core.model.cpuset import EMPTY, MAX_CPUS, MAX_TEXT, CpuSet, KubeletCpus, name_cpus
from interpose.testing.eventually import WAIT_LIMIT


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        (" \n", []),
        ("0", [0]),
        ("0-3,8\n", [0, 1, 2, 3, 8]),
        ("8, 0-1", [0, 1, 8]),
        ("3,1,2,1-2", [1, 2, 3]),
        ("5-5", [5]),
        ("8191", [8191]),
        ("000007", [7]),
        ("0-10:2/4", [0, 1, 4, 5, 8, 9]),
        ("1-3:1/1", [1, 2, 3]),
        ("0-9:3/4", [0, 1, 2, 4, 5, 6, 8, 9]),
        ("1-9:1/100", [1]),
    ],
)
def test_kernel_lists_are_read(text: str, numbers: list[int]) -> None:
    """Numbers, ranges, strides, blanks, any order, repeated."""
    assert list(CpuSet.parse(text)) == numbers


@pytest.mark.parametrize(
    "text",
    [
        *(",4-7", "4-7,", "0,,1", "4-", "-4", "3-1", "0 1", "a", "0x1", "1.5", "+1", "²", "٣", "1-2-3", "0-3:1", "all"),
        *("8192", "0-8192", "99999999999999999999", "0-3:0/2", "0-3:3/2", "0-3:0/0", "x" * 500),
    ],
)
def test_what_is_no_list_is_refused_by_name(text: str) -> None:
    """With an empty element, a reversed range or a size no kernel has; the message stays on one line."""
    with pytest.raises(ValueError) as caught:
        CpuSet.parse(text)
    said = str(caught.value)
    assert repr(text[:70])[:-1] in said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-8191," * 35_000 + "0", "it has 245001 characters, more than 32768"),
        (",".join(["0-8191"] * 5), "it lists more than 32768 of them"),
        (",".join(["0-8190:1/8"] * 5), "it lists more than 32768 of them"),
        (" " * (MAX_TEXT + 1), "it has 32769 characters"),
    ],
)
def test_saying_the_same_again_and_again_is_refused(text: str, said: str) -> None:
    """Before it costs anything; the message has the beginning only."""
    with pytest.raises(ValueError, match=said) as caught:
        CpuSet.parse(text)
    assert len(str(caught.value)) < 300


def test_what_is_too_much_is_not_even_looked_at() -> None:
    """Not one element is read after there are too many: the nonsense at the end is not found."""
    with pytest.raises(ValueError, match="it lists more than"):
        CpuSet.parse("0-8191," * 5 + "nonsense")


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_the_longest_text_of_a_set_is_not_too_long(step: int) -> None:
    """Whatever a set is written as can be read: here every so many numbers one is missing."""
    holes = CpuSet.of(set(range(MAX_CPUS)) - set(range(2, MAX_CPUS, step)))
    assert CpuSet.parse(str(holes)) == holes


def test_numbers_outside_the_bounds_make_no_set() -> None:
    """Whoever makes one of numbers is held to the same bounds."""
    with pytest.raises(ValueError, match="from 0 to 8191"):
        CpuSet.of([-1, 3])
    with pytest.raises(ValueError, match="8192"):
        CpuSet.of([8192])
    with pytest.raises(ValueError, match="from 0 to 8191"):
        CpuSet(1 << 8192)
    with pytest.raises(ValueError, match="from 0 to 8191"):
        CpuSet(-1)


@pytest.mark.parametrize(
    ("text", "normal"), [("", ""), ("1", "1"), ("1,2", "1-2"), ("8,0-1,2,3", "0-3,8"), ("0,2,4-5", "0,2,4-5")]
)
def test_the_text_is_normal(text: str, normal: str) -> None:
    """Sorted, without repetitions, neighbours as a range."""
    assert str(CpuSet.parse(text)) == normal
    assert repr(CpuSet.parse(text)) == f"CpuSet.parse({normal!r})"


def test_sets_are_joined_cut_and_compared() -> None:
    """As sets of numbers are."""
    low, high = CpuSet.parse("0-4"), CpuSet.parse("3-7")
    assert str(low | high) == "0-7"
    assert str(low & high) == "3-4"
    assert str(low - high) == "0-2"
    part = CpuSet.parse("3")
    assert part <= low <= low
    assert part < low
    assert not low < low
    assert low >= part
    assert low > part
    assert not low <= high
    assert not low > high


def test_a_set_has_members_and_a_length() -> None:
    """And an empty one is false."""
    found = CpuSet.parse("0-1,9")
    assert 9 in found
    assert 2 not in found
    assert len(found) == 3
    assert found
    assert not EMPTY


def test_equal_sets_are_one_key() -> None:
    """However they were written."""
    assert {CpuSet.parse("0-1"): "a"}[CpuSet.parse("1,0")] == "a"


def test_a_set_cannot_be_changed() -> None:
    """It may be handed to anybody."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        EMPTY.mask = 1  # type: ignore[misc]


def test_a_kubelet_that_said_nothing_has_nothing() -> None:
    """No policy, no assignments."""
    assert KubeletCpus() == KubeletCpus(policy="", shared=EMPTY, assigned={})


def test_cpus_in_a_sentence() -> None:
    """One, several, and none."""
    assert [name_cpus(CpuSet.parse(text)) for text in ("3", "0-1", "")] == ["CPU 3", "CPUs 0-1", "CPUs "]


def test_module_loads_without_docstrings() -> None:
    """With PYTHONOPTIMIZE=2 a data class makes its own docstring, which shows its defaults."""
    command = [sys.executable, "-OO", "-c", "import interpose.core.model.cpuset"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
