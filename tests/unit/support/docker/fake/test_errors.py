"""Errors of the API."""

from tests.support.docker.fake.errors import no_such_container


def test_a_missing_container_is_named() -> None:
    """As dockerd says it."""
    error = no_such_container("web")
    assert (error.status, error.message) == (404, "No such container: web")
