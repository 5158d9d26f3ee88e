"""Statuses as values."""

import pytest

from tests.support.node.pod_model import make_container, make_pod_status, make_sandbox, make_status

C = make_container("c")


@pytest.mark.parametrize(
    ("state", "code", "reason", "failed"),
    [
        ("exited", 0, "Completed", False),
        ("exited", 1, "Error", True),
        ("exited", 0, "OOMKilled", True),
        ("running", 1, "", False),
    ],
)
def test_a_bad_end(state: str, code: int, reason: str, failed: bool) -> None:
    """A code, or the kernel had to make room; only of what has ended."""
    assert make_status(C, state, code, reason=reason).failed is failed


def test_the_newest_of_a_name() -> None:
    """The first one is the newest; those of other sandboxes are not active."""
    status = make_pod_status(
        make_status(C, id="new", sandbox_id="sandbox-0"),
        make_status(C, id="old"),
        make_status(make_container("d"), sandbox_id="gone"),
        sandboxes=(make_sandbox(1, id="sandbox-0"), make_sandbox(0, ready=False)),
    )
    newest, active = status.latest("c"), status.latest_active("c")
    assert newest is not None
    assert active is not None
    assert (newest.id, active.id) == ("new", "new")
    assert status.latest("d") is not None
    assert (status.latest_active("d"), status.latest("e")) == (None, None)
