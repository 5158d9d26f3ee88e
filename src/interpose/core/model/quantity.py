"""Kubernetes quantities: amounts as people and API servers write them ("500m", "1.5", "1Gi", "2e3"), as exact numbers.

Nothing is rounded while reading; a caller that needs a whole number rounds up, as Kubernetes does. Text that would make
a number of absurd size is refused before the number is made.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Final

from interpose.core.model.text import quoted

MAX_QUANTITY: Final = 2**63 - 1  # what Kubernetes can hold
_MAX_TEXT: Final = 64
_MAX_EXPONENT: Final = 40

# Factor and divisor. Whole numbers all the way: one fraction at the end is several times as fast as a product of some.
_SUFFIXES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "n": (1, 10**9),
        "u": (1, 10**6),
        "m": (1, 10**3),
        "": (1, 1),
        **{suffix: (1000**power, 1) for power, suffix in enumerate("kMGTPE", 1)},
        **{f"{suffix}i": (1024**power, 1) for power, suffix in enumerate("KMGTPE", 1)},
    }
)
_BYTES: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
# An E with digits behind it is an exponent, one without is the suffix for 10^18.
_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]{1,3})|(?P<suffix>[a-zA-Z]{0,2}))"
)


def parse_quantity(value: str | int, *, negative: bool = True) -> Fraction:
    """The exact amount; ValueError that names the text if it is none, too large, or below zero and may not be."""
    amount = Fraction(value) if isinstance(value, int) else _parse(value)
    if abs(amount.numerator) > MAX_QUANTITY * amount.denominator:
        raise ValueError(f"{_quoted(value)} is more than the largest quantity, {MAX_QUANTITY}")
    if amount.numerator < 0 and not negative:
        raise ValueError(f"{_quoted(value)} is below zero")
    return amount


def whole(value: str | int | Fraction) -> int:
    """An amount as a whole number, rounded up."""
    return ceil(value if isinstance(value, Fraction) else parse_quantity(value))


def milli(value: str | int | Fraction) -> int:
    """Thousandths of an amount, rounded up: "1.5" CPUs are 1500."""
    return ceil((value if isinstance(value, Fraction) else parse_quantity(value)) * 1000)


def format_bytes(count: int) -> str:
    """Bytes in the largest unit of 1024 up to Ti that is exact: `64Gi`, `1536Mi`, `1000`."""
    unit, factor = next(((unit, factor) for unit, factor in _BYTES if count and count % factor == 0), ("", 1))
    return f"{count // factor}{unit}"


def _parse(text: str) -> Fraction:
    match = _FORM.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None or not (match["whole"] or match["part"]) or (match["suffix"] or "") not in _SUFFIXES:
        raise ValueError(f"{_quoted(text)} is not a quantity such as 500m, 1.5 or 1Gi")
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"{_quoted(text)} has an exponent beyond {_MAX_EXPONENT}")
    part = match["part"] or ""
    factor, divisor = _SUFFIXES[match["suffix"] or ""]
    amount = int(match["whole"] + part) * factor * 10 ** max(exponent, 0)
    divisor *= 10 ** (len(part) + max(-exponent, 0))
    return Fraction(-amount if match["sign"] == "-" else amount, divisor)


def _quoted(value: str | int) -> str:
    # The digits of a huge number are not made for a message: that takes long, and Python refuses beyond some thousands.
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 256 else "a number of more than 256 bits"
    return quoted(value)
