"""Key and certificate in a directory."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

from interpose.webhook.certdir import DirectoryPlace
from interpose.webhook.issuing import issue

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


async def test_written_is_read_back(tmp_path: Path) -> None:
    """Three files, the key for nobody else, and nothing beside them; a second write replaces all."""
    place = DirectoryPlace(str(tmp_path / "new"))
    assert await place.read() is None
    for _ in range(2):
        issued = issue(("a",), timedelta(days=1), NOW)
        await place.write(issued)
        assert await place.read() == issued
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert files == {"tls.key": 0o600, "tls.crt": 0o644, "ca.crt": 0o644}


async def test_part_of_it_is_nothing(tmp_path: Path) -> None:
    """A directory where one file is missing has no certificate."""
    place = DirectoryPlace(str(tmp_path))
    await place.write(issue(("a",), timedelta(days=1), NOW))
    (tmp_path / "ca.crt").unlink()
    assert await place.read() is None
    assert place.title == f"directory {tmp_path}"
