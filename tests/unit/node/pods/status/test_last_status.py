"""The note of how a pod was last seen."""

from dataclasses import replace
from pathlib import Path

import pytest

from interpose.node.pods.status.last_status import read_last_status, write_last_status
from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState
from interpose.node.pods.status.summary import LastStatus

WAITS = ContainerView(
    name="main",
    role=ContainerRole.MAIN,
    image="b:1",
    state=ContainerViewState.WAITING,
    reason="ErrImagePull",
    message="no",
    exit_code=3,
    id="c",
)
NOTED = LastStatus(containers=(WAITS, replace(WAITS, name="side", exit_code=None)), sandbox="s", since=5)


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    """By its owner alone."""
    write_last_status(str(tmp_path), NOTED)
    assert read_last_status(str(tmp_path)) == NOTED
    assert (tmp_path / "status").stat().st_mode & 0o777 == 0o600


def test_since_when_it_is_so_stays(tmp_path: Path) -> None:
    """Whoever notes it again: the file is written when something is another way."""
    write_last_status(str(tmp_path), NOTED)
    before = (tmp_path / "status").stat().st_ino
    write_last_status(str(tmp_path), replace(NOTED, since=9))
    assert (tmp_path / "status").stat().st_ino == before
    write_last_status(str(tmp_path), replace(NOTED, since=9, reason="FailedMount"))
    found = read_last_status(str(tmp_path))
    assert found is not None
    assert (found.since, found.reason) == (9, "FailedMount")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", b'{"containers": [{}]}', b'{"containers": 1}', b"[" * 100_000, b"1e999"]
)
def test_what_is_no_note_counts_as_none(tmp_path: Path, data: bytes) -> None:
    """And is replaced by the next one."""
    (tmp_path / "status").write_bytes(data)
    assert read_last_status(str(tmp_path)) is None
    write_last_status(str(tmp_path), NOTED)
    assert read_last_status(str(tmp_path)) == NOTED
