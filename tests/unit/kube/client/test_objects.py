"""Whatever an object is made of, there is an answer."""

from typing import Any

import pytest

from interpose.kube.client.objects import identity, mapping, metadata, version_of


@pytest.mark.parametrize(
    "found", [None, {}, {"metadata": None}, {"metadata": "x"}, {"metadata": {"resourceVersion": 3}}]
)
def test_object_without_a_version(found: Any) -> None:
    """No API server sends such a thing, and nothing breaks."""
    assert version_of(found) == ""


def test_what_an_object_says_of_itself() -> None:
    """As it is in its metadata."""
    found = {"metadata": {"resourceVersion": "3", "uid": "u"}}
    assert (version_of(found), metadata(found), identity(found)) == ("3", found["metadata"], ("u", "3"))
    assert identity({"metadata": {"uid": "u"}}) is None


def test_what_has_no_keys() -> None:
    """It is as good as empty."""
    assert mapping([1]) == {}
