"""Quantities: what Kubernetes writes, exactly, and what is none."""

from fractions import Fraction

import pytest

from interpose.core.model.quantity import MAX_QUANTITY, format_bytes, milli, parse_quantity, whole


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("5", 5),
        (5, 5),
        (-5, -5),
        ("+5", 5),
        ("-5", -5),
        ("500m", Fraction(1, 2)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("0.1", Fraction(1, 10)),
        ("100k", 100_000),
        ("2M", 2 * 10**6),
        ("2G", 2 * 10**9),
        ("2T", 2 * 10**12),
        ("2P", 2 * 10**15),
        ("2E", 2 * 10**18),
        ("1Ki", 1024),
        ("1.5Mi", 3 * 2**19),
        ("1Gi", 2**30),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("2e3", 2000),
        ("2E3", 2000),
        ("2.5e+1", 25),
        ("5e-3", Fraction(1, 200)),
        (str(MAX_QUANTITY), MAX_QUANTITY),
    ],
)
def test_an_amount_is_read_exactly(text: str | int, amount: Fraction | int) -> None:
    """Every suffix, exponents, fractions; nothing is rounded while reading."""
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "m",
        ".",
        "-",
        "e3",
        "1 ",
        "1,5",
        "1ki",
        "1K",
        "1mi",
        "1kk",
        "0x10",
        "1_000",
        "NaN",
        "inf",
        "٣",
        "1e",
        "--1",
    ],
)
def test_what_is_no_quantity_is_named(text: str) -> None:
    """The message has the text, so that it can be found."""
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)


def test_huge_numbers_are_refused_before_they_are_made() -> None:
    """A long text, a large exponent and a large number are no way to use up memory or the log."""
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        parse_quantity("9" * 10**6)
    assert len(str(caught.value)) < 200
    with pytest.raises(ValueError, match="'1e999' has an exponent beyond 40"):
        parse_quantity("1e999")
    with pytest.raises(ValueError, match="'10E' is more than the largest quantity"):
        parse_quantity("10E")
    with pytest.raises(ValueError, match=f"^{MAX_QUANTITY + 1} is more than"):
        parse_quantity(MAX_QUANTITY + 1)
    with pytest.raises(ValueError, match="a number of more than 256 bits"):
        parse_quantity(-(10**5000))


def test_below_zero_is_refused_where_asked() -> None:
    """Zero is not below zero."""
    assert parse_quantity("-1") == -1
    assert parse_quantity("0", negative=False) == 0
    with pytest.raises(ValueError, match="'-1m' is below zero"):
        parse_quantity("-1m", negative=False)


def test_whole_numbers_are_rounded_up() -> None:
    """As Kubernetes does it, also below zero."""
    assert [whole("1m"), whole("1.5"), whole("2"), whole(Fraction(7, 2)), whole("-1.5"), whole(3)] == [
        1,
        2,
        2,
        4,
        -1,
        3,
    ]


def test_thousandths_are_rounded_up() -> None:
    """CPUs as the scheduler counts them."""
    assert [milli("1.5"), milli("100m"), milli("1u"), milli(Fraction(1, 3)), milli(4)] == [1500, 100, 1, 334, 4000]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (1000, "1000"), (1536, "1536"), (1536 << 20, "1536Mi"), (64 << 30, "64Gi"), (1 << 50, "1024Ti")],
)
def test_bytes_are_exact(count: int, text: str) -> None:
    """Bytes are in the largest unit that needs no fraction."""
    assert format_bytes(count) == text
