"""What stands for the same thing is compared, and nothing is lost on the way."""

from interpose.cli.config.compare import Difference, Side, differences_json, find_differences, render_differences
from interpose.cli.config.reading import DocumentPart
from interpose.config.effective import SettingRow


def part(title: str, family: str = "f", **values: str) -> DocumentPart:
    """An object that says something."""
    return DocumentPart(family, tuple(SettingRow(key, value, "here") for key, value in values.items()), title)


def keys(left: list[DocumentPart], right: list[DocumentPart]) -> list[str]:
    """Of what differs."""
    return [one.key for one in find_differences(Side("a", left), Side("b", right))]


def test_one_object_is_compared_with_one() -> None:
    """Whatever they are called: a document has no name."""
    assert keys([part("", x="1", y="1")], [part("m", x="2", y="1")]) == ["x"]


def test_several_are_compared_by_title() -> None:
    """What only one side has differs with all that it says."""
    assert keys([part("m", x="1"), part("n", x="1")], [part("n", x="2"), part("o", x="1")]) == ["m: x", "n: x", "o: x"]


def test_one_of_each_family_is_compared_with_one_of_it() -> None:
    """The others of the file do not count."""
    left = [part("m", x="1"), part("s", family="g", x="1")]
    assert keys(left, [part("", x="2")]) == ["m: x", "s: x"]
    assert keys(left, [part("", x="1"), part("t", family="g", x="1")]) == []


def test_empty_is_nothing() -> None:
    """A value that says nothing is no difference to none."""
    assert keys([part("", x="")], [part("")]) == []


def test_names_of_others_move_no_cursor() -> None:
    """A file and a map may be named anything."""
    found = [Difference("\x1b[2J: x", None, SettingRow("x", "\x1b[2J", "file \x1b"))]
    assert render_differences(found, Side("\x1b", []), Side("b", [])).splitlines() == [
        "--- ?",
        "+++ b",
        "?[2J: x",
        "  - nothing",
        "  + ?[2J  (file ?)",
    ]
    assert render_differences([], Side("\x1b", []), Side("b", [])) == "no difference between ? and b"


def test_differences_are_plain_data() -> None:
    """None where one side says nothing."""
    found = differences_json([Difference("k", None, SettingRow("k", "v", "o"))])
    assert found == [{"key": "k", "left": None, "right": {"value": "v", "origin": "o"}}]
