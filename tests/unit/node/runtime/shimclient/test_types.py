"""What shims say, read."""

import pytest

from interpose.node.runtime.shimclient.types import (
    ShimContainerState,
    ShimError,
    ShimExit,
    ShimNotRunningError,
    parse_error,
    parse_exit,
    parse_state,
)


def test_an_exit_record() -> None:
    """As it is on the disk; older ones may not know about memory."""
    assert parse_exit({"code": 137, "at_ns": 5, "oom": True}) == ShimExit(code=137, at_ns=5, oom=True)
    assert parse_exit({"code": 0, "at_ns": 5}) == ShimExit(code=0, at_ns=5)


@pytest.mark.parametrize("said", [{}, {"code": "x", "at_ns": 1}, {"code": None, "at_ns": 1}])
def test_a_broken_record_is_no_exit(said: dict[str, object]) -> None:
    """Whoever reads records from the disk catches these."""
    with pytest.raises((KeyError, ValueError, TypeError)):
        parse_exit(said)


def test_states() -> None:
    """Running and ended."""
    assert parse_state({"pid": 7, "started_at": 3, "exited": None}) == ShimContainerState(pid=7, started_at=3)
    assert parse_state({"pid": 7, "started_at": 3, "exited": {"code": 1, "at_ns": 9}}).exited == ShimExit(
        code=1, at_ns=9
    )


def test_errors_have_kinds() -> None:
    """A container that does not run is told apart; words are kept."""
    assert isinstance(parse_error({"kind": "not-running", "message": "gone"}), ShimNotRunningError)
    assert str(parse_error({"kind": "failed", "message": "runc said so"})) == "runc said so"
    assert type(parse_error({})) is ShimError
