"""Kinds of values; what documents make of them is tested with the documents."""

import difflib
from collections.abc import Sequence

import pytest

from interpose.config.documents.fields import FieldGroup, FlagField, Number, PlainValues, Report
from interpose.config.documents.yaml import DocumentNode, parse_document
from interpose.errors import ConfigError


def problems(report: Report) -> list[str]:
    """What was said."""
    with pytest.raises(ConfigError) as caught:
        report.settle()
    return caught.value.problems


def test_a_report_settles_until_there_is_a_problem() -> None:
    """Nothing is raised before."""
    report = Report("file f")
    report.settle()
    report.say(DocumentNode(tag="null", line=1), "a", "is wrong")
    assert problems(report) == ["file f line 1: a: is wrong"]


def test_values_with_a_problem_make_nothing() -> None:
    """Otherwise one mistake would lead to complaints about what follows from it."""
    report = Report("file f")
    group = FieldGroup({"a": Number(0, 1), "b": FlagField()}, lambda values: 1 / 0)
    entries = (("a", DocumentNode(tag="int", text="7", line=2)), ("b", DocumentNode(tag="bool", text="true")))
    assert group.read(DocumentNode(tag="map", entries=entries), "g", report) is None
    assert problems(report) == ["file f line 2: g.a: expected a number from 0 to 1, found '7'"]


def test_a_huge_number_is_refused_and_not_repeated() -> None:
    """It is not even turned into one."""
    report = Report("file f")
    assert Number(0, 1).read(DocumentNode(tag="int", text="9" * 100_000), "a", report) is None
    assert len(problems(report)[0]) < 200


@pytest.mark.parametrize(("text", "value"), [("True", True), ("on", True), ("no", False), ("false", False)])
def test_yaml_has_several_words_for_true(text: str, value: bool) -> None:
    """All of them count."""
    assert FlagField().read(DocumentNode(tag="bool", text=text), "a", Report("file f")) is value


@pytest.mark.parametrize(("loose", "said"), [(False, 51), (True, 50)])
def test_a_file_of_something_else_costs_little(loose: bool, said: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for problems that are told is looked for what was meant; in somebody else's group others are none."""
    asked: list[str] = []

    def close(word: str, known: Sequence[str], **_options: object) -> list[str]:
        asked.append(word)
        return list(known)

    monkeypatch.setattr(difflib, "get_close_matches", close)
    report = Report("file f")
    entries = tuple((f"key{number}", DocumentNode(tag="int", text="1")) for number in range(80))
    FieldGroup({"a": FlagField()}, loose=loose).read(DocumentNode(tag="map", entries=entries), "", report)
    told = problems(report)
    assert len(told) == said
    assert told[49] == "file f: key49: is not a known key, did you mean a?"
    assert told[50:] == ["file f: and 30 problems more"][: said - 50]
    assert len(asked) == 50


def test_plain_values_are_what_yaml_says() -> None:
    """But for spellings of numbers that only YAML knows: these stay texts."""
    text = """
    text: one
    numbers: [1, -2, 1.5, 1.0e+3, .5, 0x1f, 1:30, .inf]
    words: {on: true, off: No, nothing: null}
    """
    report = Report("file f")
    values = PlainValues().read(parse_document(text, "file f"), "o", report)
    report.settle()
    assert values == {
        "text": "one",
        "numbers": [1, -2, 1.5, 1000.0, 0.5, "0x1f", "1:30", ".inf"],
        "words": {"on": True, "off": False, "nothing": None},
    }


def test_plain_values_are_a_group_without_doubles() -> None:
    """At any depth."""
    report = Report("file f")
    assert PlainValues().read(DocumentNode(tag="str", text="x"), "o", report) is None
    PlainValues().read(parse_document("a:\n- {b: 1, b: 2}\n", "file f"), "o", report)
    assert problems(report) == [
        "file f: o: expected a group of keys, found text ('x')",
        "file f line 2: o.a[0].b: is given twice",
    ]
    assert PlainValues().form() == {"type": "object"}
