"""Key and certificate in a directory."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interpose.kube.webhook.bootstrap import StoredCertificate
from interpose.kube.webhook.cert_dir import DirectoryCertificateStore
from interpose.kube.webhook.issue import issue

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def names(folder: Path) -> list[str]:
    """What is in it."""
    return sorted(path.name for path in folder.iterdir())


async def test_written_is_read_back(tmp_path: Path) -> None:
    """Three files, the key for nobody else, and nothing beside them; a second write replaces all."""
    place = DirectoryCertificateStore(str(tmp_path / "new"))
    assert await place.read() == StoredCertificate(empty=True)
    for _ in range(2):
        issued = issue(("a",), timedelta(days=1), NOW)
        await place.write(issued)
        assert await place.read() == StoredCertificate(current=issued)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert files == {"tls.key": 0o600, "tls.crt": 0o644, "ca.crt": 0o644}


async def test_part_of_it_is_nothing(tmp_path: Path) -> None:
    """A directory where one file is missing has no certificate."""
    place = DirectoryCertificateStore(str(tmp_path))
    await place.write(issue(("a",), timedelta(days=1), NOW))
    (tmp_path / "ca.crt").unlink()
    assert await place.read() == StoredCertificate()
    assert place.title == f"directory {tmp_path}"


async def test_the_next_one_is_kept_beside_the_one_in_use(tmp_path: Path) -> None:
    """Until it is in use itself; then nothing is left of that."""
    place = DirectoryCertificateStore(str(tmp_path))
    one, other = (issue(("a",), timedelta(days=1), NOW) for _ in range(2))
    await place.write(one)
    await place.stage(other)
    assert await place.read() == StoredCertificate(current=one, pending=other)
    assert stat.S_IMODE((tmp_path / ".next/tls.key").stat().st_mode) == 0o600
    await place.write(other)
    assert await place.read() == StoredCertificate(current=other)
    assert names(tmp_path) == ["ca.crt", "tls.crt", "tls.key"]


async def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    """Whatever its process was called; in a container all are called 1."""
    for name in (".tls.key.tmp", ".tls.crt.tmp"):
        (tmp_path / name).write_text("half of it")
    await DirectoryCertificateStore(str(tmp_path)).write(issue(("a",), timedelta(days=1), NOW))
    assert names(tmp_path) == ["ca.crt", "tls.crt", "tls.key"]


async def test_what_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    """A directory where a file should be."""
    (tmp_path / "tls.key").mkdir()
    with pytest.raises(IsADirectoryError):
        await DirectoryCertificateStore(str(tmp_path)).write(issue(("a",), timedelta(days=1), NOW))
    assert names(tmp_path) == ["tls.key"]
