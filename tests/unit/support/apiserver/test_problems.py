"""Status objects."""

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS
from tests.support.apiserver.problems import (
    Cause,
    RefusedError,
    already_exists,
    bad_request,
    conflict,
    expired,
    invalid,
    method_not_allowed,
    no_such_path,
    not_found,
    too_new,
    unauthorized,
    unprocessable,
    unsupported_media,
)
from tests.support.apiserver.resources import BY_RESOURCE

_MAP = BY_RESOURCE[CONFIG_MAPS]


@pytest.mark.parametrize(
    ("refused", "code", "reason"),
    [
        (not_found(_MAP, "x"), 404, "NotFound"),
        (no_such_path(), 404, "NotFound"),
        (already_exists(_MAP, "x"), 409, "AlreadyExists"),
        (conflict(_MAP, "x"), 409, "Conflict"),
        (invalid(_MAP, "x", [Cause("a", "b")]), 422, "Invalid"),
        (unprocessable(), 422, "Invalid"),
        (bad_request("x"), 400, "BadRequest"),
        (expired(), 410, "Expired"),
        (too_new(9, 3), 504, "Timeout"),
        (unsupported_media(["a"]), 415, "UnsupportedMediaType"),
        (unauthorized(), 401, "Unauthorized"),
        (method_not_allowed(), 405, "MethodNotAllowed"),
    ],
    ids=lambda value: value.reason if isinstance(value, RefusedError) else str(value),
)
def test_every_refusal_is_a_status(refused: RefusedError, code: int, reason: str) -> None:
    """With code, reason and a message, in the body as in the exception."""
    body = refused.body()
    assert (body["kind"], body["status"], body["code"], body["reason"]) == ("Status", "Failure", code, reason)
    assert body["message"] == refused.message


def test_what_is_invalid_is_told_field_by_field() -> None:
    """One cause is said plainly, several in brackets; each is in the details too."""
    one = invalid(_MAP, "x", [Cause("a", "bad")])
    two = invalid(BY_RESOURCE[NODE_SLOS], "x", [Cause("a", "bad"), Cause("b", "worse", "FieldValueRequired")])
    assert one.message == 'ConfigMap "x" is invalid: a: bad'
    assert two.message == 'NodeSLO.slo.koordinator.sh "x" is invalid: [a: bad, b: worse]'
    assert two.body()["details"]["causes"][1] == {"reason": "FieldValueRequired", "message": "worse", "field": "b"}


def test_only_some_refusals_ask_to_wait() -> None:
    """Seconds that become a header."""
    assert too_new(2, 1).retry_after == 1
    assert expired().retry_after is None
