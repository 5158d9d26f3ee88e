"""CPUs along time."""

from typing import Any

from interpose.cli.render.whatif import clock, occupancy_text
from interpose.core.model.cpuset import CpuSet

SECOND = 1_000_000_000
NINE = 9 * 3600 * SECOND


def stay(container: str, cpus: str, since: float, until: float) -> dict[str, Any]:
    """CPUs from second to second after nine o'clock."""
    return {
        "container": container,
        "cpus": cpus,
        "since_ns": NINE + int(since * SECOND),
        "until_ns": NINE + int(until * SECOND),
    }


def drawn(*stays: dict[str, Any], cpus: str = "0-3", width: int = 28, seconds: float = 20, **more: Any) -> list[str]:
    """The picture; with labels of three a second is a column."""
    end = NINE + int(seconds * SECOND)
    return occupancy_text(stays, CpuSet.parse(cpus), NINE, end, width=width, **more).splitlines()


def test_cpus_with_the_same_story_are_one_line() -> None:
    """Owners have letters, explained below."""
    found = drawn(stay("ns/a/c", "1-2", 0, 10), stay("ns/b/c", "1", 15, 20), width=25)
    assert found == [
        "CPU  09:00:00    09:00:20",
        "0,3  ····················",
        "1    AAAAAAAAAA·····BBBBB",
        "2    AAAAAAAAAA··········",
        "     A  ns/a/c  1-2",
        "     B  ns/b/c  1",
    ]


def test_only_ascii_if_asked_for() -> None:
    """Names that are cut have a character of their own: they are not cut then."""
    long = "ns/a-pod-with-a-very-long-name/c"
    assert all(line.isascii() for line in drawn(stay(long, "1", 0, 9), ascii_only=True))
    assert not all(line.isascii() for line in drawn(stay(long, "1", 0, 9)))
    assert drawn(cpus="0", width=25, ascii_only=True)[1] == "0    ...................."


def test_whoever_had_most_of_a_column_has_it() -> None:
    """One that was there too shortly for any is shown where nobody else is."""
    assert drawn(stay("a", "0", 0.2, 1.7), stay("b", "0", 1.8, 3), cpus="0", width=25)[1][5:9] == "AAB·"
    assert drawn(stay("a", "0", 5.1, 5.2), cpus="0", width=25)[1][5:12] == "·····A·"
    assert drawn(stay("a", "0", 5, 5), cpus="0", width=25)[1][5:12] == "·······"


def test_owners_beyond_the_letters_share_one() -> None:
    """There are two alphabets."""
    found = drawn(*(stay(f"c{number}", "0", number, number + 1) for number in range(54)), cpus="0", seconds=54)
    assert found[-1].strip().startswith("+  c53")


def test_what_cannot_be_read_is_left_out() -> None:
    """And a moment without length is drawn all the same."""
    found = drawn({"container": "x", "cpus": "?"}, {"cpus": None}, cpus="0-1", width=10, seconds=0)
    assert found[1] == "0-1  ····················"


def test_clocks_are_utc() -> None:
    """To the second."""
    assert clock(NINE + 61 * SECOND + 999) == "09:01:01"
    assert clock(NINE + 48 * 3600 * SECOND) == "09:00:00"
