"""Reading and editing a body."""

import pytest

from interpose.relay.docker.bodies import Body
from interpose.relay.docker.jsontext import UnreadableBody


def test_parts_of_a_body() -> None:
    """Null and nothing are the same."""
    body = Body(b'{"O":{"x":1},"N":null,"S":"a\\ud800","T":true,"E":["a",null],"W":"one"}')
    assert (body.object("N"), body.object("Q"), body.array("N"), body.words("N")) == (None, None, None, [])
    assert (body.string("S"), body.string("N"), body.string("Q")) == ("a\ufffd", "", "")
    assert (body.words("E"), body.words("W")) == (["a", ""], ["one"])
    held = body.object("O")
    assert held is not None
    assert held.items[0].value == 1
    array = body.array("e")
    assert array is not None
    assert len(array.items) == 2


@pytest.mark.parametrize("text", [b'{"S":1}', b'{"S":["a",1]}'])
def test_no_text_where_one_has_to_be(text: bytes) -> None:
    """The key is named."""
    body = Body(text)
    with pytest.raises(UnreadableBody, match="S has a value that is no text"):
        body.string("S") if text == b'{"S":1}' else body.words("S")


def test_a_body_nobody_edits_is_the_same_object() -> None:
    """Not only equal."""
    raw = b'{ "a" : 1 }'
    body = Body(raw)
    body.set_entries("L", None, {"gone": None})
    assert body.data() is raw


def test_members_are_set_where_they_are() -> None:
    """In the spelling they have, and at the end where they are not."""
    body = Body(b'{ "memory" : 1, "b":1.50 }')
    body.set("Memory", "2")
    body.set("New", '"x"')
    assert body.data() == b'{ "memory" : 2, "b":1.50,"New":"x" }'


def test_members_of_an_object_in_it() -> None:
    """There, and missing."""
    body = Body(b'{"HostConfig":{"cpushares":1,"X":[ ]},"Z":0}')
    body.set_fields("HostConfig", body.object("HostConfig"), {"CpuShares": "2", "Memory": "3"})
    assert body.data() == b'{"HostConfig":{"cpushares":2,"X":[ ],"Memory":3},"Z":0}'


@pytest.mark.parametrize(
    ("raw", "result"),
    [(b'{"H":null,"Z":0}', b'{"H":{"a":1,"b":2},"Z":0}'), (b'{"Z":0}', b'{"Z":0,"H":{"a":1,"b":2}}')],
)
def test_an_object_that_is_not_there_is_made(raw: bytes, result: bytes) -> None:
    """In the place of null, or at the end."""
    for edit in (Body.set_fields, Body.set_entries):
        body = Body(raw)
        edit(body, "H", body.object("H"), {"a": "1", "b": "2"})
        assert body.data() == result


def test_entries_of_a_map_are_exact() -> None:
    """Of equal keys the last is replaced, and all go."""
    body = Body(b'{"L":{"a":"1","A":"2","a":"3","g":"4","g":"5"}}')
    body.set_entries("L", body.object("L"), {"a": '"x"', "g": None, "n": '"y"', "not there": None})
    assert body.data() == b'{"L":{"a":"1","A":"2","a":"x","n":"y"}}'
