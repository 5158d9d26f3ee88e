"""Verdicts and findings."""

import pytest

from conformance.points import (
    PASSES,
    Finding,
    Group,
    Kind,
    Point,
    Verdict,
    differs,
    point_id,
    refused,
)

NO = refused("UNIMPLEMENTED", "it is not there")


@pytest.mark.parametrize(
    ("finding", "verdict", "fits"),
    [
        (Finding(kind=Kind.PASSES), PASSES, True),
        (Finding(kind=Kind.REFUSED, code="UNIMPLEMENTED", words="no"), NO, True),
        (Finding(kind=Kind.REFUSED, code="INTERNAL"), NO, False),
        (Finding(kind=Kind.PASSES), NO, False),
        (Finding(kind=Kind.DIFFERS, words="it did"), PASSES, False),
        (Finding(kind=Kind.DIFFERS, words="it did"), differs("it does"), True),
    ],
)
def test_a_finding_fits_a_verdict_of_its_kind_and_code(finding: Finding, verdict: Verdict, fits: bool) -> None:
    """Words are for people and do not count."""
    assert finding.fits(verdict) is fits


def test_ids_are_plain_words() -> None:
    """They can be given to a shell."""
    point = Point(name="ALL is dropped, one's added", check=lambda _bench: None)
    assert point_id(Group(name="Security Context", about=""), point) == ("security-context-all-is-dropped-one-s-added")
