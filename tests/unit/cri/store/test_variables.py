"""Variables of containers: equal ones are one object, as far as the table goes."""

from interpose.cri.store.variables import VariableTable


def variables(*names: str) -> tuple[tuple[str, bytes], ...]:
    """Objects of their own each time, as read from a message."""
    return tuple((str(name.encode(), "utf-8"), bytes(name.encode())) for name in names)


def test_what_was_seen_is_not_kept_twice() -> None:
    """In another order, and beside a variable of its own."""
    table = VariableTable()
    first = table.shared(variables("HOST", "PORT"))
    second = table.shared(variables("PORT", "HOME", "HOST"))
    assert second == variables("PORT", "HOME", "HOST")
    assert (second[0] is first[1], second[2] is first[0], len(table)) == (True, True, 3)


def test_name_with_another_value_is_another_variable() -> None:
    """Only name and value together say that it is the same."""
    table = VariableTable()
    table.shared((("HOST", b"a"),))
    assert table.shared((("HOST", b"b"),)) == (("HOST", b"b"),)


def test_repeated_name_is_kept() -> None:
    """A runtime has the last word on it, not this table."""
    assert VariableTable().shared((("A", b"1"), ("A", b"1"))) == (("A", b"1"), ("A", b"1"))


def test_full_table_begins_anew() -> None:
    """What it gave out before holds all the same."""
    table = VariableTable(most=2)
    first = table.shared(variables("HOST", "PORT"))
    assert table.shared(variables("HOME"))[0] == ("HOME", b"HOME")
    assert (first, len(table)) == (variables("HOST", "PORT"), 1)


def test_more_than_the_table_takes_are_not_looked_at() -> None:
    """They would only push out the others."""
    table = VariableTable(most=2)
    table.shared(variables("HOST"))
    many = variables("A", "B", "C")
    assert (table.shared(many) is many, len(table)) == (True, 1)
