"""JSON as a text."""

import json

import pytest

from interpose.relay.docker.translate.json_edit import (
    JsonContainer,
    UnreadableBodyError,
    append_items,
    change_items,
    decode,
    fold,
    json_string,
    kind,
    read_container,
    read_root,
    spliced,
    whole,
)


def changed(text: str, **edits: object) -> str:
    """The text after edits of its one object or array."""
    within = read_root(text) if text.lstrip().startswith("{") else read_container(text, 0)
    return spliced(text, change_items(within, **{"replaced": {}, **edits}))  # type: ignore[arg-type]


def test_members_and_where_they_are() -> None:
    """Every text between start and end is what it says."""
    text = ' { "a" : 1.50 ,"b":[1,{"c":"}"}], "\\u0063": "x\\"y" }\n'
    root = read_root(text)
    assert [(one.key, text[one.value_start : one.end]) for one in root.items] == [
        ("a", "1.50"),
        ("b", '[1,{"c":"}"}]'),
        ("c", '"x\\"y"'),
    ]
    assert [text[one.start] for one in root.items] == ['"', '"', '"']
    assert text[root.start : root.end] == text.strip()
    assert root.items[1].value == [1, (("c", "}"),)]


def test_elements_of_an_array() -> None:
    """They have no key and start with their value."""
    text = '[ 1 ,"a",null ]'
    array = read_container(text, 0)
    assert [(one.key, text[one.start : one.end]) for one in array.items] == [("", "1"), ("", '"a"'), ("", "null")]
    assert read_container("[ ]", 0).items == ()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b" \r\n\t", "empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b"{", "key is missing"),
        (b"{]", "key is missing"),
        (b'{"a"', "colon is missing"),
        (b'{"a":', "Expecting value"),
        (b'{"a":1', "comma is missing"),
        (b'{"a":1 "b":2}', "comma is missing"),
        (b'{"a":1,}', "key is missing"),
        (b'{"a":01}', "comma is missing"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":[-Infinity]}', "Infinity"),
        (b'{"a":"\n"}', "control character"),
        (b'{"a\x00":1}', "control character"),
        (b'{"a":"\\x"}', "escape"),
        (b'{"a":tru}', "Expecting value"),
        (b"{'a':1}", "key is missing"),
        (b'{"a":1}{"b":2}', "after its end"),
        (b'{"a":1}\x00', "after its end"),
        (b'{"a":' + b"[" * 200_000 + b"}", "too deeply"),
        (b'{"a":' * 200_000, "too deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "a number in it is too long"),
        (b"{" + b",".join(b'"%d":0' % number for number in range(1001)) + b"}", "more than 1000 members"),
    ],
)
def test_what_cannot_be_read(body: bytes, why: str) -> None:
    """One exception, that says why."""
    with pytest.raises(UnreadableBodyError, match=why):
        read_root(decode(body))


@pytest.mark.parametrize("number", ["9" * 4000, "-" + "1" * 21, "1e999", "1" + "0" * 300 + ".5"])
def test_numbers_of_any_size_are_skipped(number: str) -> None:
    """Nobody has to know them to keep them."""
    text = f'{{"a":{number},"b":2}}'
    assert text[read_root(text).items[0].value_start : read_root(text).items[0].end] == number


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "an object"),
        ("[]", "a list"),
        ('"x"', "a text"),
        ("1", "a number"),
        ("1.5", "a number with a point or an exponent"),
        ("true", "true or false"),
        ("null", "null"),
    ],
)
def test_kinds_of_values(text: str, said: str) -> None:
    """That is all that messages say of a value, however it was read."""
    assert kind(read_root(f'{{"a":{text}}}').items[0].value) == said
    assert kind(json.loads(text)) == said


@pytest.mark.parametrize("text", ["[1 2]", "[1", "[1,]", "[,1]"])
def test_arrays_that_are_none(text: str) -> None:
    """As for objects."""
    with pytest.raises(UnreadableBodyError, match="not JSON"):
        read_container(text, 0)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"SECRET"',
        b'{"a":"SECRET" "b"}',
        b'{"a":SECRET}',
        b'{"SECRET\\x":1}',
        b'{"a":"\xffSECRET"}',
        b'"SECRET"',
        b'{"a":1}SECRET',
        b'{"a":"SECRET\n"}',
    ],
)
def test_nothing_of_a_body_is_in_a_message(body: bytes) -> None:
    """Messages go to logs and dumps, and secrets are in bodies."""
    with pytest.raises(UnreadableBodyError) as caught:
        read_root(decode(body))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_keys_as_go_takes_them() -> None:
    """In any case, with the two letters that are another case of ASCII ones; nothing else."""
    root = read_root('{"LABELS":1,"ho\u017ftconfig":2,"\u212aey":3,"Straße":4}')
    assert [root.member(name) and root.items[root.index_of(name) or 0].value for name in ("Labels", "HostConfig")] == [
        1,
        2,
    ]
    assert root.member("key") is not None
    assert root.member("strasse") is None
    assert fold("İ") != fold("i")


def test_a_key_of_ours_twice() -> None:
    """Nobody can say which counts: of maps Go takes both."""
    with pytest.raises(UnreadableBodyError, match="'Labels' is there 2 times"):
        read_root('{"Labels":{},"labels":{}}').member("Labels")
    assert read_root('{"x":1,"x":2}').member("y") is None


@pytest.mark.parametrize(
    ("text", "removed", "result"),
    [
        ('{ "a":1 , "b":2 , "c":3 }', [0], '{ "b":2 , "c":3 }'),
        ('{ "a":1 , "b":2 , "c":3 }', [1], '{ "a":1 , "c":3 }'),
        ('{ "a":1 , "b":2 , "c":3 }', [2], '{ "a":1 , "b":2 }'),
        ('{ "a":1 , "b":2 , "c":3 }', [0, 2], '{ "b":2 }'),
        ('{ "a":1 , "b":2 , "c":3 }', [1, 2], '{ "a":1 }'),
        ('{ "a":1 , "b":2 , "c":3 }', [0, 1], '{ "c":3 }'),
        ('{ "a":1 , "b":2 }', [0, 1], "{  }"),
        ("[1,2]", [0], "[2]"),
    ],
)
def test_removal_takes_a_comma_along(text: str, removed: list[int], result: str) -> None:
    """Wherever the item is."""
    assert changed(text, removed=removed) == result


@pytest.mark.parametrize(
    ("text", "removed", "result"),
    [
        ("{}", [], '{"n":0,"m":0}'),
        ("{ }", [], '{"n":0,"m":0 }'),
        ('{"a":1 }', [], '{"a":1,"n":0,"m":0 }'),
        ('{"a":1}', [0], '{"n":0,"m":0}'),
        ('{"a":1,"b":2}', [1], '{"a":1,"n":0,"m":0}'),
        ('{"a":1,"b":2}', [0], '{"b":2,"n":0,"m":0}'),
        ('{"a":1,"b":2}', [0, 1], '{"n":0,"m":0}'),
    ],
)
def test_additions_come_last(text: str, removed: list[int], result: str) -> None:
    """Also where others go."""
    assert changed(text, removed=removed, added=['"n":0', '"m":0']) == result
    json.loads(result)


def test_replacement_changes_the_value_only() -> None:
    """The key keeps its spelling."""
    assert changed('{ "\\u0061" : 1 , "b" : 2 }', replaced={0: "9"}, removed=[1]) == '{ "\\u0061" : 9 }'


@pytest.mark.parametrize(
    ("text", "result"), [("[]", "[7,8]"), ("[ ]", "[7,8 ]"), ("[1 ]", "[1,7,8 ]"), ('[1,[2] ,"x"]', '[1,[2] ,"x",7,8]')]
)
def test_additions_need_no_other_places(text: str, result: str) -> None:
    """Only where the list itself is; the result is that of the long way."""
    assert spliced(f"..{text}..", [append_items(f"..{text}..", 2, 2 + len(text), ["7", "8"])]) == f"..{result}.."
    assert changed(text, added=["7", "8"]) == result


def test_no_edits() -> None:
    """No splices, and the same text."""
    assert change_items(JsonContainer(0, 2), replaced={}) == []
    assert spliced("{}", []) == "{}"


def test_texts() -> None:
    """Half characters become a mark."""
    assert whole("a\ud800\udfffb") == "a\ufffd\ufffdb"
    assert whole("ü\U0001f600") == "ü\U0001f600"
    assert json.loads(json_string('a"ü\n')) == 'a"ü\n'
