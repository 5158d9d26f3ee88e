"""One runtime for each folder."""

import os
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.localruntime.folderlock import FolderLock


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    """By its process; after the release it can have it."""
    first = FolderLock(tmp_path, "root")
    with pytest.raises(ConfigError, match=f"^root .*process {os.getpid()}"):
        FolderLock(tmp_path, "root")
    first.release()
    first.release()
    FolderLock(tmp_path, "root").release()
