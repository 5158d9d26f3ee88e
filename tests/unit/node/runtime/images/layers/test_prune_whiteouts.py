"""Whiteouts are taken out of a layer where they hide nothing."""

import os
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.merged_view import Parts
from interpose.node.runtime.images.layers.prune_whiteouts import WhiteoutPruner
from interpose.node.runtime.images.layers.whiteouts import FORMATS, MARKED, WhiteoutFormat, detect_format


def forms() -> list[str]:
    """Both; the better one may need root."""
    return sorted(FORMATS)


def opened(path: Path) -> int:
    """An open folder, made if it is not there."""
    path.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


@pytest.fixture(params=forms())
def form(request: pytest.FixtureRequest, tmp_path: Path) -> WhiteoutFormat:
    """One that can be written here."""
    found = FORMATS[request.param]
    if found is not MARKED and detect_format(tmp_path) is not found:
        pytest.skip("this form needs root")
    return found


def mark(form: WhiteoutFormat, path: Path, *, hide: str = "", seal: bool = False) -> None:
    """Write a mark into a folder."""
    folder = opened(path)
    if hide:
        form.hide(folder, hide)
    if seal:
        form.make_opaque(folder)
    os.close(folder)


def clean(form: WhiteoutFormat, root: Path, *bare: Parts, opaque: bool = False) -> int:
    """Go over a layer; how many folders were gone over."""
    steps: list[None] = []
    folder = opened(root)
    try:
        WhiteoutPruner(form=form, bare=bare, step=lambda: steps.append(None)).remove(folder, opaque=opaque)
    finally:
        os.close(folder)
    return len(steps)


def test_whiteouts_stay_where_they_hide_something(form: WhiteoutFormat, tmp_path: Path) -> None:
    """And go from a folder that hides everything, and from those in it."""
    root = tmp_path / "layer"
    mark(form, root, hide="x")
    mark(form, root / "open", hide="x")
    mark(form, root / "sealed", hide="x", seal=True)
    mark(form, root / "sealed/inner", hide="x")
    (root / "sealed/file").touch()
    assert clean(form, root) == 4
    assert [form.is_hidden(str(root / place), "x") for place in ("", "open", "sealed", "sealed/inner")] == [
        True,
        True,
        False,
        False,
    ]
    assert form.is_opaque(str(root / "sealed"))
    assert (root / "sealed/file").exists()
    assert (root / "sealed/inner").exists()


def test_folders_that_only_held_them_go_with_them(form: WhiteoutFormat, tmp_path: Path) -> None:
    """One that hides everything itself was hidden by name: then that is what is left of it."""
    root = tmp_path / "layer"
    mark(form, root / "sealed", seal=True)
    mark(form, root / "sealed/bare", hide="x")
    mark(form, root / "hidden", hide="x", seal=True)
    mark(form, root / "used", hide="x", seal=True)
    (root / "used/file").touch()
    clean(form, root, ("sealed", "bare"), ("hidden",), ("used",))
    assert not (root / "sealed/bare").exists()
    assert not form.is_hidden(str(root / "sealed"), "bare")
    assert form.is_hidden(str(root), "hidden")
    assert not (root / "hidden").is_dir()
    assert (root / "used/file").exists()


def test_a_layer_may_be_sealed_as_a_whole(form: WhiteoutFormat, tmp_path: Path) -> None:
    """Then there is nothing left to hide."""
    root = tmp_path / "layer"
    mark(form, root, hide="x")
    mark(form, root / "bare", hide="x")
    clean(form, root, ("bare",), opaque=True)
    assert list(root.iterdir()) == []
