"""JSON documents as Go reads them."""

import pytest

from tests.support.docker.fake.errors import DockerError
from tests.support.docker.fake.godocs import field, known, parse, words


@pytest.mark.parametrize(("body", "text"), [(b"", "EOF"), (b'{"a":', "unexpected EOF"), (b"[]", "json: cannot")])
def test_what_is_no_document_is_refused(body: bytes, text: str) -> None:
    """With the texts of dockerd."""
    with pytest.raises(DockerError, match=text) as refused:
        parse(body)
    assert refused.value.status == 500


def test_names_in_any_case_and_the_last_one_wins() -> None:
    """As encoding/json does it."""
    document = parse(b'{"image":"a","IMAGE":"b","Cmd":null}')
    assert field(document, "Image") == "b"
    assert field(document, "Cmd", "default") == "default"
    assert field(None, "Cmd", "default") == "default"


def test_unknown_fields_are_dropped() -> None:
    """Known ones are always there."""
    assert known({"a": 1, "Other": 2}, {"A": 0, "B": ""}) == {"A": 1, "B": ""}


@pytest.mark.parametrize(("value", "result"), [("sh", ["sh"]), (["sh", "-c"], ["sh", "-c"]), (None, [])])
def test_commands(value: object, result: list[str]) -> None:
    """One string, several, or none."""
    assert words(value) == result
