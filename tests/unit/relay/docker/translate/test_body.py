"""Reading and editing a body."""

import json
from collections.abc import Callable

import pytest

from interpose.relay.docker.translate.body import MOST, JsonBody, JsonBodyEdit
from interpose.relay.docker.translate.json_edit import BodyTooLargeToReadError, UnreadableBodyError


def test_parts_of_a_body() -> None:
    """Null and nothing are the same."""
    body = JsonBody(b'{"O":{"x":1},"N":null,"S":"a\\ud800","T":true,"E":["a",null],"W":"one"}')
    assert (body.object("N"), body.object("Q"), body.texts("N"), body.words("N")) == (None, None, (), ())
    assert (body.string("S"), body.string("N"), body.string("Q")) == ("a\ufffd", "", "")
    assert (body.words("E"), body.words("W"), body.words("S")) == (("a", ""), ("one",), ("a\ufffd",))
    assert body.object("o") == (("x", 1),)
    assert (body.value("T"), body.value("N")) == (True, None)


@pytest.mark.parametrize("text", ['["a","b"]', '["a","\\ud800"]', '["ä",null]', "[]"])
def test_texts_are_whole(text: str) -> None:
    """Half characters and null as Go reads them; the way for plain ones gives the same as the long one."""
    expected = tuple((one or "").replace("\ud800", "\ufffd") for one in json.loads(text))
    assert JsonBody(f'{{"E":{text}}}'.encode()).texts("E") == expected


def test_maps_of_texts() -> None:
    """Exact keys, the last of equal ones; null is empty, and nothing is an empty map."""
    body = JsonBody(b'{"L":{"a":"1","A":null,"a":"3","\\ud800":"x"},"N":null}')
    assert body.text_map("L") == {"a": "3", "A": "", "\ufffd": "x"}
    assert body.text_map("N") == body.text_map("Q") == {}


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda body: body.string("N"), "N has a value that is not text but a number"),
        (lambda body: body.words("L"), "L has a value that is not text but an object"),
        (lambda body: body.words("N"), "N is not a list but a number"),
        (lambda body: body.texts("O"), "O is not a list but an object"),
        (lambda body: body.text_map("O"), "O has a value that is not text but true or false"),
        (lambda body: body.object("L"), "L is not an object but a list"),
    ],
)
def test_other_kinds_than_there_have_to_be(read: Callable[[JsonBody], object], why: str) -> None:
    """The key is named, and the kind of what is there; never the value."""
    body = JsonBody(b'{"N":1,"L":["a",{}],"O":{"x":true}}')
    with pytest.raises(UnreadableBodyError) as caught:
        read(body)
    assert str(caught.value) == why


def test_a_body_that_is_too_large() -> None:
    """It is not read at all, and the limit is named."""
    rest = MOST - len(b'{"a":""}')
    assert len(JsonBody(b'{"a":"%b"}' % (b"x" * rest)).string("a")) == rest
    with pytest.raises(BodyTooLargeToReadError, match=f"{MOST + 1} bytes, more than the {MOST}"):
        JsonBody(b"x" * (MOST + 1))


def test_a_body_nobody_edits_is_the_same_object() -> None:
    """Not only equal."""
    raw = b'{ "a" : [ 1 ] }'
    edits = JsonBodyEdit(JsonBody(raw))
    edits.set_entries("L", {"gone": None})
    edits.set_items("A", replaced={}, removed=[], added=[])
    assert edits.data() is raw


def test_members_are_set_where_they_are() -> None:
    """In the spelling they have, and at the end where they are not."""
    body = JsonBodyEdit(JsonBody(b'{ "memory" : 1, "b":1.50 }'))
    body.set("Memory", "2")
    body.set("New", '"x"')
    assert body.data() == b'{ "memory" : 2, "b":1.50,"New":"x" }'


def test_members_of_an_object_in_it() -> None:
    """There, and missing."""
    body = JsonBodyEdit(JsonBody(b'{"HostConfig":{"cpushares":1,"X":[ ]},"Z":0}'))
    body.set_fields("HostConfig", {"CpuShares": "2", "Memory": "3"})
    assert body.data() == b'{"HostConfig":{"cpushares":2,"X":[ ],"Memory":3},"Z":0}'


@pytest.mark.parametrize(
    ("raw", "result"),
    [(b'{"H":null,"Z":0}', b'{"H":{"a":1,"b":2},"Z":0}'), (b'{"Z":0}', b'{"Z":0,"H":{"a":1,"b":2}}')],
)
def test_an_object_that_is_not_there_is_made(raw: bytes, result: bytes) -> None:
    """In the place of null, or at the end."""
    for edit in (JsonBodyEdit.set_fields, JsonBodyEdit.set_entries):
        body = JsonBodyEdit(JsonBody(raw))
        edit(body, "H", {"a": "1", "b": "2"})
        assert body.data() == result


def test_entries_of_a_map_are_exact() -> None:
    """Of equal keys the last is replaced, and all go."""
    body = JsonBodyEdit(JsonBody(b'{"L":{"a":"1","A":"2","a":"3","g":"4","g":"5"}}'))
    body.set_entries("L", {"a": '"x"', "g": None, "n": '"y"', "not there": None})
    assert body.data() == b'{"L":{"a":"1","A":"2","a":"x","n":"y"}}'


def test_entries_with_half_characters_are_found() -> None:
    """By the key that Go gives them."""
    body = JsonBodyEdit(JsonBody(b'{"L":{"x\\ud800":"1","y\\udfff":"2"}}'))
    body.set_entries("L", {"x\ufffd": '"new"', "y\ufffd": None})
    assert body.data() == b'{"L":{"x\\ud800":"new"}}'


@pytest.mark.parametrize(
    ("raw", "result"),
    [
        (b'{"E":[ "a" , "b" ]}', b'{"E":[ "x","n" ]}'),
        (b'{"E":null}', b'{"E":["n"]}'),
        (b"{}", b'{"E":["n"]}'),
    ],
)
def test_items_of_a_list(raw: bytes, result: bytes) -> None:
    """By their places; a list that is not there is made."""
    body = JsonBodyEdit(JsonBody(raw))
    places = ({0: '"x"'}, [1]) if b"a" in raw else ({}, [])
    body.set_items("E", replaced=places[0], removed=places[1], added=['"n"'])
    assert body.data() == result


def test_items_that_only_come() -> None:
    """At the end, before the white space there."""
    body = JsonBodyEdit(JsonBody(b'{"E":[ "a" , "b" ],"Z":0}'))
    body.set_items("e", replaced={}, removed=[], added=['"n"', '"m"'])
    assert body.data() == b'{"E":[ "a" , "b","n","m" ],"Z":0}'
