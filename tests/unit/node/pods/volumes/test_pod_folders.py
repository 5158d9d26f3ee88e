"""Which pods have a folder, and the mark of a stop by hand."""

from pathlib import Path

import pytest

from interpose.node.pods.volumes.pod_folders import PodFolders


def test_pods_are_those_that_have_a_folder(tmp_path: Path) -> None:
    """Nothing else that lies there is one."""
    folders = PodFolders(str(tmp_path))
    assert folders.uids() == []
    for uid in ("b", "a"):
        (tmp_path / "pods" / uid).mkdir(parents=True)
    (tmp_path / "pods/file").touch()
    (tmp_path / "pods/link").symlink_to(tmp_path)
    assert folders.uids() == ["a", "b"]
    assert folders.folder("a") == str(tmp_path / "pods/a")
    assert folders.lock_file == str(tmp_path / "pods.lock")


@pytest.mark.parametrize("uid", ["", ".", "..", "a/b", "a\0b"])
def test_what_cannot_be_a_name_has_no_folder(tmp_path: Path, uid: str) -> None:
    """No uid leads out of the place of folders."""
    with pytest.raises(ValueError, match="is not a uid of a pod"):
        PodFolders(str(tmp_path)).folder(uid)


def test_a_stop_by_hand_is_remembered_and_forgotten(tmp_path: Path) -> None:
    """As often as one likes."""
    folders = PodFolders(str(tmp_path))
    for stopped in (False, True, True):
        assert folders.is_stopped("a") is stopped
        folders.mark_stopped("a")
    for _ in range(2):
        folders.clear_stopped("a")
        assert not folders.is_stopped("a")
