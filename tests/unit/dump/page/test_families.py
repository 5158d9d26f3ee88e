"""What the colours of the page stand for."""

from interpose.cri.methods import METHODS, Concern
from interpose.dump.page.render import FAMILIES, families, load_resources


def test_every_method_has_a_family() -> None:
    """A new concern needs a row."""
    assert set(FAMILIES) == set(Concern)
    assert set(families()) == set(METHODS)


def test_every_family_has_a_colour() -> None:
    """In the list and on the plot."""
    style = load_resources().style

    for family in FAMILIES.values():
        assert f"--{family}:" in style
        assert f".dot.{family} " in style
        assert f".plot.{family} " in style
