"""What does not count is gone with the process that made it."""

import subprocess
import sys
from pathlib import Path

from interpose.node.runtime.images.staging import StagingDir, discard


def test_a_room_is_made_when_it_is_needed_and_removed_at_the_end(tmp_path: Path) -> None:
    """With all that is in it."""
    room = StagingDir(tmp_path)
    room.close()
    assert list(tmp_path.iterdir()) == []
    first, second = room.new_path("a"), room.new_path("a")
    assert first != second
    first.mkdir()
    (first / "x").touch()
    room.close()
    assert list(tmp_path.iterdir()) == []


def test_rooms_of_the_living_are_left_alone(tmp_path: Path) -> None:
    """And the folders of processes that are gone are removed."""
    script = (
        "import os, sys; from pathlib import Path\n"
        "from interpose.node.runtime.images.staging import StagingDir\n"
        "StagingDir(Path(sys.argv[1])).new_path('x').mkdir(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    mine, other = StagingDir(tmp_path), StagingDir(tmp_path)
    mine.new_path("mine").touch()
    assert len(list(tmp_path.iterdir())) == 4
    assert len(other.remove_abandoned()) == 1
    assert len(list(tmp_path.iterdir())) == 2
    assert other.remove_abandoned() == []
    mine.close()


def test_a_folder_without_a_lock_is_swept(tmp_path: Path) -> None:
    """Its owner was killed between two steps, and so was a sweeper."""
    (tmp_path / "1-a").mkdir()
    (tmp_path / "2-b.lock").touch()
    assert StagingDir(tmp_path).remove_abandoned() == ["1-a", "2-b"]
    assert list(tmp_path.iterdir()) == []


def test_anything_is_discarded(tmp_path: Path) -> None:
    """Files, links, folders, and nothing at all."""
    (tmp_path / "keep").mkdir()
    (tmp_path / "link").symlink_to("keep")
    (tmp_path / "file").touch()
    (tmp_path / "deep/er").mkdir(parents=True)
    for name in ("link", "file", "deep", "none"):
        discard(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["keep"]


def test_claims_are_those_of_the_living(tmp_path: Path) -> None:
    """Until they are taken back, or their process ends."""
    script = (
        "import os, sys; from pathlib import Path\n"
        "from interpose.node.runtime.images.staging import StagingDir\n"
        "StagingDir(Path(sys.argv[1])).claim(['dead']).__enter__(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    mine, other = StagingDir(tmp_path), StagingDir(tmp_path)
    with mine.claim(["a", "b"]), mine.claim(["b", "c"]):
        assert other.claimed() == {"a", "b", "c"}
    assert other.claimed() == set()
    mine.close()
