"""Errors of charts."""

from tests.support.helm.errors import ChartError


def test_an_error_says_where() -> None:
    """File and line first, as compilers do it."""
    assert str(ChartError("templates/a.yaml", 3, "no")) == "templates/a.yaml:3: no"
