"""Manifests are remembered for a manager that comes back."""

from pathlib import Path

import pytest

from interpose.node.pods.manifest.cache import ManifestCache


def everything(_file: str) -> bool:
    return True


def test_what_was_written_is_read_by_the_next(tmp_path: Path) -> None:
    """Only of files that are asked for, and not what counted earlier."""
    memory = ManifestCache(str(tmp_path / "manifests"))
    memory.write({"/a.yaml": "one", "/b.yaml": "two"})
    memory.write({"/a.yaml": "one more"})
    ManifestCache(str(tmp_path / "manifests")).write({"/other.yaml": "three"})
    again = ManifestCache(str(tmp_path / "manifests"))
    assert again.read(lambda file: file != "/other.yaml") == {"/a.yaml": "one more"}
    again.write({})
    assert ManifestCache(str(tmp_path / "manifests")).read(everything) == {"/other.yaml": "three"}


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Manifests may hold Secrets."""
    ManifestCache(str(tmp_path / "manifests")).write({"/a.yaml": "one"})
    (file,) = (tmp_path / "manifests").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "manifests").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"file": 1, "text": "a"}'])
def test_what_cannot_be_understood_is_not_there(tmp_path: Path, text: str) -> None:
    """Nobody is kept from anything by it."""
    (tmp_path / "x.json").write_text(text)
    assert ManifestCache(str(tmp_path)).read(everything) == {}
    assert ManifestCache(str(tmp_path / "none")).read(everything) == {}


def test_what_a_manager_left_that_was_killed_while_it_wrote_does_not_count(tmp_path: Path) -> None:
    """It goes, unless its writer is alive. What is in it may be a Secret, and may be old by now."""
    ManifestCache(str(tmp_path)).write({"/a.yaml": "new"})
    (file,) = tmp_path.iterdir()
    old = file.read_text().replace("new", "old")
    dead, alive = file.with_name(f"{file.name}.999999999.tmp"), file.with_name(f"{file.name}.1.tmp")
    dead.write_text(old)
    alive.write_text(old)
    assert ManifestCache(str(tmp_path)).read(everything) == {"/a.yaml": "new"}
    assert sorted(tmp_path.iterdir()) == [file, alive]


def test_what_cannot_be_written_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And stops nobody."""
    (tmp_path / "file").write_text("")
    ManifestCache(str(tmp_path / "file")).write({"/a.yaml": "one"})
    assert "cannot be kept" in caplog.text
