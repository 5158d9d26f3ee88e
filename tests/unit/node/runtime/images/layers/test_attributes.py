"""Attributes of files: what is taken from entries and from files, and given to others."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from interpose.node.runtime.images.layers.attributes import Attributes, AttributeWriter, of_file, of_member
from tests.support.node.image_files import entry


def test_an_entry_says_owner_mode_and_time() -> None:
    """Times before the beginning of time are its beginning; fractions count."""
    assert of_member(entry("x", mode=0o104755, uid=1, gid=2, mtime=1.5)[0]) == Attributes(
        mode=0o4755, uid=1, gid=2, mtime_ns=1_500_000_000
    )
    assert of_member(entry("x", mtime=-5)[0]).mtime_ns == 0


@pytest.mark.parametrize("more", [{"uid": -1}, {"gid": (1 << 32) - 1}, {"mtime": float("nan")}, {"mtime": 1e300}])
def test_numbers_that_are_none_are_refused(more: dict[str, Any]) -> None:
    """-1 as an owner would mean: leave it as it is."""
    with pytest.raises(ValueError, match="is none"):
        of_member(entry("x", **more)[0])


def test_attributes_of_a_file_are_read_and_given_to_another(tmp_path: Path) -> None:
    """Without those that are nobody's business."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.touch(mode=0o640)
    second.touch()
    try:
        os.setxattr(first, "user.x", b"y")
    except OSError:
        pytest.skip("the file system has no attributes")
    os.utime(first, ns=(5, 5))
    found = of_file(str(first), first.lstat())
    assert (found.mode, found.mtime_ns, found.extended) == (0o640, 5, (("user.x", b"y"),))
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        AttributeWriter(privileged=os.geteuid() == 0).apply(folder, "b", found, mode=stat.S_IFREG)
    finally:
        os.close(folder)
    assert of_file(str(second), second.lstat()) == found


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EIO])
def test_a_file_system_without_attributes_is_none_the_worse(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But a broken one is told."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "a").touch()
    found = (tmp_path / "a").lstat()
    monkeypatch.setattr(os, "listxattr", fail)
    monkeypatch.setattr(os, "setxattr", fail)
    given = Attributes(mode=0o600, uid=os.geteuid(), gid=os.getegid(), mtime_ns=0, extended=(("user.x", b""),))
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        if number == errno.EIO:
            with pytest.raises(OSError):
                of_file(str(tmp_path / "a"), found)
            with pytest.raises(OSError):
                AttributeWriter(privileged=False).apply(folder, "a", given, mode=stat.S_IFREG)
        else:
            assert of_file(str(tmp_path / "a"), found).extended == ()
            AttributeWriter(privileged=False).apply(folder, "a", given, mode=stat.S_IFREG)
    finally:
        os.close(folder)
