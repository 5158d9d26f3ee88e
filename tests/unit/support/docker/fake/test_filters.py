"""The filters of lists and events."""

import pytest

from tests.support.docker.fake import filters
from tests.support.docker.fake.errors import DockerError

ALLOWED = frozenset({"label", "status"})


@pytest.mark.parametrize("text", ['{"label":["a=b","c"]}', '{"label":{"a=b":true,"c":true}}'])
def test_both_forms_are_read(text: str) -> None:
    """Old clients send a mapping."""
    assert filters.parse(text, ALLOWED) == {"label": ["a=b", "c"]}


@pytest.mark.parametrize(
    ("text", "status", "message"), [("{", 500, "unexpected end of JSON input"), ('{"x":[]}', 400, "Invalid filter 'x'")]
)
def test_bad_ones_are_refused(text: str, status: int, message: str) -> None:
    """With the texts of dockerd."""
    with pytest.raises(DockerError, match=message) as refused:
        filters.parse(text, ALLOWED)
    assert refused.value.status == status


def test_nothing_filters_nothing() -> None:
    """No parameter."""
    assert filters.parse("", ALLOWED) == {}


@pytest.mark.parametrize(("wanted", "fits"), [(["a"], True), (["a=1"], True), (["a=2"], False), (["a", "b"], False)])
def test_labels(wanted: list[str], fits: bool) -> None:
    """All of them, with a value or without."""
    assert filters.labels_match({"label": wanted}, {"a": "1"}) is fits


def test_parts() -> None:
    """Names by a part, ids by their beginning, states by one of several."""
    assert filters.part_of({"name": ["^/we"]}, "name", "/web")
    assert not filters.part_of({"name": ["x"]}, "name", "/web")
    assert filters.begins({"id": ["ab"]}, "id", "abc")
    assert not filters.begins({"id": ["bc"]}, "id", "abc")
    assert filters.one_of({"status": ["exited", "running"]}, "status", "running")
    assert not filters.one_of({"status": ["exited"]}, "status", "running")
    assert filters.one_of({}, "status", "running")
