"""Targets as Go's server reads them."""

import pytest

from interpose.net.h1.heads import read_target
from interpose.net.h1.rules import MalformedError


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/_ping", "/_ping", ""),
        ("/v1.41/containers/json?all=1&x=?", "/v1.41/containers/json", "all=1&x=?"),
        ("/containers/%63reate", "/containers/create", ""),
        ("/containers%2fcreate", "/containers/create", ""),
        ("/a%2563", "/a%63", ""),
        ("/a+b", "/a+b", ""),
        ("/a?b=%zz", "/a", "b=%zz"),
        ("/%C3%A4%00", "/\u00c3\u00a4\x00", ""),
        ("/\u00c3\u00a4%C3?\u00ff=%", "/\u00c3\u00a4\u00c3", "\u00ff=%"),
        ("//docker/containers/json", "//docker/containers/json", ""),
        ("http://docker/containers/json?a", "/containers/json", "a"),
        ("HTTP://user@docker:80/a", "/a", ""),
        ("unix:///a/b", "/a/b", ""),
        ("http://docker", "", ""),
        ("http://docker?a=/b", "", "a=/b"),
        ("http://docker/%61", "/a", ""),
        ("*", "*", ""),
        ("/*#x", "/*#x", ""),
    ],
)
def test_targets_are_taken_apart(target: str, path: str, query: str) -> None:
    """Decoded once; scheme and host do not count; the query is left alone."""
    assert read_target("GET", target) == (path, query)


@pytest.mark.parametrize(
    "target", ["containers/json", "http:containers/json", "http:/a", "?a", "1http://docker/a", "**"]
)
def test_what_go_takes_for_something_else_is_refused(target: str) -> None:
    """With the target in the text."""
    with pytest.raises(MalformedError, match="the target of the request is") as caught:
        read_target("GET", target)
    assert caught.value.status == 400
    assert target in str(caught.value)


@pytest.mark.parametrize("target", ["/%", "/%4", "/%zz", "/a%%41", "http://x/%g1"])
def test_escapes_that_are_none_are_refused(target: str) -> None:
    """As Go refuses them."""
    with pytest.raises(MalformedError, match="a % that escapes nothing"):
        read_target("GET", target)


def test_connect_names_a_host() -> None:
    """There is no path in it; with a slash it is like any other."""
    assert read_target("CONNECT", "docker:80") == ("", "")
    assert read_target("CONNECT", "/grpc") == ("/grpc", "")
