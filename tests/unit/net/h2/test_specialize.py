"""Copies of inherited functions, for the interpreter's caches."""

from interpose.net.h2.specialize import own_code


class Base:
    """Something to inherit from."""

    def add(self, one: int, two: int = 2, *, three: int = 3) -> int:
        """The sum of three numbers."""
        return one + two + three


@own_code("add")
class Copy(Base):
    """Has its own code."""


def test_copy_behaves_the_same() -> None:
    """Defaults, keyword defaults and documentation come along; only the code object is another."""
    assert Copy().add(1) == Base().add(1) == 6
    assert Copy().add(1, 1, three=1) == 3
    assert Copy.add.__doc__ == "The sum of three numbers."
    assert Copy.add.__qualname__ == "Copy.add"
    assert Copy.add.__code__ is not Base.add.__code__
