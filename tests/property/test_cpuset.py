"""Laws of CPU sets: text and set say the same, and sets behave as sets do."""

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cpuset import MAX_CPUS, CpuSet

numbers = st.frozensets(st.integers(0, 300) | st.integers(0, MAX_CPUS - 1), max_size=80)


@given(numbers)
def test_what_is_written_is_read_back(chosen: frozenset[int]) -> None:
    """Every set survives its text, and its text is normal."""
    text = str(CpuSet.of(chosen))
    assert CpuSet.parse(text) == CpuSet.of(chosen)
    assert str(CpuSet.parse(text)) == text


@given(numbers, numbers)
def test_operators_are_those_of_sets(left: frozenset[int], right: frozenset[int]) -> None:
    """On the numbers in them."""
    one, other = CpuSet.of(left), CpuSet.of(right)
    assert set(one | other) == left | right
    assert set(one & other) == left & right
    assert set(one - other) == left - right
    assert (one <= other, one < other) == (left <= right, left < right)
    assert (one >= other, one > other) == (left >= right, left > right)


@given(st.text(st.characters(), max_size=40) | st.text("0123456789-,:/ ", max_size=40))
def test_any_text_is_a_set_or_a_short_refusal(text: str) -> None:
    """Nothing else happens."""
    try:
        found = CpuSet.parse(text)
    except ValueError as error:
        assert len(str(error)) < 1000  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert len(found) <= MAX_CPUS
        assert CpuSet.parse(str(found)) == found
